"""Disk, git and libraries: each library is used in one file or one folder."""
