"""A note's title and its file's name: each is read, or made, from the other."""

from __future__ import annotations

import re
import unicodedata

from vaultmem.core.languages import find_words
from vaultmem.core.paths import is_conflict_copy, is_forbidden, is_reserved

#: Styles of names: as people write titles, or as words in lower case joined by hyphens.
TITLE, KEBAB = "title", "kebab"

#: Characters of a name, about: a clause that ends a little later is taken whole, if it is no stub.
_LENGTH, _MOST, _LEAST = 40, 48, 24

#: Letters and digits from which on a name can only be the beginning of the title that it begins.
_TELLING = 12

_LINKED = re.compile(r"!?\[\[(?:[^\[\]|]*\|)?([^\[\]|]*)\]\]|!?\[([^\[\]]*)\]\([^()\s]*\)")
_IN_NUMBERS = re.compile(r"(?<=\d):(?=\d)")
_UNWANTED = re.compile(r"[\"`#^\[\]/*]|%%+|==+|~~+|__+")
_CLAUSE_END = tuple(",;:.!?)–—")
_APOSTROPHES = re.compile(r"['’]+")


def derive_title(text: str) -> str:
    """Return a text's first line without marks, 80 characters at most."""
    line = text.lstrip().partition("\n")[0]
    words = " ".join(line.strip().lstrip("#>-* ").split())
    if len(words) <= 80:
        return words.rstrip(".") or "Note"
    return words[:80].rsplit(" ", 1)[0].rstrip(",;:.") + " ..."


def make_name(title: str, style: str = KEBAB) -> str:
    """Return a file's name, without its ending, as a person would shorten a title to it.

    It has no character that Obsidian, git or any system refuses. It ends with a word, about 40
    characters on, and none that only holds others together.
    """
    name = _shorten(_tidy(title))
    if style == KEBAB or is_conflict_copy(name):
        name = _hyphenate(name)
    name = re.sub(r"\.md$", "", name.strip(" .,;:-–—_~$&+"), flags=re.IGNORECASE)
    name = name or ("note" if style == KEBAB else "Note")
    return f"{name}{'-note' if style == KEBAB else ' note'}" if is_reserved(name) else name


def number_name(name: str, number: int, style: str = KEBAB) -> str:
    """Return the name of the second, third ... note that would be called so."""
    return name if number == 1 else f"{name}{'-' if style == KEBAB else ' '}{number}"


def is_named_for(stem: str, title: str, is_given: bool = False) -> bool:
    """Tell whether a file's name is what was made of a title: all of it, or its beginning.

    A number behind what is only a beginning counts for nothing, and behind any name where the
    title `is_given` for it.
    """
    plain = _plain(title)
    whole = _squeeze(plain)
    first, _, rest = plain.partition(" ")
    wholes = (whole, _squeeze(rest)) if len(first) <= 4 else (whole,)
    short, bare = _squeeze(stem), _squeeze(re.sub(r"[ -]\d+$", "", stem))
    if short == whole or (is_given and bare == whole):
        return bool(short)
    if len(plain) <= _LENGTH or len(bare) < _TELLING:
        return False
    return any(each.startswith((short, bare)) for each in wholes)


def find_title(stem: str, heading: str, aliases: tuple[str, ...], body: str) -> str:
    """Return the title of a note that has no property of that name.

    It is the first alias, if the file's name is short for it; else the first heading; else the
    first line, if the name is short for that; else the name. `body` is what is seen of the text.
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
    """Return a title without markup, and without what no file may be called."""
    text = _IN_NUMBERS.sub(".", _UNWANTED.sub(" ", _plain(title)))
    text = text.replace(": ", " - ")
    shown = "".join(" " if is_forbidden(mark) else mark for mark in text)
    return re.sub(r" +(?=[,;.!)])", "", " ".join(shown.split()))


def _plain(title: str) -> str:
    """Return a title with the words of its links in their place, composed (NFC), in one line."""
    text = _LINKED.sub(lambda link: link[1] or link[2] or " ", title[:400])
    text = unicodedata.normalize("NFC", text.removesuffix(" ..."))
    return " ".join(text.split())


def _squeeze(text: str) -> str:
    """Return the letters and digits of a text alone: what every style of a name keeps."""
    return "".join(mark for mark in unicodedata.normalize("NFC", text).casefold() if mark.isalnum())


def _shorten(text: str) -> str:
    if len(text) <= _LENGTH:
        return text
    words = text.split(" ")
    if words[0].casefold() in find_words("article") and len(words) > 1:
        words[:2] = [words[1][0].upper() + words[1][1:]]
    starts = find_words("conjunction") | find_words("clausal") | find_words("condition")
    kept, length = 0, -1
    clause = 0
    for number, word in enumerate(words):
        length += 1 + len(word)
        if length > _MOST:
            break
        kept = number + 1 if length <= _LENGTH else kept
        following = words[number + 1].casefold() if number + 1 < len(words) else ""
        is_end = word.endswith(_CLAUSE_END) or following in starts or following[:1] in "-–—("
        if length >= _LEAST and is_end:
            clause = number + 1
    return _end_well(words[: clause or kept]) or words[0][:_LENGTH]


def _end_well(words: list[str]) -> str:
    """Return words as one text, without what begins something at their end."""
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
