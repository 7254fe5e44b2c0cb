"""The front end for browsers: pages of a vault, and the HTTP API."""
