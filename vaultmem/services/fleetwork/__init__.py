"""Work over all vaults of a pool: each vault does its part where it is, and what it did is kept."""
