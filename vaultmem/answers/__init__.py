"""What services return, as JSON: the same words in every front end.

A command itself only puts one name before what a service returned.
"""
