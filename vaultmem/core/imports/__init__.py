"""Read memories of other programs from exports and folders."""
