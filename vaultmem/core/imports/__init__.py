"""What other programs remember, read from their exports and folders: a file for each kind."""
