"""Change the state of memories: promote, supersede and other transitions."""
