"""Standing wishes: how they are known, and which of them concern a question."""
