"""Many vaults, each a clone of its remote, that one process or many answer for."""
