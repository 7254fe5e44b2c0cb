"""File names and contents of an exported site, and the links between its pages."""

from __future__ import annotations

import os
import re
import unicodedata
from base64 import b32encode
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Any, NamedTuple
from urllib.parse import quote

from vaultmem.core.lifecycle import State
from vaultmem.core.notes.record import NoteRecord
from vaultmem.services.history.explain import walk_history
from vaultmem.vault import Vault
from vaultmem.web.markdown.html_links import name_heading
from vaultmem.web.page_requests import Frame, frame_vault
from vaultmem.web.rendering import Links

#: Characters of a name that tell people what the page is about.
_TOLD = 40

#: Lists of notes by one property; "" is the list of all.
ListName = tuple[str, str]

_FILES = {"/": "index.html", "/search": "search.html", "/notes": "notes.html"}
_FILES |= {"/sessions": "sessions.html", "/time": "time.html"}


class Places(NamedTuple):
    """Which pages there are: of notes by path, lists, sessions and commits by id."""

    notes: Collection[str]
    lists: Collection[ListName]
    sessions: Collection[str]
    commits: Collection[str]

    def make_links(self, depth: int) -> Links:
        """Return what makes the links of a page that lies so many folders deep."""
        up = "../" * depth
        return Links(partial(self._link, up), partial(self._link_note, up), is_static=True)

    def _link(self, up: str, place: str, /, **given: Any) -> str:
        asked = {name: str(value) for name, value in given.items() if value and name != "at"}
        file = self._find(place, asked)
        return f"{up}{file}" if file else ""

    def _link_note(self, up: str, path: str, heading: str = "", /, **_: Any) -> str:
        if path not in self.notes:
            return ""
        anchor = f"#{quote(name_heading(heading))}" if heading else ""
        return f"{up}{name_note(path)}{anchor}"

    def _find(self, place: str, asked: dict[str, str]) -> str:
        _, kind, name = (f"{place}/").split("/", 2)
        name = name.removesuffix("/")
        if place == "/notes":
            page = int(asked.pop("page", 0))
            chosen = next(iter(asked.items()), ("", ""))
            return name_list(chosen, page) if len(asked) < 2 and chosen in self.lists else ""
        if asked:
            return ""
        if kind == "static":
            return f"static/{name}"
        if kind == "session" and name in self.sessions:
            return name_session(name)
        if kind == "commit" and name in self.commits:
            return f"time.html#c-{name}"
        return _FILES.get(place, "")


def name_note(path: str) -> str:
    """Return the file of a note's page."""
    return _name("note", path, PurePosixPath(path).stem)


def name_picture(path: str, suffix: str) -> str:
    """Return the file of a picture of the vault."""
    return _name("file", path, PurePosixPath(path).stem, suffix)


def name_session(session: str) -> str:
    """Return the file of a session's page."""
    return _name("session", session, session)


def name_list(chosen: ListName, page: int = 0) -> str:
    """Return the file of a page (from 0) of the notes of one property."""
    name, value = chosen
    suffix = f"-{page + 1}.html" if page else ".html"
    return _name("list", value, f"{name}-{value}", suffix) if name else f"notes{suffix}"


def _name(folder: str, text: str, told: str, suffix: str = ".html") -> str:
    """Return a file's place, which no other text has on any file system, whatever is in it.

    It goes by the text alone, so that it stays what it is, and folders stay small: FAT has at most
    some thousand files in one.
    """
    key = b32encode(sha256(os.fsencode(text)).digest()[:10]).decode("ascii").lower()
    plain = unicodedata.normalize("NFKD", told).encode("ascii", "ignore").decode("ascii").lower()
    words = "-".join(re.findall("[a-z0-9]+", plain))[:_TOLD].strip("-")
    return f"{folder}/{key[0]}/{'-'.join(filter(None, (words, key)))}{suffix}"


# What an export shows: which notes, sessions and commits there are, the same for all who write.

#: Commits on the page of them.
_COMMITS = 200


class Contents(NamedTuple):
    """What is exported, at a time (seconds since the epoch), from a commit where one is named.

    Quarantined notes are left out. Each list has its notes, the last changed first. The others
    are ids of what has a page, or a place on one.
    """

    frame: Frame
    exported: float
    commit: str
    records: Sequence[NoteRecord]
    lists: dict[ListName, list[int]]
    sessions: frozenset[str]
    commits: frozenset[str]

    def make_places(self) -> Places:
        """Return which pages there are."""
        notes = frozenset(record.path for record in self.records)
        return Places(notes, self.lists.keys(), self.sessions, self.commits)


def gather_contents(vault: Vault) -> Contents:
    """Return what is exported of what the vault shows; it must be in sync."""
    commit = "" if vault.view.is_work_tree else vault.view.sources[0].commit
    records = [each for each in vault.view.records() if each.state != State.QUARANTINED]
    records.sort(key=lambda each: (-each.changed, each.path))
    return Contents(
        frame_vault(vault, commit),
        vault.now(),
        commit,
        records,
        _make_lists(records),
        frozenset(_list_sessions(vault, records)),
        frozenset(_list_commits(vault, commit)),
    )


def _make_lists(records: Sequence[NoteRecord]) -> dict[ListName, list[int]]:
    """Return the notes of each list by their numbers, which go by when they changed."""
    lists: dict[ListName, list[int]] = {("", ""): list(range(len(records)))}
    for number, record in enumerate(records):
        for name in dict.fromkeys(_name_lists(record)):
            lists.setdefault(name, []).append(number)
    return lists


def _name_lists(record: NoteRecord) -> Iterator[ListName]:
    """Yield the lists that a note is in: those of its folders and tags have what is within."""
    yield "state", record.state
    yield "kind", record.kind
    yield from (("context", each) for each in _list_above(record.context))
    yield from (("tag", each) for tag in record.tags for each in _list_above(tag.casefold()))


def _list_above(name: str) -> Iterator[str]:
    parts = name.strip("/").split("/")
    yield from filter(None, ("/".join(parts[: end + 1]) for end in range(len(parts))))


def _list_sessions(vault: Vault, records: Sequence[NoteRecord]) -> Iterator[str]:
    from vaultmem.services.sessions.find_session import list_sessions

    shown = {record.path for record in records}
    yield from (each.id for each in list_sessions(vault) if each.path in shown)


def _list_commits(vault: Vault, commit: str) -> Iterator[str]:
    if vault.head() is not None:
        walked = zip(range(_COMMITS), walk_history(vault, commit), strict=False)
        yield from (each.commit for _, (each, _) in walked)
