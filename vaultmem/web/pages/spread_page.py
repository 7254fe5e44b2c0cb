"""The page of a spread: a note's author, the sessions that were shown it, and their notes."""

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
    from vaultmem.services.sessions.spread import Reader, Spread, Writing

#: The most rows of the drawing; the list has all.
_MOST_ROWS = 60

#: Width of the drawing and height of a row: one unit is a pixel on a narrow screen.
WIDTH, ROW = 360, 40

#: The indentation of a row below its parent, and the most levels.
_STEP, _DEEPEST = 20, 6

#: Letters per unit of width.
_LETTERS = 1 / 7.4


class SpreadNode(NamedTuple):
    """A row of the drawing, a note or session, at `x` and `y`; `above` is its parent's position.

    `path` is that of the note, or of the session's note, "" if it is not in this vault. `how` is
    the relation of a note to the text that its session was shown.
    """

    label: str
    detail: str
    is_session: bool
    path: str = ""
    how: str = ""
    x: int = 0
    y: int = 0
    above: tuple[int, int] | None = None

    @property
    def letters(self) -> int:
        """The number of letters that fit."""
        return int((WIDTH - self.x - 14) * _LETTERS)


class ShownReader(NamedTuple):
    """A session that was shown the note; its notes that repeat or cite it, and the other count.

    `path` is that of the session's own note, "" if it is not in this vault.
    """

    reader: Reader
    path: str
    writings: list[Writing]
    others: int


class SpreadPage(NamedTuple):
    """A spread with its drawing; `left` counts the omitted rows."""

    found: Spread
    readers: list[ShownReader]
    nodes: list[SpreadNode]
    left: int


def collect_spread(target: str, vault: Vault) -> SpreadPage:
    """Return the spread of a note, session or commit, as `trace --spread` does.

    Raises:
        NoteNotFoundError, RefusedError: as for `find_spread`.
    """
    found = spread(vault, target)
    notes = [str(session_path(each.session)) for each in found.readers if each.session]
    marks = ", ".join("?" * len(notes))
    here = {each.path for each in vault.view.records(f"d.path IN ({marks})", notes)}
    readers = []
    for each in found.readers:
        own = list_own(found, each)
        path = str(session_path(each.session)) if each.session else ""
        reached = [one for one in own if one.how]
        others = len(own) - len(reached)
        readers.append(ShownReader(each, path if path in here else "", reached, others))
    nodes = list(_draw(_list_roots(found, vault), readers))
    return SpreadPage(found, readers, nodes[:_MOST_ROWS], max(len(nodes) - _MOST_ROWS, 0))


def _list_roots(found: Spread, vault: Vault) -> list[SpreadNode]:
    """Return the source notes, each with its author."""
    marks = ", ".join("?" * len(found.sources))
    records = {
        each.path: each for each in vault.view.records(f"d.path IN ({marks})", found.sources)
    }
    roots = []
    for path in found.sources:
        record = records.get(path)
        author = f"{record.agent} {record.session}".strip() if record else ""
        written = f"written by {author or 'a person'}" if record else "removed"
        label = record.title if record else path
        roots.append(SpreadNode(label, written, False, path if record else ""))
    return roots


def _draw(roots: Sequence[SpreadNode], readers: Sequence[ShownReader]) -> Iterator[SpreadNode]:
    """Yield each note, then the sessions that were shown it first, with their notes."""
    tops = [(each, each.path or each.label) for each in roots]
    known = {name for _, name in tops}
    below: dict[str, list[tuple[SpreadNode, str]]] = {}
    for number, each in enumerate(readers):
        shown = next((path for path in each.reader.paths if path in known), tops[0][1])
        name = f"\0{number}"
        below.setdefault(shown, []).append((_make_session(each), name))
        below[name] = [(_make_writing(one), "" if one.vault else one.path) for one in each.writings]
        known |= {one.path for one in each.writings if not one.vault}
    rows = 0
    left: list[tuple[SpreadNode, str, int, tuple[int, int] | None]]
    left = [(*each, 0, None) for each in reversed(tops)]
    while left:
        node, name, depth, above = left.pop()
        x, y = min(depth, _DEEPEST) * _STEP + 10, rows * ROW + ROW // 2
        rows += 1
        yield node._replace(x=x, y=y, above=above)
        left += [(*each, depth + 1, (x, y)) for each in reversed(below.pop(name, []))]


def _make_writing(written: Writing) -> SpreadNode:
    how = str(written.how)
    path = "" if written.vault else written.path
    return SpreadNode(PurePosixPath(written.path).stem, how, False, path, how)


def _make_session(shown: ShownReader) -> SpreadNode:
    reader = shown.reader
    label = " ".join(filter(None, (reader.agent or "a person", reader.session)))
    others = f"; wrote {pluralize(shown.others, 'other note')}" if shown.others else ""
    return SpreadNode(label, f"was shown the note{others}", True, shown.path)


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
