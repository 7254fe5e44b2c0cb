"""Each verb declared once: what it is asked, what it does, and its answer for every front end."""
