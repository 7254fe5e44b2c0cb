"""Which memories count most, which no more, and what is left of a text that nobody asks for."""
