"""Read the vault's history: log, blame, diff and restore."""
