"""The pages of a vault as files, which need no server."""
