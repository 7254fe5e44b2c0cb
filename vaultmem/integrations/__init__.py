"""Adapters for the memory interfaces of other libraries."""
