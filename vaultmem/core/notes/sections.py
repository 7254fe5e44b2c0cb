"""Sections: a heading and its text, titles, full texts and sentences."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain
from typing import NamedTuple

from vaultmem.core.languages import find_words, read_lines, read_words
from vaultmem.core.text.paths import is_conflict_copy, is_forbidden, is_reserved
from vaultmem.core.text.patterns import compile_later

#: Replaces hidden characters. No note contains it, because it is not text.
MASK_CHAR = "\0"

# Possessive, so that no line of a megabyte takes quadratic time. A byte order mark is skipped.
_BLOCK = (
    r"(?P<line>\ufeff? {0,3}(?:(?P<marks>#{1,6})[ \t](?P<text>[^\r\n]*+)"
    r"|(?P<fence>`{3,}+|~{3,}+)(?P<info>[^\r\n]*+))\r?)$"
)
_FIRST_BLOCK = compile_later("^" + _BLOCK, re.MULTILINE)
#: Search for line breaks is fast, but `^` is tried at each character.
_FURTHER_BLOCK = compile_later(r"\n(?=[#`~ \ufeff])" + _BLOCK, re.MULTILINE)

#: Most headings of a note; further ones are read as plain text.
MAX_SECTIONS = 2_000


class Blocks(NamedTuple):
    """The headings of a text, and the spans of its fenced code, fence lines included.

    A heading is (offset, offset after the line, level, text without closing marks).
    """

    headings: Sequence[tuple[int, int, int, str]]
    fences: Sequence[tuple[int, int]]


class Section(NamedTuple):
    """A heading ("" for text before the first) and the character span of its own text.

    `parents` are the headings above it, outermost first; `line` is the 1-based line of the
    heading, or of the text without a heading.
    """

    ordinal: int
    heading: str
    parents: tuple[str, ...]
    start: int
    end: int
    line: int


def split_sections(
    text: str, body: int, headings: Sequence[tuple[int, int, int, str]] | None = None
) -> tuple[tuple[Section, ...], str]:
    """Return the sections of the text from offset `body`, and the heading that is its title.

    The title is a level 1 heading before any text, else "". A heading without own text makes no
    section, but it is in `parents`. There is at least one section. `headings` are those of the
    text, if known. Hidden text (`core.notes.comments`) does not count as text.
    """
    if headings is None:
        headings = find_blocks(text, body).headings
    if not headings:
        line = text.count("\n", 0, body) + 1
        return (Section(0, heading="", parents=(), start=body, end=len(text), line=line),), ""
    sections: list[Section] = []
    above: list[tuple[int, tuple[str, ...]]] = []  # Levels, and the headings above.
    line, counted = text.count("\n", 0, body) + 1, body
    ends = [*(begin for begin, _, _, _ in headings), len(text)]
    spans = [(body, body, 0, ""), *headings]
    for (begin, start, level, heading), end in zip(spans, ends, strict=True):
        while above and above[-1][0] >= level:
            above.pop()
        parents = above[-1][1] if above else ()
        line, counted = line + text.count("\n", counted, begin), begin
        own = text[start:end]
        if own and not own.replace(MASK_CHAR, " ").isspace():
            sections.append(Section(len(sections), heading, parents, start, end, line))
        if heading:
            above.append((level, (*parents, heading)))
    if not sections:
        begin, start, _, heading = headings[0]
        line = text.count("\n", 0, begin) + 1
        sections.append(Section(0, heading, (), start, start, line))
    begin, _, level, heading = headings[0]
    is_title = level == 1 and not text[body:begin].replace(MASK_CHAR, " ").strip("\ufeff \t\r\n")
    return tuple(sections), heading if is_title else ""


def find_blocks(text: str, body: int) -> Blocks:
    """Return the headings and the fenced code from offset `body`; headings in code are text.

    Source: CommonMark 0.31, "ATX headings", "Fenced code blocks".
    """
    headings: list[tuple[int, int, int, str]] = []
    fences: list[tuple[int, int]] = []
    start, opened = -1, ""
    first = _FIRST_BLOCK.match(text, body)
    for match in chain([first] if first else [], _FURTHER_BLOCK.finditer(text, body)):
        _, marks, heading, fence, info = match.groups()
        if marks:
            heading = _strip_heading(heading)
            if heading and not opened and len(headings) < MAX_SECTIONS:
                headings.append((match.start(1), match.end(), len(marks), heading))
        elif not opened:
            if fence[0] == "~" or "`" not in info:
                start, opened = match.start(1), fence
        elif fence.startswith(opened) and not info.strip():
            fences.append((start, match.end()))
            opened = ""
    if opened:
        fences.append((start, len(text)))
    return Blocks(headings, fences)


def _strip_heading(text: str) -> str:
    """Return a heading without closing `##`."""
    text = text.replace(MASK_CHAR, "").strip()
    if not text.endswith("#"):
        return text
    bare = text.rstrip("#")
    return bare.rstrip() if not bare or bare[-1] in " \t" else text


def find_fences(text: str, body: int) -> Sequence[tuple[int, int]]:
    """Return the spans of fenced code from offset `body`, in order, fence lines included."""
    return find_blocks(text, body).fences if "```" in text or "~~~" in text else ()


def blank_fences(text: str, fences: Sequence[tuple[int, int]]) -> str:
    """Return a text of the same length with each fenced code block as one long word."""
    if not fences:
        return text
    parts: list[str] = []
    place = 0
    for start, end in fences:
        parts += (text[place:start], "x" * (end - start))
        place = end
    return "".join([*parts, text[place:]])


# Conversion between a note's title and its file name.

#: Styles of names: as people write titles, or lower-case words joined by hyphens.
TITLE, KEBAB = "title", "kebab"

#: Target length of a name in characters; a clause between the other two lengths is kept whole.
_TARGET_NAME_CHARS, _MAX_CLAUSE_CHARS, _MIN_CLAUSE_CHARS = 40, 48, 24

#: Fewest letters and digits of a name that can match a title by its beginning.
_MIN_PREFIX_CHARS = 12

_LINK_PATTERN = compile_later(r"!?\[\[(?:[^\[\]|]*\|)?([^\[\]|]*)\]\]|!?\[([^\[\]]*)\]\([^()\s]*\)")
_IN_NUMBERS = compile_later(r"(?<=\d):(?=\d)")
_FORBIDDEN_MARKS = compile_later(r"[\"`#^\[\]/*]|%%+|==+|~~+|__+")
_CLAUSE_END = tuple(",;:.!?)–—")
_APOSTROPHES = compile_later(r"['’]+")


def derive_title(text: str) -> str:
    """Return a text's first line without marks, at most 80 characters and "..."."""
    line = text.lstrip().partition("\n")[0]
    words = " ".join(line.strip().lstrip("#>-* ").split())
    if len(words) <= 80:
        return words.rstrip(".") or "Note"
    return words[:80].rsplit(" ", 1)[0].rstrip(",;:.") + " ..."


def make_name(title: str, style: str = KEBAB) -> str:
    """Return a file name without ending, made by shortening a title.

    It contains only characters that Obsidian, git and all systems allow. It has about 40 of them,
    and does not end with a function word.
    """
    name = _shorten(_tidy(title))
    if style == KEBAB or is_conflict_copy(name):
        name = _hyphenate(name)
    name = re.sub(r"\.md$", "", name.strip(" .,;:-–—_~$&+"), flags=re.IGNORECASE)
    name = name or ("note" if style == KEBAB else "Note")
    return f"{name}{'-note' if style == KEBAB else ' note'}" if is_reserved(name) else name


def number_name(name: str, number: int, style: str = KEBAB) -> str:
    """Return a name with a number for the second, third ... note of that name."""
    return name if number == 1 else f"{name}{'-' if style == KEBAB else ' '}{number}"


def is_named_for(stem: str, title: str, is_given: bool = False) -> bool:
    """Return whether a file name was made from a title or from its beginning.

    A number after a beginning is ignored; with `is_given`, after any name.
    """
    plain = _plain(title)
    whole = _squeeze(plain)
    first, _, rest = plain.partition(" ")
    wholes = (whole, _squeeze(rest)) if len(first) <= 4 else (whole,)
    short, bare = _squeeze(stem), _squeeze(re.sub(r"[ -]\d+$", "", stem))
    if short == whole or (is_given and bare == whole):
        return bool(short)
    if len(plain) <= _TARGET_NAME_CHARS or len(bare) < _MIN_PREFIX_CHARS:
        return False
    return any(each.startswith((short, bare)) for each in wholes)


def find_title(stem: str, heading: str, aliases: tuple[str, ...], body: str) -> str:
    """Return the title of a note without the property `title`.

    The first alias if the file name is short for it; else `heading`; else the first line if the
    name is short for that; else the name. `body` is the visible text.
    """
    if aliases and is_named_for(stem, aliases[0], is_given=True):
        return aliases[0]
    if heading:
        return heading
    line = body.lstrip()[:400].partition("\n")[0]
    if "\0" in line or not line:
        return stem
    title = derive_title(line)
    return title if is_named_for(stem, title) else stem


def _tidy(title: str) -> str:
    """Return a title without markup and characters that file names cannot contain."""
    text = _IN_NUMBERS.sub(".", _FORBIDDEN_MARKS.sub(" ", _plain(title)))
    text = text.replace(": ", " - ")
    name = "".join(" " if is_forbidden(mark) else mark for mark in text)
    return re.sub(r" +(?=[,;.!)])", "", " ".join(name.split()))


def _plain(title: str) -> str:
    """Return a title in one line in NFC, with links replaced by their words."""
    text = _LINK_PATTERN.sub(lambda link: link[1] or link[2] or " ", title[:400])
    text = unicodedata.normalize("NFC", text.removesuffix(" ..."))
    return " ".join(text.split())


def _squeeze(text: str) -> str:
    """Return only the letters and digits of a text, which all name styles keep."""
    return "".join(mark for mark in unicodedata.normalize("NFC", text).casefold() if mark.isalnum())


def _shorten(text: str) -> str:
    if len(text) <= _TARGET_NAME_CHARS:
        return text
    words = text.split(" ")
    if words[0].casefold() in find_words("article") and len(words) > 1:
        words[:2] = [words[1][0].upper() + words[1][1:]]
    starts = find_words("conjunction") | find_words("clausal") | find_words("condition")
    count, length = 0, -1
    clause = 0
    for number, word in enumerate(words):
        length += 1 + len(word)
        if length > _MAX_CLAUSE_CHARS:
            break
        count = number + 1 if length <= _TARGET_NAME_CHARS else count
        following = words[number + 1].casefold() if number + 1 < len(words) else ""
        is_end = word.endswith(_CLAUSE_END) or following in starts or following[:1] in "-–—("
        if length >= _MIN_CLAUSE_CHARS and is_end:
            clause = number + 1
    return _end_well(words[: clause or count]) or words[0][:_TARGET_NAME_CHARS]


def _end_well(words: list[str]) -> str:
    """Return words as one text, without function words or an open parenthesis at the end."""
    dangling = find_words("function") | find_words("negation") | find_words("condition")
    while len(words) > 1 and words[-1].casefold().strip(",;:-–—") in {*dangling, ""}:
        words = words[:-1]
    name = " ".join(words)
    opened = name.rfind("(")
    return name[:opened] if name.find(")", opened) < 0 and opened > 0 else name


def _hyphenate(name: str) -> str:
    marks = (
        mark if mark.isalnum() or mark == "+" or unicodedata.category(mark)[0] == "M" else " "
        for mark in _APOSTROPHES.sub("", name.lower())
    )
    return "-".join("".join(marks).split())


# Compacted notes and the location of their full text: `full_text: BLOB@COMMIT`.
#
# The blob is read: it stays the same when a note is renamed or its history is rebased. The commit
# contained it, and is for people.

_FULL_TEXT = compile_later(r"([0-9a-f]{12})@([0-9a-f]{7,40})")


#: The text before keywords, and between them.
_KEYWORDS, _KEYWORD_SEPARATOR = "Keywords: ", ", "


def format_keywords(words: Sequence[str]) -> str:
    """Return the text of a note compacted to keywords, "" without keywords."""
    return f"{_KEYWORDS}{_KEYWORD_SEPARATOR.join(words)}" if words else ""


def read_keywords(sentence: str) -> list[str]:
    """Return the keywords of a sentence written by `format_keywords`, else an empty list."""
    words = sentence.removeprefix(_KEYWORDS)
    return [] if words == sentence else words.split(_KEYWORD_SEPARATOR)


def format_full_text(blob: str, commit: str) -> str:
    """Return the value of the property `full_text`."""
    return f"{blob[:12]}@{commit[:7]}"


def check_full_text(value: str) -> str:
    """Return the value if it is a valid `full_text`, else ""."""
    return value if _FULL_TEXT.fullmatch(value) else ""


def describe_shortened(value: str) -> str:
    """Return a message about a compacted note with this value, or ""."""
    return f"shortened; full text at {value.partition('@')[2]}" if value else ""


# Sentence ends: not after an abbreviation, an initial or a date.
#
# Most abbreviations are found by their form; the rest are in each language's `abbreviations.txt`.
# In doubt a sentence continues, since half a sentence is worse than two.

_END = compile_later(r"(?<=[.!?…])[\"'”’)\]*_]*\s+|(?<=[。！？])\s*")
_LAST_WORD = compile_later(r"(?<![\w'’])(?:[^\W_]+\.)*([^\W_]+)\.$")
_NEXT_WORD = compile_later(r"[^\W\d_]+")

#: Longest abbreviation found by a rule, and most text read before a stop, in characters.
_MAX_ABBREVIATION_CHARS, _MAX_CONTEXT_CHARS = 4, 40


def find_sentence_ends(text: str, start: int = 0) -> Iterator[int]:
    """Yield the offset after each sentence but the last and the blanks that follow it."""
    for match in _END.finditer(text, start):
        if not _goes_on(text, *match.span()):
            yield match.end()


def _goes_on(text: str, stop: int, after: int) -> bool:
    """Return whether a sentence continues after the mark before `stop`, at offset `after`."""
    following = text[after : after + 1]
    if following.islower():
        return True
    word = _LAST_WORD.search(text, max(stop - _MAX_CONTEXT_CHARS, 0), stop)
    return word is not None and _is_short(
        word[1], word[0], following, text[after : after + _MAX_CONTEXT_CHARS]
    )


def _is_short(word: str, whole: str, following: str, rest: str) -> bool:
    """Return whether a word before a stop is an abbreviation, an initial or part of a date.

    `whole` is the word with the parts that dots join to it; `following` is the first character of
    `rest`.
    """
    if word.isdigit():  # 3. März
        month = _NEXT_WORD.match(rest) if len(whole) <= len("31.") else None
        return month is not None and month[0].lower() in _months()
    if len(word) == 1:  # J. Smith, e.g. Rome
        return True
    if len(word) <= _MAX_ABBREVIATION_CHARS and word.isalpha() and following.isdigit():  # No. 5
        return True
    return _is_without_vowel(word) or word.lower() in read_words("abbreviations")


def _is_without_vowel(word: str) -> bool:
    """Return whether a word is a short capitalized one without vowels, as Dr and Mrs; not DNS."""
    return (
        len(word) <= _MAX_ABBREVIATION_CHARS
        and word.isascii()
        and word.istitle()
        and not set("aeiouy").intersection(word.lower())
    )


@cache
def _months() -> frozenset[str]:
    return frozenset(line.partition(" ")[0] for line in read_lines("months"))
