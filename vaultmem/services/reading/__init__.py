"""What is in the folder or in a commit gets into manifest and index; notes are read."""
