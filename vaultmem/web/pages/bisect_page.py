"""Bisect: find the commit that made an answer wrong, in short slices of work."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from functools import partial
from typing import NamedTuple

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from vaultmem.core.packs.receipt import Expectation
from vaultmem.core.text.line_diff import Passage, WordMark
from vaultmem.errors import NoteNotFoundError, RefusedError, VaultError
from vaultmem.services.history.diff import ShownCommit
from vaultmem.services.packs.build import AskPack
from vaultmem.services.packs.evaluate import JudgedCommit
from vaultmem.storage.git.log import Commit
from vaultmem.vault import Vault
from vaultmem.web.page_requests import ShownChange, answers, read, read_count, show_changes
from vaultmem.web.pages.compare_page import Row, match_items
from vaultmem.web.pages.pack_page import MAX_BUDGET, read_asked
from vaultmem.web.rendering import render_page

#: Seconds after which a slice ends; the page then requests the next one.
_SLICE = 0.7

#: The most searches whose verdicts are cached, and files shown of the found commit.
_SEARCHES, _FILES = 16, 5

#: The kinds of differences between two packs, in their order in the list.
_KINDS = ("changed", "left", "right")

#: The most characters of a line to search for.
_SAID = 200

Verdicts = dict[str, JudgedCommit]


class BisectRequest(NamedTuple):
    """A search for the first commit from which an answer is not as expected."""

    expected: Expectation
    good: str
    bad: str


class BisectStep(NamedTuple):
    """A tested commit, and its position among the tested ones, oldest first, from 0."""

    judged: JudgedCommit
    commit: Commit
    place: int


class BisectProgress(NamedTuple):
    """The progress of a search: its steps in order, and about how many are left.

    `first_bad` are the commits found, with the changes of the first; `problem` is the error that
    ended the search. `untested` commits do not descend from the good one.
    """

    steps: list[BisectStep]
    left: int
    first_bad: list[ShownCommit]
    changes: list[ShownChange]
    problem: str = ""
    untested: int = 0

    @property
    def is_done(self) -> bool:
        """Whether the search has ended."""
        return bool(self.first_bad or self.problem)


class Suggestion(NamedTuple):
    """A difference between the answer then and now, and the search that finds its commit.

    `place` has the fields of that search, except the query.
    """

    claim: str
    title: str
    path: str
    place: dict[str, str]


class Searches:
    """Cache of the verdicts of running searches; evicted ones are tested again."""

    def __init__(self) -> None:
        self._known: OrderedDict[BisectRequest, Verdicts] = OrderedDict()

    def open(self, search: BisectRequest) -> Verdicts:
        """Return the verdicts of a search, to which the caller adds."""
        verdicts = self._known.setdefault(search, {})
        self._known.move_to_end(search)
        while len(self._known) > _SEARCHES:
            self._known.popitem(last=False)
        return verdicts

    def close(self, search: BisectRequest) -> None:
        """Remove a search."""
        self._known.pop(search, None)


def read_search(given: QueryParams) -> BisectRequest | None:
    """Return the search in an address, None if it is incomplete."""
    finds, says = (given.get(name, "").strip()[:1_000] for name in ("finds", "says"))
    good = given.get("good", "").strip()[:250]
    if not good or not (finds or says):
        return None
    expected = Expectation(
        given.get("q", "")[:1_000],
        (finds,) if finds else (),
        (says,) if says else (),
        "negated" in given,
        read_count(given.get("budget", ""), MAX_BUDGET) or 0,
    )
    return BisectRequest(expected, good, given.get("bad", "").strip()[:250] or "HEAD")


def suggest_searches(given: Mapping[str, str], vault: Vault) -> list[Suggestion]:
    """Return the differences between the good answer and the current one, each with a search.

    Return nothing if the address has no good commit. The last suggestions are cached.
    """
    from vaultmem.services.history.commits import resolve_commit

    good, bad = (given.get(name, "").strip()[:250] for name in ("good", "bad"))
    if not good:
        return []
    asked = read_asked(given)
    try:
        commits = tuple(resolve_commit(vault, at) for at in (good, bad or "HEAD"))
        made = partial(_compare_packs, asked, commits, vault)
        return vault.view.keep("suggested searches", made, asked, commits, vault.config)
    except VaultError as error:
        raise RefusedError(str(error)) from None


def _compare_packs(asked: AskPack, commits: Iterable[str], vault: Vault) -> list[Suggestion]:
    """Return the differences between the packs of two commits, each with its search."""
    from vaultmem.services.packs.build import ask_pack

    then, now = (ask_pack(vault, asked._replace(at=commit)) for commit in commits)
    differ = (each for each in match_items(then.pack.items, now.pack.items) if each.kind in _KINDS)
    rows = sorted((row for row in differ if not row.changed or _find_old_words(row)), key=_rank)
    suggested = {(each.path, each.claim): each for each in map(_suggest, rows)}
    return list(suggested.values())


def _rank(row: Row) -> int:
    return _KINDS.index(row.kind)


def _suggest(row: Row) -> Suggestion:
    record = row.item.hit.record
    place = {"finds": record.path}
    claim = "No longer in the pack"
    if row.kind == "right":
        place["negated"], claim = "1", "New in the pack"
    elif old := _find_old_words(row):
        place["says"], claim = old, f"Removed text: {old}"
    return Suggestion(claim, record.title, record.path, place)


def _find_old_words(row: Row) -> str:
    """Return a line that a section had in the good answer and has lost, "" for none."""
    for passage in row.changed:
        then, now = (
            [line.strip() for line in text.splitlines()]
            for text in (_join(passage, WordMark.INS), _join(passage, WordMark.DEL))
        )
        if line := next((line for line in then if line and line not in now), ""):
            return line[:_SAID]
    return ""


def _join(passage: Passage, without: WordMark) -> str:
    return "".join(piece.text for piece in passage.pieces if piece.mark is not without)


def go_on(search: BisectRequest, verdicts: Verdicts, vault: Vault) -> BisectProgress:
    """Test some more commits, and return the progress of the search."""
    from vaultmem.services.history.diff import show_commit
    from vaultmem.services.packs.evaluate import search_history

    steps: list[JudgedCommit] = []
    left = 0
    end = time.monotonic() + _SLICE
    found = search_history(vault, search.good, search.bad, search.expected, verdicts)
    try:
        is_new = False
        while not is_new or time.monotonic() < end:
            step, left = next(found)
            steps.append(step)
            is_new = is_new or step.commit not in verdicts
            verdicts[step.commit] = step
    except StopIteration as done:
        shown = [show_commit(vault, commit, _FILES) for commit in done.value.commits[:10]]
        changes = list(show_changes(shown[0].operations))
        return BisectProgress(_place(vault, steps), 0, shown, changes, untested=done.value.untested)
    except (NoteNotFoundError, RefusedError) as error:
        return BisectProgress(_place(vault, steps), 0, [], [], str(error))
    return BisectProgress(_place(vault, steps), max(left, 1), [], [])


def _place(vault: Vault, steps: list[JudgedCommit]) -> list[BisectStep]:
    from vaultmem.storage.git.log import read_commits, sort_commits

    commits = read_commits(vault.history, (step.commit for step in steps))
    ordered = sort_commits(vault.history, commits.values())
    places = {each.commit: place for place, each in enumerate(ordered)}
    return [BisectStep(step, commits[step.commit], places[step.commit]) for step in steps]


@answers
async def show_bisect(request: Request) -> Response:
    """Run one slice of a search and show it; the page repeats this until the search ends."""
    state = request.app.state
    searches: Searches = getattr(state, "searches", None) or Searches()
    state.searches = searches
    search = read_search(request.query_params)
    found: BisectProgress | None = None
    suggested: list[Suggestion] = []
    if search is None:
        frame, suggested = await read(request, partial(suggest_searches, request.query_params))
    else:
        verdicts = searches.open(search)
        frame, found = await read(request, partial(go_on, search, verdicts))
        if found is not None:  # A worker in another process had a copy.
            verdicts |= {step.judged.commit: step.judged for step in found.steps}
            if found.is_done:
                searches.close(search)
    given = request.query_params
    return render_page(
        request, "bisect.html", vault=frame, found=found, given=given, suggested=suggested
    )
