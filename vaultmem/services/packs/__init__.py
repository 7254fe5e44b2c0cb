"""Context packs: build, replay and evaluate them, and store their receipts."""
