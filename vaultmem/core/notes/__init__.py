"""One note: properties, sections, and what is kept of it."""
