"""A memory as its author gives it, before it becomes a note."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from vaultmem.core.lifecycle import NoteKind, NoteState
from vaultmem.core.notes.edit_properties import PropertyValue


class Memory(NamedTuple):
    """A memory to store; empty fields are left out of the note.

    `name` is the file's name, by default from the title. `own` are properties that replace those of
    writing, such as author and date of an import. `project` is a project's name, "" for a global
    memory, None for the caller's folder. `valid_from` and `valid_until` are a date, a commit or a
    tag; `valid_until` can be `until PATH changes`.
    """

    text: str
    title: str = ""
    context: str = ""
    kind: NoteKind = NoteKind.SEMANTIC_FACT
    state: NoteState | None = None
    tags: tuple[str, ...] = ()
    pinned: bool = False
    confidence: float | None = None
    cites: tuple[str, ...] = ()
    about: str = ""
    name: str = ""
    own: Mapping[str, PropertyValue] = MappingProxyType({})
    project: str | None = None
    valid_from: str = ""
    valid_until: str = ""
