"""Notes as HTML: as Obsidian shows them, and nothing that runs."""
