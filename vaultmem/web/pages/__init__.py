"""One page a file: gather a value from the vault, then let a template show it."""
