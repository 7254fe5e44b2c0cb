"""Convert a note to the rows, terms and arrays that the database and the index store."""
