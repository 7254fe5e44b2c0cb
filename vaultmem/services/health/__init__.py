"""What state the vault is in, and what to do about it."""
