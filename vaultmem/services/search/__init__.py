"""Queries: from a parsed query to hits, in one vault or in several."""
