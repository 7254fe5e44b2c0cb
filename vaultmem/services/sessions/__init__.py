"""Sessions: begun, written down while they last, closed or recovered, and restored."""
