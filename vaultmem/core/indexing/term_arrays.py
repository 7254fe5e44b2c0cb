"""Terms and positions of many sections as arrays, analysed together.

What is written in one piece is found by comparing arrays of bytes: single marks that join two
letters, and a capital behind a small letter.
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
    pieces = _slice(lowered, starts[first], ends[last]) + _slice(
        joined, starts[camels], ends[camels]
    )
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


def _slice(text: bytes, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> list[bytes]:
    spans = zip(starts.tolist(), ends.tolist(), strict=True)
    return [text[start:end] for start, end in spans]


def find_figures(kinds: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return where a comma stands between two digits."""
    commas = np.flatnonzero(kinds == _COMMA)
    found: NDArray[np.int64] = commas[(kinds[commas - 1] == _DIGIT) & (kinds[commas + 1] == _DIGIT)]
    return found


def find_marked(joined: bytes) -> list[int]:
    """Return where joined texts have what can be one of `NAMES`."""
    lowered = joined.translate(_LOWERED)
    names = (re.escape(name.encode()) for name in NAMES)
    return [found.start() for name in names for found in re.finditer(name, lowered)]


# The terms of many sections as flat arrays, found by calls that run in C from end to end.
#
# The texts of all sections are joined, put into lower case and split at once; each different word
# is looked at once, and from then on it is a number in a dictionary. The terms are those that
# `core.finding.terms` gives text by text.

Numbers = NDArray[np.uint32]
Whole = NDArray[np.unsignedinteger[Any]]

#: A packed count has that of the title in bits 16 to 19, of the tags in 12 to 15, of the body in 0
#: to 11, and `MOST` of each at most.
SHIFTS = (16, 12, 0)
MOST = (15, 15, 4095)

#: Characters that are split into words at once.
_BLOCK = 300_000


class TermArrays(NamedTuple):
    """The terms of some sections; a term's number is its place in `terms` (UTF-8).

    `term`, `section` and `packed` have an entry for each term of each section, its counts packed.
    `sequence` has the numbers of all sections' terms in their order, title, tags and body one
    after another, without stop words and what is written in one piece; `lengths` (shape: sections,
    3) says how many each field has there.
    """

    terms: list[bytes]
    term: Whole
    section: Whole
    packed: Numbers
    sequence: Whole
    lengths: Numbers


class TermCounter:
    """Counts terms, and keeps what it learned of words for the next texts."""

    def __init__(self, most: int = 300_000) -> None:
        """Take how many different words are remembered at most."""
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
        found = [(empty, empty, empty, empty)]
        found += [self._number(strings, pieces, *span) for span in _split(strings)]
        marked = np.array([self._terms[mark] for _, mark in members.marks], np.uint32)
        found.append((empty, empty, marked, np.array([n for n, _ in members.marks], np.uint32)))
        words, lengths, others, place = map(np.concatenate, zip(*found, strict=True))
        sequence, field = _expand(words, lengths, members)
        others = others[place.argsort(kind="stable")]
        whole, whole_field = _expand(others, np.bincount(place, minlength=len(strings)), members)
        numbers, used = self._renumber(np.concatenate([words, others]))
        term, section, packed = _count(
            numbers[np.concatenate([sequence, whole])], np.concatenate([field, whole_field])
        )
        fields = len(members.field_parts)
        return TermArrays(
            terms=[self._terms.names[number] for number in used.tolist()],
            term=term,
            section=section.astype(_smallest(fields)),
            packed=packed,
            sequence=numbers[sequence],
            lengths=np.bincount(field, minlength=fields).astype(np.uint32).reshape(-1, len(FIELDS)),
        )

    def _renumber(self, terms: Numbers) -> tuple[Whole, NDArray[np.int64]]:
        """Return the number of each term among those that are used, and these."""
        is_used = np.zeros(len(self._terms.names), np.bool_)
        is_used[terms] = True
        used = np.flatnonzero(is_used)
        numbers = np.zeros(len(is_used), _smallest(len(used)))
        numbers[used] = np.arange(len(used))
        return numbers, used

    def _number(
        self, fields: Sequence[str], pieces: Mapping[int, list[str]], first: int, last: int
    ) -> tuple[Numbers, Numbers, Numbers, Numbers]:
        """Return the terms of some strings in their order, and how many each string has.

        Behind these, their stop words and the terms of what they write in one piece, and the string
        of each; `pieces` has such pieces that were found already.
        """
        joined = join_texts(fields[first:last])
        words = split_joined(joined)
        numbers = np.fromiter(map(self._words.__getitem__, words), np.uint32, len(words))
        is_end = numbers == _ENDING
        stops = (numbers >= _STOP).nonzero()[0]
        kept = (numbers > _ENDING) & (numbers < _STOP)
        before = kept.cumsum(dtype=np.uint32)[is_end]
        stopped = is_end.cumsum(dtype=np.uint32)[stops] + np.uint32(first) - np.uint32(1)
        ends, kinds = find_ends(joined), find_kinds(joined)
        found, places = find_pieces(joined, kinds)
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
        found += [each.encode("utf-8", "surrogatepass") for _, each in more]
        field = np.concatenate([field, np.array([n for n, _ in more], np.int64)])
        groups = np.fromiter(map(self._pieces.__getitem__, found), np.int64, len(found))
        expanded = self._pieces.expand(groups, field.astype(np.uint32))
        seconds, pairs = self._pairs.find(numbers & ~_STOP)
        paired = is_end.cumsum(dtype=np.uint32)[seconds] + np.uint32(first) - np.uint32(1)
        others = np.concatenate([numbers[stops] - _STOP, pairs, expanded[0]])
        place = np.concatenate([stopped, paired, expanded[1]])
        return numbers[kept], np.diff(before), others, place


class _Terms(dict[str, int]):
    """The number of each term; `names` are their UTF-8."""

    def __init__(self) -> None:
        self.names: list[bytes] = [b"", b""]  # Of `_DROPPED` and `_ENDING`.

    def __missing__(self, term: str) -> int:
        number = self[term] = len(self.names)
        self.names.append(term.encode("utf-8", "surrogatepass"))
        return number


class _Pairs(NamedTuple):
    """The number of the term of two words as one, by their own; 0 for all other pairs."""

    joined: Numbers

    def find(self, numbers: Numbers) -> tuple[NDArray[np.int64], Numbers]:
        """Return where the second words of pairs are, and the terms of the pairs."""
        is_member = numbers < len(self.joined)
        seconds = (is_member[1:] & is_member[:-1]).nonzero()[0] + 1
        found = self.joined[numbers[seconds - 1], numbers[seconds]]
        return seconds[found > 0], found[found > 0]


def _number_pairs(terms: _Terms) -> _Pairs:
    """Give the words of pairs the first numbers."""
    pairs = list_joined()
    members = [(terms[one], terms[two]) for one, two in pairs]
    joined = np.zeros((len(terms.names),) * 2, np.uint32)
    for (one, two), name in zip(members, pairs.values(), strict=True):
        joined[one, two] = terms[name]
    return _Pairs(joined)


#: Numbers without a term: a word that is not indexed, and the end of a field.
_DROPPED, _ENDING = 0, 1

#: Added to the number of a stop word's term.
_STOP = np.uint32(1 << 31)


class _Words(dict[bytes, int]):
    """The number of the term of each word."""

    def __init__(self, terms: _Terms) -> None:
        self[END.encode()] = _ENDING
        self._terms = terms

    def __missing__(self, word: bytes) -> int:
        text = word.decode("utf-8", "surrogatepass")
        if term := find_stem(text):
            number = self._terms[term]
        else:
            term = mark_stop_word(text)
            number = self._terms[term] + int(_STOP) if term else _DROPPED
        self[word] = number
        return number


class _Pieces(dict[bytes, int]):
    """The number of a group of terms for each piece of text that has several words."""

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
        """Return the terms of groups one after another, and the field of each."""
        firsts = np.array(self._firsts, np.int64)
        members = np.array(self._members, np.uint32)
        many = firsts[groups + 1] - firsts[groups]
        return members[spread(firsts[groups], many)], np.repeat(fields, many)


class _Members(NamedTuple):
    """Which strings the fields of all sections are made of.

    `strings` has those of all fields one after another, `field_parts` how many each field has;
    `marks` are those of bodies, each with the string's number.
    """

    strings: NDArray[np.int64]
    field_parts: NDArray[np.int64]
    marks: list[tuple[int, str]]


def _list_strings(texts: Iterable[SectionTexts]) -> tuple[list[str], _Members]:
    """Return the different strings of some sections, and which each field has.

    Titles and tags are the same in many sections of a note, and are looked at once.
    """
    strings: list[str] = []
    known: dict[str, int] = {}
    members: list[int] = []
    parts: list[int] = []
    marks: list[tuple[int, str]] = []
    for title, tags, body, marked in texts:
        for each in (*title, tags):
            if (number := known.get(each)) is None:
                number = known[each] = len(strings)
                strings.append(each)
            members.append(number)
        marks += [(len(strings), mark) for mark in marked]
        members.append(len(strings))
        strings.append(body)
        parts += (len(title), 1, 1)
    return strings, _Members(np.array(members, np.int64), np.array(parts, np.int64), marks)


def _expand(
    terms: Numbers, lengths: NDArray[np.integer[Any]], members: _Members
) -> tuple[Numbers, Numbers]:
    """Return the terms of all fields, given those of each string, and the field of each term."""
    ends = lengths.cumsum(dtype=np.int64)
    many = lengths[members.strings].astype(np.int64)
    field = np.repeat(np.arange(len(members.field_parts), dtype=np.uint32), members.field_parts)
    return terms[spread((ends - lengths)[members.strings], many)], np.repeat(field, many)


def _make_plain(strings: list[str]) -> dict[int, list[str]]:
    """Make strings plain text in place, and return what some of them write in one piece.

    These are the ones that are cut into pairs of characters.
    """
    pieces: dict[int, list[str]] = {}
    for number, text in enumerate(strings):
        strings[number] = plain = plain_text(text)
        if not plain.isascii() and has_cjk(plain):
            strings[number] = " ".join(split_words(text))
            pieces[number] = list_pieces(text)
    return pieces


def _split(fields: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the first field and the last, exclusive, of each block of about the same size.

    A word takes forty bytes until it is a number.
    """
    first = size = 0
    for number, field in enumerate(fields, 1):
        size += len(field)
        if size > _BLOCK or number == len(fields):
            yield first, number
            first, size = number, 0


def _smallest(many: int) -> type[np.unsignedinteger[Any]]:
    """Return the smallest kind of number that tells so many things from each other."""
    return np.uint16 if many <= 1 << 16 else np.uint32


def _count(term: Whole, field: Numbers) -> tuple[Whole, Numbers, Numbers]:
    """Return terms, sections and packed counts in the order of terms, then of sections."""
    # Two stable sorts: the fields are in order but for two runs, and terms of 16 bits take a radix
    # sort, which is ten times as fast as sorting by both at once.
    order = field.argsort(kind="stable")
    order = order[term[order].argsort(kind="stable")]
    term, field = term[order], field[order]
    first = _find_firsts(term, field)
    many = np.diff(first, append=len(term))
    term = term[first]
    section, kind = np.divmod(field[first], np.uint32(len(FIELDS)))
    packed = np.minimum(many, np.array(MOST)[kind]).astype(np.uint32)
    packed <<= np.array(SHIFTS, np.uint32)[kind]
    first = _find_firsts(term, section)
    if not len(first):
        return term, section, packed
    return term[first], section[first], np.bitwise_or.reduceat(packed, first)


def _find_firsts(term: Whole, other: Numbers) -> NDArray[np.int64]:
    """Return where a term or the other number differs from the one before."""
    is_new = np.ones(len(term), np.bool_)
    is_new[1:] = (term[1:] != term[:-1]) | (other[1:] != other[:-1])
    return np.flatnonzero(is_new)
