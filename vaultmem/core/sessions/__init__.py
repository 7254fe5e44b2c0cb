"""Sessions and tasks: their values, their notes, and what a restore contains."""
