"""Take reference material into a vault, list it, and take it out again."""
