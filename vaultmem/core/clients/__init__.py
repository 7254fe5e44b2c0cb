"""The settings files of programs that use a vault: which there are, and how one entry changes."""
