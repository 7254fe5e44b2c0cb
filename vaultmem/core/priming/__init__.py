"""Reference material: a document divided into notes, and what differs from the last time."""
