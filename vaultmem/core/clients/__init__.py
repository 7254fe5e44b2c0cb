"""Settings files of agent clients: which exist, and how one entry in them is changed."""
