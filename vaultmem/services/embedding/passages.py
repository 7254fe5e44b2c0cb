"""What of a section becomes a vector: its names, with each passage of about 120 words."""

from __future__ import annotations

import math
import re
from itertools import pairwise

from vaultmem.core.notes.record import NoteRecord, SectionRecord

#: A vector of more words says less of each.
_WORDS = 120

#: Passages of one section at most; a table of a megabyte is not worth an hour.
_MAX_PASSAGES = 40

#: What counts as a word: two characters where no spaces divide them, sixteen of anything else.
_WORD = re.compile(r"[\u2e80-\ud7ff]{1,2}|[^\s\u2e80-\ud7ff]{1,16}")


def make_passages(record: NoteRecord, section: SectionRecord, text: str) -> list[str]:
    """Return the passages of a section, each under the note's title and the headings above."""
    names = dict.fromkeys((record.title, *section.parents, section.heading))
    head = "\n".join(name for name in names if name)
    return [f"{head}\n{passage}".strip() for passage in split_passages(text)]


def split_passages(text: str) -> list[str]:
    """Return a text in parts of even length, of 120 words at most; one part if it is empty."""
    words = list(_WORD.finditer(text))
    count = min(math.ceil(len(words) / _WORDS), _MAX_PASSAGES)
    if count <= 1:
        return [text.strip()]
    words = words[: count * _WORDS]
    cuts = [len(words) * part // count for part in range(count + 1)]
    return [text[words[first].start() : words[last - 1].end()] for first, last in pairwise(cuts)]
