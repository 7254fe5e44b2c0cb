"""The oracle: which words somebody wrote and nobody removed. It knows no git and no merge."""

from __future__ import annotations

import re
import threading

#: A word that stands once in all that is ever written: of a note, of a fact, of an edit.
WORD = re.compile(r"\b(?:n\d{3}|f\d{3}|k\d{3}[a-e])\b")

#: What tells notes apart, wherever they are: the first of these words in one.
NOTE = re.compile(r"\b(?:n\d{3}|f\d{3}|k\d{3}[a-e])(?=:)")


def find_words(text: str) -> set[str]:
    """Return all such words of a text."""
    return set(WORD.findall(text))


class Oracle:
    """What was written and removed by whom; `unsure` is what a killed command was to do."""

    def __init__(self) -> None:
        self.written: dict[str, str] = {}
        self.removed: dict[str, str] = {}
        self.unsure: set[str] = set()
        self._lock = threading.Lock()

    def edit(self, before: str, after: str, who: str) -> None:
        """Learn that somebody made one text of another."""
        with self._lock:
            was, now = find_words(before), find_words(after)
            self.written.update({word: who for word in now - was if word not in self.written})
            self.removed.update(dict.fromkeys(was - now, who))

    def doubt(self, text: str) -> None:
        """Learn that a command with these words was killed, so it may have done it or not."""
        with self._lock:
            self.unsure |= find_words(text)

    def wanted(self) -> set[str]:
        """Return the words that have to be somewhere."""
        return set(self.written) - set(self.removed) - self.unsure

    def gone(self) -> set[str]:
        """Return the words that may be nowhere."""
        return set(self.removed) | self.unsure
