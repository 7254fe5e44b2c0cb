"""Carry a vault between machines: checkpoint, fetch, merge, push."""
