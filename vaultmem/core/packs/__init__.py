"""What goes into a context pack, how it reads, what it costs."""
