"""The HTTP front of a hub, and of a fleet: git, the API, the page and MCP of many vaults."""
