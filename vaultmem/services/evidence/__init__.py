"""How a vault is used travels with it: what this machine knows is written to a ref of its own."""
