"""The canonical form of a text, equal for two texts that state the same.

Texts with one form differ only in case, markup, punctuation at ends and pauses, English articles,
contractions, and spellings of one word. The rules are here and in three tables. Everything else
stays as written, at its place.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import NamedTuple

from vaultmem.core.languages import find_words, read_lines, read_pairs
from vaultmem.core.notes.sections import TITLE, derive_title, is_named_for, make_name
from vaultmem.core.similarity.words import (
    ALTERNATIVES,
    CONDITIONS,
    EXCEPTIONS,
    FUTURE,
    HEDGES,
    NEGATIONS,
    ONLY,
    PAST,
    QUANTIFIERS,
    RELATIONS,
    RETRACTIONS,
    spell_american,
)
from vaultmem.core.text.patterns import compile_later

#: The end of a sentence, item or paragraph; and a pause within a sentence.
_END, _PAUSE = "\n", ","

#: Words by which a title limits its text: when, where, for whom, or whether at all.
_LIMITS = NEGATIONS | ONLY | QUANTIFIERS | EXCEPTIONS | CONDITIONS | HEDGES | ALTERNATIVES
_LIMITS |= RELATIONS | PAST | FUTURE | RETRACTIONS | find_words("denial")


class TitledText(NamedTuple):
    """A text, its title, and its file's name without the extension, "" for none."""

    text: str
    title: str
    stem: str = ""


class _Piece(NamedTuple):
    """A word or mark as written; `is_code` if it was between backticks."""

    text: str
    is_code: bool = False

    @property
    def is_mark(self) -> bool:
        return not self.is_code and self.text in {_END, _PAUSE, "?", '"'}


def state_same(first: TitledText, second: TitledText) -> bool:
    """Return whether two texts state the same under their titles.

    The words that only a title has are part of the statement, so they must be equal. Or one side
    has none, and the other note was named after its text, as its file name shows: then its title
    was changed later.
    """
    extras = [read_title(each.title, each.text) for each in (first, second)]
    is_one = extras[0] == extras[1] or (
        not all(extras)
        and (_is_named_since(first, extras[0]) or _is_named_since(second, extras[1]))
    )
    return is_one and states_same(first.text, second.text)


def _is_named_since(note: TitledText, extra: frozenset[str]) -> bool:
    """Return whether a title was given after a note was made, and adds no limit."""
    title = derive_title(note.text)
    begins = (f"{make_name(title)}-", f"{make_name(title, TITLE)} ")
    is_of_words = is_named_for(note.stem, title, is_given=True) or note.stem.startswith(begins)
    return bool(extra) and is_of_words and _LIMITS.isdisjoint(canonical_form(" ".join(extra)))


def states_same(
    text: str, other: str, title: str = "", other_title: str = "", *, may_turn: bool = False
) -> bool:
    """Return whether two texts state the same, each below its title.

    The words that only a title has are part of the statement. With `may_turn`, a phrase can be at
    the other end of a sentence: "In May we moved", "We moved in May".
    """
    if not may_say_same(len(text), len(other)):
        return False
    if read_title(title, text) != read_title(other_title, other):
        return False
    form, other_form = canonical_form(text), canonical_form(other)
    if not form:
        return text.strip() == other.strip()
    return form == other_form or (may_turn and _is_turned(form, other_form))


def may_say_same(length: int, other: int) -> bool:
    """Return whether texts of these lengths can have one form."""
    return max(length, other) <= 3 * min(length, other) + 40


def _is_turned(form: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Return whether a phrase with a preposition is at one end here, at the other there.

    False if a word such as `only` or `not` limits the words after it.
    """
    words, other_words = ([part for part in each if part != _PAUSE] for each in (form, other))
    marks = {_END, "?", '"'} | NEGATIONS | ONLY | QUANTIFIERS | EXCEPTIONS | CONDITIONS | HEDGES
    if len(words) != len(other_words) or not marks.isdisjoint(words):
        return False
    ties = RELATIONS - {"to", "of"}  # "To stop, Ole went on."
    places = range(2, len(words) - 1)
    turns = (place for place in places if words[place:] + words[:place] == other_words)
    return any(words[0] in ties or words[place] in ties for place in turns)


@lru_cache(maxsize=512)
def read_title(title: str, text: str) -> frozenset[str]:
    """Return the words that only the title has, in lower case."""
    text_words = set(re.findall(r"\w+", text.lower()))
    parts = (part.strip(".,;:!?()*") for part in title.lower().split())
    return frozenset(part for part in parts if not set(re.findall(r"\w+", part)) <= text_words)


@lru_cache(maxsize=512)
def canonical_form(text: str) -> tuple[str, ...]:
    """Return the words of a text in order, with the marks that can have a meaning.

    A text with code blocks returns its lines.
    """
    text = unicodedata.normalize("NFC", text).strip()
    if _FENCE.search(text):
        return tuple(line.rstrip() for line in text.splitlines())
    pieces = list(_read_pieces(text))
    words = {piece.text.lower() for piece in pieces}
    is_german = len(words & find_words("mark", "de")) > len(words & find_words("mark", "en"))
    is_shouted = text.isupper()
    pieces = _drop_articles(_drop_pauses(pieces), is_german, is_shouted)
    form: list[str] = []
    for piece in pieces:
        form.extend(_unify(piece, form[-1] if form else "", is_german, is_shouted))
    return tuple(form)


_FENCE, _CODE = compile_later(r"^[ \t]*(?:```|~~~)", re.M), compile_later(r"(?<!`)`([^`\n]+)`(?!`)")
_LINE_MARK = compile_later(r"[ \t]*(?:(?:[-*+]|\#{1,6})[ \t]+(?![\d \t])|(?=\d+[.)][ \t]|[>|]))")

#: Markup, then marks with several spellings. The target of a link stays.
_MARKUP_REPLACEMENTS = (
    (compile_later(r"\[( |x|X)\](?=\s)"), r" [\1] "),
    (compile_later(r"\[([^\[\]\n]*)\]\(([^()\s]*)\)"), r"\1 \2"),
    (compile_later(r"(?<![\w*])(\*{1,3})(?=[^\s*])([^*]*[^\s*])\1(?![\w*])"), r"\2"),
    (compile_later(r"(?<!\w)_(?=[^\s_])([^_]*[^\s_])_(?!\w)"), r"\1"),
    (compile_later(r"[’‘ʼ]"), "'"),
    (compile_later(r"[“”„«»]|``|''"), '"'),
    (compile_later(r"(?<!\w)([\"'])([^\s\"']+)\1(?!\w)"), r"\2"),
    (compile_later(r"(?<=\d)[–−](?=\d)|(?<!\w)−(?=\d)"), "-"),
    (compile_later(r"[—–]|(?<=[^\W\d]) - (?=[^\W\d])"), " , "),
    (compile_later("…"), "... "),
)


#: Without one of these, no pattern above matches.
_MARKED = compile_later(r"[\[*_'\"`’‘ʼ“”„«»–—−…]| - ")


def _read_pieces(text: str) -> Iterator[_Piece]:
    for line in text.splitlines():
        mark = _LINE_MARK.match(line)
        if mark or not line.strip():
            yield _Piece(_END)
        line = line[mark.end() :] if mark else line
        for number, part in enumerate(_CODE.split(line)):
            if number % 2:
                yield from (_Piece(each, is_code=True) for each in part.split())
            else:
                yield from _read_plain(part)
        if mark and "#" in mark.group():
            yield _Piece(_END)


def _read_plain(text: str) -> Iterator[_Piece]:
    """Yield words, and the marks around them: `(see foo());` is `, see foo() . `."""
    if _MARKED.search(text):
        for pattern, replacement in _MARKUP_REPLACEMENTS:
            text = pattern.sub(replacement, text)
    for chunk in text.split():
        if chunk.isalnum():
            yield _Piece(chunk)
            continue
        if chunk in {"[", "]"}:
            yield _Piece(chunk)
            continue
        opening, chunk = _take(chunk, _OPENING)
        closing, chunk = _take(chunk, _CLOSING)
        if chunk.count("(") > chunk.count(")") and closing.startswith(")"):
            chunk, closing = f"{chunk})", closing[1:]
        if chunk.count("[") > chunk.count("]") and closing.startswith("]"):
            chunk, closing = f"{chunk}]", closing[1:]
        yield from _read_marks(opening)
        if chunk:
            yield _Piece(chunk)
        yield from _read_marks(closing)


_OPENING, _CLOSING = compile_later(r"^[(\"\[]+"), compile_later(r"[.,;:!?)\"\]]+$")


def _take(chunk: str, pattern: re.Pattern[str]) -> tuple[str, str]:
    match = pattern.search(chunk)
    if not match:
        return "", chunk
    return match.group(), chunk[: match.start()] + chunk[match.end() :]


def _read_marks(marks: str) -> Iterator[_Piece]:
    for mark in marks:
        if mark in ".;!":
            yield _Piece(_END)
        elif mark in ",:()":
            yield _Piece(_PAUSE)
        elif mark in '?"':
            yield _Piece(mark)


def _drop_pauses(pieces: list[_Piece]) -> list[_Piece]:
    """Return the pieces without pauses next to stronger marks, and before words that need none."""
    kept_pieces: list[_Piece] = []
    for place, piece in enumerate(pieces):
        last_mark = kept_pieces[-1].text if kept_pieces and kept_pieces[-1].is_mark else ""
        next_piece = pieces[place + 1] if place + 1 < len(pieces) else _Piece(_END)
        if piece.is_mark and piece.text == _PAUSE:
            is_redundant = next_piece.is_mark and next_piece.text != '"'
            if not kept_pieces or last_mark in {_END, _PAUSE, "?"} or is_redundant:
                continue
            if next_piece.text.lower() in find_words("after-pause") and not next_piece.is_code:
                continue
        if piece.is_mark and piece.text == _END and (not kept_pieces or last_mark in {_END, "?"}):
            continue
        if piece.is_mark and piece.text == "?" and last_mark in {_END, "?"}:
            kept_pieces.pop()
        kept_pieces.append(piece)
    while kept_pieces and kept_pieces[-1].is_mark and kept_pieces[-1].text in {_END, _PAUSE}:
        kept_pieces.pop()
    return kept_pieces


def _drop_articles(pieces: list[_Piece], is_german: bool, is_shouted: bool) -> list[_Piece]:
    """Return the pieces without articles, except where one can change the meaning.

    After a preposition, every article becomes "the": "on the call" is not "on call".
    """
    kept_pieces: list[_Piece] = []
    for place, piece in enumerate(pieces):
        if not _is_idle_article(pieces, place, is_german, is_shouted):
            kept_pieces.append(piece)
        elif place and pieces[place - 1].text.lower() in RELATIONS:
            kept_pieces.append(_Piece("the"))
    return kept_pieces


def _is_idle_article(pieces: list[_Piece], place: int, is_german: bool, is_shouted: bool) -> bool:
    raw = pieces[place].text
    if (
        pieces[place].is_code
        or raw.lower() not in find_words("article")
        or place + 1 == len(pieces)
    ):
        return False
    if is_german and raw.lower() != "the":
        return False  # "Schalte das Licht an."
    is_first = place == 0 or (pieces[place - 1].is_mark and pieces[place - 1].text in {_END, "?"})
    if not (raw.islower() or is_first or is_shouted):
        return False  # "Vitamin A"
    next_piece = pieces[place + 1]
    word = next_piece.text.lower()
    needs_article = (
        word in find_words("needs-article") or not _read_same().get(word, word)[:1].isalpha()
    )
    return len(word) > 1 and not needs_article


_NUMBER = compile_later(r"[^\w\s]*\d[\d.,:]*")
_QUANTITY = compile_later(r"([^\w\s]*\d[\d.,:]*)([^\W\d_]+|%)")
_SHORT_UNIT = compile_later(r"[^\W\d_]{1,3}|%")


def _unify(piece: _Piece, before: str, is_german: bool, is_shouted: bool) -> tuple[str, ...]:
    """Return a piece in its one form, after a number also units of time."""
    if piece.is_code or piece.is_mark:
        return (piece.text,)
    words = _unify_word(piece.text, is_german, is_shouted)
    if not before[-1:].isdigit() or not _NUMBER.fullmatch(before):
        return words
    units = _read_units("de" if is_german else "en")
    if _SHORT_UNIT.fullmatch(piece.text):  # `10 MB` is not `10 Mb`.
        return (units.get(piece.text, piece.text),)
    return (units.get(words[0], words[0]), *words[1:])


@lru_cache(maxsize=20_000)
def _unify_word(raw: str, is_german: bool, is_shouted: bool) -> tuple[str, ...]:
    """Return the one form of a word: several words for a contraction."""
    units = _read_units("de" if is_german else "en")
    if (match := _QUANTITY.fullmatch(raw)) and match[2] in units:
        return match[1], units[match[2]]
    word = _fold_case(raw, is_shouted)
    if word in _read_contractions():
        return tuple(_read_contractions()[word].split())
    if not is_german and word.isalpha():
        word = spell_american(word)
    return (_read_same().get(word, word),)


def _fold_case(raw: str, is_shouted: bool) -> str:
    """Return a word in lower case, except for `userId`, `a.B`, `IT` and `US`, whose case counts."""
    if is_shouted:
        return raw.lower()
    letters = re.sub(r"['-]", "", raw)
    if not letters.isalpha() or not raw[0].isupper():
        return raw
    is_other = raw.isupper() and raw.lower() in find_words("other-in-capitals")
    is_letter = len(raw) == 1 and raw not in "AI"
    return raw if is_other or is_letter else raw.lower()


@cache
def _read_units(language: str) -> dict[str, str]:
    """Return the words for units of time and for percent, with their one form."""
    pairs = {**read_pairs("units", "en"), **read_pairs("units", language)}
    return {word: form for word, form in pairs.items() if form.startswith(("time ", "percent "))}


@cache
def _read_contractions() -> dict[str, str]:
    return read_pairs("contractions")


@cache
def _read_same() -> dict[str, str]:
    """Return the one form for each word of a group."""
    groups = [line.split() for line in read_lines("same")]
    return {word: group[0] for group in groups for word in group}
