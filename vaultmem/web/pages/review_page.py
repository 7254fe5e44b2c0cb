"""The list of open decisions, their notes side by side; each decision is one commit, with undo."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from vaultmem.core.curation.proposal import CHOICES, Action, Proposal, ProposalChoice
from vaultmem.core.text.line_diff import WordMark, diff_words
from vaultmem.errors import RefusedError
from vaultmem.services.curation.decide import DecisionResult, decide
from vaultmem.services.curation.review import (
    COMPARED_AT_ONCE,
    Item,
    ReviewSide,
    describe_items,
    find_item,
    list_queue,
    list_waiting,
)
from vaultmem.services.history.restore_note import undo_commit
from vaultmem.vault import Vault
from vaultmem.web.background_jobs import Jobs, TellProgress
from vaultmem.web.page_requests import answers, go_back, read, read_form, write
from vaultmem.web.rendering import link_note, make_link, render_page

#: Items on a page.
_LIMIT = 20

#: Characters of a note that are shown, and compared with another's.
_SHOWN, _COMPARED = 900, 4_000

_JOB = "review"


class ShownSide(NamedTuple):
    """A note of a decision, and its text in pieces: what the other note lacks is its own."""

    side: ReviewSide
    pieces: list[tuple[str, bool]]


class ShownItem(NamedTuple):
    """What waits for a decision, with the words in which its two notes differ."""

    item: Item
    sides: list[ShownSide]


class Queue(NamedTuple):
    """What is shown of the queue: its items, how many wait of each kind, and of all.

    With `is_old` it is what the last look found, and what was decided since is left out.
    """

    items: list[ShownItem]
    kinds: dict[str, int]
    waiting: int
    is_old: bool


def collect_queue(only: str, vault: Vault) -> Queue:
    """Return the first of what waits, of one kind where `only` names one."""
    is_old = vault.view.totals()[0] > COMPARED_AT_ONCE
    waiting: Sequence[Proposal] = list_waiting(vault) if is_old else list_queue(vault).proposals
    wanted = [each for each in waiting if only in ("", each.action)]
    items: list[ShownItem] = []
    for item in describe_items(vault, wanted[: _LIMIT * 10]):
        items.append(_show(item))
        if len(items) == _LIMIT:
            break
    kinds = Counter(each.action.value for each in waiting)
    return Queue(items, dict(kinds), len(waiting), is_old)


def _show(item: Item) -> ShownItem:
    texts = [side.text.strip()[:_COMPARED] for side in item.sides]
    if not item.proposal.into or len(texts) != 2:
        return ShownItem(
            item, [ShownSide(s, _slice([(s.text.strip(), False)])) for s in item.sides]
        )
    pieces = diff_words(*texts)
    shown = []
    for side, own in zip(item.sides, (WordMark.DEL, WordMark.INS), strict=True):
        its = (
            (each.text, each.mark is own) for each in pieces if each.mark in {WordMark.SAME, own}
        )
        shown.append(ShownSide(side, _slice(its)))
    return ShownItem(item, shown)


def _slice(pieces: Iterable[tuple[str, bool]]) -> list[tuple[str, bool]]:
    """Return the first characters of a text in pieces."""
    left = _SHOWN
    kept: list[tuple[str, bool]] = []
    for text, is_own in pieces:
        if left <= 0:
            return [*kept, (" ...", False)]
        kept.append((text[:left], is_own))
        left -= len(text)
    return kept


def _reload_queue(tell: TellProgress, vault: Vault) -> int:
    return len(list_queue(vault, tell).proposals)


def _decide(name: str, choice: ProposalChoice, reason: str, vault: Vault) -> DecisionResult:
    return decide(vault, find_item(vault, name), choice, reason)


@answers
async def show_review(request: Request) -> Response:
    """Show what waits for a decision, or that it is being looked for."""
    jobs: Jobs = request.app.state.jobs
    if "look" in request.query_params:
        jobs.start(_JOB, request, _reload_queue)
        return go_back(request, make_link("/review"))
    only = request.query_params.get("only", "")
    progress = jobs.find(_JOB)
    frame, queue = await read(request, partial(collect_queue, only))
    return render_page(
        request,
        "review.html",
        vault=frame,
        queue=queue,
        choices=CHOICES,
        only=only,
        progress=progress,
    )


@answers
async def decide_item(request: Request) -> Response:
    """Decide one thing, and go back to what else waits."""
    form = await read_form(request)
    try:
        choice = ProposalChoice(form.get("choice", ""))
    except ValueError:
        raise RefusedError("choose accept, other or reject") from None
    work = partial(_decide, form.get("id", ""), choice, form.get("reason", ""))
    done = await write(request, work)
    told = f"{done.proposal.path}: {done.told}."
    is_branch = done.proposal.action is Action.PROPOSAL  # Its decision cannot be undone.
    commit = "" if is_branch else done.report.commit
    return go_back(request, make_link("/review", only=form.get("only", "")), told, commit)


@answers
async def undo(request: Request) -> Response:
    """Take back what a commit did."""
    form = await read_form(request)
    done = await write(request, partial(undo_commit, name=form.get("commit", "")))
    here = form.get("here", "")
    place = here if here.startswith("/note/") else make_link("/review")
    if here == make_link("/") and len(done.paths) == 1:  # A note that was forgotten.
        place = link_note(done.paths[0])
    return go_back(request, place, f"Taken back: {done.commit.subject}", done.report.commit)
