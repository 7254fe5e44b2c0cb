"""Read what other programs remember from their exports and folders."""
