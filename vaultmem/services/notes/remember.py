"""Write a new memory: gate, atomic write, journal, index."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePosixPath

from vaultmem.core.blob import blob_id
from vaultmem.core.lifecycle import INSTRUCTION_KINDS, Kind, State
from vaultmem.core.notes.properties import PropertyValue, format_property
from vaultmem.core.paths import check_new_name, fold_name, parse_note_path, slugify
from vaultmem.core.secrets import find_secrets
from vaultmem.errors import ConflictError, RefusedError
from vaultmem.services.branching.move import undo_move
from vaultmem.services.branching.write_branch import commit_on_branch, names_on_branch
from vaultmem.services.committing.divide import Event
from vaultmem.services.finding.look import find_branch
from vaultmem.services.sync import sync_paths
from vaultmem.storage.files import MAX_FILE_BYTES, create_file
from vaultmem.vault import Vault

_NAME_ATTEMPTS = 1_000


@dataclass(frozen=True, slots=True)
class Memory:
    """What is to be remembered; empty fields are left out of the note."""

    text: str
    title: str = ""
    context: str = ""
    kind: Kind = Kind.SEMANTIC_FACT
    state: State | None = None
    tags: tuple[str, ...] = ()
    pinned: bool = False
    confidence: float | None = None
    refs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Remembered:
    """The note that was written: its path, blob id and title."""

    path: str
    blob: str
    title: str
    state: str


def remember(vault: Vault, memory: Memory) -> Remembered:
    """Write a new note; when this returns it is durable on disk and indexed, not yet committed.

    On a branch that is not checked out, it is a commit there.

    Policies and skills that an agent writes start as candidates: they instruct nobody before
    they were promoted.

    Raises:
        RefusedError: empty, too large, looks like a credential, or an unsafe name.
    """
    _check_encoding(memory)
    title = _choose_title(memory)
    state = memory.state or _first_state(vault, memory.kind)
    data = _compose(vault, memory, title, state).encode("utf-8")
    folder = parse_note_path(f"notes/{memory.context or vault.config.context}")
    _check(memory, data, vault, str(folder))
    if branch := find_branch(vault):
        path = _create_on_branch(vault, branch, folder, slugify(title), data)
        return Remembered(str(path), blob_id(data), title, state)
    with vault.lock():
        undo_move(vault)  # A name is free only if no interrupted switch has taken its note away.
        path = _create(vault, folder, slugify(title), data)
        sync_paths(vault, [path])
    return Remembered(str(path), blob_id(data), title, state)


def _choose_title(memory: Memory) -> str:
    if memory.title.strip():
        return " ".join(memory.title.split())
    line = next((line for line in memory.text.splitlines() if line.strip()), "")
    words = " ".join(line.strip().lstrip("#>-* ").split())
    if len(words) <= 80:
        return words.rstrip(".") or "Note"
    return words[:80].rsplit(" ", 1)[0].rstrip(",;:.") + " ..."


def _first_state(vault: Vault, kind: Kind) -> State:
    by_agent = not vault.is_person
    return State.CANDIDATE if by_agent and kind in INSTRUCTION_KINDS else State.ACTIVE


def _compose(vault: Vault, memory: Memory, title: str, state: State) -> str:
    source = "human" if vault.is_person else "agent"
    properties: dict[str, PropertyValue | None] = {
        "title": title,
        "kind": memory.kind.value,
        "state": state.value,
        "pinned": True if memory.pinned else None,
        "tags": memory.tags or None,
        "created": datetime.now().replace(microsecond=0),
        "confidence": memory.confidence,
        "source": source,
        "agent": None if vault.is_person else vault.author.agent,
        "session": vault.author.session or None,
        "tool_call": vault.author.tool_call or None,
        "refs": memory.refs or None,
    }
    lines = ["---"]
    for name, value in properties.items():
        if value is not None:
            lines.extend(format_property(name, value))
    return "\n".join([*lines, "---", "", memory.text.strip("\n"), ""])


def _check_encoding(memory: Memory) -> None:
    """Refuse bytes of an argument that were no UTF-8, which Python keeps as lone surrogates."""
    for text in (memory.text, memory.title, memory.context, *memory.tags, *memory.refs):
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise RefusedError(
                f"the text is not UTF-8 (character {error.start + 1}); nothing was written"
            ) from None


def _check(memory: Memory, data: bytes, vault: Vault, folder: str) -> None:
    if not memory.text.strip():
        raise RefusedError("nothing to remember: the text is empty")
    if "\0" in memory.text:
        raise RefusedError("the text has NUL characters, so it is not text; nothing was written")
    if len(data) > MAX_FILE_BYTES:
        raise RefusedError(f"a note holds {MAX_FILE_BYTES:,} bytes at most; divide the text")
    if memory.confidence is not None and not 0 <= memory.confidence <= 1:
        raise RefusedError(f"confidence {memory.confidence:g} is not between 0 and 1")
    for tag in memory.tags:
        if not tag.strip() or any(mark.isspace() or mark in "#,[]{}" for mark in tag):
            raise RefusedError(f"{json.dumps(tag)} is not a tag; use letters, digits, - _ and /")
    if not vault.config.allows_secrets(folder):
        for found in find_secrets(memory.text):
            raise RefusedError(
                f"line {found.line} of the text looks like a credential ({found.rule}); "
                "remember where it is kept, not the value"
            )
        for found in find_secrets("\n".join((memory.title, *memory.tags, *memory.refs))):
            raise RefusedError(
                f"the title, a tag or a ref looks like a credential ({found.rule}); "
                "remember where it is kept, not the value"
            )


def _create(vault: Vault, folder: PurePosixPath, slug: str, data: bytes) -> PurePosixPath:
    """Create the note under the first free name."""
    for path in _free_names(folder, slug, _names_in(vault, folder)):
        vault.journal.record(str(path), blob_id(data), vault.author, time.time())
        try:
            create_file(vault.root, path, data)
        except ConflictError:
            continue
        return path
    raise AssertionError("unreachable")


def _create_on_branch(
    vault: Vault, branch: str, folder: PurePosixPath, slug: str, data: bytes
) -> PurePosixPath:
    paths = []

    def create(seen: Vault) -> dict[str, bytes | None]:
        paths.append(next(_free_names(folder, slug, names_on_branch(seen, folder))))
        return {str(paths[-1]): data}

    event = Event("write", "write: {paths}", vault.author, intent="observe")
    commit_on_branch(vault, branch, event, create)
    return paths[-1]


def _free_names(folder: PurePosixPath, slug: str, taken: set[str]) -> Iterator[PurePosixPath]:
    """Yield the names that are not taken: `slug`, `slug-2`, `slug-3` ..."""
    for number in range(1, _NAME_ATTEMPTS):
        path = folder / (f"{slug}.md" if number == 1 else f"{slug}-{number}.md")
        check_new_name(path)
        if fold_name(path) not in taken:
            yield path
    raise RefusedError(f"{folder}/{slug}: too many notes of that name; give another title")


def _names_in(vault: Vault, folder: PurePosixPath) -> set[str]:
    """Return the folded names in a folder, so that no case or NFC/NFD twin comes to be."""
    try:
        return {fold_name(folder / entry.name) for entry in (vault.root / folder).iterdir()}
    except OSError:
        return set()
