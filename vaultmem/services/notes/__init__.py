"""Make, read, change and forget notes."""
