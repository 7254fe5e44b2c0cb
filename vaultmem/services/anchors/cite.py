"""Cite code: turn paths into anchors with the current commit and blob."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from vaultmem.core.anchored_text import find_symbol, locate_anchor
from vaultmem.core.anchors import (
    CITE_PROPERTIES,
    ID_DIGITS,
    Anchor,
    AnchorStatus,
    format_change,
    parse_anchor,
    parse_change,
)
from vaultmem.core.notes.edit_properties import list_items
from vaultmem.core.text.blob import blob_id
from vaultmem.core.text.display import one_line
from vaultmem.core.text.line_diff import split_keys
from vaultmem.core.text.paths import is_note_name
from vaultmem.errors import NoteNotFoundError, RefusedError
from vaultmem.services.anchors.check import (
    CitedAnchor,
    check_anchors,
    find_versions,
    read_present,
    store_cited_blob,
)
from vaultmem.services.anchors.checkouts import find_checkout
from vaultmem.services.projects.folder_facts import read_facts
from vaultmem.services.projects.project_table import ensure_project
from vaultmem.services.projects.scope import find_name
from vaultmem.storage.git.code_files import CodeRepository, find_repository, read_versions

if TYPE_CHECKING:
    from vaultmem.core.notes.note import Note
    from vaultmem.vault import Vault

#: Possible paths in a text: words with a slash or an extension, optionally with a line.
_PATH_IN_TEXT = re.compile(r"(?<![\w/.@:-])(?:[\w.-]+/)*[\w-][\w.-]*\.[A-Za-z]\w{0,9}(?![\w/])")

#: Maximum paths of a text to look up, and to offer.
_MAX_CANDIDATE_PATHS, _MAX_OFFERED_PATHS = 50, 3


class _Workplace(NamedTuple):
    """The caller's repository, the folder in it ("" at the top), and whether it has a project."""

    repository: CodeRepository
    folder: str
    has_project: bool


def pin_cites(vault: Vault, texts: Sequence[str], project: str | None) -> tuple[str, ...]:
    """Return a memory's sources, with paths of the caller's repository as current anchors.

    URLs, notes and missing paths are not changed. `project` is the memory's, "" for a global one,
    None for the project of the caller's folder.

    Raises:
        RefusedError: a file has no such symbol or lines.
    """
    place = _find_workplace(vault, project) if any(map(parse_anchor, texts)) else None
    if place is None:
        return tuple(texts)
    name = _choose_project_name(vault, project) if place.has_project else ""
    pinned_texts = []
    for text in texts:
        anchor = parse_anchor(text)
        file = anchor and not anchor.is_pinned and _read_place(vault, place, anchor.path)
        if anchor and file:
            path, data = file
            anchor = _pin(vault, place.repository, anchor._replace(path=path, project=name), data)
            text = str(anchor)
        pinned_texts.append(text)
    return tuple(dict.fromkeys(pinned_texts))


def pin_limit(vault: Vault, limit: str, project: str | None) -> str:
    """Return `until PATH changes` with an anchor to the current code; other limits unchanged.

    Raises:
        RefusedError: the caller's repository has no such file, symbol or lines.
    """
    anchor = parse_change(limit)
    if anchor is None or anchor.is_pinned:
        return limit
    (pinned_anchor,) = map(parse_anchor, pin_cites(vault, [str(anchor)], project))
    if pinned_anchor is None or not pinned_anchor.is_pinned:
        raise RefusedError(
            f"{one_line(anchor.place)}: no such file in a code repository here; run this in the "
            "repository, or name a date"
        )
    return format_change(pinned_anchor)


def renew_cites(vault: Vault, note: Note) -> dict[str, tuple[str, ...]]:
    """Return the lists of a note's sources, by property, with anchors to the current code.

    Only anchors whose text changed or moved differ. Missing or unknown code is not changed.
    """
    new_cites: dict[str, tuple[str, ...]] = {}
    for name in CITE_PROPERTIES:
        items = list_items(note, name)
        new = tuple(_renew(vault, text, note.project) for text in items)
        if new != items:
            new_cites[name] = new
    return new_cites


def renew_limit(vault: Vault, limit: str, project: str) -> str:
    """Return the new end of a confirmed note: the next change of its code, or ""."""
    anchor = parse_change(limit)
    new_anchor = parse_anchor(_renew(vault, str(anchor), project)) if anchor else None
    is_new = new_anchor is not None and new_anchor != anchor
    return format_change(new_anchor) if new_anchor and is_new else ""


def _renew(vault: Vault, text: str, project: str) -> str:
    anchor = parse_anchor(text)
    if anchor is None or not anchor.is_pinned:
        return text
    (check,) = check_anchors(vault, [CitedAnchor(anchor, project)])
    statuses = {AnchorStatus.CHANGED, AnchorStatus.MOVED}
    version = find_versions(vault, anchor, project) if check and check.status in statuses else None
    if check is None or version is None:
        return text
    repository, old = version
    moved_anchor = anchor._replace(path=check.moved_to or anchor.path)
    data = read_present(repository, moved_anchor.path)
    span = locate_anchor(moved_anchor, old, data) if data is not None else None
    if data is None or span is None:
        return text
    if anchor.symbol and find_symbol(moved_anchor.path, _split(data), anchor.symbol) is None:
        moved_anchor = moved_anchor._replace(symbol="", first=span[0] + 1, last=span[1])
    elif anchor.first:
        moved_anchor = moved_anchor._replace(first=span[0] + 1, last=max(span[1], span[0] + 1))
    return str(_pin(vault, repository, moved_anchor, data))


def offer_cites(vault: Vault, text: str, cited: Sequence[str]) -> tuple[str, ...]:
    """Return paths in a text that are files of the caller's repository and not cited."""
    names = dict.fromkeys(_PATH_IN_TEXT.findall(text))
    place = _find_workplace(vault, None) if names else None
    if place is None:
        return ()
    cited_paths = {anchor.path for anchor in filter(None, map(parse_anchor, cited))}
    paths: dict[str, str] = {}
    for name in [*names][:_MAX_CANDIDATE_PATHS]:
        file = _read_place(vault, place, name)
        if file and file[0] not in cited_paths:
            paths.setdefault(file[0], name)
    return tuple([*paths.values()][:_MAX_OFFERED_PATHS])


class CodeFile(NamedTuple):
    """A file of the caller's repository: its path from the top, bytes, and project."""

    repository: CodeRepository
    path: str
    data: bytes
    project: str


def find_file(vault: Vault, path: str) -> CodeFile:
    """Return a file of the caller's repository.

    Raises:
        NoteNotFoundError: the repository has no such file.
        RefusedError: the caller is in no repository.
    """
    place = _find_workplace(vault, None)
    if place is None:
        raise RefusedError(f"{path}: this folder is in no code repository; run it in one")
    file = _read_place(vault, place, path)
    if file is None:
        raise NoteNotFoundError(f"{path}: {place.repository.top} has no such file")
    return CodeFile(place.repository, *file, find_name(vault, vault.here))


def _find_workplace(vault: Vault, project: str | None) -> _Workplace | None:
    """Return the base of the caller's paths: its folder, else the checkout of the given project."""
    folder = vault.here
    repository = find_repository(folder) if folder else None
    if folder and repository:
        inside = folder.resolve().relative_to(repository.top).as_posix()
        has_project = read_facts(vault, folder) is not None
        is_vault = repository.top.is_relative_to(vault.root) and repository.top != vault.root
        if has_project or (repository == find_repository(vault.root) and not is_vault):
            return _Workplace(repository, "" if inside == "." else inside, has_project)
    checkout = find_checkout(vault, project) if project else None
    return _Workplace(checkout, "", True) if checkout else None


def _choose_project_name(vault: Vault, project: str | None) -> str:
    """Return the project for an anchor, or "" if it is the note's project."""
    if project is None:
        return ""
    own = ensure_project(vault, vault.here)
    return own.name if own and own.name.casefold() != project.casefold() else ""


def _read_place(vault: Vault, place: _Workplace, path: str) -> tuple[str, bytes] | None:
    """Return path (from the repository's top) and bytes of a file that is not a note.

    The given path is relative to the caller's folder, else to the top.
    """
    top = place.repository.top
    for base in dict.fromkeys((top / place.folder, top)):
        try:
            inside = (base / path).resolve().relative_to(top).as_posix()
        except (ValueError, OSError, RuntimeError):
            continue
        data = read_present(place.repository, inside)
        if data is not None and not _is_note(vault, top / inside):
            return inside, data
    return None


def _is_note(vault: Vault, file: Path) -> bool:
    """Return whether a file is a note of the vault; notes are cited by links."""
    is_own = file.is_relative_to(vault.root)
    return is_own and is_note_name(file.relative_to(vault.root).as_posix())


def _pin(vault: Vault, repository: CodeRepository, anchor: Anchor, data: bytes) -> Anchor:
    """Return an anchor with commit and blob. Uncommitted bytes are stored in the state database."""
    lines = _split(data)
    if anchor.symbol and find_symbol(anchor.path, lines, anchor.symbol) is None:
        raise RefusedError(
            f"{one_line(anchor.place)}: no such symbol in the file; name another, or lines: "
            f"{one_line(anchor.path)}#L10-20"
        )
    if anchor.last > len(lines):
        raise RefusedError(
            f"{one_line(anchor.place)}: the file has {len(lines)} lines; cite lines that it has"
        )
    head = repository.read_head()
    git = repository.open() if head else None
    name = f"{head}:{anchor.path}"
    committed_data = read_versions(git, [name]).get(name) if git else None
    if committed_data is not None and _split(committed_data) == lines:
        data = committed_data
    blob = blob_id(data)[:ID_DIGITS]
    if committed_data is not data:
        store_cited_blob(vault, blob, data)
    return anchor._replace(commit=head[:ID_DIGITS], blob=blob)


def _split(data: bytes) -> list[str]:
    return split_keys(data.decode("utf-8", "surrogateescape"))
