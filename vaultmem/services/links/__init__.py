"""Links between notes: list them, keep them right when a note moves, follow them in a recall."""
