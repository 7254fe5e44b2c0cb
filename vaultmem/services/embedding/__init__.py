"""Vectors of a vault's sections: make what is missing, and score by them."""
