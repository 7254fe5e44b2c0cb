"""HTML comments in a text, and the code in which there are none.

Where it is not certain that something is code, comments in it count as comments; and where it is
not certain where a comment ends, all that follows is in it. Nothing that a person cannot see is to
reach an agent, so the errors are on that side.

Sources: CommonMark 0.31, "HTML blocks", "Raw HTML", "Code spans", "Fenced code blocks".
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import NamedTuple

Span = tuple[int, int]

# What may open a comment, or keep it from opening. All is possessive or bounded, so that no text
# takes quadratic time.
_TOKEN = re.compile(
    r"(?P<gap>\n[ \t]*+(?=\r?\n))"
    r"|^(?P<indent>[ \t]*+)(?P<fence>`{3,}+(?=[^`\n]*+$)|~{3,}+)"
    r"|(?P<comment><!--)"
    r"|(?P<ticks>`++)"
    r"|(?P<raw>\$\$|<(?:[?!]|(?i:pre|script|style|textarea)\b))"  # Blank lines do not end these.
    r"|(?P<tag><[A-Za-z/])"
    r"|(?P<other>\$|\[\[(?=[^\]\n]{0,400}+`))",
    re.MULTILINE,
)
#: A code span in one line, and one in one cell of a table. The group that is repeated is not
#: possessive: in Python 3.11.2 that found too little.
_CODE = re.compile(r"(?<!\\)(`++)(?:[^`\n]++|(?!\1(?!`))`++)*\1(?!`)")
_CELL_CODE = re.compile(r"(?<!\\)(`++)(?:[^`\n|]++|(?!\1(?!`))`++)*\1(?!`)")
#: All that the line below a table's head has, with the marks that may be before it.
_RULE = " \t\r>|:*+-.)0123456789"
#: Mathematics in one line, with nothing inside that could be code or a comment if it were text.
_MATH = re.compile(
    r"(?<![\w\\$])\$(?!\s)(?:[^$`\n%<|\\]|\\(?!\$)|<(?![A-Za-z/?!])){1,400}(?<![\s\\])\$(?![\w$])"
)
_GAP = re.compile(r"\n[ \t]*+\r?\n")
_PLAIN_TAG = re.compile(r"<[^`<>\n]*+>")
#: What may stand in a line before its text: blanks, and marks of quotes, lists and footnotes.
_LEAD = re.compile(r"(?:[ \t>]|[-+*][ \t]|\d{1,9}+[.)][ \t]|\[\^[^\]\n]++\]:)*+")

_LISTS = re.compile(r"^[ \t>]*+(?:[-+*]|\d{1,9}[.)]|\[\^)", re.MULTILINE)
#: What ends a paragraph, and with it a comment that was text then, or makes what follows HTML.
_MAY_END = re.compile(r"\n[ \t]*+\r?\n|<")
_RAW_ENDS = {"$$": r"\$\$", "?": r"\?>", "!": ">"}
#: Characters of a line that are looked at for such marks.
_LONGEST_LEAD = 200
_CODE_MARK = re.compile(
    r"`|~~~|<!--|%%|<(?=[A-Za-z/?!])(?!/(?:pre|script|style|textarea)>)", re.IGNORECASE
)


class Scan(NamedTuple):
    """Code, HTML comments, and where it is unclear what is code; all in their order.

    `left_open` is where a comment begins that is never closed, -1 if none is.
    """

    code: list[Span]
    comments: list[Span]
    unclear: list[Span]
    left_open: int


def scan_text(text: str, body: int) -> Scan:
    """Find code and HTML comments; what opens first counts."""
    scan = Scan([], [], [], -1)
    last_end, has_lists = text.rfind("-->"), _LISTS.search(text, body) is not None
    place, unclear, html_line = body, -1, -1
    code = _CELL_CODE if _may_have_tables(text, body) else _CODE
    is_html = in_html = is_lost = False  # In this paragraph; from here on; no code from here on.
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
    """Tell whether a line may be the rule below a table's head."""
    lines = text[body:].split("\n")
    return any(
        "-" in line and not line.strip(_RULE) and above.strip() for above, line in pairwise(lines)
    )


def end_line(text: str, place: int) -> int:
    """Return where the line of a place ends."""
    end = text.find("\n", place)
    return end if end >= 0 else len(text)


def is_first(text: str, place: int) -> bool:
    """Tell whether only marks of quotes and lists stand before a place in its line."""
    return _find_lead(text, place) is not None


def _find_lead(text: str, place: int) -> str | None:
    """Return the marks of quotes and lists before a place, None behind other text in its line."""
    least = max(place - _LONGEST_LEAD, 0)
    line = text.rfind("\n", least, place)
    lead = _LEAD.match(text, line + 1 if line >= 0 else least, place)
    return lead[0] if lead is not None and lead.end() == place else None


def _close_raw(text: str, opening: re.Match[str]) -> int:
    """Return where HTML or mathematics end in which nothing could be code or a comment, else -1."""
    end = opening["raw"].lower().lstrip("<")
    closing = re.compile(_RAW_ENDS.get(end, f"</{end}>"), re.IGNORECASE).search(text, opening.end())
    if closing is None or _CODE_MARK.search(text, opening.start() + 1, closing.end()):
        return -1
    return closing.end()


def _close_dollar(text: str, start: int) -> int:
    """Return where mathematics end in which nothing could be code or a comment, else -1.

    A `$` without another one in its paragraph is text and ends at once.
    """
    if found := _MATH.match(text, start):
        return found.end()
    other = text.find("$", start + 1)
    is_alone = other < 0 or _GAP.search(text, start, other) is not None
    return start + 1 if is_alone else -1


class _Doubts(NamedTuple):
    """What may stand around a comment: code, HTML, HTML that no blank line ends; list items."""

    is_lost: bool
    is_html: bool
    is_open: bool
    has_lists: bool


def _close_comment(text: str, start: int, last: int, lead: str | None, doubts: _Doubts) -> int:
    """Return where a comment ends, -1 if it is text; the text's end where that is not certain.

    `last` is where the last `-->` stands.

    In HTML, a quote or a list item, what opened a comment may end before it does. Then a browser
    goes on with the comment up to the end of one that is far below.
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
        or (is_text and "<!--" in text[start + 4 : end])  # The second may be the one that counts.
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
    """Return where a fenced code ends if that is certain wherever it stands, else -1.

    Its lines must be indented as it is: they are in one list item then, or in none.
    """
    fence, indent = opening["fence"], opening["indent"]
    if len(indent.expandtabs(4)) > 3 and not (is_clear and fence[0] == "`"):
        return -1  # It may be text of the paragraph above.
    closing = re.compile(rf"^([ \t]*+){fence[0]}{{{len(fence)},}}+[ \t]*+\r?$", re.MULTILINE)
    end = closing.search(text, end_line(text, opening.end()))
    if end is None or end[1] != indent:
        return -1
    lines = text[opening.end() : end.start()].split("\n")[1:] if indent else ()
    if any(not line.startswith(indent) and line.strip() for line in lines):
        return -1
    return end.end()
