"""Check a vault: status, doctor and token usage."""
