"""The vault inside other programs, by the interfaces that their libraries define."""
