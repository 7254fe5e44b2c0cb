"""Queries and ranking: parse a query, choose eligible sections and score them."""
