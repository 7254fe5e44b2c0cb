"""Home: what is in the vault, what changed last, and what waits."""

from __future__ import annotations

from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from vaultmem.core.finding.query import NoteFilter
from vaultmem.core.notes.record import NoteRecord
from vaultmem.storage.git.log import Commit
from vaultmem.vault import Vault
from vaultmem.web.asking import answers, read
from vaultmem.web.rendering import render_page

#: Commits and notes that are shown.
_LAST = 8


class Home(NamedTuple):
    """What a vault's first page shows."""

    notes: int
    tokens: int
    states: dict[str, int]
    pinned: list[NoteRecord]
    changed: list[NoteRecord]
    commits: tuple[Commit, ...]


def gather_home(vault: Vault) -> Home:
    """Return what is pinned, what changed last, and how many notes there are."""
    from vaultmem.services.history.commits import CommitFilter, list_commits
    from vaultmem.services.reading.read_notes import list_notes

    records = list_notes(vault, NoteFilter(any_state=True))
    states: dict[str, int] = {}
    for record in records:
        states[record.state] = states.get(record.state, 0) + 1
    by_change = sorted(records, key=lambda record: (-record.changed, record.path))
    has_git = vault.head() is not None
    log = list_commits(vault, CommitFilter(everything=True), _LAST).commits if has_git else ()
    return Home(
        len(records),
        sum(record.tokens for record in records),
        dict(sorted(states.items(), key=lambda each: -each[1])),
        [record for record in records if record.pinned],
        by_change[:_LAST],
        log,
    )


@answers
async def show_home(request: Request) -> Response:
    """Show the first page."""
    frame, home = await read(request, gather_home)
    return render_page(request, "home.html", vault=frame, home=home)
