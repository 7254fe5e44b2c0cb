"""Notes as files, and the pictures that they show."""

from __future__ import annotations

import mimetypes
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path, PurePosixPath

from vaultmem.core.lifecycle import State
from vaultmem.core.links.link import Link
from vaultmem.core.notes.note import Note
from vaultmem.core.notes.record import NoteRecord
from vaultmem.core.paths import parse_note_path
from vaultmem.errors import VaultError
from vaultmem.services.finding.links import map_links, open_names
from vaultmem.services.finding.trust import trusted_documents
from vaultmem.services.history.stories import (
    Change,
    Story,
    group_changes,
    tell_stories,
    walk_history,
)
from vaultmem.services.history.trace import Trace
from vaultmem.services.reading.read_notes import find_note, read_bytes
from vaultmem.storage.files import read_file
from vaultmem.storage.git.trees import find_entry
from vaultmem.vault import Vault
from vaultmem.web.around import PICTURES
from vaultmem.web.export.contents import Contents
from vaultmem.web.export.places import name_note, name_picture
from vaultmem.web.markdown.page import Addresses, Surroundings
from vaultmem.web.markdown.render import render_note
from vaultmem.web.pages.note import LAST, MENTIONS, MOST_BYTES, NotePage, Rail, join_lines
from vaultmem.web.rendering import render_template

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
        trace = Trace(record.path, story.versions[:LAST])
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
    def _changes(self) -> dict[str, list[Change]]:
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
