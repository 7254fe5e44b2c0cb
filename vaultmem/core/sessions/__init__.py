"""Sessions and tasks: their values, their notes, and the content of a restore."""
