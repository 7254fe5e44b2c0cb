"""Convert transcripts of agent clients to events of one type."""
