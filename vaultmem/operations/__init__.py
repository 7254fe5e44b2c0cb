"""The operations: each has one request, one function and one result for every front end."""
