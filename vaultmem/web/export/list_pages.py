"""The pages that lead to notes: the first one, lists, sessions, commits, search."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import groupby, islice
from pathlib import Path
from typing import Any, NamedTuple

from vaultmem.core.notes.record import NoteRecord
from vaultmem.errors import VaultError
from vaultmem.services.history.stories import walk_history
from vaultmem.storage.git.log import Commit
from vaultmem.vault import Vault
from vaultmem.web.export.contents import Contents
from vaultmem.web.export.note_pages import write_file
from vaultmem.web.export.places import ListName, name_list, name_session
from vaultmem.web.pages.home import LAST, Home, sum_up
from vaultmem.web.pages.notes import PAGE, Choice, Listed, Wanted
from vaultmem.web.pages.sessions import Timeline, gather_session, gather_timeline
from vaultmem.web.rendering import render_template

#: Values of a property that are offered beside the list of all notes, and notes named of a commit.
_OFFERED, _NAMED = 500, 12

_STATIC = Path(__file__).parents[1] / "static"


class ShownCommit(NamedTuple):
    """A commit, the notes that it changed, and how many more files."""

    commit: Commit
    notes: list[NoteRecord]
    more: int


class CommitDay(NamedTuple):
    """The commits of a day, the last first."""

    day: str
    commits: list[ShownCommit]


class ListWriter:
    """Writes the pages that lead to notes."""

    def __init__(self, vault: Vault, contents: Contents, folder: Path) -> None:
        self._vault = vault
        self._contents = contents
        self._folder = folder
        self._links = [contents.make_places().make_links(depth) for depth in range(3)]

    def write(self) -> int:
        """Write them all; return how many there are."""
        days = list(self._list_days())
        commits = [each.commit for day in days for each in day.commits]
        home = Home(sum_up(self._contents.records), tuple(commits[:LAST]))
        self._write("index.html", "home.html", "/", home=home)
        self._write("search.html", "search_static.html", "/search")
        self._write("time.html", "commits.html", "/time", days=days)
        for file in sorted(_STATIC.iterdir()):
            write_file(self._folder, f"static/{file.name}", file.read_bytes())
        return 3 + self._write_sessions() + sum(map(self._write_list, self._contents.lists))

    def _write(self, name: str, template: str, here: str, **values: Any) -> None:
        given = {"vault": self._contents.frame, "exported": self._contents.exported, "here": here}
        html = render_template(template, self._links[name.count("/")], {**given, **values})
        write_file(self._folder, name, html.encode())

    def _write_list(self, chosen: ListName) -> int:
        records = [self._contents.records[number] for number in self._contents.lists[chosen]]
        name, value = chosen
        wanted = Wanted(**{name: value} if name else {})
        choices = [] if name else list(self._offer())
        pages = max(1, -(-len(records) // PAGE))
        for page in range(pages):
            some = records[page * PAGE : (page + 1) * PAGE]
            listed = Listed(some, len(records), choices)
            values = {"wanted": wanted, "listed": listed, "page": page, "size": PAGE}
            self._write(name_list(chosen, page), "notes.html", "/notes", **values)
        return pages

    def _offer(self) -> Iterator[Choice]:
        for name in ("state", "kind", "context", "tag"):
            counts = {
                value: len(numbers)
                for (kind, value), numbers in self._contents.lists.items()
                if kind == name
            }
            yield Choice(name, Counter(counts).most_common(_OFFERED))

    def _write_sessions(self) -> int:
        timeline = self._gather_timeline()
        self._write("sessions.html", "sessions.html", "/sessions", timeline=timeline, agent="")
        for session in self._contents.sessions:
            name = name_session(session)
            try:
                page = gather_session(session, self._vault)
            except VaultError as error:
                told = {"title": session, "told": str(error)}
                self._write(name, "message.html", "/sessions", **told)
            else:
                self._write(name, "session.html", "/sessions", page=page)
        return 1 + len(self._contents.sessions)

    def _gather_timeline(self) -> Timeline:
        """Return the timeline of those sessions, and of those tasks, that are exported."""
        shown = {record.path for record in self._contents.records}
        days, tasks, more = gather_timeline("", self._vault)
        days = [
            day._replace(sessions=[each for each in day.sessions if each.path in shown])
            for day in days
        ]
        tasks = [task for task in tasks if str(task.path) in shown]
        return Timeline([day for day in days if day.sessions], tasks, more)

    def _list_days(self) -> Iterator[CommitDay]:
        for day, group in groupby(self._list_commits(), lambda each: each.commit.time[:10]):
            yield CommitDay(day, list(group))

    def _list_commits(self) -> Iterator[ShownCommit]:
        if not self._contents.commits:
            return
        records = {record.path: record for record in self._contents.records}
        walked = walk_history(self._vault, self._contents.commit)
        for commit, changes in islice(walked, len(self._contents.commits)):
            notes = [records[each.path] for each in changes if each.path in records][:_NAMED]
            yield ShownCommit(commit, notes, len(changes) - len(notes))
