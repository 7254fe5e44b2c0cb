"""What of a note the index gets."""
