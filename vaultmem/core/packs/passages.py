"""Choose the passages of a section that match a query best, and shorten the rest.

A passage consists of units that are meaningful alone: sentences, list items, turns, rows, lines of
code. A unit can need others. A table row needs the head, a code line its fences, and a sentence of
a long turn the speaker's name.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, islice, pairwise
from math import sqrt
from typing import NamedTuple

from vaultmem.core.notes.sections import find_sentence_ends
from vaultmem.core.search.query import Hit, Match, asks
from vaultmem.core.search.terms import count_terms, list_compounds, term_sequence
from vaultmem.core.text.patterns import compile_later
from vaultmem.core.text.token_count import count_tokens

#: A part of a text: start and end (characters).
Span = tuple[int, int]


class Unit(NamedTuple):
    """A span that is shown whole or not at all, and the spans shown with it."""

    span: Span
    needs: tuple[Span, ...] = ()


#: Share of a unit's score that its neighbours get, and the share for the next unit after a
#: question. An answer rarely repeats the question's words.
_NEIGHBOUR_SHARE, _ANSWER = 0.25, 0.75

#: Tokens of the line with a passage's line number, and of the mark before a quoted line.
_GAP, _MARK = 8, 2


def choose_passages(text: str, matches: Sequence[Match], room: int) -> tuple[Span, ...]:
    """Return the spans of the best units that together cost about `room` tokens, in order.

    Without any match, the first units are best. With matches, units that neither match nor adjoin a
    match are excluded. Returns () if the best unit does not fit.
    """
    units, best = _order_units(text, tuple(matches))
    chosen_places: set[int] = set()
    spans: set[Span] = set()
    for place in best:
        unit = units[place]
        cost = sum(_price(text, span) for span in (unit.span, *unit.needs) if span not in spans)
        # A separate passage costs a gap; a unit that joins two passages saves one.
        gap = _GAP if _begins_line(text, unit.span) else _MARK
        cost += gap * (
            (place > 0 and place - 1 not in chosen_places) - (place + 1 in chosen_places)
        )
        if cost > room and not chosen_places:  # Do not show a weaker unit instead of the best.
            break
        if cost <= room:
            room -= cost
            chosen_places.add(place)
            spans.update((unit.span, *unit.needs))
    return _merge(text, spans)


def render_passages(text: str, parts: Iterable[Span]) -> str:
    """Return parts of a text in order, with dots for omitted text.

    After omitted lines, the next line's number is given, the first time with the total number.
    """
    excerpt, last = "", 0
    lines = text.count("\n") + 1
    total = f" of {lines}"
    for start, end in parts:
        gap = text[last:start]
        if not gap.strip():
            excerpt += gap
        elif "\n" in gap:
            head = f"{excerpt.rstrip()}\n" if excerpt else ""
            line = text.count("\n", 0, start) + 1
            excerpt = f"{head}... (line {line}{total})\n"
            total = ""
        else:
            excerpt = f"{excerpt.rstrip(' ')} ... ".lstrip(" ")
        excerpt += text[start:end]
        last = end
    return excerpt.rstrip()


@lru_cache(maxsize=64)  # A section is shortened several times until it fits.
def _order_units(text: str, matches: tuple[Match, ...]) -> tuple[list[Unit], list[int]]:
    """Return the units of a text, and the indexes of those that can be shown, best first."""
    units = split_text(text)
    scores = _score_units(text, units, matches)
    is_head = not any(scores)
    best = sorted(range(len(units)), key=lambda place: (-scores[place], place))
    return units, [place for place in best if scores[place] > 0 or is_head]


def _score_units(text: str, units: Sequence[Unit], matches: Sequence[Match]) -> list[float]:
    """Return the score of each unit, from its terms and those of its neighbours.

    A term's share of the section's score grows with its frequency. Dividing by the root of the
    frequency compensates for this.
    """
    query_terms = {match.term for match in matches}
    compounds = query_terms.intersection(list_compounds(text))
    unit_terms = [_find_terms(text[slice(*unit.span)], query_terms, compounds) for unit in units]
    frequencies = {term: sum(term in terms for terms in unit_terms) for term in query_terms}
    weights = {match.term: match.score / sqrt(frequencies[match.term] or 1) for match in matches}
    own = [sum(weights[term] for term in sorted(terms)) for terms in unit_terms]
    scores = list(own)
    for place, unit in enumerate(units[:-1]):
        share = _ANSWER if asks(text[slice(*unit.span)]) else _NEIGHBOUR_SHARE
        scores[place + 1] += share * own[place]
        scores[place] += _NEIGHBOUR_SHARE * own[place + 1]
    return scores


def _find_terms(piece: str, query_terms: set[str], compounds: set[str]) -> set[str]:
    """Return the query terms in a piece; `compounds` are compound terms of the whole text."""
    terms = query_terms.intersection(term_sequence(piece))
    return terms.union(compounds.intersection(list_compounds(piece))) if compounds else terms


def _price(text: str, span: Span) -> int:
    piece = text[slice(*span)].strip("\n")
    return count_tokens(piece) + _MARK * (_begins_line(text, span) + piece.count("\n"))


def _begins_line(text: str, span: Span) -> bool:
    return span[0] == 0 or text[span[0] - 1] == "\n"


def _merge(text: str, spans: Iterable[Span]) -> tuple[Span, ...]:
    """Return spans in order, merged if only white space is between them."""
    merged_spans: list[Span] = []
    for start, end in sorted(spans):
        if merged_spans and not text[merged_spans[-1][1] : start].strip():
            merged_spans[-1] = (merged_spans[-1][0], max(end, merged_spans[-1][1]))
        else:
            merged_spans.append((start, end))
    return tuple(merged_spans)


class _Line(NamedTuple):
    start: int
    end: int
    text: str

    @property
    def span(self) -> Span:
        return self.start, self.end


#: Maximum characters of a list item or turn that is not split into sentences, and of a sentence
#: that is not split into lines.
_MAX_UNIT_CHARS = 400

_FENCE = compile_later(r"\s*(`{3,}|~{3,})")
_RULE = compile_later(r"\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*")
_LINE_PREFIX = compile_later(
    r"\s*(?:(?:[-*+]|\d{1,3}[.)])\s+(?:\[.\]\s+)?)?"  # The mark of a list or task,
    r"(?:\[?\d[\d:.,/T -]{3,30}Z?\]?\s+)?"  # a time,
    r"(?:[*_]{0,2}[^\W\d_][^\n:*|]{0,40}[*_]{0,2}:[*_]{0,2}\s+)?"  # a name.
)


def split_text(text: str, unit_limit: int = _MAX_UNIT_CHARS) -> list[Unit]:
    """Return the units of a text in order, without blank lines.

    List items and turns of up to `unit_limit` characters are one unit.
    """
    parts = re.findall(r"[^\n]*\n|[^\n]+", text)
    ends = list(accumulate(map(len, parts)))
    lines = [_Line(end - len(part), end, part) for part, end in zip(parts, ends, strict=True)]
    units: list[Unit] = []
    at = 0
    while at < len(lines):
        if _FENCE.match(lines[at].text):
            last = _end_fence(lines, at)
            units += _split_framed(lines[at : last + 1], [lines[at], lines[last]])
        elif _is_table(lines, at):
            last = _end_table(lines, at)
            units += _split_framed(lines[at : last + 1], lines[at : at + 2])
        else:
            last = _end_block(lines, at)
            units += _split_block(text, lines[at].start, lines[last].end, unit_limit)
        at = last + 1
    return units


def _end_fence(lines: Sequence[_Line], at: int) -> int:
    """Return the line that closes a fence, or the last line."""
    opening = _FENCE.match(lines[at].text)
    mark = opening[1] if opening else ""
    after = range(at + 1, len(lines))
    return next((n for n in after if lines[n].text.strip().startswith(mark)), len(lines) - 1)


def _is_table(lines: Sequence[_Line], at: int) -> bool:
    if at + 1 >= len(lines) or "|" not in lines[at].text:
        return False
    return "|" in lines[at + 1].text and _RULE.fullmatch(lines[at + 1].text) is not None


def _end_table(lines: Sequence[_Line], at: int) -> int:
    return next((n - 1 for n in range(at, len(lines)) if "|" not in lines[n].text), len(lines) - 1)


def _end_block(lines: Sequence[_Line], at: int) -> int:
    return next((n - 1 for n in range(at + 1, len(lines)) if _begins(lines, n)), len(lines) - 1)


def _begins(lines: Sequence[_Line], at: int) -> bool:
    """Return whether a line does not continue the line before."""
    text = lines[at].text
    return (
        not text.strip()
        or _end_lead(text) > 0
        or _FENCE.match(text) is not None
        or _is_table(lines, at)
    )


def _end_lead(text: str) -> int:
    """Return the end of a line's leading mark, time and name, or 0."""
    lead = _LINE_PREFIX.match(text)
    return lead.end() if lead and lead[0].strip() else 0


def _split_framed(lines: Sequence[_Line], frame: Sequence[_Line]) -> Iterator[Unit]:
    """Yield the lines inside a frame, or the whole frame if it is empty."""
    needs = tuple(dict.fromkeys(line.span for line in frame))
    inner_lines = [line for line in lines if line.span not in needs and line.text.strip()]
    if not inner_lines:
        yield Unit((lines[0].start, lines[-1].end))
    for line in inner_lines:
        yield Unit(line.span, needs)


def _split_block(text: str, start: int, end: int, unit_limit: int) -> Iterator[Unit]:
    """Yield a short list item or turn whole, else its sentences, each with the leading part."""
    block = text[start:end]
    lead = _end_lead(block)
    if lead and len(block) <= unit_limit:
        yield Unit((start, end))
        return
    edges = [0, *find_sentence_ends(block, lead), len(block)]
    for first, last in pairwise(edges):
        for a, b in _split_sentence(block, first, last):
            if block[a:b].strip():
                needs = ((start, start + lead),) if lead and a else ()
                yield Unit((start + a, start + b), needs)


def _split_sentence(block: str, first: int, last: int) -> Iterator[Span]:
    """Yield a sentence, or the lines of a long one, which possibly lacks punctuation."""
    if last - first <= _MAX_UNIT_CHARS:
        yield first, last
        return
    for match in re.finditer(r"[^\n]*\n|[^\n]+", block[first:last]):
        yield first + match.start(), first + match.end()


# Choose one line to show for a section: the sentence with most of the query's words.

#: Maximum sentences of a section to check, and maximum characters.
_MAX_SENTENCES, _MAX_SECTION_CHARS = 400, 100_000

#: Minimum words of a sentence, and minimum characters of a wrapped line.
_MIN_SENTENCE_WORDS, _MIN_WRAPPED_CHARS = 3, 50

#: Characters before the first query word, if a sentence is cut at both ends.
_CONTEXT = 24

#: Maximum characters of a sentence to shorten, and maximum words to try as its start.
_MAX_SENTENCE_CHARS, _MAX_START_WORDS = 4_000, 50

_CODE_FENCE = compile_later(r"[ \t>]*(?:`{3}|~{3})")
_QUOTE = compile_later(r"^[ \t]*(?:>[ \t]?)+")
_FRAME = compile_later(r"\s*(?:`{3}|~{3})|.*\|")
_HEADING = compile_later(r"[ \t]*(?:#{1,6}(?:[ \t].*)?|\[![\w-]{1,40}\][-+]?[ \t]*)")
#: A character that each decoration contains.
_SIGN = compile_later(r"[#<*_\[]")
_BOLD = compile_later(r"[ \t]*(?:\*\*[^*]+\*\*|__[^_]+__):?[ \t]*")

# All repetitions are bounded, so that no line takes quadratic time.
_PICTURE = r"!\[\[[^\]]{0,400}\]\]|!\[[^\]]{0,400}\](?:\([^()]{0,1000}\))?"
_HTML = r"<[!/A-Za-z][^<>]{0,2000}>"
_DECORATION = compile_later(rf"\[(?:{_PICTURE})\]\([^()]{{0,1000}}\)|{_PICTURE}|{_HTML}")
_TAG = compile_later(r"(?<!\S)#[^\W\d_][\w/-]*")
_TAGGED_LINE = compile_later(rf"\s*{_HTML}.*{_HTML}\s*")
_LABEL = compile_later(r"\W*+(?:\w++[*_]*+:)?+\W*+")
_LINK = compile_later(r"(?<!!)\[([^\[\]]{1,400})\]\([^()\s]{1,1000}\)")
#: A hard line break.
_BREAK = compile_later(r"(?:\\|[ ]{2}|<br ?/?>)$")
_WORD = compile_later(r"[^\W_]+")
_STOP = compile_later(r"[.!?。！？][*_\s]*$")


def choose_line(hit: Hit) -> str:
    """Return the sentence that shows why a note matches."""
    return hit.shown_line or choose_sentence(hit.text, _list_terms(hit))


def show_line(hit: Hit, width: int = 100) -> str:
    """Return the sentence that shows why a note matches, cut to `width` characters."""
    return shorten_sentence(choose_line(hit), _list_terms(hit), width)


def _list_terms(hit: Hit) -> list[str]:
    return [match.term for match in hit.matches]


def choose_excerpt(text: str, terms: Collection[str], width: int = 100) -> str:
    """Return the sentence of a section with most of the terms, cut to `width` characters."""
    return shorten_sentence(choose_sentence(text, terms), terms, width)


def choose_sentence(text: str, terms: Collection[str]) -> str:
    """Return the sentence, list item, row or line of code with most of the terms, on one line.

    Prose is preferred to rows and code, then the first one wins. Pictures, HTML without words, tag
    lines and headings are returned only if there is nothing else.
    """
    query_terms = frozenset(terms)
    text = text[:_MAX_SECTION_CHARS]
    prose = _drop_decoration(text)
    text = prose if prose.strip() else text
    best, best_worth = "", (False, -1, False)
    for unit in islice(split_text(text, unit_limit=0), _MAX_SENTENCES):
        is_framed = bool(unit.needs) and _FRAME.match(text, *unit.needs[0]) is not None
        for part in _split_lines(text[slice(*unit.span)]):
            is_prose = not is_framed and len(_WORD.findall(part)) >= _MIN_SENTENCE_WORDS
            is_content = is_framed or not _is_decoration(part)
            worth = is_content, len(count_terms(part).keys() & query_terms), is_prose
            if worth > best_worth:
                best, best_worth = part, worth
        if best_worth == (True, len(query_terms), True):
            break  # No later sentence is better.
    return " ".join(best.split())


def has_sentence(text: str) -> bool:
    """Return whether a section has more than pictures, tags, headings and HTML without words."""
    return not text or bool(_drop_decoration(text).strip())


def shorten_sentence(line: str, terms: Collection[str], width: int) -> str:
    """Return a line cut to `width` characters around most of the terms.

    Link targets are dropped before words are.
    """
    if len(line) <= width:
        return line
    line = _LINK.sub(r"\1", line[:_MAX_SENTENCE_CHARS])
    query_terms = frozenset(terms)
    word_starts = [match.start() for match in re.finditer(r"\S+", line)]
    term_starts = [
        at for at in word_starts if count_terms(line[at:].split(" ", 1)[0]).keys() & query_terms
    ]
    latest = min((at for at in word_starts if at >= len(line) - width), default=0)
    least_starts = (min(at - _CONTEXT, latest) for at in term_starts[:_MAX_START_WORDS])
    starts = [0, *(min(at for at in word_starts if at >= least) for least in least_starts)]
    excerpts = (_slice(line, begin, width) for begin in starts)
    return max(excerpts, key=lambda excerpt: len(count_terms(excerpt).keys() & query_terms))


def _slice(line: str, begin: int, width: int) -> str:
    """Return the part of a line from `begin` on that fits, with dots for the rest."""
    part = line[begin:]
    if len(part) > width:
        part = part[:width].rsplit(" ", 1)[0] + " ..."
    return f"... {part}" if begin else part


def _split_lines(part: str) -> Iterator[str]:
    """Yield the sentences of a unit: a short line that is not wrapped is one sentence."""
    piece = last = ""
    for line in part.split("\n"):
        text = line.lstrip()
        if (
            piece
            and not text[:1].islower()
            and (len(last) < _MIN_WRAPPED_CHARS or _BREAK.search(last))
        ):
            yield piece
            piece = ""
        piece, last = f"{piece} {text}" if piece else line, line
    yield piece


def _drop_decoration(text: str) -> str:
    """Return a text without quote marks, and with decorative lines empty."""
    return re.sub(r"\n{2,}", "\n\n", "\n".join(_list_lines(text.split("\n"))))


def _list_lines(lines: Sequence[str]) -> Iterator[str]:
    in_code = False
    for line in lines:
        if _CODE_FENCE.match(line):
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
    """Return whether a line outside code is a badge, picture, HTML footer, heading or only tags."""
    if not _SIGN.search(line) or line.lstrip().startswith("|"):
        return False  # It is plain, or can frame a table.
    if _HEADING.fullmatch(line) or (_BOLD.fullmatch(line) and not _STOP.search(line)):
        return True
    plain = _TAG.sub(" ", _DECORATION.sub(" ", line))
    if _TAGGED_LINE.fullmatch(line):
        return not _STOP.search(plain)
    return plain != line and _LABEL.fullmatch(plain) is not None
