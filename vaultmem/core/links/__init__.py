"""What notes link to, and which note a link means."""
