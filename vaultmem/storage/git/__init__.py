"""The vault's git repository."""
