"""Anchors: code that memories cite, and whether it changed since."""
