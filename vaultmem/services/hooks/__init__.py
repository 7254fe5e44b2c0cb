"""Answer the events of an agent's client: start, prompt, compaction and end."""
