"""Recognize credentials: rules as data, and the scan that uses them."""
