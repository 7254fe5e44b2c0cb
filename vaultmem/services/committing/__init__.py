"""Changes become commits at the three moments."""
