"""A document's parts as notes: their names, their text, and whether somebody edited one.

A primed note says in its property `primed` what was written: a digest of title and text. Where
title and text are others by now, somebody edited the note, and priming leaves it alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from vaultmem.core.notes.note import Note
from vaultmem.core.notes.properties import format_property, set_property
from vaultmem.core.notes.values import PropertyReader
from vaultmem.core.paths import slugify
from vaultmem.core.priming.document import Document

FOLDER = "primed"

_PROPERTY = "primed"


class PrimedNote(NamedTuple):
    """A note as the source wants it; `origin` is the document's name, `line` the part's in it."""

    path: str
    title: str
    origin: str
    body: str
    line: int

    @property
    def digest(self) -> str:
        """Stands for title and text in the note's property."""
        return digest_words(self.title, self.body)


class Plan(NamedTuple):
    """What priming changes: new texts by path (None to remove), and what it leaves alone.

    `kept` says of a path why it stays as it is although the source says otherwise.
    """

    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    unchanged: tuple[str, ...]
    kept: Mapping[str, str]
    texts: Mapping[str, str | None]


def digest_words(title: str, body: str) -> str:
    """Return what stands for a title and a text, their outer blanks and line ends aside."""
    words = f"{title.strip()}\n{body.replace(chr(13) + chr(10), chr(10)).strip()}"
    return hashlib.sha256(words.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def name_notes(source: str, file: str, document: Document, folder: str = "") -> list[PrimedNote]:
    """Return the notes that a document's parts become, in `primed/<source>/<folder>`.

    A name is made of the heading; where that is taken, of the heading above and it, then with a
    number. So a part keeps its name as long as the headings before it stay.
    """
    place = PurePosixPath(FOLDER, source, folder)
    taken: set[str] = set()
    notes = []
    for part in document.parts:
        title = part.heading or document.title or PurePosixPath(file).stem or source
        slug = _choose_slug(title, part.parents, taken)
        taken.add(slug)
        notes.append(PrimedNote(str(place / f"{slug}.md"), title, file, part.body, part.line))
    return notes


def plan_priming(
    wanted: Sequence[PrimedNote],
    existing: Mapping[str, Note],
    pin: bool = False,
    overwrite: bool = False,
) -> Plan:
    """Compare what the source wants with the notes below `primed/<source>/`.

    A note that somebody edited, or wrote there by hand, is kept; `overwrite` takes the source's
    word over an edit, never over a note written by hand.
    """
    added: list[str] = []
    changed: list[str] = []
    removed: list[str] = []
    unchanged: list[str] = []
    kept: dict[str, str] = {}
    texts: dict[str, str | None] = {}
    for new in wanted:
        old = existing.get(new.path)
        if old is None:
            added.append(new.path)
            texts[new.path] = _write_note(new, pin)
            continue
        before = primed_digest(old)
        if not before:
            kept[new.path] = "written by hand"
        elif before == new.digest and not (overwrite and is_edited(old)):
            text = _pinned(old.text) if pin and not old.pinned else old.text
            (unchanged if text == old.text else changed).append(new.path)
            if text != old.text:
                texts[new.path] = text
        elif is_edited(old) and not overwrite:
            kept[new.path] = "edited here, and changed in the source"
        else:
            changed.append(new.path)
            texts[new.path] = _update_note(old, new, pin)
    for path in existing.keys() - {new.path for new in wanted}:
        if not primed_digest(existing[path]):
            continue
        if is_edited(existing[path]) and not overwrite:
            kept[path] = "edited here, and gone from the source"
        else:
            removed.append(path)
            texts[path] = None
    removed.sort()
    names = (tuple(added), tuple(changed), tuple(removed), tuple(unchanged))
    return Plan(*names, dict(sorted(kept.items())), texts)


def primed_digest(note: Note) -> str:
    """Return what a note's property says was primed, "" for a note written by hand."""
    return PropertyReader(note.matter).text(_PROPERTY)


def is_edited(note: Note) -> bool:
    """Tell whether somebody changed a primed note's title or text."""
    return primed_digest(note) != digest_words(_own_title(note), note.body)


def _own_title(note: Note) -> str:
    return PropertyReader(note.matter).text("title")


def _choose_slug(title: str, parents: tuple[str, ...], taken: set[str]) -> str:
    slug = slugify(title)
    if slug in taken and parents:
        slug = slugify(f"{parents[-1]} {title}")
    number, name = 1, slug
    while name in taken:
        number += 1
        name = f"{slug}-{number}"
    return name


def _write_note(new: PrimedNote, pin: bool) -> str:
    lines = [
        "---",
        *format_property("title", new.title),
        *format_property("kind", "semantic_fact"),
        *(format_property("pinned", True) if pin else []),
        *format_property("source", "import"),
        *(format_property("refs", (new.origin,)) if new.origin else []),
        *format_property(_PROPERTY, new.digest),
        "---",
    ]
    return "\n".join([*lines, "", new.body, ""])


def _update_note(old: Note, new: PrimedNote, pin: bool) -> str:
    """Return a note with the source's title and text; its other properties stay."""
    text = old.text[: old.matter.body] + f"\n{new.body}\n"
    text = set_property(text, "title", new.title)
    text = set_property(text, _PROPERTY, new.digest)
    return _pinned(text) if pin and not old.pinned else text


def _pinned(text: str) -> str:
    return set_property(text, "pinned", True)
