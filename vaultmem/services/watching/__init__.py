"""The watcher: index saved files, commit quiet edits and update generated files."""
