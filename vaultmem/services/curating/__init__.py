"""Keep a memory healthy: what says the same, what replaces what, and in which state it is."""
