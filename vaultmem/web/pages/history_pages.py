"""Pages about time: commits as a line and as a list, and the history of a note."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
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
from vaultmem.web.rendering import format_day, read_time, render_page

#: Commits on a page, and how many of the newest supply the names in the filter.
_PAGE, _NAMES = 50, 200

#: The most authors with their own lane; the height of a lane and the width of its name, in pixels.
_LANES, _HEIGHT, _NAME = 7, 26, 130

#: Pixels between the first commit and the last, and on both sides.
_WIDTH, _MARGIN = 940, 30

#: The most labels below the line, and the possible steps between two: in hours up to a week, in
#: months beyond.
_TICKS = 11
_HOURS, _MONTHS = (1, 3, 6, 12, 24, 48, 168), (1, 3, 6, 12, 24, 60, 120, 600, 12_000)

_DAY_HOURS = 24

#: The lane of all other authors.
_OTHERS_LANE = "others"

#: Events of decisions, which write no text.
DECISIONS = frozenset(
    ["promote", "state", "supersede", "review", "dedup", "forget", "curate", "dream", "undo"]
)


class CommitListRequest(NamedTuple):
    """A filter of the listed commits; empty fields accept all."""

    who: str = ""
    event: str = ""
    session: str = ""

    def as_filter(self) -> CommitFilter:
        """Return the filter for `list_commits`."""
        people, events, sessions = (frozenset([value] if value else []) for value in self)
        return CommitFilter(events, frozenset(), sessions, everything=True, people=people)


class TimelineMark(NamedTuple):
    """A commit on the line: its center in pixels; `is_decision` marks commits without text."""

    commit: Commit
    x: int
    y: int
    is_agent: bool
    is_decision: bool


class Timeline(NamedTuple):
    """Commits from left to right by time, each in the lane of its author.

    `lanes` are names and their heights, `ticks` are labels of times and their positions. All
    numbers are pixels of an image of `width` and `height`.
    """

    places: list[TimelineMark]
    lanes: list[tuple[str, int]]
    ticks: list[tuple[str, int]]
    width: int
    height: int


class TimePage(NamedTuple):
    """Commits by day, newest first; their line; and the filter's choices."""

    days: list[tuple[str, list[Commit]]]
    line: Timeline
    has_older: bool
    is_cut: bool
    people: list[str]
    events: list[str]


def collect_time(list_request: CommitListRequest, page: int, vault: Vault) -> TimePage:
    """Return a page (from 0) of the commits that match a filter."""
    from vaultmem.services.history.commits import list_commits, resolve_view_commit

    if vault.head() is None:
        return TimePage([], draw_line([]), False, False, [], [])
    commit = resolve_view_commit(vault)
    first, last = page * _PAGE, (page + 1) * _PAGE
    log = list_commits(vault, list_request.as_filter(), max(last + 1, _NAMES), commit=commit)
    newest_commits = log.commits
    if any(list_request):
        newest_commits = list_commits(
            vault, CommitFilter(everything=True), _NAMES, commit=commit
        ).commits
    page_commits = log.commits[first:last]
    days = [
        (day, list(group)) for day, group in groupby(page_commits, lambda each: format_day(each.at))
    ]
    people = [name for name, _ in Counter(each.who for each in newest_commits).most_common()]
    events = sorted({each.event for each in newest_commits if each.event})
    return TimePage(
        days, draw_line(page_commits), len(log.commits) > last, log.is_cut, people, events
    )


def draw_line(commits: Sequence[Commit]) -> Timeline:
    """Return the positions of commits, given newest first, on a line scaled by time."""
    counts = Counter(each.who for each in commits)
    names = [name for name, _ in counts.most_common(_LANES)]
    lanes = {name: index for index, name in enumerate(names)}
    if len(counts) > len(lanes):
        names.append(_OTHERS_LANE)
    heights = [(name, (index + 2) * _HEIGHT) for index, name in enumerate(names)]
    times = [read_time(each.at) for each in commits] or [0.0]
    first, last = min(times), max(times)
    left = _NAME + _MARGIN

    def place(timestamp: float) -> int:
        return left + round(_WIDTH * (timestamp - first) / (last - first)) if last > first else left

    marks = [
        TimelineMark(
            each,
            place(read_time(each.at)),
            (lanes.get(each.who, len(lanes)) + 2) * _HEIGHT,
            bool(each.agent or each.wrote),
            each.event in DECISIONS,
        )
        for each in reversed(commits)
    ]
    ticks = (
        [(name, place(timestamp)) for name, timestamp in list_ticks(first, last)] if commits else []
    )
    return Timeline(marks, heights, ticks, left + _WIDTH + _MARGIN, (len(names) + 2) * _HEIGHT)


def list_ticks(first: float, last: float) -> list[tuple[str, float]]:
    """Return labels of times from `first` to `last`, at full hours, days, months or years.

    Labels of days include the year. A single time has only its day.
    """
    start, end = map(datetime.fromtimestamp, (first, last))
    hours = (last - first) / 3_600
    step = next((each for each in _HOURS if hours / each < _TICKS), 0)
    if step:
        begin = start.replace(minute=0, second=0, microsecond=0)
        begin = begin.replace(hour=begin.hour - begin.hour % step if step < _DAY_HOURS else 0)
        numbers = range(int(hours / step) + 3)
        times = [begin + timedelta(hours=step * number) for number in numbers]
        pattern = "%H:%M" if step < _DAY_HOURS else "%Y-%m-%d"
    else:
        months = (end.year - start.year) * 12 + end.month - start.month
        step = next(each for each in _MONTHS if months / each < _TICKS)
        begin_at = (start.year * 12 + start.month - 1) // step * step
        numbers = range(max(begin_at, step), min(begin_at + months + 2 * step, 9_999 * 12), step)
        times = [datetime(year, month + 1, 1) for year, month in (divmod(n, 12) for n in numbers)]
        pattern = "%Y-%m" if step < _MONTHS[3] else "%Y"
    tick_times = [each for each in times if start <= each <= end] or [start]
    names = [each.strftime(pattern) for each in tick_times]
    if pattern == "%H:%M":  # The first label, and the first of each day, show the day.
        days = [each.strftime("%Y-%m-%d") for each in tick_times]
        is_new = [index == 0 or day != days[index - 1] for index, day in enumerate(days)]
        names = [day if new else name for day, new, name in zip(days, is_new, names, strict=True)]
    return [(name, each.timestamp()) for name, each in zip(names, tick_times, strict=True)]


@answers
async def show_time(request: Request) -> Response:
    """Show a page of the vault's commits."""
    params = request.query_params
    list_request = CommitListRequest(
        **{name: params.get(name, "")[:200].strip() for name in CommitListRequest._fields}
    )
    page = read_page(params)
    frame, time_page = await read(request, partial(collect_time, list_request, page))
    return render_page(
        request, "time.html", vault=frame, wanted=list_request, found=time_page, page=page
    )


# All versions of a note with the changes between them, and restoring each.
#
# And a commit: its author, time and reason, and its changes, word by word.

#: Versions on a page.
_HISTORY_PAGE = 20


class HistoryPage(NamedTuple):
    """A note's versions, newest first, each with its changes."""

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
    version_changes = list(zip(versions, changes, strict=True))
    return HistoryPage(trace.path, version_changes, len(trace.versions) > _HISTORY_PAGE)


@answers
async def show_history(request: Request) -> Response:
    """Show the versions of a note."""
    path, params = read_path(request, "/history/"), request.query_params
    page = read_page(params)
    frame, history_page = await read(request, partial(collect_history, path, page, "all" in params))
    return render_page(request, "history.html", vault=frame, found=history_page, page=page)


#: The most files that are compared, and that are listed; in the first commit of a large vault all
#: are new.
_MAX_COMPARED_FILES, _MAX_LISTED_FILES = 20, 500


class CommitPage(NamedTuple):
    """A commit and its changes; `more` counts the files that are not listed."""

    commit: ShownCommit
    changes: list[ShownChange]
    more: int


def collect_commit(name: str, whole: bool, vault: Vault) -> CommitPage:
    """Return the changes of a commit; `whole` disables the line limits."""
    from vaultmem.services.history.diff import show_commit

    result = show_commit(vault, name, _MAX_COMPARED_FILES)
    short_result = result._replace(others=result.others[:_MAX_LISTED_FILES])
    more = len(result.others) - len(short_result.others)
    return CommitPage(short_result, list(show_changes(result.operations, whole)), more)


@answers
async def show_commit(request: Request) -> Response:
    """Show a commit."""
    name, whole = request.path_params["name"], "all" in request.query_params
    frame, page = await read(request, partial(collect_commit, name, whole))
    return render_page(request, "commit.html", vault=frame, page=page)


# The slider: the commits at which a page can be viewed.

#: The most commits on a slider.
_MAX_SLIDER_COMMITS = 100


class CommitSlider(NamedTuple):
    """Commits, oldest first, and the position of the viewed one; after the last is now."""

    commits: list[Commit]
    place: int


def collect_timeline_marks(path: str, at: str, vault: Vault) -> CommitSlider:
    """Return the slider of a note, or of the vault."""
    from vaultmem.services.history.commits import list_moments

    if vault.head() is None:
        return CommitSlider([], 0)
    commits = list_moments(vault, _MAX_SLIDER_COMMITS, path)
    if not at:
        return CommitSlider(commits, len(commits))
    name = resolve_view_commit(vault) or resolve_commit(vault, at)
    for position, each in enumerate(commits):
        if each.commit == name:
            return CommitSlider(commits, position)
    commit = read_commit(vault.history, name)
    positions = (position for position, each in enumerate(commits) if each.at > commit.at)
    return CommitSlider(commits, max(next(positions, len(commits)) - 1, 0))


@answers
async def show_moments(request: Request) -> Response:
    """Show the slider of a page."""
    path, at = request.query_params.get("of", ""), request.query_params.get("at", "")
    frame, slider = await read(request, partial(collect_timeline_marks, path, at))
    return render_page(request, "moments.html", vault=frame, found=slider, of=path)
