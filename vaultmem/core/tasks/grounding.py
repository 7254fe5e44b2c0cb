"""Whether a text says only what its sources say, as far as words can show it."""

from __future__ import annotations

import re

_WORD = re.compile(r"[^\W_]+(?:[._/:#@-][^\W_]+)*")


def find_ungrounded(text: str, sources: str) -> list[str]:
    """Return the names, numbers and identifiers of a text that no source has.

    What counts: everything with a digit, with a capital beyond a sentence's first letter, or with
    marks inside as paths and identifiers have. Plain words may be chosen freely.
    """
    known = {word.casefold() for word in _WORD.findall(sources)}
    known |= {part for word in known for part in re.split(r"[._/:#@-]", word)}
    missing = []
    for match in _WORD.finditer(text):
        word = match[0]
        begins = not text[: match.start()].rstrip() or text[: match.start()].rstrip()[-1] in ".!?:"
        is_name = any(mark.isupper() for mark in (word[1:] if begins else word))
        is_fact = is_name or any(mark.isdigit() for mark in word) or not word.isalnum()
        if is_fact and word.casefold() not in known:
            missing.append(word)
    return missing
