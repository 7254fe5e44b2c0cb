"""What a session is, how its note reads, and what the next context window needs of it."""
