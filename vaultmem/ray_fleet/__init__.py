"""The fleet on several machines: the only package that imports Ray."""
