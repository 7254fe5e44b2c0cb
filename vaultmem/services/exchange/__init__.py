"""Exchange: import notes and reference material, archive a vault, and sync it with a remote."""
