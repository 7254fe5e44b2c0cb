"""Models and vectors for recall by meaning."""
