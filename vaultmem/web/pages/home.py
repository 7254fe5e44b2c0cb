"""Pages of the vault as a whole: home, health, conflicts and login."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import groupby
from typing import NamedTuple

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import Response

from vaultmem.core.curation.proposal import CHOICES, format_action
from vaultmem.core.merging.text import ConflictChoice
from vaultmem.core.notes.record import NoteRecord
from vaultmem.core.text.timestamps import Check, Verdict
from vaultmem.errors import RefusedError
from vaultmem.operations.branch_changes import list_conflicts
from vaultmem.operations.branch_changes import resolve as resolve_conflicts
from vaultmem.operations.checks import doctor
from vaultmem.services.health.economics import Stats
from vaultmem.services.merging.text_conflicts import NoteConflict
from vaultmem.services.packs.receipts import ShownSections
from vaultmem.storage.git.head import read_refs
from vaultmem.storage.git.log import Commit
from vaultmem.storage.views import View
from vaultmem.vault import Vault
from vaultmem.web.access import accept_code
from vaultmem.web.page_requests import answers, go_back, read, read_form, refuse, write
from vaultmem.web.rendering import Site, Visits, make_link, render_page

#: The most notes and queries to show, and commits.
MAX_RECENT_ITEMS, _MAX_COMMITS = 8, 16

#: The number of notes that `init` writes into a new vault.
_TEMPLATES = 2


class Notes(NamedTuple):
    """The contents of a vault: size, states, pinned notes and the last changes."""

    total: int
    tokens: int
    states: dict[str, int]
    pinned: list[NoteRecord]
    changed: list[NoteRecord]


class SessionChanges(NamedTuple):
    """Commits, newest first, of one author in one session; "" outside of a session."""

    author: str
    is_agent: bool
    session: str
    commits: tuple[Commit, ...]


class Home(NamedTuple):
    """The contents of a vault's home page.

    `saved` are notes changed after the newest commit; `failed` are queries without results, each
    with its count.
    """

    notes: Notes
    saved: list[NoteRecord]
    changes: list[SessionChanges]
    failed: tuple[tuple[str, int], ...]

    @property
    def is_new(self) -> bool:
        """Whether the vault has only the notes that `init` writes."""
        return self.notes.total <= _TEMPLATES


def collect_home(vault: Vault) -> Home:
    """Return the last changes with their authors, the failed queries and the pinned notes."""
    from vaultmem.services.health.economics import list_failed
    from vaultmem.services.history.commits import resolve_view_commit

    notes = vault.view.keep("home", lambda: _sum_up_all(vault.view))
    commit = resolve_view_commit(vault)
    log = _list_newest(commit, vault)
    newest = log[0].at if log else 0
    saved = [] if commit else [each for each in notes.changed if log and each.changed > newest]
    return Home(notes, saved, group_commits(log), list_failed(vault)[:MAX_RECENT_ITEMS])


def _list_newest(commit: str, vault: Vault) -> tuple[Commit, ...]:
    """Return the newest commits, cached until they or their attributions change."""
    from vaultmem.services.history.commits import CommitFilter, list_commits

    head = vault.head()
    if head is None:
        return ()
    notes = read_refs(vault.history.git_folder, "refs/notes/") or {}
    commit_filter = CommitFilter(everything=True)
    return vault.view.keep(
        "newest commits",
        lambda: list_commits(vault, commit_filter, _MAX_COMMITS, commit=commit).commits,
        *(head, commit, *notes.values()),
    )


def group_commits(commits: Iterable[Commit]) -> list[SessionChanges]:
    """Return adjacent commits of one author and session as groups."""
    groups = groupby(commits, lambda each: (each.who, bool(each.agent), each.session))
    return [SessionChanges(*key, tuple(group)) for key, group in groups]


def _sum_up_all(view: View) -> Notes:
    notes, tokens = view.totals()
    return Notes(
        notes, tokens, view.count_notes("state"), view.pinned(), view.last_changed(MAX_RECENT_ITEMS)
    )


@answers
async def show_home(request: Request) -> Response:
    """Show the home page."""
    frame, home = await read(request, collect_home)
    kinds = {action: format_action(action) for action in CHOICES}
    return render_page(request, "home.html", vault=frame, home=home, choices=CHOICES, kinds=kinds)


# Login: a one-time code becomes a browser session.


async def enter(request: Request) -> Response:
    """Log in a browser that has a valid code.

    The page reloads itself: a redirect would still count as a visit from the link's site, and would
    send no cookie.
    """
    site: Site = request.app.state.site
    visits: Visits = request.app.state.visits
    code = request.query_params.get("code", "")
    if not await to_thread.run_sync(partial(accept_code, site.folder, code)):
        reason = (
            "This sign-in link was already used, or has expired; "
            "`vaultmem serve --print-link` prints a new one."
        )
        return refuse(request, 403, reason)
    answer = render_page(request, "entered.html", title="Signed in")
    answer.set_cookie(site.cookie, visits.begin(), httponly=True, samesite="strict")
    return answer


# Health: problems, the cost and savings of memory, and failed queries.

#: The most entries of the list of shown sections.
_MAX_RECENT_SECTIONS = 15


class UsageSummary(NamedTuple):
    """The cost and savings of packs and recalls, the sections shown last, and titles by path."""

    stats: Stats
    shown_sections: list[ShownSections]
    titles: dict[str, str]


def collect_account(vault: Vault) -> UsageSummary:
    """Return the usage of all packs and recalls."""
    from vaultmem.services.health.economics import read_stats
    from vaultmem.services.packs.receipts import list_recent

    stats = read_stats(vault)
    paths = [each.path for each in stats.most]
    marks = ", ".join("?" * len(paths))
    titles = {each.path: each.title for each in vault.view.records(f"d.path IN ({marks})", paths)}
    return UsageSummary(stats, list_recent(vault, _MAX_RECENT_SECTIONS), titles)


def collect_checks(vault: Vault) -> list[Check]:
    """Return the results of the checks, problems first."""
    return sorted(doctor(vault), key=lambda check: check.verdict is Verdict.OK)


@answers
async def show_health(request: Request) -> Response:
    """Show the cost and savings of memory; the page loads the checks later."""
    frame, account = await read(request, collect_account)
    return render_page(request, "health.html", vault=frame, account=account)


@answers
async def show_checks(request: Request) -> Response:
    """Show the problems; the health page loads them late, since they take time."""
    frame, checks = await read(request, collect_checks)
    return render_page(request, "checks.html", vault=frame, checks=checks)


# Merge conflicts; each decision is one commit, with undo.

#: Conflicts on a page.
_LIMIT = 50


class ConflictPage(NamedTuple):
    """The shown conflicts, and the number of all."""

    conflicts: list[NoteConflict]
    waiting: int


def collect_conflicts(vault: Vault) -> ConflictPage:
    """Return the first of the conflicts in notes."""
    conflicts = list_conflicts(vault).conflicts
    return ConflictPage(conflicts[:_LIMIT], len(conflicts))


@answers
async def show_conflicts(request: Request) -> Response:
    """Show the conflicts, side by side."""
    frame, page = await read(request, collect_conflicts)
    return render_page(request, "conflicts.html", vault=frame, shown=page)


@answers
async def resolve(request: Request) -> Response:
    """Decide one conflict, and redirect to the others."""
    form = await read_form(request)
    try:
        choice, number = ConflictChoice(form.get("choice", "")), int(form.get("number", ""))
    except ValueError:
        raise RefusedError("choose ours, theirs or both for a conflict") from None
    result = await write(request, partial(_resolve, form.get("path", ""), choice, number))
    return go_back(request, make_link("/conflicts"), f"{result[0]}: kept {choice}.", result[1])


def _resolve(path: str, choice: ConflictChoice, number: int, vault: Vault) -> tuple[str, str]:
    result = resolve_conflicts(vault, path, choice, number)
    return result.path, result.report.commit
