"""Home: what is in the vault, what changed last, and what waits."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from vaultmem.core.notes.record import NoteRecord
from vaultmem.services.branching.proposals import list_proposed
from vaultmem.storage.git.log import Commit
from vaultmem.storage.views import View
from vaultmem.vault import Vault
from vaultmem.web.asking import answers, read
from vaultmem.web.rendering import render_page

#: Commits and notes that are shown.
LAST = 8


class Notes(NamedTuple):
    """What a vault holds: how much, in which states, what is pinned, what changed last."""

    total: int
    tokens: int
    states: dict[str, int]
    pinned: list[NoteRecord]
    changed: list[NoteRecord]


class Home(NamedTuple):
    """What a vault's first page shows; `proposals` counts branches that wait for a decision."""

    notes: Notes
    commits: tuple[Commit, ...]
    proposals: int = 0


def gather_home(vault: Vault) -> Home:
    """Return what is pinned, what changed last, and how many notes there are."""
    from vaultmem.services.history.commits import CommitFilter, find_moment, list_commits

    notes = vault.view.keep("home", lambda: _sum_up_all(vault.view))
    has_git = vault.head() is not None
    wanted = CommitFilter(everything=True)
    moment = find_moment(vault)
    log = list_commits(vault, wanted, LAST, commit=moment).commits if has_git else ()
    return Home(notes, log, len(list_proposed(vault)))


def _sum_up_all(view: View) -> Notes:
    notes, tokens = view.totals()
    return Notes(notes, tokens, view.count_notes("state"), view.pinned(), view.last_changed(LAST))


def sum_up(records: Sequence[NoteRecord]) -> Notes:
    """Return what the first page says of some notes, whose records are at hand."""
    return Notes(
        len(records),
        sum(record.tokens for record in records),
        dict(Counter(record.state for record in records).most_common()),
        [record for record in records if record.pinned],
        heapq.nsmallest(LAST, records, lambda record: (-record.changed, record.path)),
    )


@answers
async def show_home(request: Request) -> Response:
    """Show the first page."""
    frame, home = await read(request, gather_home)
    return render_page(request, "home.html", vault=frame, home=home)
