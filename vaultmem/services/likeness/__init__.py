"""Whether two memories say the same, nearly the same, or contradict each other."""
