"""What memory costs in tokens and what it saves."""
