"""What Obsidian's own settings of a vault say, and what follows from them here."""
