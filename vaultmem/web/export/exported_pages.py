"""The exported pages: home, lists, notes, sessions, commits and search."""

from __future__ import annotations

import json
import mimetypes
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import groupby, islice, pairwise
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from vaultmem.core.lifecycle import State
from vaultmem.core.notes.link_syntax import Link
from vaultmem.core.notes.note import Note
from vaultmem.core.notes.record import NoteRecord
from vaultmem.core.text.paths import parse_note_path
from vaultmem.errors import VaultError
from vaultmem.services.history.blame import Trace
from vaultmem.services.history.explain import (
    CommitChange,
    Story,
    group_changes,
    tell_stories,
    walk_history,
)
from vaultmem.services.search.link_walk import map_links, open_names
from vaultmem.services.search.trusted import trusted_documents
from vaultmem.services.views.read_notes import find_note, read_bytes
from vaultmem.storage.files import read_file
from vaultmem.storage.git.log import Commit
from vaultmem.storage.git.trees import find_entry
from vaultmem.storage.index.snapshot import Snapshot
from vaultmem.vault import Vault
from vaultmem.web.export.export_places import (
    Contents,
    ListName,
    name_list,
    name_note,
    name_picture,
    name_session,
)
from vaultmem.web.markdown.html import render_note
from vaultmem.web.markdown.html_links import Addresses, Surroundings
from vaultmem.web.pages.home import LAST, Home, sum_up
from vaultmem.web.pages.note_page import (
    LAST_COMMITS,
    MENTIONS,
    MOST_BYTES,
    PAGE,
    FilterChoice,
    NoteList,
    NoteListRequest,
    NotePage,
    Rail,
    join_lines,
)
from vaultmem.web.pages.session_page import Timeline, gather_session, gather_timeline
from vaultmem.web.rendering import PICTURES, render_template

if TYPE_CHECKING:
    from numpy.typing import NDArray


# Notes as files, and the pictures that they show.

#: A browser that is shown a drawing alone, as a file, runs what is in it.
_DRAWING = "image/svg+xml"

_DEPTH = 2


class NoteWriter:
    """Writes the pages of notes, and owns nothing but the files that it makes."""

    def __init__(self, vault: Vault, contents: Contents, folder: Path) -> None:
        self._vault = vault
        self._contents = contents
        self._folder = folder
        self._places = contents.make_places()
        self._links = self._places.make_links(_DEPTH)
        self._pictures: dict[str, str] = {}
        self._records = {record.path: record for record in contents.records}
        addresses = Addresses(self._links.note, self._address_picture, self._address_tag)
        self._around = Surroundings(self._find, self._read, addresses)

    def write(self, some: Sequence[NoteRecord]) -> None:
        """Write the pages of some notes, whose versions are read from git at once."""
        notes = {each.path: find_note(self._vault, each.path) for each in some}
        stories, problem = self._tell_stories(notes)
        for record in some:
            rail = self._make_rail(record, stories.get(record.path), problem)
            self._write_note(record, notes[record.path], rail)

    def _tell_stories(self, notes: Mapping[str, Note | None]) -> tuple[dict[str, Story], str]:
        """Return what is known of who wrote some notes, and why it is not more."""
        if self._vault.head() is None:
            return {}, "The vault is in no git repository."
        try:
            texts = {
                path: read_bytes(self._vault, PurePosixPath(path))
                for path, note in notes.items()
                if note is not None
            }
            return dict(tell_stories(self._vault, self._changes, texts)), ""
        except (VaultError, OSError) as error:
            return {}, str(error)

    def _make_rail(self, record: NoteRecord, story: Story | None, problem: str) -> Rail:
        found = self._linked.get(record.path, ())
        mentions = [self._records[each] for each in found if each in self._records][:MENTIONS]
        if story is None:
            return Rail([], None, mentions, [], problem)
        trace = Trace(record.path, story.versions[:LAST_COMMITS])
        return Rail(join_lines(story.lines), trace, mentions, [])

    def _write_note(self, record: NoteRecord, note: Note | None, rail: Rail) -> None:
        values = {"vault": self._contents.frame, "exported": self._contents.exported, "here": ""}
        if note is None or note.state == State.QUARANTINED:
            told = {"title": record.title, "told": "It was taken out while this was exported."}
            html = render_template("message.html", self._links, {**values, **told})
        else:
            is_trusted = record.document in self._trusted
            rendered = render_note(note.text, record.path, self._around)
            page = NotePage(note, record, is_trusted, rendered)
            shown = {**values, "page": page, "rail": rail}
            html = render_template("note.html", self._links, shown)
        write_file(self._folder, name_note(record.path), html.encode())

    def _find(self, link: Link, source: str) -> str | None:
        """Return what a link means, if the export has it."""
        path = open_names(self._vault).find(link, source) or ""
        if path in self._records or (path and self._copy_picture(path)):
            return path
        return None

    def _read(self, path: str) -> str | None:
        if path not in self._records:
            return None
        note = find_note(self._vault, path)
        return note.text if note is not None and note.state != State.QUARANTINED else None

    def _address_picture(self, path: str) -> str:
        return "../" * _DEPTH + self._copy_picture(path)

    def _address_tag(self, tag: str) -> str:
        return self._links.page("/notes", tag=tag.casefold()) or self._links.page("/notes")

    def _copy_picture(self, path: str) -> str:
        """Return the file of a picture, which is written if it is new; "" if it is none."""
        if path not in self._pictures:
            kind = mimetypes.guess_type(path)[0] or ""
            name = name_picture(path, mimetypes.guess_extension(kind) or "")
            data = self._read_picture(path) if kind in PICTURES - {_DRAWING} else None
            if data is not None:
                write_file(self._folder, name, data)
            self._pictures[path] = name if data is not None else ""
        return self._pictures[path]

    def _read_picture(self, path: str) -> bytes | None:
        commit = self._contents.commit
        try:
            if not commit:
                return read_file(self._vault.root, parse_note_path(path), MOST_BYTES)
            entry = find_entry(self._vault.history, commit, path)
            return self._vault.history.objects.read(entry.blob)[1] if entry else None
        except (VaultError, OSError):
            return None

    @cached_property
    def _changes(self) -> dict[str, list[CommitChange]]:
        walked = walk_history(self._vault, self._contents.commit)
        return group_changes(walked, iter(self._records))

    @cached_property
    def _linked(self) -> Mapping[str, Sequence[str]]:
        return map_links(self._vault).sources

    @cached_property
    def _trusted(self) -> frozenset[int]:
        return frozenset(trusted_documents(self._vault))


def write_file(folder: Path, name: str, data: bytes) -> None:
    """Write a file of an export, which nobody sees before it is whole."""
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)


#: Values of a property that are offered beside the list of all notes, and notes named of a commit.
_OFFERED, _NAMED = 500, 12

_STATIC = Path(__file__).parents[1] / "static"


class ExportedCommit(NamedTuple):
    """A commit, the notes that it changed, and how many more files."""

    commit: Commit
    notes: list[NoteRecord]
    more: int


class CommitDay(NamedTuple):
    """The commits of a day, the last first."""

    day: str
    commits: list[ExportedCommit]


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
        wanted = NoteListRequest(**{name: value} if name else {})
        choices = [] if name else list(self._offer())
        pages = max(1, -(-len(records) // PAGE))
        for page in range(pages):
            some = records[page * PAGE : (page + 1) * PAGE]
            listed = NoteList(some, len(records), choices)
            values = {"wanted": wanted, "listed": listed, "page": page, "size": PAGE}
            self._write(name_list(chosen, page), "notes.html", "/notes", **values)
        return pages

    def _offer(self) -> Iterator[FilterChoice]:
        for name in ("state", "kind", "context", "tag"):
            counts = {
                value: len(numbers)
                for (kind, value), numbers in self._contents.lists.items()
                if kind == name
            }
            yield FilterChoice(name, Counter(counts).most_common(_OFFERED))

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

    def _list_commits(self) -> Iterator[ExportedCommit]:
        if not self._contents.commits:
            return
        records = {record.path: record for record in self._contents.records}
        walked = walk_history(self._vault, self._contents.commit)
        for commit, changes in islice(walked, len(self._contents.commits)):
            notes = [records[each.path] for each in changes if each.path in records][:_NAMED]
            yield ExportedCommit(commit, notes, len(changes) - len(notes))


# The index of an export: scripts that give the terms of all notes to the script that searches.
#
# A browser that shows files reads no other file but scripts, styles and pictures. So the terms
# come as scripts, divided by their first letter, of which a search loads those that it needs.

#: What a term counts in title, tags and body; BM25's k and b; how finely scores are told.
_WEIGHTS = np.array([5.0, 3.0, 1.0])
_K, _B = 1.2, 0.6
_LEVELS = 100

_SHARDS = "abcdefghijklmnopqrstuvwxyz0123456789"


def write_terms(vault: Vault, records: Sequence[NoteRecord], folder: Path) -> None:
    """Write the scripts with the terms of notes, and the one with their titles."""
    notes = [
        [each.title, each.path, name_note(each.path), "" if each.state == "active" else each.state]
        for each in records
    ]
    _write(folder, "notes", {"notes": notes, "shards": _SHARDS, "levels": _LEVELS})
    shards: dict[str, dict[str, list[int]]] = {letter: {} for letter in (*_SHARDS, "_")}
    for term, postings in _list_postings(vault.index.snapshot(), records):
        shards[term[0] if term[0] in _SHARDS else "_"][term] = postings
    for letter, terms in shards.items():
        _write(folder, f"terms-{letter}", terms)


def _write(folder: Path, name: str, value: object) -> None:
    told = json.dumps(value, separators=(",", ":"))
    write_file(folder, f"search/{name}.js", f'takeTerms("{name}",{told});\n'.encode("ascii"))


def _list_postings(
    snapshot: Snapshot, records: Sequence[NoteRecord]
) -> Iterator[tuple[str, list[int]]]:
    """Yield terms with their notes: how much further each note is, and what the term counts there.

    Both are in one number, whose last two digits are the count.
    """
    document = snapshot.column("document").astype(np.int64)
    numbers = np.full(int(document.max(initial=0)) + 1, -1, np.int64)
    known = [(each.document, at) for at, each in enumerate(records) if each.document < len(numbers)]
    if not known:
        return
    numbers[[each for each, _ in known]] = [at for _, at in known]
    note = numbers[document]
    norms = _weigh_lengths(snapshot, note, len(records))
    terms = _list_terms(snapshot)
    keys, counts = _gather_postings(snapshot, terms, note, len(records))
    keys, place = np.unique(keys, return_inverse=True)
    sums = np.bincount(place, counts, len(keys))
    term, notes = np.divmod(keys, len(records))
    level = np.ceil(sums / (sums + norms[notes]) * (_LEVELS - 1)).astype(np.int64)
    starts = np.flatnonzero(np.diff(term, prepend=-1))
    steps = np.diff(notes, prepend=0)
    steps[starts] = notes[starts]
    told = (steps * _LEVELS + np.clip(level, 1, _LEVELS - 1)).tolist()
    for begin, end in pairwise([*starts.tolist(), len(told)]):
        yield terms[term[begin]], told[begin:end]


def _gather_postings(
    snapshot: Snapshot, terms: Sequence[str], note: NDArray[np.int64], size: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return for each posting of notes its term and note as one number, and what it counts."""
    keys, codes = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for number, term in enumerate(terms):
        rows, code = snapshot.term(term)
        keys.append(note[rows] + number * size)
        codes.append(np.where(note[rows] < 0, -1, code.astype(np.int64)))
    found, code = np.concatenate(keys), np.concatenate(codes)
    return found[code >= 0], (snapshot.counts @ _WEIGHTS)[code[code >= 0]]


def _weigh_lengths(snapshot: Snapshot, note: NDArray[np.int64], size: int) -> NDArray[np.float64]:
    """Return for each note what a term's count is held against: more for a long one."""
    lengths = snapshot.column("body_length")[note >= 0].astype(float)
    whole = np.bincount(note[note >= 0], lengths, minlength=size)
    norms = _K * (1 - _B + _B * whole / max(1.0, float(whole.mean())))
    return norms.astype(np.float64)


def _list_terms(snapshot: Snapshot) -> list[str]:
    """Return all terms that somebody may type: words, without what marks sections."""
    found: set[str] = set()
    for whole, starts in snapshot.vocabulary():
        bounds = zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)
        found.update(whole[begin:end].decode("utf-8", "replace") for begin, end in bounds)
    return sorted(term for term in found if term.isalnum())
