"""Tell other programs of the vault, in their own settings."""
