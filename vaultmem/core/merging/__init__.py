"""Two sides of a note become one."""
