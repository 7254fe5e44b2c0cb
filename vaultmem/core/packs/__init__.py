"""Context packs: choose sections within a token budget, and format them."""
