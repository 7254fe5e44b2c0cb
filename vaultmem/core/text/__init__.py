"""Text: paths, display, tokens, differences and timestamps, without any knowledge of notes."""
