"""Merge three versions of a note into one."""
