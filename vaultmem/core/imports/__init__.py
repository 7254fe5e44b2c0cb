"""Import the memories of other programs from their exports and folders."""
