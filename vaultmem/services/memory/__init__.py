"""Memories: create, update, rename and remove notes, and create a vault."""
