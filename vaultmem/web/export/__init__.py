"""Export the pages of a vault as files that need no server."""
