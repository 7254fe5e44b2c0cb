"""How well texts answer a question, read side by side: one model a file, all behind one port."""
