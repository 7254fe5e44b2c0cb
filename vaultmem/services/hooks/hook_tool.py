"""Before an edit or a command: show what the memory holds about the file or the command."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from vaultmem.core.anchors import AnchorStatus, parse_anchor
from vaultmem.core.hook_payload import HookPayload
from vaultmem.core.lifecycle import CLOSED_STATES, NoteKind, is_proposal
from vaultmem.core.notes.record import NoteRecord
from vaultmem.core.text.token_count import count_tokens
from vaultmem.core.tool_calls import list_files, names_command, names_file, split_commands
from vaultmem.core.validity import read_day
from vaultmem.services.projects.scope import view_project
from vaultmem.services.views.texts import read_text
from vaultmem.storage.git.head import find_git_folder
from vaultmem.storage.link_table import LinkStore
from vaultmem.storage.session_table import add_had, read_had
from vaultmem.vault import Vault

#: Tokens of what is shown before a tool call, and its first line.
_BUDGET, _HEAD = 60, "Memory, as evidence:"

#: Kinds whose texts are compared with a command or a path, and how many of the last ones are.
_KINDS, _MOST = (NoteKind.DEAD_END, NoteKind.DECISION), 300

#: Characters of a note that are worth the room.
_EXCERPT = 400

_IN_KINDS = ", ".join(f"'{kind.value}'" for kind in _KINDS)
_LAST = (
    f"d.id IN (SELECT id FROM documents WHERE kind IN ({_IN_KINDS}) ORDER BY id DESC LIMIT {_MOST})"
)
_RANKS = {NoteKind.DEAD_END.value: 0, NoteKind.DECISION.value: 1}


class CodeFile(NamedTuple):
    """A file that a call concerns: its path in its repository, and in the vault's own."""

    path: str
    own: frozenset[str]


class _Found(NamedTuple):
    record: NoteRecord
    text: str
    caution: str = ""


def answer_tool(vault: Vault, payload: HookPayload) -> str:
    """Return the notes about what a tool call changes or runs, in at most 60 tokens.

    Decisions and dead ends that name the file or command, and every note that cites the file. A
    note is shown once in a session. Empty where there is none, and with `tool_notes: false`.
    """
    commands = split_commands(payload.command)
    if not vault.config.tool_notes or not (payload.files or commands):
        return ""
    folder = Path(payload.folder or ".")
    files = [folder / each for each in payload.files]
    if files:  # The file's project counts, wherever the agent was started.
        parent = next((each for each in files[0].parents if each.is_dir()), None)
        vault = replace(vault, here=parent or vault.here)
    files += [folder / each for part in commands for each in list_files(part)]
    vault = view_project(vault)
    named = [_name_file(vault, each) for each in files if payload.files or each.is_file()]
    had = read_had(vault.state_folder, payload.session)
    found = {each.record.document: each for each in _find_naming(vault, named, commands)}
    found |= {each.record.document: each for each in _find_citing(vault, named)}
    new = [each for each in found.values() if _make_name(each.record) not in had]
    new.sort(key=lambda each: (_RANKS.get(each.record.kind, 2), -each.record.changed))
    shown = _fit([(_make_name(each.record), _format_note(each)) for each in new])
    add_had(vault.state_folder, payload.session, [name for name, _ in shown])
    return "\n".join([_HEAD, *(line for _, line in shown)]) if shown else ""


def _name_file(vault: Vault, file: Path) -> CodeFile:
    place = Path(os.path.abspath(file))
    place = Path(os.path.realpath(place.parent), place.name)
    found = find_git_folder(place.parent)
    path = place.relative_to(found[0]).as_posix() if found else place.name
    own = {vault.root}
    if repository := find_git_folder(vault.root):
        own.add(repository[0])
    if named := vault.config.code_repository:
        own.add((vault.root / Path(named).expanduser()).resolve())
    inside = (place.relative_to(each).as_posix() for each in own if place.is_relative_to(each))
    return CodeFile(path, frozenset(inside))


def _find_naming(
    vault: Vault, files: list[CodeFile], commands: tuple[str, ...]
) -> Iterator[_Found]:
    """Yield decisions and dead ends whose text names one of the files or commands."""
    for record in vault.view.records(_LAST):
        if not _counts(vault, record):
            continue
        paths = {path for file in files for path in _list_names(vault, record, file)}

        def names(text: str, paths: set[str] = paths) -> bool:
            is_named = any(names_command(text, each) for each in commands)
            return is_named or any(names_file(text, path) for path in paths)

        if names(read_text(vault, record.path, record.blob) or "") and names(
            text := _read(vault, record)  # What is hidden does not count.
        ):
            yield _Found(record, text)


def _find_citing(vault: Vault, files: list[CodeFile]) -> Iterator[_Found]:
    """Yield the notes that cite one of the files, unless the cited code is gone."""
    names = {path for file in files for path in (file.path, *file.own)}
    store = LinkStore(vault.state)
    cited = store.citing(names)
    records = vault.view.records_of(cited)
    matching = [
        record
        for document, record in records.items()
        if _counts(vault, record)
        and any(_is_cited(vault, record, text, file) for text in cited[document] for file in files)
    ]
    if not matching:
        return
    from vaultmem.services.anchors.check import check_documents

    by_number = {each.document: each for each in matching}
    checks = check_documents(vault, by_number, store.cites(by_number))
    for record in matching:
        known = [each for each in checks.get(record.document, ()) if each.anchor.path in names]
        if known and all(each.status is AnchorStatus.GONE for each in known):
            continue
        changed = next((each.verdict for each in known if each.is_different), "")
        yield _Found(record, _read(vault, record), changed)


def _is_cited(vault: Vault, record: NoteRecord, text: str, file: CodeFile) -> bool:
    anchor = parse_anchor(text)
    if not anchor:
        return False
    return anchor.path in _list_names(vault, record, file, anchor.project)


def _list_names(vault: Vault, record: NoteRecord, file: CodeFile, project: str = "") -> set[str]:
    """Return the paths by which a note means a file: in its project, else in the vault's own."""
    if project := project or record.project:
        here = vault.view.project
        return {file.path} if here and here.casefold() == project.casefold() else set()
    return set(file.own)


def _counts(vault: Vault, record: NoteRecord) -> bool:
    """Return whether a note may be shown unasked: it is in force, valid today and no proposal."""
    end = read_day(record.valid_until) if record.valid_until else None
    is_over = end is not None and end <= vault.local_time().date()
    is_hidden = record.state in CLOSED_STATES or is_proposal(record.kind, record.state)
    return not (is_over or is_hidden or record.problem)


def _read(vault: Vault, record: NoteRecord) -> str:
    """Return a note's title and text as people see it, in one line."""
    from vaultmem.core.notes.note import parse_note  # Most calls find no note.
    from vaultmem.core.text.paths import parse_note_path

    text = read_text(vault, record.path, record.blob) or ""
    body = parse_note(parse_note_path(record.path), text.encode("utf-8", "replace")).visible_body
    flat = " ".join(body.split()).removeprefix(f"# {record.title}").strip()
    return flat if flat.startswith(record.title) else f"{record.title}: {flat}"


def _format_note(found: _Found) -> str:
    record = found.record
    kind = "" if record.kind == NoteKind.SEMANTIC_FACT else f" ({record.kind})"
    caution = f" [{found.caution}]" if found.caution else ""
    return f"- {record.path.removesuffix('.md')}{kind}{caution}: {found.text[:_EXCERPT]}"


def _make_name(record: NoteRecord) -> str:
    return f"tool:{record.blob}"


def _fit(lines: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the lines that fit into the budget; the first one is shortened if it must be."""
    left = _BUDGET - count_tokens(_HEAD) - 1
    shown: list[tuple[str, str]] = []
    for name, line in lines:
        short = line if shown else _shorten(line, left)
        cost = count_tokens(short) + 1
        if cost > left:
            break
        shown.append((name, short))
        left -= cost
    return shown


def _shorten(line: str, tokens: int) -> str:
    """Return a line cut at a word, so that it has at most so many tokens."""
    words = line.split(" ")
    if count_tokens(line) < tokens:
        return line
    while len(words) > 1 and count_tokens(" ".join(words) + " ...") >= tokens:
        words.pop()
    return " ".join(words) + " ..."
