"""Answer the events of an agent: begin, prompt, compaction, end."""
