"""The command line: parse options, call operations and print."""
