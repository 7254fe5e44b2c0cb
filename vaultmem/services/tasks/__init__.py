"""Keep tasks, hand them over, and gather what is known of them."""
