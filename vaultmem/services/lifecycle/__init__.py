"""Change the state of notes: promote, supersede and other transitions."""
