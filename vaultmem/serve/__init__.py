"""The resident process of a vault, and the relay that connects to it."""
