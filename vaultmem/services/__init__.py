"""Verbs: sequences of effects that return values and print nothing."""
