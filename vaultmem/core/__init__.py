"""Pure values and rules: no disk, clock, environment, git or Whoosh."""
