"""Semantic recall: compute embeddings of sections, and score sections by them."""
