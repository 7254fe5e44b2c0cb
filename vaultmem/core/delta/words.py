"""What differs between two texts, word by word."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import groupby
from typing import NamedTuple

from vaultmem.core.delta.lines import Hunk, diff_lines

#: A number, a sign of a script that does not part its words, a word, a line end, blanks, a mark.
_WORD = re.compile(
    r"\d+(?:[.,:]\d+)*|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"
    r"|[^\W\d\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+|\n|[^\S\n]+|."
)

#: Steps that one comparison may take (see `diff_lines`): a page waits for it.
_MAX_STEPS = 200_000

_PLACE = re.compile(r"@@ -\d+(?:,\d+)? \+(\d+)(?:,\d+)? @@")


class Mark(StrEnum):
    """Whether words are in both texts, in the old one alone, or in the new one alone."""

    SAME = "same"
    DEL = "del"
    INS = "ins"


class Piece(NamedTuple):
    """Some words, and which text has them."""

    mark: Mark
    text: str


class Passage(NamedTuple):
    """A part of a diff: the line of the new text that it begins at (1-based), and its pieces."""

    line: int
    pieces: tuple[Piece, ...]


def diff_words(old: str, new: str) -> list[Piece]:
    """Return both texts as pieces, in order; what is removed stands before what is added.

    What two changes leave between them is changed with them if it is shorter than both: nobody
    reads single words that happen to be the same.
    """
    words, others = _WORD.findall(old), _WORD.findall(new)
    pieces: list[Piece] = []
    at = 0
    for hunk in _join_close(diff_lines(words, others, _MAX_STEPS), words, others):
        pieces.append(Piece(Mark.SAME, "".join(words[at : hunk.start])))
        pieces.append(Piece(Mark.DEL, "".join(words[hunk.start : hunk.end])))
        pieces.append(Piece(Mark.INS, "".join(others[hunk.new_start : hunk.new_end])))
        at = hunk.end
    pieces.append(Piece(Mark.SAME, "".join(words[at:])))
    return [piece for piece in pieces if piece.text]


def mark_diff(diff: Iterable[str]) -> list[Passage]:
    """Return a unified diff's hunks, the lines that were replaced compared by their words."""
    passages: list[Passage] = []
    for is_place, lines in groupby(diff, lambda line: line.startswith("@@")):
        if is_place:
            found = _PLACE.match(list(lines)[-1])
            passages.append(Passage(int(found[1]) if found else 0, ()))
        else:
            place = passages.pop() if passages else Passage(1, ())
            passages.append(_trim(place.line, list(_join(_mark_lines(lines)))))
    return passages


def _trim(line: int, pieces: list[Piece]) -> Passage:
    """Return a passage without blank lines at its ends."""
    if pieces:
        text = pieces[0].text.lstrip("\n")
        line += len(pieces[0].text) - len(text) if pieces[0].mark is not Mark.DEL else 0
        pieces[0] = pieces[0]._replace(text=text)
        pieces[-1] = pieces[-1]._replace(text=pieces[-1].text.rstrip("\n"))
    return Passage(line, tuple(piece for piece in pieces if piece.text))


def _mark_lines(lines: Iterable[str]) -> Iterator[Piece]:
    """Yield the pieces of a hunk's lines; what git remarks of the last line end is left out."""
    shown = (line for line in lines if not line.startswith("\\"))
    for is_same, run in groupby(shown, lambda line: line.startswith(" ")):
        listed = list(run)
        if is_same:
            yield Piece(Mark.SAME, _text(listed))
        else:
            old, new = ([each for each in listed if each[0] == sign] for sign in "-+")
            yield from diff_words(_text(old), _text(new))


def _text(lines: Sequence[str]) -> str:
    return "".join(f"{line[1:].removesuffix(chr(13))}\n" for line in lines)


def _join(pieces: Iterable[Piece]) -> Iterator[Piece]:
    for mark, group in groupby(pieces, lambda piece: piece.mark):
        yield Piece(mark, "".join(piece.text for piece in group))


def _join_close(
    hunks: Iterable[Hunk], words: Sequence[str], others: Sequence[str]
) -> Iterable[Hunk]:
    """Join changes that have less between them than either changes.

    Source: the semantic clean-up of diff-match-patch (Neil Fraser).
    """
    joined: list[Hunk] = []
    for found in hunks:
        hunk = found
        while joined and _is_less(
            words[joined[-1].end : hunk.start], joined[-1], hunk, words, others
        ):
            before = joined.pop()
            hunk = Hunk(before.start, hunk.end, before.new_start, hunk.new_end)
        joined.append(hunk)
    return joined


def _is_less(
    between: Sequence[str], first: Hunk, second: Hunk, words: Sequence[str], others: Sequence[str]
) -> bool:
    size = _count(between)
    return "\n" not in between and all(
        size <= max(_count(words[h.start : h.end]), _count(others[h.new_start : h.new_end]))
        for h in (first, second)
    )


def _count(words: Sequence[str]) -> int:
    return sum(map(len, words))
