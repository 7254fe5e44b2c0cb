"""Find comments, hidden text and code: HTML comments, Obsidian's comments, code spans and fences.

Text that people cannot see must not reach an agent, so uncertain text is hidden. If text is only
possibly code, comments in it count. If a comment's end is unclear, all text after it is hidden.

Sources: CommonMark 0.31, "HTML blocks", "Raw HTML", "Code spans", "Fenced code blocks".
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from vaultmem.core.notes.sections import MASK_CHAR
from vaultmem.core.text.patterns import compile_later

Span = tuple[int, int]

# Tokens that can open a comment, or prevent it. All is possessive or bounded, so no text takes
# quadratic time.
_TOKEN = compile_later(
    r"(?P<gap>\n[ \t]*+(?=\r?\n))"
    r"|^(?P<indent>[ \t]*+)(?P<fence>`{3,}+(?=[^`\n]*+$)|~{3,}+)"
    r"|(?P<comment><!--)"
    r"|(?P<ticks>`++)"
    r"|(?P<raw>\$\$|<(?:[?!]|(?i:pre|script|style|textarea)\b))"  # Blank lines do not end these.
    r"|(?P<tag><[A-Za-z/])"
    r"|(?P<other>\$|\[\[(?=[^\]\n]{0,400}+`))",
    re.MULTILINE,
)
#: A code span in one line, and one in a table cell. The repeated group is not possessive, because
#: Python 3.11.2 found too little with it.
_CODE = compile_later(r"(?<!\\)(`++)(?:[^`\n]++|(?!\1(?!`))`++)*\1(?!`)")
_CELL_CODE = compile_later(r"(?<!\\)(`++)(?:[^`\n|]++|(?!\1(?!`))`++)*\1(?!`)")
#: All characters of the delimiter row below a table's header, with marks before it.
_RULE = " \t\r>|:*+-.)0123456789"
#: Math in one line, without anything that would be code or a comment in text.
_MATH = compile_later(
    r"(?<![\w\\$])\$(?!\s)(?:[^$`\n%<|\\]|\\(?!\$)|<(?![A-Za-z/?!])){1,400}(?<![\s\\])\$(?![\w$])"
)
_GAP = compile_later(r"\n[ \t]*+\r?\n")
_PLAIN_TAG = compile_later(r"<[^`<>\n]*+>")
#: Possible marks before a line's text: blanks, and marks of quotes, lists and footnotes.
_LINE_PREFIX = compile_later(r"(?:[ \t>]|[-+*][ \t]|\d{1,9}+[.)][ \t]|\[\^[^\]\n]++\]:)*+")

_LISTS = compile_later(r"^[ \t>]*+(?:[-+*]|\d{1,9}[.)]|\[\^)", re.MULTILINE)
#: The end of a paragraph, and with it of a comment in text; or the start of HTML.
_MAY_END = compile_later(r"\n[ \t]*+\r?\n|<")
_RAW_ENDS = {"$$": r"\$\$", "?": r"\?>", "!": ">"}
#: Most characters of a line that are searched for such marks.
_MAX_PREFIX_CHARS = 200
_CODE_MARK = compile_later(
    r"`|~~~|<!--|%%|<(?=[A-Za-z/?!])(?!/(?:pre|script|style|textarea)>)", re.IGNORECASE
)


class CommentScan(NamedTuple):
    """Code, HTML comments, and spans that might be code; each in order.

    `left_open` is the offset of a comment that is never closed, or -1.
    """

    code: list[Span]
    comments: list[Span]
    unclear: list[Span]
    left_open: int


def scan_text(text: str, body: int) -> CommentScan:
    """Find code and HTML comments; the one that opens first wins."""
    scan = CommentScan([], [], [], -1)
    last_end, has_lists = text.rfind("-->"), _LISTS.search(text, body) is not None
    place, unclear, html_line = body, -1, -1
    code = _CELL_CODE if _may_have_tables(text, body) else _CODE
    is_html = in_html = is_lost = False  # Paragraph; rest; code unclear in the rest.
    while match := _TOKEN.search(text, place):
        kind, (start, place) = match.lastgroup, match.span()
        if kind == "gap":
            if unclear >= 0 and not is_lost:
                scan.unclear.append((unclear, start))
                unclear = -1
            is_html = False
        elif kind == "comment":
            lead, is_open = _find_lead(text, start), in_html or start < html_line
            doubts = _Doubts(is_lost, is_html, is_open, has_lists)
            end = _close_comment(text, start, last_end, lead, doubts)
            if end < 0:
                continue
            scan.comments.append((start, place := end))
            if end == len(text) and not text.endswith("-->"):
                scan = scan._replace(left_open=start)
            html_line = html_line if lead is None else end_line(text, place)
            in_html = in_html or (
                lead is None and _MAY_END.search(text, start + 1, end) is not None
            )
            if unclear < 0 and (in_html or (lead is not None and "`" in text[place:html_line])):
                unclear = start
            is_lost = is_lost or in_html
        elif not is_lost:
            end = -1
            if kind == "fence" and not is_html:
                end = _close_fence(text, match, unclear < 0)
            elif kind == "ticks" and unclear < 0 and (span := code.match(text, start)):
                end = span.end()
            elif kind == "raw":
                end = _close_raw(text, match)
                in_html = end < 0 and match[0] != "$$"
                html_line = end_line(text, end) if end >= 0 else html_line
            elif kind == "tag":
                is_html = is_html or is_first(text, start)
                if not is_html and (tag := _PLAIN_TAG.match(text, start)):
                    end = tag.end()
            elif match[0] == "$" and unclear < 0:
                end = _close_dollar(text, start)
            if end >= 0:
                place = end
                if kind in {"fence", "ticks"}:
                    scan.code.append((start, end))
                continue
            is_lost = kind in {"fence", "raw"}
            unclear = start if unclear < 0 else unclear
        elif kind == "raw":
            in_html = in_html or match[0] != "$$"
        elif kind == "tag":
            is_html = is_html or is_first(text, start)
    if unclear >= 0:
        scan.unclear.append((unclear, len(text)))
    return scan


def _may_have_tables(text: str, body: int) -> bool:
    """Return whether a line might be the delimiter row below a table's header."""
    lines = text[body:].split("\n")
    return any(
        "-" in line and not line.strip(_RULE) and above.strip() for above, line in pairwise(lines)
    )


def end_line(text: str, place: int) -> int:
    """Return the offset at which the line of `place` ends."""
    end = text.find("\n", place)
    return end if end >= 0 else len(text)


def is_first(text: str, place: int) -> bool:
    """Return whether only marks of quotes and lists come before an offset in its line."""
    return _find_lead(text, place) is not None


def _find_lead(text: str, place: int) -> str | None:
    """Return the marks of quotes and lists before an offset, None after other text in its line."""
    least = max(place - _MAX_PREFIX_CHARS, 0)
    line = text.rfind("\n", least, place)
    lead = _LINE_PREFIX.match(text, line + 1 if line >= 0 else least, place)
    return lead[0] if lead is not None and lead.end() == place else None


def _close_raw(text: str, opening: re.Match[str]) -> int:
    """Return the end of raw HTML or math that cannot contain code or a comment, else -1."""
    end = opening["raw"].lower().lstrip("<")
    closing = re.compile(_RAW_ENDS.get(end, f"</{end}>"), re.IGNORECASE).search(text, opening.end())
    if closing is None or _CODE_MARK.search(text, opening.start() + 1, closing.end()):
        return -1
    return closing.end()


def _close_dollar(text: str, start: int) -> int:
    """Return the end of math that cannot contain code or a comment, else -1.

    A `$` without another one in its paragraph is text and ends at once.
    """
    if match := _MATH.match(text, start):
        return match.end()
    other = text.find("$", start + 1)
    is_alone = other < 0 or _GAP.search(text, start, other) is not None
    return start + 1 if is_alone else -1


class _Doubts(NamedTuple):
    """Possible surroundings of a comment: code, HTML, HTML not ended by blank lines, list items."""

    is_lost: bool
    is_html: bool
    is_open: bool
    has_lists: bool


def _close_comment(text: str, start: int, last: int, lead: str | None, doubts: _Doubts) -> int:
    """Return the end of a comment, -1 if it is text, or the text's end if the comment's is unclear.

    `last` is the offset of the last `-->`.

    HTML, a quote or a list item can end before a comment in it does. Then a browser continues the
    comment to a much later `-->`.
    """
    if start + 2 > last:
        return len(text) if doubts.is_html or doubts.is_open or lead is not None else -1
    end = text.find("-->", start + 2) + 3
    lines = text[start:end].split("\n")[1:]
    if not lines:
        return end
    is_text = doubts.is_lost or lead is None or len(lead.expandtabs(4)) > 3
    if (
        doubts.is_open
        or (is_text and "<!--" in text[start + 4 : end])  # The second might be the real one.
        or (doubts.is_html and (lead is None or not all(map(str.strip, lines))))
    ):
        return len(text)
    if not lead or (lead.isspace() and not doubts.has_lists):
        return end
    if ">" in lead:
        goes_on = all(line.lstrip().startswith(">") for line in lines)
    else:
        goes_on = all(
            not line.strip() or _indent(line) >= len(lead.expandtabs(4)) for line in lines
        )
    return end if goes_on else len(text)


def _indent(line: str) -> int:
    wide = line.expandtabs(4)
    return len(wide) - len(wide.lstrip())


def _close_fence(text: str, opening: re.Match[str], is_clear: bool) -> int:
    """Return the end of a fenced code block if it is certain in any context, else -1.

    Its lines must have the same indent as the fence: then they are in one list item, or in none.
    """
    fence, indent = opening["fence"], opening["indent"]
    if len(indent.expandtabs(4)) > 3 and not (is_clear and fence[0] == "`"):
        return -1  # It might be text of the paragraph above.
    closing = re.compile(rf"^([ \t]*+){fence[0]}{{{len(fence)},}}+[ \t]*+\r?$", re.MULTILINE)
    end = closing.search(text, end_line(text, opening.end()))
    if end is None or end[1] != indent:
        return -1
    lines = text[opening.end() : end.start()].split("\n")[1:] if indent else ()
    if any(not line.startswith(indent) and line.strip() for line in lines):
        return -1
    return end.end()


# Obsidian's comments between two `%%`.
#
# Source: Obsidian Help, "Basic formatting syntax" (comments).

_BLANK_LINE_END = compile_later(r"[ \t\r]*+(?:\n|\Z)")


class Percent(NamedTuple):
    """A `%%`: its line, whether it is first or last in the line, whether it might be no mark."""

    start: int
    line: int
    is_first: bool
    is_last: bool
    is_doubtful: bool


def _list_percent(text: str, body: int, scan: CommentScan) -> Iterator[Percent]:
    """Yield each `%%` that is not certainly in code."""
    code, *doubts = (_edges(spans) for spans in (scan.code, scan.comments, scan.unclear))
    line, counted = 0, body
    for match in re.finditer("%%+", text[body:]):
        start, end = match.start() + body, match.end() + body
        if bisect_right(code, start) % 2:
            continue
        line, counted = line + text.count("\n", counted, start), start
        is_doubtful = end - start > 2 or any(bisect_right(each, start) % 2 for each in doubts)
        is_last = _BLANK_LINE_END.match(text, end) is not None
        yield Percent(start, line, is_first(text, start), is_last, is_doubtful)


def _edges(spans: Sequence[Span]) -> list[int]:
    return [edge for span in spans for edge in span]


def find_percent(text: str, body: int, scan: CommentScan) -> tuple[list[Span], int]:
    """Return the spans that `%%` hides, and the mark that hides more than readers expect, or -1.

    Pairs in one line are certain, and pairs that begin and end a block. From the first uncertain
    mark on, all text up to the last mark is hidden.
    """
    marks = list(_list_percent(text, body, scan))
    spans: list[Span] = []
    index = 0
    while index < len(marks):
        count = sum(each.line == marks[index].line for each in marks[index : index + 64])
        group = marks[index : index + count]
        if count == 1 and index + 1 < len(marks) and _is_block(marks, index):
            group = marks[index : index + 2]
        if len(group) % 2 or any(each.is_doubtful for each in group):
            break
        spans += [(a.start, b.start + 2) for a, b in zip(group[::2], group[1::2], strict=True)]
        index += len(group)
    starts = [start for start, end in scan.code if "%%" in text[start:end]]
    for start, end in spans:
        place = bisect_right(starts, start)
        if place < len(starts) and starts[place] < end:  # Either code, or the end of the comment.
            return [(start, len(text))], start
    rest = marks[index:]
    if not rest or (len(rest) == 1 and not rest[0].is_first):
        return spans, -1
    first, last = rest[0], rest[-1]
    if len(rest) == 2:
        return [*spans, (first.start, _end_run(text, last.start))], -1
    end = len(text) if len(rest) % 2 and last.is_first else _end_run(text, last.start)
    return [*spans, (first.start, end)], first.start


def _is_block(marks: Sequence[Percent], index: int) -> bool:
    """Return whether a mark begins its line, and the next one is alone and ends a later line."""
    first, second = marks[index : index + 2]
    is_alone = index + 2 == len(marks) or marks[index + 2].line != second.line
    return first.is_first and is_alone and (second.is_first or second.is_last)


def _end_run(text: str, place: int) -> int:
    while text[place : place + 1] == "%":
        place += 1
    return place


# Text that is not part of a note's content: comments and callouts of a merge.
#
# People do not see comments, or labels followed only by a comment. Callouts contain the text of the
# other side of a merge (`core.notes.conflict`).

# Compiled on first use, because most vaults' queries need neither.
_HIDDEN_LINE = rf"(?m)^[ \t]*+{MASK_CHAR}[ \t{MASK_CHAR}]*+\r?(?:\n(?:[ \t]*+\r?\n)*+|\Z)"
#: A list mark or a bold label followed only by a comment: an unfilled placeholder.
_PLACEHOLDER = (
    rf"(?m)^[ \t]*+(?:(?:[-+*]|\d{{1,9}}[.)])[ \t]++)?(?:\*\*[^*\n{MASK_CHAR}]++\*\*[ \t]*+)?"
    rf"{MASK_CHAR}++(?=[ \t]*+\r?$)"
)


class VisibleText(NamedTuple):
    """A note's text of equal length, with NUL for all hidden characters but line breaks.

    `warning` reports a comment that hides more than people expect, else "".
    """

    text: str
    warning: str = ""


def has_hidden(text: str) -> bool:
    """Return whether a text might contain hidden text or a conflict callout."""
    return "<!--" in text or "%%" in text or "> [!conflict" in text


def hide_unseen(text: str, body: int) -> VisibleText:
    """Return a note's visible text without conflict callouts; `body` is the end of properties."""
    if "> [!conflict" not in text:
        return hide_comments(text, body)
    from vaultmem.core.notes.conflict import find_spans

    visible = hide_comments(text, body)
    return visible._replace(text=_blank(visible.text, find_spans(text, body)))


def hide_comments(text: str, body: int) -> VisibleText:
    """Return a note's text without comments; conflict callouts stay."""
    if "<!--" not in text and "%%" not in text:
        return VisibleText(text)

    scan = scan_text(text, body)
    spans, left_open = list(scan.comments), [scan.left_open]
    if "%%" in text:
        more, position = find_percent(text, body, scan)
        spans += more
        left_open.append(position)
    if not spans:
        return VisibleText(text)
    hidden = re.sub(_PLACEHOLDER, _blank_line, _blank(text, sorted(spans)))
    position = min((each for each in left_open if each >= 0), default=-1)
    return VisibleText(hidden, _warn(text, position) if position >= 0 else "")


def _blank_line(match: re.Match[str]) -> str:
    return MASK_CHAR * len(match[0])


def strip_hidden(visible: str) -> str:
    """Return a part of a visible text without NULs and without lines that contain only NULs."""
    if MASK_CHAR not in visible:
        return visible
    return re.sub(_HIDDEN_LINE, "", visible).replace(MASK_CHAR, "")


def _warn(text: str, position: int) -> str:
    line = text.count("\n", 0, position) + 1
    return f"a comment that begins in line {line} hides what follows; close it in its own line"


def _blank(text: str, spans: Sequence[tuple[int, int]]) -> str:
    parts: list[str] = []
    place = 0
    for start, end in spans:
        if end > place:
            start = max(start, place)
            lines = text[start:end].split("\n")
            parts += (text[place:start], "\n".join([MASK_CHAR * len(line) for line in lines]))
            place = end
    return "".join([*parts, text[place:]])
