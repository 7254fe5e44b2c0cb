"""Read the transcripts of agent clients into one kind of event."""
