"""The page of a spread: a note's author, the sessions that received it, and their notes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from vaultmem.core.sessions.session import session_path
from vaultmem.core.text.display import pluralize
from vaultmem.errors import ForbiddenError, RefusedError
from vaultmem.operations.traces import list_own, spread
from vaultmem.vault import Vault
from vaultmem.web.page_requests import answers, read, read_path
from vaultmem.web.rendering import render_page

if TYPE_CHECKING:
    from vaultmem.services.sessions.spread import LaterNote, Reader, Spread

#: The most rows of the drawing; the list has all.
_MAX_ROWS = 60

#: Width of the drawing and height of a row: one unit is a pixel on a narrow screen.
WIDTH, ROW = 360, 40

#: The indentation of a row below its parent, and the most levels.
_STEP, _MAX_DEPTH = 20, 6

#: Letters per unit of width.
_LETTERS = 1 / 7.4


class SpreadNode(NamedTuple):
    """A row of the drawing, a note or session, at `x` and `y`; `above` is its parent's position.

    `path` is that of the note, or of the session's note, "" if it is not in this vault. `relation`
    is the relation of a note to the text that its session received.
    """

    label: str
    detail: str
    is_session: bool
    path: str = ""
    relation: str = ""
    x: int = 0
    y: int = 0
    above: tuple[int, int] | None = None

    @property
    def letters(self) -> int:
        """The number of letters that fit."""
        return int((WIDTH - self.x - 14) * _LETTERS)


class ShownReader(NamedTuple):
    """A session that received the note; its notes that repeat or cite it, and how many others.

    `path` is that of the session's own note, "" if it is not in this vault.
    """

    reader: Reader
    path: str
    writings: list[LaterNote]
    others: int


class SpreadPage(NamedTuple):
    """A spread with its drawing; `omitted_rows` counts the omitted rows."""

    spread: Spread
    readers: list[ShownReader]
    nodes: list[SpreadNode]
    omitted_rows: int


def collect_spread(target: str, vault: Vault) -> SpreadPage:
    """Return the spread of a note, session or commit, as `trace --spread` does.

    Raises:
        NoteNotFoundError, RefusedError: as for `find_spread`.
    """
    spread_result = spread(vault, target)
    notes = [str(session_path(each.session)) for each in spread_result.readers if each.session]
    marks = ", ".join("?" * len(notes))
    vault_paths = {each.path for each in vault.view.records(f"d.path IN ({marks})", notes)}
    readers = []
    for each in spread_result.readers:
        writings = list_own(spread_result, each)
        path = str(session_path(each.session)) if each.session else ""
        related_writings = [one for one in writings if one.relation]
        others = len(writings) - len(related_writings)
        readers.append(
            ShownReader(each, path if path in vault_paths else "", related_writings, others)
        )
    nodes = list(_draw(_list_roots(spread_result, vault), readers))
    return SpreadPage(spread_result, readers, nodes[:_MAX_ROWS], max(len(nodes) - _MAX_ROWS, 0))


def _list_roots(spread_result: Spread, vault: Vault) -> list[SpreadNode]:
    """Return the source notes, each with its author."""
    marks = ", ".join("?" * len(spread_result.sources))
    records = {
        each.path: each
        for each in vault.view.records(f"d.path IN ({marks})", spread_result.sources)
    }
    roots = []
    for path in spread_result.sources:
        record = records.get(path)
        author = f"{record.agent} {record.session}".strip() if record else ""
        detail = f"written by {author or 'a person'}" if record else "removed"
        label = record.title if record else path
        roots.append(SpreadNode(label, detail, False, path if record else ""))
    return roots


def _draw(roots: Sequence[SpreadNode], readers: Sequence[ShownReader]) -> Iterator[SpreadNode]:
    """Yield each note, then the sessions that received it first, with their notes."""
    tops = [(each, each.path or each.label) for each in roots]
    names = {name for _, name in tops}
    children: dict[str, list[tuple[SpreadNode, str]]] = {}
    for number, each in enumerate(readers):
        source_path = next((path for path in each.reader.paths if path in names), tops[0][1])
        name = f"\0{number}"
        children.setdefault(source_path, []).append((_make_session(each), name))
        children[name] = [
            (_make_writing(one), "" if one.vault else one.path) for one in each.writings
        ]
        names |= {one.path for one in each.writings if not one.vault}
    rows = 0
    stack: list[tuple[SpreadNode, str, int, tuple[int, int] | None]]
    stack = [(*each, 0, None) for each in reversed(tops)]
    while stack:
        node, name, depth, parent = stack.pop()
        x, y = min(depth, _MAX_DEPTH) * _STEP + 10, rows * ROW + ROW // 2
        rows += 1
        yield node._replace(x=x, y=y, above=parent)
        stack += [(*each, depth + 1, (x, y)) for each in reversed(children.pop(name, []))]


def _make_writing(writing: LaterNote) -> SpreadNode:
    relation = str(writing.relation)
    path = "" if writing.vault else writing.path
    return SpreadNode(PurePosixPath(writing.path).stem, relation, False, path, relation)


def _make_session(shown_reader: ShownReader) -> SpreadNode:
    reader = shown_reader.reader
    label = " ".join(filter(None, (reader.agent or "a person", reader.session)))
    others = (
        f"; wrote {pluralize(shown_reader.others, 'other note')}" if shown_reader.others else ""
    )
    return SpreadNode(label, f"was shown the note{others}", True, shown_reader.path)


@answers
async def show_spread(request: Request) -> Response:
    """Show the spread of a note, a session or a commit."""
    target = read_path(request, "/spread/")
    if request.state.visitor.guest:
        raise ForbiddenError("only the owner can view where a note spread")
    if request.query_params.get("at"):
        raise RefusedError("a spread has no earlier version; remove `at` from the address")
    frame, page = await read(request, partial(collect_spread, target))
    return render_page(request, "spread.html", vault=frame, page=page, width=WIDTH, row=ROW)
