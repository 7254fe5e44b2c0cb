"""The user's list of vaults, queries over several of them, and the demo vault."""
