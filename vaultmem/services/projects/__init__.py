"""Projects: find the project of a folder, and edit the table of projects."""
