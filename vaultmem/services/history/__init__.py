"""Read what git says of the notes."""
