"""The front end for browsers: pages over a vault, and the HTTP API (extra `web`)."""
