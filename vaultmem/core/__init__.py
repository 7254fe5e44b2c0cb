"""Values and rules without disk, clock, environment, process, git or index."""
