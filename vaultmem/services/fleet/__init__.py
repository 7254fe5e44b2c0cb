"""Fleets: open many vaults as clones of their remotes, query them, and run jobs over them."""
