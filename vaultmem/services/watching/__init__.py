"""Keep index, commits and generated files up with what is saved."""
