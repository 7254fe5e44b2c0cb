"""Recall, packs, receipts; the work tree or any commit."""
