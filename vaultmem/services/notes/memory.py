"""A memory on its way to a note: what may be one, its title, its name, and the note's text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import NamedTuple

from vaultmem.core.lifecycle import Kind, State
from vaultmem.core.notes.edit_properties import PropertyValue, format_note, keep_title
from vaultmem.core.notes.titles import derive_title, make_name
from vaultmem.core.projects import PROPERTY as PROJECT
from vaultmem.errors import RefusedError
from vaultmem.services.reading.names import choose_style, find_free_name
from vaultmem.services.writing.leaks import look_for_leaks
from vaultmem.storage.files import MAX_FILE_BYTES
from vaultmem.vault import Vault

#: List properties with wikilinks, by name.
Links = Mapping[str, tuple[str, ...]]


class Memory(NamedTuple):
    """What is to be remembered; empty fields are left out of the note.

    `name` is the file's, else its title gives it. `own` are properties in place of those that
    writing gives: of what was imported, from whom and when. `project` is the name of its project,
    "" for a global memory, None for that of the caller's folder.
    """

    text: str
    title: str = ""
    context: str = ""
    kind: Kind = Kind.SEMANTIC_FACT
    state: State | None = None
    tags: tuple[str, ...] = ()
    pinned: bool = False
    confidence: float | None = None
    refs: tuple[str, ...] = ()
    about: str = ""
    name: str = ""
    own: Mapping[str, PropertyValue] = MappingProxyType({})
    project: str | None = None


def choose_title(memory: Memory) -> str:
    """Return a memory's title, else its first line without marks, 80 characters at most."""
    if memory.title.strip():
        return " ".join(memory.title.split())
    return derive_title(memory.text)


def name_note(
    vault: Vault,
    folder: PurePosixPath,
    memory: Memory,
    title: str,
    besides: frozenset[str] = frozenset(),
) -> PurePosixPath:
    """Return where a memory's note is written: under its name, else one made of its title.

    Raises as `find_free_name` does, and `besides` are its.
    """
    name = memory.name or make_name(title, choose_style(vault))
    return find_free_name(vault, folder, name, besides, is_given=bool(memory.name))


def compose_note(
    vault: Vault,
    path: PurePosixPath,
    memory: Memory,
    title: str,
    state: State,
    links: Links | None = None,
) -> str:
    """Return the text of a new note; `links` are list properties that name other notes.

    What is the default stands nowhere, nor what the file's name or the text says of the title.
    """
    author = vault.author
    properties: dict[str, PropertyValue | None] = {
        "tags": memory.tags or None,
        "kind": None if memory.kind is Kind.SEMANTIC_FACT else memory.kind.value,
        "state": None if state is State.ACTIVE else state.value,
        "pinned": True if memory.pinned else None,
        "created": vault.local_time(),
        "confidence": memory.confidence,
        "agent": None if vault.is_person else author.agent,
        "session": author.session or None,
        PROJECT: memory.project or None,
        "refs": memory.refs or None,
        "about": memory.about or None,
        **{name: items or None for name, items in (links or {}).items()},
        **memory.own,
    }
    text = format_note(properties, "\n" + memory.text.strip("\n") + "\n")
    return keep_title(text, path, title)


def check_characters(memory: Memory) -> None:
    """Refuse what is no text: nothing, NUL, or bytes that were no UTF-8 (lone surrogates here)."""
    if not memory.text.strip():
        raise RefusedError("nothing to remember: the text is empty")
    if "\0" in memory.text:
        raise RefusedError("the text has NUL characters, so it is not text; nothing was written")
    for text in (memory.text, memory.title, memory.context, *memory.tags, *memory.refs):
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise RefusedError(
                f"the text is not UTF-8 (character {error.start + 1}); nothing was written"
            ) from None


def check_memory(memory: Memory, data: bytes, vault: Vault, folder: str) -> None:
    """Refuse what cannot be a note, or must not be one.

    Raises:
        RefusedError: too large, no tag, or it looks like a credential.
    """
    if len(data) > MAX_FILE_BYTES:
        raise RefusedError(f"a note holds {MAX_FILE_BYTES:,} bytes at most; divide the text")
    if memory.confidence is not None and not 0 <= memory.confidence <= 1:
        raise RefusedError(f"confidence {memory.confidence:g} is not between 0 and 1")
    for tag in memory.tags:
        if not tag.strip() or any(mark.isspace() or mark in "#,[]{}" for mark in tag):
            raise RefusedError(f"{json.dumps(tag)} is not a tag; use letters, digits, - _ and /")
    for found in look_for_leaks(vault, folder, memory.text):
        raise RefusedError(
            f"line {found.line} of the text looks like a credential ({found.rule}); "
            "remember where it is kept, not the value"
        )
    beside = "\n".join((memory.title, memory.context, *memory.tags, *memory.refs))
    for found in look_for_leaks(vault, folder, beside):
        raise RefusedError(
            f"the title, the context, a tag or a ref looks like a credential ({found.rule}); "
            "remember where it is kept, not the value"
        )
