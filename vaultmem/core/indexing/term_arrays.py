"""Analyse terms and positions of many sections together, as arrays.

Compounds are found by comparing byte arrays: single marks that join two letters, and a capital
after a small letter.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vaultmem.core.indexing.packing import spread
from vaultmem.core.indexing.section_texts import SectionTexts
from vaultmem.core.search.terms import (
    FIELDS,
    NAMES,
    find_names,
    find_stem,
    find_thousands,
    has_cjk,
    list_joined,
    list_pieces,
    mark_stop_word,
    plain_text,
    split_piece,
    split_words,
)

#: Ends each field of the joined texts, and is a separate word.
END = "\0"

_BLANK, _UPPER, _LOWER, _DIGIT, _FOREIGN_LETTER, _CONNECTOR, _COMMA = 0, 1, 2, 4, 8, 16, 32
_LOWER_OR_DIGIT, _LETTER = _LOWER | _DIGIT, _UPPER | _LOWER | _DIGIT | _FOREIGN_LETTER


def _classify(code: int) -> int:
    mark = chr(code)
    if code > 127:
        return _FOREIGN_LETTER  # Other non-ASCII characters were removed.
    if mark.isalpha():
        return _UPPER if mark.isupper() else _LOWER
    if mark.isdigit():
        return _DIGIT
    return _CONNECTOR if mark in "-_./" else _COMMA if mark == "," else _BLANK


_KINDS = bytes(map(_classify, range(256)))
_LOWERCASE_TABLE = bytes(code + 32 if 65 <= code <= 90 else code for code in range(256))
_WORD_SPLIT_TABLE = bytes(
    lower if code == 0 or _KINDS[code] & _LETTER else 32
    for code, lower in enumerate(_LOWERCASE_TABLE)
)


def join_texts(fields: Sequence[str]) -> bytes:
    """Return the fields joined, each followed by an end mark."""
    separator = f" {END} "
    joined = separator.join(["", *fields, ""])
    if joined.count(END) != len(fields) + 1:
        joined = separator.join(["", *(field.replace(END, " ") for field in fields), ""])
    return joined.encode("utf-8", "surrogatepass")


def split_joined(joined: bytes) -> list[bytes]:
    """Return the lowercase words and end marks of joined texts, in order."""
    return joined.translate(_WORD_SPLIT_TABLE).split()


def find_ends(joined: bytes) -> NDArray[np.int64]:
    """Return the end position of each joined text."""
    return np.flatnonzero(np.frombuffer(joined, np.uint8) == 0)[1:]


def find_kinds(joined: bytes) -> NDArray[np.uint8]:
    """Return the kind of character for each byte."""
    return np.frombuffer(joined.translate(_KINDS), np.uint8)


def find_pieces(joined: bytes, kinds: NDArray[np.uint8]) -> tuple[list[bytes], NDArray[np.int64]]:
    """Return the compounds in joined texts, and the start of each."""
    is_letter = (kinds & _LETTER) != 0
    edges = np.flatnonzero(is_letter[1:] != is_letter[:-1]) + 1
    starts, ends = edges[::2], edges[1::2]
    first, last = _chain_words(kinds, is_letter, ends)
    humps = np.flatnonzero((kinds[:-1] & _LOWER_OR_DIGIT != 0) & (kinds[1:] == _UPPER))
    camels = starts.searchsorted(humps, "right") - 1
    camels = camels[np.diff(camels, prepend=-1) != 0]
    lowered = joined.translate(_LOWERCASE_TABLE)
    pieces = _slice(lowered, starts[first], ends[last]) + _slice(
        joined, starts[camels], ends[camels]
    )
    return pieces, np.concatenate([starts[first], starts[camels]])


def _chain_words(
    kinds: NDArray[np.uint8], is_letter: NDArray[np.bool_], ends: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first and last word of each chain joined by single marks."""
    joints = np.flatnonzero(kinds == _CONNECTOR)
    joints = joints[is_letter[joints - 1] & is_letter[joints + 1]]
    before = ends.searchsorted(joints)
    begins = np.diff(before, prepend=-2) != 1
    return before[begins], before[np.append(begins[1:], True)] + 1 if len(before) else before


def _slice(text: bytes, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> list[bytes]:
    spans = zip(starts.tolist(), ends.tolist(), strict=True)
    return [text[start:end] for start, end in spans]


def find_figures(kinds: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return the positions of commas between two digits."""
    commas = np.flatnonzero(kinds == _COMMA)
    positions: NDArray[np.int64] = commas[
        (kinds[commas - 1] == _DIGIT) & (kinds[commas + 1] == _DIGIT)
    ]
    return positions


def find_marked(joined: bytes) -> list[int]:
    """Return the positions where joined texts possibly contain one of `NAMES`."""
    lowered = joined.translate(_LOWERCASE_TABLE)
    names = (re.escape(name.encode()) for name in NAMES)
    return [match.start() for name in names for match in re.finditer(name, lowered)]


# Compute the terms of many sections as flat arrays, with calls that run entirely in C. The texts of
# all sections are joined, lowercased and split at once. Each different word is analysed once, and
# is then a number in a dictionary. The terms are the same as those that `core.search.terms`
# returns for single texts.

Numbers = NDArray[np.uint32]
Whole = NDArray[np.unsignedinteger[Any]]

#: The bits of a packed count: title 16 to 19, tags 12 to 15, body 0 to 11. Each count is limited by
#: `MAX_COUNTS`.
SHIFTS = (16, 12, 0)
MAX_COUNTS = (15, 15, 4095)

#: Characters to split into words at once.
_BLOCK = 300_000


class TermArrays(NamedTuple):
    """The terms of some sections. A term's number is its index in `terms` (UTF-8).

    `term`, `section` and `packed` have an entry for each term of each section, with packed counts.
    `sequence` has the term numbers of all sections in order (title, tags, body), without stop words
    and compounds. `lengths` (shape: sections, 3) is the number of terms in each field there.
    """

    terms: list[bytes]
    term: Whole
    section: Whole
    packed: Numbers
    sequence: Whole
    lengths: Numbers


class TermCounter:
    """Counts terms, and caches analysed words for the next texts."""

    def __init__(self, most: int = 300_000) -> None:
        """Set the maximum number of cached words."""
        self._most = most
        self._forget()

    def _forget(self) -> None:
        self._terms = _Terms()
        self._pairs = _number_pairs(self._terms)
        self._words = _Words(self._terms)
        self._pieces = _Pieces(self._terms)

    def count(self, texts: Iterable[SectionTexts]) -> TermArrays:
        """Return the terms of sections."""
        if len(self._words) + len(self._pieces) > self._most:
            self._forget()
        strings, members = _list_strings(texts)
        pieces = _make_plain(strings)
        empty = np.empty(0, np.uint32)
        blocks = [(empty, empty, empty, empty)]
        blocks += [self._number(strings, pieces, *span) for span in _split(strings)]
        mark_terms = np.array([self._terms[mark] for _, mark in members.marks], np.uint32)
        blocks.append(
            (empty, empty, mark_terms, np.array([n for n, _ in members.marks], np.uint32))
        )
        words, lengths, others, place = map(np.concatenate, zip(*blocks, strict=True))
        sequence, field = _expand(words, lengths, members)
        others = others[place.argsort(kind="stable")]
        other_terms, other_field = _expand(
            others, np.bincount(place, minlength=len(strings)), members
        )
        numbers, used_terms = self._renumber(np.concatenate([words, others]))
        term, section, packed = _count(
            numbers[np.concatenate([sequence, other_terms])], np.concatenate([field, other_field])
        )
        fields = len(members.field_parts)
        return TermArrays(
            terms=[self._terms.names[number] for number in used_terms.tolist()],
            term=term,
            section=section.astype(_smallest(fields)),
            packed=packed,
            sequence=numbers[sequence],
            lengths=np.bincount(field, minlength=fields).astype(np.uint32).reshape(-1, len(FIELDS)),
        )

    def _renumber(self, terms: Numbers) -> tuple[Whole, NDArray[np.int64]]:
        """Return the new number of each term among the used ones, and the used terms."""
        is_used = np.zeros(len(self._terms.names), np.bool_)
        is_used[terms] = True
        used_terms = np.flatnonzero(is_used)
        numbers = np.zeros(len(is_used), _smallest(len(used_terms)))
        numbers[used_terms] = np.arange(len(used_terms))
        return numbers, used_terms

    def _number(
        self, fields: Sequence[str], pieces: Mapping[int, list[str]], first: int, last: int
    ) -> tuple[Numbers, Numbers, Numbers, Numbers]:
        """Return the terms of some strings in order, and their number for each string.

        Also return their stop words and compound terms, and the string of each. `pieces` has
        compounds found before.
        """
        joined = join_texts(fields[first:last])
        words = split_joined(joined)
        numbers = np.fromiter(map(self._words.__getitem__, words), np.uint32, len(words))
        is_end = numbers == _ENDING
        stops = (numbers >= _STOP).nonzero()[0]
        is_kept = (numbers > _ENDING) & (numbers < _STOP)
        counts = is_kept.cumsum(dtype=np.uint32)[is_end]
        stop_places = is_end.cumsum(dtype=np.uint32)[stops] + np.uint32(first) - np.uint32(1)
        ends, kinds = find_ends(joined), find_kinds(joined)
        compounds, places = find_pieces(joined, kinds)
        field = ends.searchsorted(places) + first
        more = [
            (n, each)
            for places, find in (
                (find_figures(kinds), find_thousands),
                (find_marked(joined), find_names),
            )
            for n in dict.fromkeys((ends.searchsorted(places) + first).tolist())
            for each in find(fields[n].lower())
            if n not in pieces
        ]
        more += [(n, each) for n in pieces.keys() & range(first, last) for each in pieces[n]]
        compounds += [each.encode("utf-8", "surrogatepass") for _, each in more]
        field = np.concatenate([field, np.array([n for n, _ in more], np.int64)])
        groups = np.fromiter(map(self._pieces.__getitem__, compounds), np.int64, len(compounds))
        expanded = self._pieces.expand(groups, field.astype(np.uint32))
        seconds, pairs = self._pairs.find(numbers & ~_STOP)
        pair_places = is_end.cumsum(dtype=np.uint32)[seconds] + np.uint32(first) - np.uint32(1)
        others = np.concatenate([numbers[stops] - _STOP, pairs, expanded[0]])
        place = np.concatenate([stop_places, pair_places, expanded[1]])
        return numbers[is_kept], np.diff(counts), others, place


class _Terms(dict[str, int]):
    """Maps each term to its number; `names` are the terms in UTF-8."""

    def __init__(self) -> None:
        self.names: list[bytes] = [b"", b""]  # For `_UNINDEXED_WORD` and `_ENDING`.

    def __missing__(self, term: str) -> int:
        number = self[term] = len(self.names)
        self.names.append(term.encode("utf-8", "surrogatepass"))
        return number


class _Pairs(NamedTuple):
    """Maps pairs of word numbers to the number of their joint term; 0 for other pairs."""

    joined: Numbers

    def find(self, numbers: Numbers) -> tuple[NDArray[np.int64], Numbers]:
        """Return the positions of the second words of pairs, and the terms of the pairs."""
        is_member = numbers < len(self.joined)
        seconds = (is_member[1:] & is_member[:-1]).nonzero()[0] + 1
        joint_terms = self.joined[numbers[seconds - 1], numbers[seconds]]
        return seconds[joint_terms > 0], joint_terms[joint_terms > 0]


def _number_pairs(terms: _Terms) -> _Pairs:
    """Return the pairs, after giving their words the first numbers."""
    pairs = list_joined()
    members = [(terms[first], terms[second]) for first, second in pairs]
    joined = np.zeros((len(terms.names),) * 2, np.uint32)
    for (first, second), name in zip(members, pairs.values(), strict=True):
        joined[first, second] = terms[name]
    return _Pairs(joined)


#: Numbers without a term: a word that is not indexed, and the end of a field.
_UNINDEXED_WORD, _ENDING = 0, 1

#: Added to the number of a stop word's term.
_STOP = np.uint32(1 << 31)


class _Words(dict[bytes, int]):
    """Maps each word to the number of its term."""

    def __init__(self, terms: _Terms) -> None:
        self[END.encode()] = _ENDING
        self._terms = terms

    def __missing__(self, word: bytes) -> int:
        text = word.decode("utf-8", "surrogatepass")
        if term := find_stem(text):
            number = self._terms[term]
        else:
            term = mark_stop_word(text)
            number = self._terms[term] + int(_STOP) if term else _UNINDEXED_WORD
        self[word] = number
        return number


class _Pieces(dict[bytes, int]):
    """Maps each compound to the number of a group of terms."""

    def __init__(self, terms: _Terms) -> None:
        self._terms = terms
        self._firsts = array("I", [0])
        self._members = array("I")

    def __missing__(self, piece: bytes) -> int:
        text = piece.decode("utf-8", "surrogatepass")
        names = split_piece(text)
        number = self[piece] = len(self._firsts) - 1
        self._members.extend(self._terms[name] for name in names)
        self._firsts.append(len(self._members))
        return number

    def expand(self, groups: NDArray[np.int64], fields: Numbers) -> tuple[Numbers, Numbers]:
        """Return the terms of groups, concatenated, and the field of each."""
        firsts = np.array(self._firsts, np.int64)
        members = np.array(self._members, np.uint32)
        many = firsts[groups + 1] - firsts[groups]
        return members[spread(firsts[groups], many)], np.repeat(fields, many)


class _Members(NamedTuple):
    """The strings that make up the fields of all sections.

    `strings` has the string numbers of all fields in order, `field_parts` the number of strings of
    each field. `marks` are those of bodies, each with the string's number.
    """

    strings: NDArray[np.int64]
    field_parts: NDArray[np.int64]
    marks: list[tuple[int, str]]


def _list_strings(texts: Iterable[SectionTexts]) -> tuple[list[str], _Members]:
    """Return the distinct strings of some sections, and those of each field.

    Titles and tags repeat in many sections of a note, and are analysed once.
    """
    strings: list[str] = []
    numbers: dict[str, int] = {}
    members: list[int] = []
    parts: list[int] = []
    marks: list[tuple[int, str]] = []
    for title, tags, body, section_marks in texts:
        for each in (*title, tags):
            if (number := numbers.get(each)) is None:
                number = numbers[each] = len(strings)
                strings.append(each)
            members.append(number)
        marks += [(len(strings), mark) for mark in section_marks]
        members.append(len(strings))
        strings.append(body)
        parts += (len(title), 1, 1)
    return strings, _Members(np.array(members, np.int64), np.array(parts, np.int64), marks)


def _expand(
    terms: Numbers, lengths: NDArray[np.integer[Any]], members: _Members
) -> tuple[Numbers, Numbers]:
    """Return the terms of all fields, from those of each string, and the field of each term."""
    ends = lengths.cumsum(dtype=np.int64)
    many = lengths[members.strings].astype(np.int64)
    field = np.repeat(np.arange(len(members.field_parts), dtype=np.uint32), members.field_parts)
    return terms[spread((ends - lengths)[members.strings], many)], np.repeat(field, many)


def _make_plain(strings: list[str]) -> dict[int, list[str]]:
    """Make strings plain text in place, and return the compounds of some of them.

    These are the strings that are split into pairs of characters.
    """
    pieces: dict[int, list[str]] = {}
    for number, text in enumerate(strings):
        strings[number] = plain = plain_text(text)
        if not plain.isascii() and has_cjk(plain):
            strings[number] = " ".join(split_words(text))
            pieces[number] = list_pieces(text)
    return pieces


def _split(fields: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the range of fields (end exclusive) for blocks of similar size.

    A word takes forty bytes until it is a number.
    """
    first = size = 0
    for number, field in enumerate(fields, 1):
        size += len(field)
        if size > _BLOCK or number == len(fields):
            yield first, number
            first, size = number, 0


def _smallest(many: int) -> type[np.unsignedinteger[Any]]:
    """Return the smallest unsigned type for so many numbers."""
    return np.uint16 if many <= 1 << 16 else np.uint32


def _count(term: Whole, field: Numbers) -> tuple[Whole, Numbers, Numbers]:
    """Return terms, sections and packed counts, sorted by term, then section."""
    # Two stable sorts, because the fields are two sorted runs and 16-bit terms use a radix sort.
    # This is ten times as fast as one sort by both keys.
    order = field.argsort(kind="stable")
    order = order[term[order].argsort(kind="stable")]
    term, field = term[order], field[order]
    first = _find_firsts(term, field)
    many = np.diff(first, append=len(term))
    term = term[first]
    section, kind = np.divmod(field[first], np.uint32(len(FIELDS)))
    packed = np.minimum(many, np.array(MAX_COUNTS)[kind]).astype(np.uint32)
    packed <<= np.array(SHIFTS, np.uint32)[kind]
    first = _find_firsts(term, section)
    if not len(first):
        return term, section, packed
    return term[first], section[first], np.bitwise_or.reduceat(packed, first)


def _find_firsts(term: Whole, other: Numbers) -> NDArray[np.int64]:
    """Return the positions where the term or the other number changes."""
    is_new = np.ones(len(term), np.bool_)
    is_new[1:] = (term[1:] != term[:-1]) | (other[1:] != other[:-1])
    return np.flatnonzero(is_new)
