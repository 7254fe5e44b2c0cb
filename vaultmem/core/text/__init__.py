"""Text tools that do not depend on notes: paths, display, tokens, diffs and timestamps."""
