"""Convert a note to the rows, terms and arrays for the database and the index."""
