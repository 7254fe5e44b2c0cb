"""What differs between two sets of notes, two texts, two commits."""
