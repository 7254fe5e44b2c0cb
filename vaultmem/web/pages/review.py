"""What waits for a decision, its notes side by side; each decision is one commit, with undo."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from vaultmem.core.upkeep.choices import CHOICES, Choice
from vaultmem.core.upkeep.proposal import Proposal
from vaultmem.errors import RefusedError
from vaultmem.services.history.undo import Undone, undo_commit
from vaultmem.services.upkeep.decide import Decided, decide
from vaultmem.services.upkeep.review import (
    Item,
    describe_items,
    find_item,
    list_queue,
    list_shown,
)
from vaultmem.vault import Vault
from vaultmem.web.asking import answers, go_back, read, read_form, write
from vaultmem.web.jobs import Jobs, TellProgress
from vaultmem.web.rendering import make_link, render_page

#: Items on a page.
_LIMIT = 20

#: A vault with more notes is compared when that is asked for: it takes minutes.
_FEW = 500

_JOB = "review"


class Queue(NamedTuple):
    """What is shown of the queue: its items, how many wait of each kind, and of all.

    With `is_old` it is what the last look found, and what was decided since is left out.
    """

    items: list[Item]
    kinds: dict[str, int]
    waiting: int
    is_old: bool


def gather_queue(only: str, vault: Vault) -> Queue:
    """Return the first of what waits, of one kind where `only` names one."""
    is_old = vault.view.totals()[0] > _FEW
    waiting: Sequence[Proposal] = list_shown(vault) if is_old else list_queue(vault).proposals
    wanted = [each for each in waiting if only in ("", each.action)]
    items: list[Item] = []
    for item in describe_items(vault, wanted[: _LIMIT * 10]):
        items.append(item)
        if len(items) == _LIMIT:
            break
    kinds = Counter(each.action.value for each in waiting)
    return Queue(items, dict(kinds), len(waiting), is_old)


def _look_anew(tell: TellProgress, vault: Vault) -> int:
    return len(list_queue(vault, tell).proposals)


def _decide(name: str, choice: Choice, reason: str, vault: Vault) -> Decided:
    return decide(vault, find_item(vault, name), choice, reason)


def _undo(commit: str, vault: Vault) -> Undone:
    return undo_commit(vault, commit)


@answers
async def show_review(request: Request) -> Response:
    """Show what waits for a decision, or that it is being looked for."""
    jobs: Jobs = request.app.state.jobs
    if "look" in request.query_params:
        jobs.start(_JOB, request, _look_anew)
        return go_back(request, "/review")
    only = request.query_params.get("only", "")
    progress = jobs.find(_JOB)
    frame, queue = await read(request, partial(gather_queue, only))
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
        choice = Choice(form.get("choice", ""))
    except ValueError:
        raise RefusedError("choose accept, other or reject") from None
    work = partial(_decide, form.get("id", ""), choice, form.get("reason", ""))
    done = await write(request, work)
    told = f"{done.proposal.path}: {done.told}."
    return go_back(
        request, make_link("/review", only=form.get("only", "")), told, done.report.commit
    )


@answers
async def undo(request: Request) -> Response:
    """Take back what a commit did."""
    form = await read_form(request)
    done = await write(request, partial(_undo, form.get("commit", "")))
    return go_back(request, "/review", f"Taken back: {done.commit.subject}", done.report.commit)
