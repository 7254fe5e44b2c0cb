"""The index: Whoosh segments, and the same as arrays."""
