"""Sync a vault with its remote: checkpoint, fetch, merge and push."""
