"""Values and rules without access to files, clock, environment, git or index."""
