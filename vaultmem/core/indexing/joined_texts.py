"""Texts joined into one string of bytes, so that each question is asked once of all of them.

What is written in one piece is found by comparing arrays of bytes: single marks that join two
letters, and a capital behind a small letter.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

#: Stands behind each field of the joined texts, and is a word of its own.
END = "\0"

_BLANK, _UPPER, _LOWER, _DIGIT, _FOREIGN_LETTER, _JOINT, _COMMA = 0, 1, 2, 4, 8, 16, 32
_SMALL, _LETTER = _LOWER | _DIGIT, _UPPER | _LOWER | _DIGIT | _FOREIGN_LETTER


def _classify(code: int) -> int:
    mark = chr(code)
    if code > 127:
        return _FOREIGN_LETTER  # All else beyond ASCII was taken out.
    if mark.isalpha():
        return _UPPER if mark.isupper() else _LOWER
    if mark.isdigit():
        return _DIGIT
    return _JOINT if mark in "-_./" else _COMMA if mark == "," else _BLANK


_KINDS = bytes(map(_classify, range(256)))
_LOWERED = bytes(code + 32 if 65 <= code <= 90 else code for code in range(256))
_SPACED = bytes(
    lower if code == 0 or _KINDS[code] & _LETTER else 32 for code, lower in enumerate(_LOWERED)
)


def join_texts(fields: Sequence[str]) -> bytes:
    """Return the fields, each with an end of its own behind it."""
    separator = f" {END} "
    joined = separator.join(["", *fields, ""])
    if joined.count(END) != len(fields) + 1:
        joined = separator.join(["", *(field.replace(END, " ") for field in fields), ""])
    return joined.encode("utf-8", "surrogatepass")


def split_joined(joined: bytes) -> list[bytes]:
    """Return the words of joined texts and their ends, in their order and in lower case."""
    return joined.translate(_SPACED).split()


def find_ends(joined: bytes) -> NDArray[np.int64]:
    """Return where each of the joined texts ends."""
    return np.flatnonzero(np.frombuffer(joined, np.uint8) == 0)[1:]


def find_kinds(joined: bytes) -> NDArray[np.uint8]:
    """Return of each byte what kind of character it belongs to."""
    return np.frombuffer(joined.translate(_KINDS), np.uint8)


def find_pieces(joined: bytes, kinds: NDArray[np.uint8]) -> tuple[list[bytes], NDArray[np.int64]]:
    """Return what joined texts write in one piece, and where each piece begins."""
    is_letter = (kinds & _LETTER) != 0
    edges = np.flatnonzero(is_letter[1:] != is_letter[:-1]) + 1
    starts, ends = edges[::2], edges[1::2]
    first, last = _chain_words(kinds, is_letter, ends)
    humps = np.flatnonzero((kinds[:-1] & _SMALL != 0) & (kinds[1:] == _UPPER))
    camels = starts.searchsorted(humps, "right") - 1
    camels = camels[np.diff(camels, prepend=-1) != 0]
    lowered = joined.translate(_LOWERED)
    pieces = _cut(lowered, starts[first], ends[last]) + _cut(joined, starts[camels], ends[camels])
    return pieces, np.concatenate([starts[first], starts[camels]])


def _chain_words(
    kinds: NDArray[np.uint8], is_letter: NDArray[np.bool_], ends: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first and the last word of each chain that single marks join."""
    joints = np.flatnonzero(kinds == _JOINT)
    joints = joints[is_letter[joints - 1] & is_letter[joints + 1]]
    before = ends.searchsorted(joints)
    begins = np.diff(before, prepend=-2) != 1
    return before[begins], before[np.append(begins[1:], True)] + 1 if len(before) else before


def _cut(text: bytes, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> list[bytes]:
    spans = zip(starts.tolist(), ends.tolist(), strict=True)
    return [text[start:end] for start, end in spans]


def find_figures(kinds: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return where a comma stands between two digits."""
    commas = np.flatnonzero(kinds == _COMMA)
    found: NDArray[np.int64] = commas[(kinds[commas - 1] == _DIGIT) & (kinds[commas + 1] == _DIGIT)]
    return found
