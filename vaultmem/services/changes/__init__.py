"""Changes: plan, write and commit edits of notes, and record who wrote which bytes."""
