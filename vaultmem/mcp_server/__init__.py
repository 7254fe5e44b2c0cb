"""The services for agents that speak the Model Context Protocol; no rule lives here."""
