"""Pages about time: commits as a line and as a list, and the history of a note."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import groupby
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from vaultmem.services.history.blame import NoteCommit
from vaultmem.services.history.commits import CommitFilter, resolve_commit, resolve_view_commit
from vaultmem.services.history.diff import ShownCommit
from vaultmem.storage.git.log import Commit, read_commit
from vaultmem.vault import Vault
from vaultmem.web.page_requests import (
    ShownChange,
    answers,
    read,
    read_page,
    read_path,
    show_changes,
)
from vaultmem.web.rendering import format_day, render_page

#: Commits on a page, and how many of the newest are asked for names to choose from.
_PAGE, _NAMES = 50, 200

#: Authors who have a lane of their own, and the pixels of a lane, a commit, and a lane's name.
_LANES, _HEIGHT, _NAME = 7, 26, 130

#: Pixels from one commit to the next: many fill a page, few stand no wider apart.
_WIDTH, _LEAST, _MOST = 1_020, 20, 64

#: Pixels that the name of a day takes.
_DAY = 52

#: The lane of those who have none.
_OTHERS = "others"

#: Events by which somebody decides, and writes no text.
DECISIONS = frozenset(
    ["promote", "state", "supersede", "review", "dedup", "forget", "curate", "dream", "undo"]
)


class CommitListRequest(NamedTuple):
    """Which commits are listed; what is empty lets all through."""

    who: str = ""
    event: str = ""
    session: str = ""

    def as_filter(self) -> CommitFilter:
        """Return what `list_commits` takes."""
        people, events, sessions = (frozenset([value] if value else []) for value in self)
        return CommitFilter(events, frozenset(), sessions, everything=True, people=people)


class TimelineMark(NamedTuple):
    """A commit on the line: its middle in pixels; `is_decision` says that nobody wrote by it."""

    commit: Commit
    x: int
    y: int
    is_agent: bool
    is_decision: bool


class Timeline(NamedTuple):
    """Commits from left to right, oldest first, each in the lane of who made it.

    `lanes` are the names and their heights, `days` names of days and where they begin, all in
    pixels of a picture of `width` and `height`.
    """

    places: list[TimelineMark]
    lanes: list[tuple[str, int]]
    days: list[tuple[str, int]]
    width: int
    height: int


class TimePage(NamedTuple):
    """Commits, newest first, by day; their line; and what can be chosen."""

    days: list[tuple[str, list[Commit]]]
    line: Timeline
    has_older: bool
    is_cut: bool
    people: list[str]
    events: list[str]


def collect_time(wanted: CommitListRequest, page: int, vault: Vault) -> TimePage:
    """Return a page (from 0) of the commits that are wanted."""
    from vaultmem.services.history.commits import list_commits, resolve_view_commit

    if vault.head() is None:
        return TimePage([], draw_line([]), False, False, [], [])
    commit = resolve_view_commit(vault)
    first, last = page * _PAGE, (page + 1) * _PAGE
    log = list_commits(vault, wanted.as_filter(), max(last + 1, _NAMES), commit=commit)
    named = log.commits
    if any(wanted):
        named = list_commits(vault, CommitFilter(everything=True), _NAMES, commit=commit).commits
    shown = log.commits[first:last]
    days = [(day, list(group)) for day, group in groupby(shown, lambda each: format_day(each.at))]
    people = [name for name, _ in Counter(each.who for each in named).most_common()]
    events = sorted({each.event for each in named if each.event})
    return TimePage(days, draw_line(shown), len(log.commits) > last, log.is_cut, people, events)


def draw_line(commits: Sequence[Commit]) -> Timeline:
    """Return where each of the commits, newest first, stands on a line."""
    step = min(max(_WIDTH // (len(commits) + 1), _LEAST), _MOST)
    counts = Counter(each.who for each in commits)
    names = [name for name, _ in counts.most_common(_LANES)]
    lanes = {name: at for at, name in enumerate(names)}
    if len(counts) > len(lanes):
        names.append(_OTHERS)
    heights = [(name, (at + 2) * _HEIGHT) for at, name in enumerate(names)]
    places = [
        TimelineMark(
            each,
            _NAME + place * step,
            (lanes.get(each.who, len(lanes)) + 2) * _HEIGHT,
            bool(each.agent or each.wrote),
            each.event in DECISIONS,
        )
        for place, each in enumerate(reversed(commits), 1)
    ]
    width = _NAME + (len(places) + 1) * step
    return Timeline(places, heights, _format_days(places, step), width, (len(names) + 2) * _HEIGHT)


def _format_days(places: Sequence[TimelineMark], step: int) -> list[tuple[str, int]]:
    """Return days and where their first commits stand, as far as the names have room."""
    days: list[tuple[str, int]] = []
    for day, group in groupby(places, lambda place: format_day(place.commit.at)):
        x = next(group).x - step // 2
        has_room = not days or x - next(at for name, at in reversed(days) if name) >= _DAY
        days.append((day[5:] if has_room else "", x))
    return days


@answers
async def show_time(request: Request) -> Response:
    """Show a page of the vault's commits."""
    given = request.query_params
    wanted = CommitListRequest(
        **{name: given.get(name, "")[:200].strip() for name in CommitListRequest._fields}
    )
    page = read_page(given)
    frame, found = await read(request, partial(collect_time, wanted, page))
    return render_page(request, "time.html", vault=frame, wanted=wanted, found=found, page=page)


# All versions of a note with what changed from one to the next, and a way back to each.
#
# And a commit: who made it, when and why, and what it changed, word by word.

#: Versions on a page.
_HISTORY_PAGE = 20


class HistoryPage(NamedTuple):
    """A note's versions, newest first, each with what changed in it."""

    path: str
    versions: list[tuple[NoteCommit, ShownChange]]
    has_older: bool


def collect_history(path: str, page: int, whole: bool, vault: Vault) -> HistoryPage:
    """Return a page (from 0) of a note's versions."""
    from vaultmem.services.history.blame import trace_note
    from vaultmem.services.history.commits import resolve_view_commit

    trace = trace_note(
        vault, path, _HISTORY_PAGE + 1, resolve_view_commit(vault), page * _HISTORY_PAGE
    )
    versions = trace.versions[:_HISTORY_PAGE]
    changes = show_changes((each.operation for each in versions), whole)
    listed = list(zip(versions, changes, strict=True))
    return HistoryPage(trace.path, listed, len(trace.versions) > _HISTORY_PAGE)


@answers
async def show_history(request: Request) -> Response:
    """Show the versions of a note."""
    path, given = read_path(request, "/history/"), request.query_params
    page = read_page(given)
    frame, found = await read(request, partial(collect_history, path, page, "all" in given))
    return render_page(request, "history.html", vault=frame, found=found, page=page)


#: Files that are compared, and that are named; of the first commit of a large vault each is new.
_FILES, _NAMED = 20, 500


class CommitPage(NamedTuple):
    """A commit and its changes; `more` counts the files that are not even named."""

    shown: ShownCommit
    changes: list[ShownChange]
    more: int


def collect_commit(name: str, whole: bool, vault: Vault) -> CommitPage:
    """Return what a commit changed; `whole`: in however many lines."""
    from vaultmem.services.history.diff import show_commit

    found = show_commit(vault, name, _FILES)
    named = found._replace(others=found.others[:_NAMED])
    more = len(found.others) - len(named.others)
    return CommitPage(named, list(show_changes(found.operations, whole)), more)


@answers
async def show_commit(request: Request) -> Response:
    """Show a commit."""
    name, whole = request.path_params["name"], "all" in request.query_params
    frame, page = await read(request, partial(collect_commit, name, whole))
    return render_page(request, "commit.html", vault=frame, page=page)


# The slider: the moments of a page to which one can look back.

#: Moments on a slider.
_MANY = 100


class CommitSlider(NamedTuple):
    """Commits, oldest first, and the place of the one that is looked at; behind the last is now."""

    commits: list[Commit]
    place: int


def collect_timeline_marks(path: str, at: str, vault: Vault) -> CommitSlider:
    """Return the moments of a note, or of the vault."""
    from vaultmem.services.history.commits import list_moments

    if vault.head() is None:
        return CommitSlider([], 0)
    commits = list_moments(vault, _MANY, path)
    if not at:
        return CommitSlider(commits, len(commits))
    name = resolve_view_commit(vault) or resolve_commit(vault, at)
    for place, each in enumerate(commits):
        if each.commit == name:
            return CommitSlider(commits, place)
    moment = read_commit(vault.history, name)
    later = (place for place, each in enumerate(commits) if each.at > moment.at)
    return CommitSlider(commits, max(next(later, len(commits)) - 1, 0))


@answers
async def show_moments(request: Request) -> Response:
    """Show the slider of a page."""
    path, at = request.query_params.get("of", ""), request.query_params.get("at", "")
    frame, found = await read(request, partial(collect_timeline_marks, path, at))
    return render_page(request, "moments.html", vault=frame, found=found, of=path)
