"""Convert the transcripts of agent clients into events of one type."""
