"""One library each: a library's name appears in exactly one file of this package."""
