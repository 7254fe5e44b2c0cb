"""One verb a file: sequences of effects that return values and print nothing."""
