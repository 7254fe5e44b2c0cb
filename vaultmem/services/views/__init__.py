"""Views: read the notes of the work tree, a branch or a commit, and keep their index up to date."""
