"""Compare two texts: the same, nearly the same, or a different value."""
