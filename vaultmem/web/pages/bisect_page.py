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
_MAX_LINE_CHARS = 200

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
    remaining_steps: int
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


class BisectCache:
    """Cache of the verdicts of running searches; evicted ones are tested again."""

    def __init__(self) -> None:
        self._verdicts: OrderedDict[BisectRequest, Verdicts] = OrderedDict()

    def open(self, search: BisectRequest) -> Verdicts:
        """Return the verdicts of a search, to which the caller adds."""
        verdicts = self._verdicts.setdefault(search, {})
        self._verdicts.move_to_end(search)
        while len(self._verdicts) > _SEARCHES:
            self._verdicts.popitem(last=False)
        return verdicts

    def close(self, search: BisectRequest) -> None:
        """Remove a search."""
        self._verdicts.pop(search, None)


def read_search(params: QueryParams) -> BisectRequest | None:
    """Return the search in an address, None if it is incomplete."""
    address, phrase = (params.get(name, "").strip()[:1_000] for name in ("finds", "says"))
    good = params.get("good", "").strip()[:250]
    if not good or not (address or phrase):
        return None
    expected = Expectation(
        params.get("q", "")[:1_000],
        (address,) if address else (),
        (phrase,) if phrase else (),
        "negated" in params,
        read_count(params.get("budget", ""), MAX_BUDGET) or 0,
    )
    return BisectRequest(expected, good, params.get("bad", "").strip()[:250] or "HEAD")


def suggest_searches(params: Mapping[str, str], vault: Vault) -> list[Suggestion]:
    """Return the differences between the good answer and the current one, each with a search.

    Return nothing if the address has no good commit. The last suggestions are cached.
    """
    from vaultmem.services.history.commits import resolve_commit

    good, bad = (params.get(name, "").strip()[:250] for name in ("good", "bad"))
    if not good:
        return []
    pack_request = read_asked(params)
    try:
        commits = tuple(resolve_commit(vault, name) for name in (good, bad or "HEAD"))
        work = partial(_compare_packs, pack_request, commits, vault)
        return vault.view.keep("suggested searches", work, pack_request, commits, vault.config)
    except VaultError as error:
        raise RefusedError(str(error)) from None


def _compare_packs(pack_request: AskPack, commits: Iterable[str], vault: Vault) -> list[Suggestion]:
    """Return the differences between the packs of two commits, each with its search."""
    from vaultmem.services.packs.build import ask_pack

    old_pack, new_pack = (ask_pack(vault, pack_request._replace(at=commit)) for commit in commits)
    differences = (
        each
        for each in match_items(old_pack.pack.items, new_pack.pack.items)
        if each.kind in _KINDS
    )
    rows = sorted(
        (row for row in differences if not row.differences or _find_old_words(row)), key=_rank
    )
    suggestions = {(each.path, each.claim): each for each in map(_suggest, rows)}
    return list(suggestions.values())


def _rank(row: Row) -> int:
    return _KINDS.index(row.kind)


def _suggest(row: Row) -> Suggestion:
    record = row.item.hit.record
    fields = {"finds": record.path}
    claim = "No longer in the pack"
    if row.kind == "right":
        fields["negated"], claim = "1", "New in the pack"
    elif line := _find_old_words(row):
        fields["says"], claim = line, f"Removed text: {line}"
    return Suggestion(claim, record.title, record.path, fields)


def _find_old_words(row: Row) -> str:
    """Return a line that a section had in the good answer and has lost, "" for none."""
    for passage in row.differences:
        old_lines, new_lines = (
            [line.strip() for line in text.splitlines()]
            for text in (_join(passage, WordMark.INS), _join(passage, WordMark.DEL))
        )
        if line := next((line for line in old_lines if line and line not in new_lines), ""):
            return line[:_MAX_LINE_CHARS]
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
    search_steps = search_history(vault, search.good, search.bad, search.expected, verdicts)
    try:
        is_new = False
        while not is_new or time.monotonic() < end:
            step, left = next(search_steps)
            steps.append(step)
            is_new = is_new or step.commit not in verdicts
            verdicts[step.commit] = step
    except StopIteration as stop:
        commits = [show_commit(vault, commit, _FILES) for commit in stop.value.commits[:10]]
        changes = list(show_changes(commits[0].operations))
        return BisectProgress(
            _place(vault, steps), 0, commits, changes, untested=stop.value.untested
        )
    except (NoteNotFoundError, RefusedError) as error:
        return BisectProgress(_place(vault, steps), 0, [], [], str(error))
    return BisectProgress(_place(vault, steps), max(left, 1), [], [])


def _place(vault: Vault, steps: list[JudgedCommit]) -> list[BisectStep]:
    from vaultmem.storage.git.log import read_commits, sort_commits

    commits = read_commits(vault.history, (step.commit for step in steps))
    sorted_commits = sort_commits(vault.history, commits.values())
    positions = {each.commit: position for position, each in enumerate(sorted_commits)}
    return [BisectStep(step, commits[step.commit], positions[step.commit]) for step in steps]


@answers
async def show_bisect(request: Request) -> Response:
    """Run one slice of a search and show it; the page repeats this until the search ends."""
    state = request.app.state
    searches: BisectCache = getattr(state, "searches", None) or BisectCache()
    state.searches = searches
    search = read_search(request.query_params)
    progress: BisectProgress | None = None
    suggestions: list[Suggestion] = []
    if search is None:
        frame, suggestions = await read(request, partial(suggest_searches, request.query_params))
    else:
        verdicts = searches.open(search)
        frame, progress = await read(request, partial(go_on, search, verdicts))
        if progress is not None:  # A worker in another process had a copy.
            verdicts |= {step.judged.commit: step.judged for step in progress.steps}
            if progress.is_done:
                searches.close(search)
    params = request.query_params
    return render_page(
        request, "bisect.html", vault=frame, found=progress, given=params, suggested=suggestions
    )
