"""The disk, git and every library that touches them: one library a file, or one folder."""
