"""Branches without a checkout: write, switch, merge, take over."""
