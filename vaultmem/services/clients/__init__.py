"""Clients: connect an agent to a vault in the settings of its client."""
