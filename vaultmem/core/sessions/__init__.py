"""Sessions and tasks: their values, notes, and the content of a restore."""
