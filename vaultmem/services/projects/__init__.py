"""Projects: which one a folder belongs to, and the table of all."""
