"""Changes of notes: on disk, in the journal, in commits."""
