"""Similarity: find notes that state the same, nearly the same or a new value."""
