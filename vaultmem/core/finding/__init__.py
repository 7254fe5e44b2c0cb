"""Questions, the score of a section, and what a hit says."""
