"""The table of verbs: each has one request, one function and one answer for every front end."""
