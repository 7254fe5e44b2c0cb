"""Who does what the callers of a server ask: threads that have the vault open, shared by all."""
