"""The HTTP server of a hub or a fleet: git, API, page and MCP of many vaults."""
