"""Transcripts that agents' clients keep of their sessions, read into one kind of event."""
