"""Many vaults of one user: the list of them, and which of them a question is asked together."""
