"""Pure values and rules: no access to files, clock, environment, processes, git or index."""
