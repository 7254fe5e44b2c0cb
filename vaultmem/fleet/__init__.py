"""A pool over many machines: shards that are Ray's actors, and who keeps them."""
