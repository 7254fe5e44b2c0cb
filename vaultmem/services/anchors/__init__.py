"""Anchors: code that notes cite, and whether it has changed."""
