"""A team's hub: bare repositories, who may do what in them, and the check of what is pushed."""
