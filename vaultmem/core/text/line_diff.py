"""Compare two texts by lines and by words."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import groupby, pairwise
from math import isqrt
from typing import NamedTuple

from vaultmem.core.text.patterns import compile_later

#: Steps of one comparison; the rest counts as replaced.
_MAX_STEPS = 4_000_000
#: Most edits to search for between two anchors.
_MAX_EDITS = 1_000

_LINE = compile_later(r"[^\n]*\n|[^\n]+")

Match = tuple[int, int, int]


class Hunk(NamedTuple):
    """Lines `start` to `end` of the old text, replaced by `new_start` to `new_end` of the new one.

    0-based, the end exclusive; an empty span is the position before that line.
    """

    start: int
    end: int
    new_start: int
    new_end: int


def split_lines(text: str) -> list[str]:
    r"""Return the lines with their ends; only `\n` splits, as in git."""
    return _LINE.findall(text)


def split_keys(text: str) -> list[str]:
    """Return the lines without their ends, for comparison."""
    keys = text.replace("\r\n", "\n").split("\n")
    return keys if keys[-1] else keys[:-1]


def split_bytes(data: bytes) -> list[str]:
    """Return a file's lines as git splits them, without line ends; bad bytes become surrogates."""
    lines = data.decode("utf-8", "surrogateescape").split("\n")
    return lines if lines[-1] else lines[:-1]


def strip_end(line: str) -> str:
    r"""Return a line without its `\n` or `\r\n`."""
    return line.removesuffix("\n").removesuffix("\r") if line.endswith("\n") else line


def find_line_end(*texts: str) -> str:
    r"""Return the line end of the first text that has one, else `\n`."""
    for text in texts:
        newline = text.find("\n")
        if newline >= 0:
            return "\r\n" if text[newline - 1 : newline] == "\r" else "\n"
    return "\n"


def join_lines(lines: Sequence[str], line_end: str) -> str:
    """Return the lines as a text; a line without an end gets one unless it is the last."""
    ended = [line if line.endswith("\n") else line + line_end for line in lines[:-1]]
    return "".join([*ended, *lines[-1:]])


def diff_lines(old: Sequence[str], new: Sequence[str], most: int = _MAX_STEPS) -> list[Hunk]:
    """Return the hunks that turn `old` into `new`, in order; no two hunks touch."""
    hunks: list[Hunk] = []
    end = new_end = 0
    for start, new_start, length in [*match_lines(old, new, most), (len(old), len(new), 0)]:
        if start > end or new_start > new_end:
            hunks.append(Hunk(end, start, new_end, new_start))
        end, new_end = start + length, new_start + length
    return hunks


def match_lines(old: Sequence[str], new: Sequence[str], most: int = _MAX_STEPS) -> list[Match]:
    """Return the runs of equal lines as (start in old, start in new, length), in order.

    Lines that are unique on both sides are matched first (patience diff, Bram Cohen), the rest
    by the shortest edit (Myers 1986). After `most` steps the result can miss matches, for example
    in texts with thousands of repeated lines.
    """
    matches: list[Match] = []
    steps = 0
    spans = [(0, len(old), 0, len(new))]
    while spans:
        low, high, new_low, new_high = span = _trim(old, new, spans.pop(), matches)
        if low == high or new_low == new_high:
            continue
        steps += high - low + new_high - new_low
        if steps > most:
            continue
        anchors = _match_unique(old, new, span)
        if anchors:
            stops = [(low, new_low), *anchors, (high, new_high)]
            spans += [(a, c, b, d) for (a, b), (c, d) in pairwise(stops)]
            continue
        limit = min(_MAX_EDITS, isqrt(most - steps))
        part_matches, edits = _find_shortest_edit(old[low:high], new[new_low:new_high], limit)
        steps += edits * edits
        matches += [(low + a, new_low + b, length) for a, b, length in part_matches]
    return _join_runs(sorted(matches))


def _trim(
    old: Sequence[str], new: Sequence[str], span: tuple[int, int, int, int], matches: list[Match]
) -> tuple[int, int, int, int]:
    """Append the common start and end of a span to `matches`, and return the rest."""
    low, high, new_low, new_high = span
    start = low
    while low < high and new_low < new_high and old[low] == new[new_low]:
        low, new_low = low + 1, new_low + 1
    if low > start:
        matches.append((start, new_low - (low - start), low - start))
    end = high
    while low < high and new_low < new_high and old[high - 1] == new[new_high - 1]:
        high, new_high = high - 1, new_high - 1
    if high < end:
        matches.append((high, new_high, end - high))
    return low, high, new_low, new_high


def _match_unique(
    old: Sequence[str], new: Sequence[str], span: tuple[int, int, int, int]
) -> list[tuple[int, int]]:
    """Return the longest sequence of lines, unique on both sides, in the same order on both."""
    low, high, new_low, new_high = span
    counts = Counter(old[low:high])
    new_counts = Counter(new[new_low:new_high])
    places = {line: new_low + number for number, line in enumerate(new[new_low:new_high])}
    pairs = [
        (number, places[line])
        for number, line in enumerate(old[low:high], low)
        if counts[line] == 1 and new_counts.get(line) == 1
    ]
    return _longest_rise(pairs)


def _longest_rise(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest increasing subsequence of pairs by their second numbers."""
    tops: list[int] = []  # The lowest number at which a run of each length can end.
    ends: list[int] = []  # The index of that pair.
    before: list[int] = []
    for index, (_, place) in enumerate(pairs):
        length = bisect_left(tops, place)
        before.append(ends[length - 1] if length else -1)
        tops[length : length + 1] = [place]
        ends[length : length + 1] = [index]
    run: list[tuple[int, int]] = []
    index = ends[-1] if ends else -1
    while index >= 0:
        run.append(pairs[index])
        index = before[index]
    return run[::-1]


def _find_shortest_edit(
    old: Sequence[str], new: Sequence[str], limit: int
) -> tuple[list[Match], int]:
    """Return the matches of the shortest edit and its length; no matches above `limit` edits.

    Source: E. Myers, "An O(ND) Difference Algorithm and Its Variations" (1986).
    """
    goal = len(old) - len(new)
    reached = [0] * (2 * limit + 3)  # By diagonal: the furthest line of `old` so far.
    middle = limit + 1
    history: list[list[int]] = []
    for edits in range(limit + 1):
        history.append(reached[middle - edits - 1 : middle + edits + 2])
        for diagonal in range(-edits, edits + 1, 2):
            place = middle + diagonal
            down = diagonal == -edits or (
                diagonal != edits and reached[place - 1] < reached[place + 1]
            )
            x = reached[place + 1] if down else reached[place - 1] + 1
            y = x - diagonal
            while x < len(old) and y < len(new) and old[x] == new[y]:
                x, y = x + 1, y + 1
            reached[place] = x
            if diagonal == goal and x >= len(old):
                return _trace_back(history, len(old), len(new)), edits
    return [], limit


def _trace_back(history: list[list[int]], x: int, y: int) -> list[Match]:
    matches: list[Match] = []
    for edits in range(len(history) - 1, -1, -1):
        reached, middle = history[edits], edits + 1
        diagonal = x - y
        place = middle + diagonal
        down = diagonal == -edits or (diagonal != edits and reached[place - 1] < reached[place + 1])
        start = reached[place + 1] if down else reached[place - 1] + 1
        start = start if edits else 0
        if x > start:
            matches.append((start, start - diagonal, x - start))
        x, y = (start, start - diagonal - 1) if down else (start - 1, start - diagonal)
    return matches


def _join_runs(matches: list[Match]) -> list[Match]:
    joined: list[Match] = []
    for match in matches:
        if joined:
            start, new_start, length = joined[-1]
            if (start + length, new_start + length) == match[:2]:
                joined[-1] = (start, new_start, length + match[2])
                continue
        joined.append(match)
    return joined


# Word differences of two texts.

#: A number, a character of a script without spaces, a word, a line end, blanks, punctuation.
_WORD = compile_later(
    r"\d+(?:[.,:]\d+)*|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"
    r"|[^\W\d\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+|\n|[^\S\n]+|."
)

#: Steps of one comparison (see `diff_lines`); low because a web page waits for it.
_MAX_WORD_STEPS = 200_000

_PLACE = compile_later(r"@@ -\d+(?:,\d+)? \+(\d+)(?:,\d+)? @@")


class WordMark(StrEnum):
    """Where words occur: in both texts, only in the old one, or only in the new one."""

    SAME = "same"
    DEL = "del"
    INS = "ins"


class DiffPiece(NamedTuple):
    """Consecutive words with the same mark."""

    mark: WordMark
    text: str


class Passage(NamedTuple):
    """A part of a diff: its first line in the new text (1-based), and its pieces."""

    line: int
    pieces: tuple[DiffPiece, ...]


def diff_words(old: str, new: str) -> list[DiffPiece]:
    """Return both texts as pieces, in order; removed words come before added ones.

    Equal words between two changes are marked as changed if they are shorter than both changes.
    """
    words, others = _WORD.findall(old), _WORD.findall(new)
    pieces: list[DiffPiece] = []
    position = 0
    for hunk in _join_close(diff_lines(words, others, _MAX_WORD_STEPS), words, others):
        pieces.append(DiffPiece(WordMark.SAME, "".join(words[position : hunk.start])))
        pieces.append(DiffPiece(WordMark.DEL, "".join(words[hunk.start : hunk.end])))
        pieces.append(DiffPiece(WordMark.INS, "".join(others[hunk.new_start : hunk.new_end])))
        position = hunk.end
    pieces.append(DiffPiece(WordMark.SAME, "".join(words[position:])))
    return [piece for piece in pieces if piece.text]


def mark_diff(diff: Iterable[str]) -> list[Passage]:
    """Return the hunks of a unified diff; replaced lines are compared by words."""
    passages: list[Passage] = []
    for is_place, lines in groupby(diff, lambda line: line.startswith("@@")):
        if is_place:
            match = _PLACE.match(list(lines)[-1])
            passages.append(Passage(int(match[1]) if match else 0, ()))
        else:
            place = passages.pop() if passages else Passage(1, ())
            passages.append(_trim_words(place.line, list(_join(_mark_lines(lines)))))
    return passages


def _trim_words(line: int, pieces: list[DiffPiece]) -> Passage:
    """Return a passage without blank lines at its start and end."""
    if pieces:
        text = pieces[0].text.lstrip("\n")
        line += len(pieces[0].text) - len(text) if pieces[0].mark is not WordMark.DEL else 0
        pieces[0] = pieces[0]._replace(text=text)
        pieces[-1] = pieces[-1]._replace(text=pieces[-1].text.rstrip("\n"))
    return Passage(line, tuple(piece for piece in pieces if piece.text))


def _mark_lines(lines: Iterable[str]) -> Iterator[DiffPiece]:
    r"""Yield the pieces of a hunk's lines, without git's `\ No newline` remark."""
    content_lines = (line for line in lines if not line.startswith("\\"))
    for is_same, run in groupby(content_lines, lambda line: line.startswith(" ")):
        listed = list(run)
        if is_same:
            yield DiffPiece(WordMark.SAME, _text(listed))
        else:
            old, new = ([each for each in listed if each[0] == sign] for sign in "-+")
            yield from diff_words(_text(old), _text(new))


def _text(lines: Sequence[str]) -> str:
    return "".join(f"{line[1:].removesuffix(chr(13))}\n" for line in lines)


def _join(pieces: Iterable[DiffPiece]) -> Iterator[DiffPiece]:
    for mark, group in groupby(pieces, lambda piece: piece.mark):
        yield DiffPiece(mark, "".join(piece.text for piece in group))


def _join_close(
    hunks: Iterable[Hunk], words: Sequence[str], others: Sequence[str]
) -> Iterable[Hunk]:
    """Join changes when the words between them are shorter than either change.

    Source: the semantic clean-up of diff-match-patch (Neil Fraser).
    """
    result: list[Hunk] = []
    for change in hunks:
        hunk = change
        while result and _is_less(
            words[result[-1].end : hunk.start], result[-1], hunk, words, others
        ):
            last = result.pop()
            hunk = Hunk(last.start, hunk.end, last.new_start, hunk.new_end)
        result.append(hunk)
    return result


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
