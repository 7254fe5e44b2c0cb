"""Texts as vectors: one model a file, all behind one port."""
