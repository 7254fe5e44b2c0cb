"""Find the anchored text in two versions of a file, by its symbol or by following its lines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from vaultmem.core.anchors import Anchor, AnchorCheck, AnchorStatus
from vaultmem.core.text.line_diff import Hunk, diff_lines, match_lines, split_keys

if TYPE_CHECKING:
    import ast


#: Steps of one comparison (see `diff_lines`); low because recall waits for it.
_MAX_STEPS = 100_000


def compare_anchor(anchor: Anchor, old: bytes, new: bytes) -> AnchorCheck:
    """Return whether the anchored text of an old version of a file is in a new version.

    A symbol is found by name in both versions; lines are followed by content.
    """
    old_lines, new_lines = _split(old), _split(new)
    if anchor.symbol:
        span = find_symbol(anchor.path, old_lines, anchor.symbol)
        if span is None:
            return AnchorCheck(anchor, AnchorStatus.UNKNOWN)
        new_span = find_symbol(anchor.path, new_lines, anchor.symbol)
        if new_span is not None:
            changed = _count_changed(old_lines[slice(*span)], new_lines[slice(*new_span)])
            status = AnchorStatus.CHANGED if changed else AnchorStatus.HOLDS
            return AnchorCheck(anchor, status, changed)
    else:
        span = (max(anchor.first - 1, 0), min(anchor.last, len(old_lines)) or len(old_lines))
        if not anchor.first:
            changed = _count_changed(old_lines, new_lines)
            return AnchorCheck(
                anchor, AnchorStatus.CHANGED if changed else AnchorStatus.HOLDS, changed
            )
    if span[0] >= span[1]:
        return AnchorCheck(anchor, AnchorStatus.UNKNOWN)
    return _follow_lines(anchor, old_lines, new_lines, span)


def locate_anchor(anchor: Anchor, old: bytes, new: bytes) -> tuple[int, int] | None:
    """Return the lines of a new version that contain or replaced the anchored text.

    They are 0-based with an exclusive end. None if the old version does not contain the text.
    """
    old_lines, new_lines = _split(old), _split(new)
    if not (anchor.first or anchor.symbol):
        return 0, len(new_lines)
    span = (anchor.first - 1, min(anchor.last, len(old_lines)))
    if anchor.symbol:
        if (new_span := find_symbol(anchor.path, new_lines, anchor.symbol)) is not None:
            return new_span
        span = find_symbol(anchor.path, old_lines, anchor.symbol) or (0, 0)
    if span[0] >= span[1]:
        return None
    hunks = diff_lines(old_lines, new_lines, _MAX_STEPS)
    if any(_count_in(hunk, *span) for hunk in hunks):
        block = old_lines[slice(*span)]
        if (start := _find_moved(old_lines, new_lines, block)) is not None:
            return start, start + len(block)
    return _move(hunks, span[0], is_end=False), _move(hunks, span[1], is_end=True)


def _move(hunks: Sequence[Hunk], place: int, *, is_end: bool) -> int:
    """Return the line of the new version for a position before a line of the old one."""
    offset = 0
    for hunk in hunks:
        if hunk.end < place or (hunk.end == place and (not is_end or hunk.start < hunk.end)):
            offset = hunk.new_end - hunk.end
        elif hunk.start < place:
            return hunk.new_end if is_end else hunk.new_start
    return place + offset


def _follow_lines(
    anchor: Anchor, old_lines: Sequence[str], new_lines: Sequence[str], span: tuple[int, int]
) -> AnchorCheck:
    """Return the status of some lines, wherever they are in the new version."""
    start, end = span
    if _find_moved(old_lines, new_lines, old_lines[start:end]) is not None:
        return AnchorCheck(anchor, AnchorStatus.HOLDS)
    hunks = diff_lines(old_lines, new_lines, _MAX_STEPS)
    changed = sum(_count_in(hunk, start, end) for hunk in hunks)
    if not changed:
        return AnchorCheck(anchor, AnchorStatus.HOLDS)
    removed = sum(max(0, min(h.end, end) - max(h.start, start)) for h in hunks)
    if removed >= end - start:  # Were all lines moved together?
        block = old_lines[start:end]
        shared_size = sum(
            len("".join(block[a : a + n]).strip())
            for a, _, n in match_lines(block, new_lines, _MAX_STEPS)
        )
        size = len("".join(line.strip() for line in block))
        if 2 * shared_size < size or not size:
            is_replaced = any(h.new_end > h.new_start for h in hunks if _count_in(h, start, end))
            if not is_replaced:
                return AnchorCheck(anchor, AnchorStatus.GONE, end - start)
    return AnchorCheck(anchor, AnchorStatus.CHANGED, changed)


def _count_in(hunk: Hunk, start: int, end: int) -> int:
    """Return how many lines of a span a hunk replaces, removes or adds inside it."""
    overlap = min(hunk.end, end) - max(hunk.start, start)
    if hunk.start == hunk.end:
        return hunk.new_end - hunk.new_start if start < hunk.start < end else 0
    if overlap <= 0:
        return 0
    is_inside = hunk.start >= start and hunk.end <= end
    return max(overlap, hunk.new_end - hunk.new_start) if is_inside else overlap


def _count_changed(old_lines: Sequence[str], new_lines: Sequence[str]) -> int:
    hunks = diff_lines(old_lines, new_lines, _MAX_STEPS)
    return sum(max(h.end - h.start, h.new_end - h.new_start) for h in hunks)


def find_block(lines: Sequence[str], block: Sequence[str]) -> list[int]:
    """Return the start lines of a block in `lines`; none if it has no letters or digits."""
    if not any(re.search(r"\w", line) for line in block):
        return []
    block_lines, size = list(block), len(block)
    starts = (start for start, line in enumerate(lines) if line == block_lines[0])
    return [start for start in starts if list(lines[start : start + size]) == block_lines]


def _find_moved(
    old_lines: Sequence[str], new_lines: Sequence[str], block: Sequence[str]
) -> int | None:
    """Return the line of a block in the new version; None if the old version has copies of it."""
    starts = find_block(new_lines, block)
    return starts[0] if starts and len(find_block(old_lines, block)) == 1 else None


def _split(data: bytes) -> list[str]:
    return split_keys(data.decode("utf-8", "surrogateescape"))


# Symbols: Python's are found by its grammar, others by indentation.

_PYTHON = (".py", ".pyi")

_DEFINITION_KEYWORDS = (
    r"function|func|fn|def|class|struct|enum|union|trait|impl|interface|type|const|let|var|val"
    r"|static|module|namespace|package|sub|proc|macro_rules!|\#\s*define"
)
_CLOSING = re.compile(r"[\])}]|end\b|else\b|elif\b|catch\b|finally\b|\#\s*endif")


def find_symbol(path: str, lines: Sequence[str], symbol: str) -> tuple[int, int] | None:
    """Return the lines that define a symbol, 0-based with an exclusive end, or None.

    `Outer.inner` is a member of `Outer`.
    """
    tree = _parse_python("\n".join(lines)) if path.endswith(_PYTHON) else None
    if tree is None:
        return _find_by_layout(lines, symbol)
    node = _find_node(tree.body, symbol.split("."))
    return _span_of(node) if node else None


def _parse_python(text: str) -> ast.Module | None:
    """Return the syntax tree of a text, None if this Python cannot parse it."""
    import ast
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def _find_node(body: Sequence[ast.stmt], names: Sequence[str]) -> ast.stmt | None:
    """Return the last definition of a name, which overrides earlier ones."""
    definition: ast.stmt | None = None
    for node in _walk_statements(body):
        if names[0] not in _names_of(node):
            continue
        inner = _find_node(getattr(node, "body", ()), names[1:]) if names[1:] else node
        definition = inner or definition
    return definition


def _walk_statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield statements, including those inside `if` and `try`."""
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
    """Return the lines from a definition to the next line with the same or a smaller indent."""
    name = re.escape(symbol.rpartition(".")[2])
    name_pattern = re.compile(rf"(?<![\w$]){name}(?![\w$])")
    definition = re.compile(
        rf"(?:^|[\s(])(?:{_DEFINITION_KEYWORDS})\b[^=]*?(?<![\w$.]){name}(?![\w$])"
    )
    assignment = re.compile(rf"(?:^|\s|[*&.]){name}\s*(?:[:=]|\([^;]*$)")
    places = [number for number, line in enumerate(lines) if name_pattern.search(line)]
    for pattern in (definition, assignment):
        matches = [number for number in places if pattern.search(lines[number])]
        if matches:
            first = min(matches, key=lambda number: (_indent(lines[number]), number))
            return first, _find_end(lines, first)
    return None


def _find_end(lines: Sequence[str], first: int) -> int:
    indent, end = _indent(lines[first]), first + 1
    for number in range(first + 1, len(lines)):
        line = lines[number]
        text = line.strip()
        if not text:
            continue
        goes_on = text == "{" or bool(_CLOSING.match(text))
        if _indent(line) < indent or (_indent(line) == indent and not goes_on):
            break
        end = number + 1
    return end


def _indent(line: str) -> int:
    return len(line.expandtabs(4)) - len(line.expandtabs(4).lstrip())
