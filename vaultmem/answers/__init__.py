"""What services return, as JSON: the same words in every front end."""
