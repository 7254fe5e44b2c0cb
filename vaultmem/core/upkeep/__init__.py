"""What a memory is worth, and what is to be done with it."""
