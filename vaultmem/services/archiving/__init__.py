"""A whole vault as one archive: made here, and put in place elsewhere."""
