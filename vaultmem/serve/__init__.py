"""The resident process of a vault, which answers everybody, and the relay that leads to it."""
