"""Anchors: the files, lines and symbols of code that a memory cites, and whether they changed.

An anchor is one text in the property `cites`: `src/limit.py#L10-20@9f2c1ab+3b18e51 (shop)`. Its
parts are a path in a repository, lines or a symbol (`src/limit.py:refund_limit`), the commit and
the blob at that time, and the project, if it is not the note's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from vaultmem.core.text.display import count_things, one_line
from vaultmem.core.text.line_diff import Hunk, diff_lines, match_lines, split_keys

if TYPE_CHECKING:
    import ast

#: The properties that name what a memory is based on; notes of older versions have `refs`.
CITES = "cites"
CITE_PROPERTIES = (CITES, "refs")

#: Hexadecimal digits of the ids in an anchor that vaultmem writes.
ID_DIGITS = 10

_ANCHOR = re.compile(
    r"(?P<path>[^\x00-\x1f]{1,400}?)"
    r"(?:\#L(?P<first>\d{1,7})(?:-L?(?P<last>\d{1,7}))?"
    r"|:(?P<line>\d{1,7})(?:-(?P<end>\d{1,7}))?"
    r"|:(?P<symbol>[^\W\d][\w.$]{0,199}))?"
    r"(?P<pin>@(?P<commit>[0-9a-f]{7,40})?(?:\+(?P<blob>[0-9a-f]{7,40}))?"
    r"(?: \((?P<project>[^\W_][\w.-]{0,59})\))?)?"
)

#: A text that is not a path: a URL, a wikilink, an absolute path, an option, a commit's id.
_NOT_PATH = re.compile(r"[a-z][a-z0-9+.-]*://|\[\[|[/\\<-]|[A-Za-z]:[\\/]|[0-9a-f]{7,40}$", re.I)


class Anchor(NamedTuple):
    """A part of a file in a repository; `first` and `last` are lines (1-based), 0 for the whole.

    `path` is relative to the top of the repository's work tree. `commit` and `blob` are beginnings
    of ids, "" where they are not known. `project` is "" for the note's own.
    """

    path: str
    first: int = 0
    last: int = 0
    symbol: str = ""
    commit: str = ""
    blob: str = ""
    project: str = ""

    @property
    def place(self) -> str:
        """The path with the lines or the symbol, as people write them."""
        if self.symbol:
            return f"{self.path}:{self.symbol}"
        if not self.first:
            return self.path
        return f"{self.path}#L{self.first}" + (f"-{self.last}" if self.last > self.first else "")

    @property
    def is_pinned(self) -> bool:
        """Tell whether the anchor names a version of the file."""
        return bool(self.commit or self.blob)

    def __str__(self) -> str:
        """Return the anchor as a note has it."""
        pin = f"@{self.commit}" if self.is_pinned else ""
        pin += f"+{self.blob}" if self.blob else ""
        return f"{self.place}{pin}" + (f" ({self.project})" if self.project else "")


def parse_anchor(text: str) -> Anchor | None:
    """Return the anchor that a text is; None for a URL, a wikilink or another text."""
    text = text.strip()
    if not text or _NOT_PATH.match(text):
        return None
    found = _ANCHOR.fullmatch(text)
    if found is None:
        return None
    path = found["path"]
    is_pinned = bool(found["commit"] or found["blob"])
    if not is_pinned and (found["pin"] or (":" in text and not re.search(r"[/.]", path))):
        return None  # `doi:10`, `mailto:name`
    first = int(found["first"] or found["line"] or 0)
    last = int(found["last"] or found["end"] or first)
    return Anchor(
        path,
        min(first, last),
        max(first, last),
        found["symbol"] or "",
        found["commit"] or "",
        found["blob"] or "",
        found["project"] or "",
    )


class AnchorStatus(StrEnum):
    """Whether the anchored text is as it was."""

    HOLDS = "holds"
    CHANGED = "changed"
    MOVED = "moved"
    GONE = "gone"
    UNKNOWN = "unknown"


class AnchorCheck(NamedTuple):
    """The state of one anchor now: `lines` differ, and `moved_to` is the path where it is now."""

    anchor: Anchor
    status: AnchorStatus
    lines: int = 0
    moved_to: str = ""

    @property
    def is_same(self) -> bool:
        """Tell whether the anchored text is unchanged, also in another file."""
        return self.status is AnchorStatus.HOLDS or (
            self.status is AnchorStatus.MOVED and not self.lines
        )

    @property
    def is_different(self) -> bool:
        """Tell whether the anchored text changed or is gone."""
        return self.status is not AnchorStatus.UNKNOWN and not self.is_same

    @property
    def verdict(self) -> str:
        """The state in words: `changed since 9f2c (3 lines)`."""
        count = count_things(self.lines, "line")
        match self.status:
            case AnchorStatus.CHANGED:
                since = f" since {self.anchor.commit[:4]}" if self.anchor.commit else ""
                return f"changed{since} ({count})"
            case AnchorStatus.MOVED:
                changed = f", changed ({count})" if self.lines else ""
                return f"moved to {one_line(self.moved_to)}{changed}"
            case AnchorStatus.UNKNOWN:
                return "cannot tell here"
            case _:
                return self.status.value

    def __str__(self) -> str:
        """Return the anchor and its state, as recall and packs show them."""
        return f"{one_line(self.anchor.place)} {self.verdict}"


def describe_checks(checks: Sequence[AnchorCheck]) -> str:
    """Return the states of a note's anchors in one line, what changed first; "" for none."""
    order = [*AnchorStatus][::-1]
    ranked = sorted(checks, key=lambda each: (not each.is_different, order.index(each.status)))
    shown = [str(each) for each in ranked[:_MOST_SHOWN]]
    more = len(ranked) - len(shown)
    return "; ".join([*shown, *([f"{more} more"] if more else [])])


#: Anchors of a note that a label shows.
_MOST_SHOWN = 3


def compare_anchor(anchor: Anchor, old: bytes, new: bytes) -> AnchorCheck:
    """Return whether the anchored text of an old version of a file is in a new version.

    A symbol is found by its name in both. Lines are followed by their content.
    """
    before, after = _split(old), _split(new)
    if anchor.symbol:
        span = find_symbol(anchor.path, before, anchor.symbol)
        if span is None:
            return AnchorCheck(anchor, AnchorStatus.UNKNOWN)
        now = find_symbol(anchor.path, after, anchor.symbol)
        if now is not None:
            changed = _count_changed(before[slice(*span)], after[slice(*now)])
            status = AnchorStatus.CHANGED if changed else AnchorStatus.HOLDS
            return AnchorCheck(anchor, status, changed)
    else:
        span = (max(anchor.first - 1, 0), min(anchor.last, len(before)) or len(before))
        if not anchor.first:
            changed = _count_changed(before, after)
            return AnchorCheck(
                anchor, AnchorStatus.CHANGED if changed else AnchorStatus.HOLDS, changed
            )
    if span[0] >= span[1]:
        return AnchorCheck(anchor, AnchorStatus.UNKNOWN)
    return _follow_lines(anchor, before, after, span)


def _follow_lines(
    anchor: Anchor, before: Sequence[str], after: Sequence[str], span: tuple[int, int]
) -> AnchorCheck:
    """Return the state of some lines, wherever they are in the new version."""
    start, end = span
    hunks = diff_lines(before, after)
    changed = sum(_count_in(hunk, start, end) for hunk in hunks)
    if not changed or has_block(after, before[start:end]):
        return AnchorCheck(anchor, AnchorStatus.HOLDS)
    removed = sum(max(0, min(h.end, end) - max(h.start, start)) for h in hunks)
    if removed >= end - start:  # No line is where the others are: were they moved as a whole?
        own = before[start:end]
        kept = sum(len("".join(own[a : a + n]).strip()) for a, _, n in match_lines(own, after))
        whole = len("".join(line.strip() for line in own))
        if 2 * kept < whole or not whole:
            is_replaced = any(h.new_end > h.new_start for h in hunks if _count_in(h, start, end))
            if not is_replaced:
                return AnchorCheck(anchor, AnchorStatus.GONE, end - start)
    return AnchorCheck(anchor, AnchorStatus.CHANGED, changed)


def _count_in(hunk: Hunk, start: int, end: int) -> int:
    """Return how many of the lines of a span a change replaces, removes or adds between them."""
    overlap = min(hunk.end, end) - max(hunk.start, start)
    if hunk.start == hunk.end:
        return hunk.new_end - hunk.new_start if start < hunk.start < end else 0
    if overlap <= 0:
        return 0
    is_inside = hunk.start >= start and hunk.end <= end
    return max(overlap, hunk.new_end - hunk.new_start) if is_inside else overlap


def _count_changed(before: Sequence[str], after: Sequence[str]) -> int:
    hunks = diff_lines(before, after)
    return sum(max(h.end - h.start, h.new_end - h.new_start) for h in hunks)


def has_block(lines: Sequence[str], block: Sequence[str]) -> bool:
    """Tell whether lines contain a block as a whole; one of blanks and brackets is in none."""
    if not any(re.search(r"\w", line) for line in block):
        return False
    size = len(block)
    at = -1
    while True:
        try:
            at = lines.index(block[0], at + 1)
        except ValueError:
            return False
        if list(lines[at : at + size]) == list(block):
            return True


def _split(data: bytes) -> list[str]:
    return split_keys(data.decode("utf-8", "surrogateescape"))


# Symbols: Python's are found by its own grammar, others by the way in which code is laid out.

_PYTHON = (".py", ".pyi")

_DEFINES = (
    r"function|func|fn|def|class|struct|enum|union|trait|impl|interface|type|const|let|var|val"
    r"|static|module|namespace|package|sub|proc|macro_rules!|\#\s*define"
)
_CLOSING = re.compile(r"[\])}]|end\b|else\b|elif\b|catch\b|finally\b|\#\s*endif")


def find_symbol(path: str, lines: Sequence[str], symbol: str) -> tuple[int, int] | None:
    """Return the lines that define a symbol, 0-based with an exclusive end; None for no such one.

    `Outer.inner` is a member of `Outer`.
    """
    tree = _parse_python("\n".join(lines)) if path.endswith(_PYTHON) else None
    if tree is None:
        return _find_by_layout(lines, symbol)
    found = _find_node(tree.body, symbol.split("."))
    return _span_of(found) if found else None


def _parse_python(text: str) -> ast.Module | None:
    """Return the syntax tree of a text, None if Python here does not read it."""
    import ast
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def _find_node(body: Sequence[ast.stmt], names: Sequence[str]) -> ast.stmt | None:
    """Return the last definition of a name, which is the one that counts."""
    found: ast.stmt | None = None
    for node in _walk_statements(body):
        if names[0] not in _names_of(node):
            continue
        inner = _find_node(getattr(node, "body", ()), names[1:]) if names[1:] else node
        found = inner or found
    return found


def _walk_statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield statements, also those below `if` and `try`."""
    import ast

    for node in body:
        yield node
        if isinstance(node, ast.If | ast.Try):
            yield from _walk_statements(node.body)
            yield from _walk_statements(node.orelse)
            for handler in getattr(node, "handlers", ()):
                yield from _walk_statements(handler.body)


def _names_of(node: ast.stmt) -> set[str]:
    """Return the names that a statement defines."""
    import ast

    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    if isinstance(node, ast.Assign | ast.AnnAssign):
        return {each.id for each in targets if isinstance(each, ast.Name)}
    return set()


def _span_of(node: ast.stmt) -> tuple[int, int]:
    decorators = getattr(node, "decorator_list", ())
    first = min([node.lineno, *(each.lineno for each in decorators)])
    return first - 1, node.end_lineno or node.lineno


def _find_by_layout(lines: Sequence[str], symbol: str) -> tuple[int, int] | None:
    """Return the lines from a definition to the next line that is indented as little."""
    name = re.escape(symbol.rpartition(".")[2])
    named = re.compile(rf"(?<![\w$]){name}(?![\w$])")
    defines = re.compile(rf"(?:^|[\s(])(?:{_DEFINES})\b[^=]*?(?<![\w$.]){name}(?![\w$])")
    called = re.compile(rf"(?:^|\s|[*&.]){name}\s*(?:[:=]|\([^;]*$)")
    places = [at for at, line in enumerate(lines) if named.search(line)]
    for pattern in (defines, called):
        found = [at for at in places if pattern.search(lines[at])]
        if found:
            first = min(found, key=lambda at: (_indent(lines[at]), at))
            return first, _find_end(lines, first)
    return None


def _find_end(lines: Sequence[str], first: int) -> int:
    indent, end = _indent(lines[first]), first + 1
    for at in range(first + 1, len(lines)):
        line = lines[at]
        bare = line.strip()
        if not bare:
            continue
        goes_on = bare == "{" or bool(_CLOSING.match(bare))
        if _indent(line) < indent or (_indent(line) == indent and not goes_on):
            break
        end = at + 1
    return end


def _indent(line: str) -> int:
    return len(line.expandtabs(4)) - len(line.expandtabs(4).lstrip())
