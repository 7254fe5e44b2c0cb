"""The review queue, with notes side by side; each decision is one commit, with undo."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from vaultmem.core.curation.proposal import (
    CHOICES,
    Action,
    Proposal,
    ProposalChoice,
    format_action,
)
from vaultmem.core.lifecycle import NoteState
from vaultmem.core.notes.changes import diff_text
from vaultmem.core.text.display import clean_text, pluralize
from vaultmem.core.text.line_diff import Passage, mark_diff
from vaultmem.errors import RefusedError, VaultError
from vaultmem.services.curation.decide import DecisionResult, decide, decide_candidates
from vaultmem.services.curation.review import (
    MAX_COMPARED_NOTES,
    Item,
    ReviewSide,
    describe_items,
    find_item,
    list_queue,
    remember_waiting,
)
from vaultmem.services.history.restore_note import UndoResult, undo_commit
from vaultmem.vault import Vault
from vaultmem.web.background_jobs import Jobs, TellProgress
from vaultmem.web.markdown.html import render_note
from vaultmem.web.markdown.html_links import LinkContext
from vaultmem.web.page_requests import answers, go_back, read, read_form, read_page, write
from vaultmem.web.rendering import build_link_context, link_note, make_link, render_page

#: Items on a page.
_LIMIT = 20

#: The most characters of a note that are shown, and compared with another's.
_MAX_SHOWN_CHARS, _MAX_COMPARED_CHARS = 900, 4_000

#: The most lines of a difference.
_LINES = 60

#: The most commits to undo at once, and the pages that link back to themselves.
_MAX_UNDO_COMMITS = 50
_BACK_PAGE_PREFIXES = ("/session/", "/agent/")

#: The most postponed items, whose ids are in the page's address.
_MAX_POSTPONED_ITEMS = 100

_JOB = "review"


class ShownSide(NamedTuple):
    """A note of a decision, and the start of its text, as HTML if it may be rendered.

    `passages` is the change of a proposed branch in the note, and `hidden_lines` counts its hidden
    lines.
    """

    side: ReviewSide
    text: str
    html: str
    is_cut: bool
    passages: list[Passage]
    hidden_lines: int


class ShownItem(NamedTuple):
    """An item of the review queue, its notes, and the words in which two of them differ."""

    item: Item
    sides: list[ShownSide]
    differences: list[Passage]


class QueueRequest(NamedTuple):
    """A filter of the queue, by kind and author; `later` are the ids of postponed items."""

    only: str = ""
    agent: str = ""
    later: tuple[str, ...] = ()
    page: int = 0


class Queue(NamedTuple):
    """A page of the queue: its items, the numbers by kind and author, and the total.

    With `is_old` it is the result of the last search, without items decided since.
    """

    items: list[ShownItem]
    kinds: dict[str, int]
    agents: dict[str, int]
    waiting: int
    is_old: bool
    has_more: bool


def collect_queue(queue_request: QueueRequest, vault: Vault) -> Queue:
    """Return a page of the queue; postponed items are last."""
    is_old = vault.view.totals()[0] > MAX_COMPARED_NOTES
    proposals: Sequence[Proposal] = (
        remember_waiting(vault) if is_old else list_queue(vault).proposals
    )
    authors = _find_authors(vault, proposals)
    queue_proposals = [
        each
        for each in proposals
        if queue_request.only in ("", each.action)
        and (
            not queue_request.agent
            or queue_request.agent in {authors.get(path) for path, _ in each.places}
        )
    ]
    queue_proposals.sort(key=lambda each: each.id in queue_request.later)
    first = queue_request.page * _LIMIT
    link_context = build_link_context("", vault, embeds=False)
    page_items = describe_items(vault, queue_proposals[first : first + _LIMIT])
    items = [_show(item, link_context) for item in page_items]
    kinds = Counter(each.action.value for each in proposals)
    agents = Counter(
        agent
        for each in proposals
        for agent in {authors.get(path, "") for path, _ in each.places}
        if agent
    )
    has_more = len(queue_proposals) > first + _LIMIT
    return Queue(items, dict(kinds), dict(agents), len(proposals), is_old, has_more)


def _find_authors(vault: Vault, proposals: Sequence[Proposal]) -> dict[str, str]:
    """Return the agents that wrote the notes of proposals, by path."""
    paths = list({path for each in proposals for path, _ in each.places})
    marks = ", ".join("?" * len(paths))
    records = vault.view.records(f"d.path IN ({marks})", paths) if paths else ()
    return {each.path: each.agent for each in records}


def _show(item: Item, link_context: LinkContext) -> ShownItem:
    sides = [_show_side(side, link_context) for side in item.sides]
    if not item.proposal.into or len(sides) != 2:
        return ShownItem(item, sides, [])
    old, new = (f"{side.text.strip()[:_MAX_COMPARED_CHARS]}\n" for side in item.sides)
    diff, _, _ = diff_text(old, new)
    return ShownItem(item, sides, list(mark_diff(diff)))


def _show_side(side: ReviewSide, link_context: LinkContext) -> ShownSide:
    """Return a note with the first paragraphs of its text."""
    text = side.text.strip()
    end = (
        len(text)
        if len(text) <= _MAX_SHOWN_CHARS
        else max(text.rfind("\n\n", 0, _MAX_SHOWN_CHARS), 0) or _MAX_SHOWN_CHARS
    )
    excerpt, html = text[:end], ""
    if side.state not in {NoteState.QUARANTINED, NoteState.UNREADABLE}:
        # After a line end, it has no frontmatter.
        plain = "\n".join(["", *map(clean_text, excerpt.splitlines())])
        html = render_note(plain, side.path, link_context).html
    hidden_count = max(len(side.changed) - _LINES, 0)
    return ShownSide(
        side, excerpt, html, end < len(text), mark_diff(side.changed[:_LINES]), hidden_count
    )


def _reload_queue(report_progress: TellProgress, vault: Vault) -> int:
    return len(list_queue(vault, report_progress).proposals)


def _decide(name: str, choice: ProposalChoice, reason: str, vault: Vault) -> DecisionResult:
    return decide(vault, find_item(vault, name), choice, reason)


class BulkResult(NamedTuple):
    """The number of decided items, the commits, newest first, and the errors of the others."""

    decided: int
    commits: list[str]
    problems: list[str]


def _decide_several(names: Sequence[str], choice: ProposalChoice, vault: Vault) -> BulkResult:
    """Decide items one after the other; candidates share one commit."""
    if choice is ProposalChoice.OTHER:
        raise RefusedError("choose accept or reject")
    results = decide_candidates(vault, choice, only=set(names))
    problems = []
    for name in set(names) - {each.proposal.id for each in results}:
        try:
            results.append(_decide(name, choice, "", vault))
        except VaultError as error:
            problems.append(str(error))
    branches = Action.PROPOSAL  # Their decisions cannot be undone.
    commits = [each.report.commit for each in results if each.proposal.action is not branches]
    return BulkResult(len(results), list(dict.fromkeys(filter(None, reversed(commits)))), problems)


@answers
async def show_review(request: Request) -> Response:
    """Show the review queue, or the progress of the search for items."""
    jobs: Jobs = request.app.state.jobs
    if "look" in request.query_params:
        jobs.start(_JOB, request, _reload_queue)
        return go_back(request, make_link("/review"))
    queue_request = _read_asked(request.query_params)
    progress = jobs.find(_JOB)
    frame, queue = await read(request, partial(collect_queue, queue_request))
    return render_page(
        request,
        "review.html",
        vault=frame,
        queue=queue,
        choices=CHOICES,
        names={action.value: format_action(action) for action in CHOICES},
        asked=queue_request,
        is_chosen="chosen" in request.query_params,
        progress=progress,
    )


def _read_asked(params: Mapping[str, str]) -> QueueRequest:
    later = tuple(filter(None, params.get("later", "").split(",")))[-_MAX_POSTPONED_ITEMS:]
    kind, agent = (params.get(name, "")[:200] for name in ("only", "agent"))
    return QueueRequest(kind, agent, later, read_page(params))


@answers
async def decide_item(request: Request) -> Response:
    """Decide one item, or all selected ones, and redirect to the queue."""
    form = await read_form(request)
    try:
        choice = ProposalChoice(form.get("choice", ""))
    except ValueError:
        raise RefusedError("choose accept, other or reject") from None
    queue_request = _read_asked(form)
    address = make_link(
        "/review",
        only=queue_request.only,
        agent=queue_request.agent,
        later=",".join(queue_request.later),
    )
    if "id" not in form:
        names = [name.removeprefix("item-") for name in form if name.startswith("item-")]
        bulk_result = await write(request, partial(_decide_several, names, choice))
        lines = [f"{pluralize(bulk_result.decided, 'decision')}.", *bulk_result.problems[:5]]
        return go_back(request, address, " ".join(lines), " ".join(bulk_result.commits))
    work = partial(_decide, form["id"], choice, form.get("reason", ""))
    result = await write(request, work)
    message = f"{result.proposal.path}: {result.message}."
    is_branch = result.proposal.action is Action.PROPOSAL  # Its decision cannot be undone.
    commit = "" if is_branch else result.report.commit
    return go_back(request, address, message, commit)


@answers
async def undo(request: Request) -> Response:
    """Undo one or several commits, newest first."""
    form = await read_form(request)
    names = form.get("commit", "").split()
    names += [name.removeprefix("commit-") for name in form if name.startswith("commit-")]
    results, problems = await write(
        request, partial(_undo, [*dict.fromkeys(names)][:_MAX_UNDO_COMMITS] or [""])
    )
    lines = [f"Undone: {', '.join(each.commit.subject for each in results)}." if results else ""]
    commits = " ".join(each.report.commit for each in reversed(results))
    back_page, current_page = form.get("back", ""), form.get("here", "")
    paths = [path for each in results for path in each.paths]
    is_there = (
        back_page.startswith(_BACK_PAGE_PREFIXES)
        and f"sessions{back_page.removeprefix('/session')}.md" not in paths
    )
    address = make_link(back_page if is_there else "/review")
    if current_page.startswith("/note/"):
        address = current_page
    elif current_page == make_link("/") and len(paths) == 1:  # The note had been forgotten.
        address = link_note(paths[0])
    return go_back(request, address, " ".join(filter(None, [*lines, *problems[:5]])), commits)


def _undo(names: Sequence[str], vault: Vault) -> tuple[list[UndoResult], list[str]]:
    """Undo commits one after the other; return the results, and the errors of the others.

    Raises:
        VaultError: the only commit could not be undone.
    """
    results, problems = [], []
    for name in names:
        try:
            results.append(undo_commit(vault, name))
        except VaultError as error:
            if len(names) == 1:
                raise
            problems.append(str(error))
    return results, problems
