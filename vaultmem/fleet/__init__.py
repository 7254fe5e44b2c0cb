"""A pool over many machines: on each, an actor of Ray keeps clones as a cache."""
