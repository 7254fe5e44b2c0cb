"""The command line: parse and print, nothing else."""
