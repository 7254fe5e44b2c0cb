"""The one line that shows a section: the sentence with most of the words that were asked."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import islice

from vaultmem.core.finding.hit import Hit
from vaultmem.core.finding.terms import count_terms
from vaultmem.core.packs.passages import divide_text

#: Sentences of a section that are looked at, and characters.
_MOST, _READ = 400, 100_000

#: Words of a sentence at least, and characters of a line at least that is wrapped.
_FEW, _WRAPPED = 3, 50

#: Characters before the first word that was asked, where a sentence is cut at both ends.
_CONTEXT = 24

#: Characters of a sentence in which a cut is looked for, and words at which it may begin.
_LONGEST, _BEGINNINGS = 4_000, 50

_FENCE = re.compile(r"[ \t>]*(?:`{3}|~{3})")
_QUOTE = re.compile(r"^[ \t]*(?:>[ \t]?)+")
_FRAME = re.compile(r"\s*(?:`{3}|~{3})|.*\|")
_HEADING = re.compile(r"[ \t]*(?:#{1,6}(?:[ \t].*)?|\[![\w-]{1,40}\][-+]?[ \t]*)")
_BOLD = re.compile(r"[ \t]*(?:\*\*[^*]+\*\*|__[^_]+__):?[ \t]*")

# All is bounded, so that no line takes quadratic time.
_PICTURE = r"!\[\[[^\]]{0,400}\]\]|!\[[^\]]{0,400}\](?:\([^()]{0,1000}\))?"
_HTML = r"<[!/A-Za-z][^<>]{0,2000}>"
_DECORATION = re.compile(rf"\[(?:{_PICTURE})\]\([^()]{{0,1000}}\)|{_PICTURE}|{_HTML}")
_TAG = re.compile(r"(?<!\S)#[^\W\d_][\w/-]*")
_TAGGED_LINE = re.compile(rf"\s*{_HTML}.*{_HTML}\s*")
_LABEL = re.compile(r"\W*+(?:\w++[*_]*+:)?+\W*+")
_LINK = re.compile(r"(?<!!)\[([^\[\]]{1,400})\]\([^()\s]{1,1000}\)")
#: What breaks a line whatever its length.
_BREAK = re.compile(r"(?:\\|[ ]{2}|<br ?/?>)$")
_WORD = re.compile(r"[^\W_]+")
_STOP = re.compile(r"[.!?。！？][*_\s]*$")


def choose_line(hit: Hit) -> str:
    """Return the sentence that shows why a note was found."""
    return hit.shown_line or choose_sentence(hit.text, _list_terms(hit))


def show_line(hit: Hit, width: int = 100) -> str:
    """Return the sentence that shows why a note was found, cut to `width` characters."""
    return shorten_sentence(choose_line(hit), _list_terms(hit), width)


def _list_terms(hit: Hit) -> list[str]:
    return [match.term for match in hit.matches]


def choose_excerpt(text: str, terms: Collection[str], width: int = 100) -> str:
    """Return the sentence of a section with most of the terms, cut to `width` characters."""
    return shorten_sentence(choose_sentence(text, terms), terms, width)


def choose_sentence(text: str, terms: Collection[str]) -> str:
    """Return the sentence, list item, row or line of code with most of the terms, on one line.

    Of equals, prose goes before rows and code, then the first. Pictures, HTML without words, lines
    of tags and headings are returned only where a section has nothing else.
    """
    wanted = frozenset(terms)
    text = text[:_READ]
    prose = _drop_decoration(text)
    text = prose if prose.strip() else text
    best, most = "", (False, -1, False)
    for unit in islice(divide_text(text, whole=0), _MOST):
        is_framed = bool(unit.needs) and _FRAME.match(text, *unit.needs[0]) is not None
        for part in _split_lines(text[slice(*unit.span)]):
            is_prose = not is_framed and len(_WORD.findall(part)) >= _FEW
            is_said = is_framed or not _is_decoration(part)
            worth = is_said, len(count_terms(part).keys() & wanted), is_prose
            if worth > most:
                best, most = part, worth
    return " ".join(best.split())


def has_sentence(text: str) -> bool:
    """Tell whether a section has more than pictures, tags, headings and HTML without words."""
    return not text or bool(_drop_decoration(text).strip())


def shorten_sentence(line: str, terms: Collection[str], width: int) -> str:
    """Return a line cut to `width` characters where most of the terms are, the first of equals.

    The targets of links are dropped before any word is.
    """
    if len(line) <= width:
        return line
    line = _LINK.sub(r"\1", line[:_LONGEST])
    wanted = frozenset(terms)
    words = [found.start() for found in re.finditer(r"\S+", line)]
    asked = [at for at in words if count_terms(line[at:].split(" ", 1)[0]).keys() & wanted]
    latest = min((at for at in words if at >= len(line) - width), default=0)
    near = (min(at - _CONTEXT, latest) for at in asked[:_BEGINNINGS])
    begins = [0, *(min(at for at in words if at >= least) for least in near)]
    cuts = (_cut(line, begin, width) for begin in begins)
    return max(cuts, key=lambda cut: len(count_terms(cut).keys() & wanted))


def _cut(line: str, begin: int, width: int) -> str:
    """Return what of a line from a word on fits, with dots for the rest."""
    shown = line[begin:]
    if len(shown) > width:
        shown = shown[:width].rsplit(" ", 1)[0] + " ..."
    return f"... {shown}" if begin else shown


def _split_lines(part: str) -> Iterator[str]:
    """Yield the sentence or sentences of a unit: a short line that is not wrapped is one."""
    piece = last = ""
    for line in part.split("\n"):
        text = line.lstrip()
        if piece and not text[:1].islower() and (len(last) < _WRAPPED or _BREAK.search(last)):
            yield piece
            piece = ""
        piece, last = f"{piece} {text}" if piece else line, line
    yield piece


def _drop_decoration(text: str) -> str:
    """Return a text without marks of quotes, and with nothing in lines that only decorate."""
    return re.sub(r"\n{2,}", "\n\n", "\n".join(_list_lines(text.split("\n"))))


def _list_lines(lines: Sequence[str]) -> Iterator[str]:
    in_code = False
    for line in lines:
        if _FENCE.match(line):
            in_code = not in_code
            yield _QUOTE.sub("", line)
        elif in_code:
            yield line
        elif line:
            plain = _QUOTE.sub("", line)
            yield "" if _is_decoration(plain) else plain
        else:
            yield ""


def _is_decoration(line: str) -> bool:
    """Tell whether a line outside code is a badge, picture, HTML footer, heading or only tags."""
    if line.lstrip().startswith("|"):
        return False  # It may frame a table.
    if _HEADING.fullmatch(line) or (_BOLD.fullmatch(line) and not _STOP.search(line)):
        return True
    plain = _TAG.sub(" ", _DECORATION.sub(" ", line))
    if _TAGGED_LINE.fullmatch(line):
        return not _STOP.search(plain)
    return plain != line and _LABEL.fullmatch(plain) is not None
