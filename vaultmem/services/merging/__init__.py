"""Branches: list, switch, merge and copy them, and resolve what conflicts."""
