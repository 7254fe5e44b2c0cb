"""Notes by state, kind, tag, context and name, and how many there are of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from vaultmem.core.notes.record import NoteRecord, has_tag
from vaultmem.vault import Vault
from vaultmem.web.asking import answers, read, read_page
from vaultmem.web.rendering import render_page

#: Notes on a page, and values of a property that are offered.
PAGE, _OFFERED = 100, 24


class Wanted(NamedTuple):
    """Which notes are listed; what is empty lets all through. `name` is a part of title or path."""

    state: str = ""
    kind: str = ""
    tag: str = ""
    context: str = ""
    name: str = ""

    def admits(self, record: NoteRecord) -> bool:
        """Tell whether a note is wanted."""
        return (
            self.state in ("", record.state)
            and self.kind in ("", record.kind)
            and (not self.tag or has_tag(record.tags, self.tag))
            and f"{record.context}/".startswith(f"{self.context}/" if self.context else "")
            and self.name.casefold() in f"{record.title}\n{record.path}".casefold()
        )


class Choice(NamedTuple):
    """A property by which the list can be made shorter: its values, and how many have each."""

    name: str
    values: list[tuple[str, int]]


class Listed(NamedTuple):
    """A page of notes, the last changed first, how many there are, and what else may be chosen."""

    notes: list[NoteRecord]
    total: int
    choices: list[Choice]


def gather_notes(wanted: Wanted, page: int, vault: Vault) -> Listed:
    """Return one page (from 0) of the notes that are wanted."""
    found = list(filter(wanted.admits, vault.view.keep("notes by time", lambda: _sort(vault))))
    choices = [
        _offer("state", (record.state for record in found)),
        _offer("kind", (record.kind for record in found)),
        _offer("context", (record.context for record in found)),
        _offer("tag", (tag for record in found for tag in record.tags)),
    ]
    return Listed(found[page * PAGE : (page + 1) * PAGE], len(found), choices)


def _sort(vault: Vault) -> list[NoteRecord]:
    return sorted(vault.view.records(), key=lambda record: (-record.changed, record.path))


def _offer(name: str, values: Iterable[str]) -> Choice:
    counts = Counter(value for value in values if value)
    return Choice(name, counts.most_common(_OFFERED))


@answers
async def show_notes(request: Request) -> Response:
    """Show a page of notes."""
    given = request.query_params
    wanted = Wanted(**{name: given.get(name, "")[:500].strip("#/ ") for name in Wanted._fields})
    page = read_page(given)
    frame, listed = await read(request, partial(gather_notes, wanted, page))
    template = "note_rows.html" if "part" in given else "notes.html"
    return render_page(
        request, template, vault=frame, wanted=wanted, listed=listed, page=page, size=PAGE
    )
