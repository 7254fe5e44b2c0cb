"""Whether two texts say the same: what they share, and what must not differ."""
