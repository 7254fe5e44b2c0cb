"""Context packs: build, replay and evaluate them, and keep their receipts."""
