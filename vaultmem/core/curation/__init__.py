"""Curation: proposals, compaction of notes, and the choice of notes to promote."""
