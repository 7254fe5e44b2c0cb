"""A hub on disk: bare repositories, grants and the push check."""
