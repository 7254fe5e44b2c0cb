"""Curation: proposals, the summary of a note and the choice of what to promote."""
