"""Recognize credentials, by rules stored as data."""
