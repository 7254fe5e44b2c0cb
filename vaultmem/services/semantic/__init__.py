"""Recall by meaning: compute embeddings of sections, and score sections by them."""
