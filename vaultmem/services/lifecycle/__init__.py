"""A memory goes from state to state."""
