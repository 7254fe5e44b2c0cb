"""Render notes as HTML in the way Obsidian does, without executing anything."""
