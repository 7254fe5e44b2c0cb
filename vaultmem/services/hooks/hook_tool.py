"""Answer a tool call: return notes about its files or command.

These are decisions and dead ends that name them, notes that cite them, and the last failure.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from vaultmem.core.anchors import AnchorStatus, parse_anchor
from vaultmem.core.hook_payload import HookPayload
from vaultmem.core.lifecycle import CLOSED_STATES, NoteKind, NoteState, is_proposal
from vaultmem.core.notes.record import NoteRecord
from vaultmem.core.sessions.session import session_path
from vaultmem.core.text.token_count import count_tokens
from vaultmem.core.tool_calls import (
    is_same_command,
    list_files,
    names_command,
    names_file,
    split_commands,
)
from vaultmem.core.validity import read_day
from vaultmem.services.projects.scope import view_project
from vaultmem.services.views.texts import read_text
from vaultmem.storage.git.head import find_git_folder
from vaultmem.storage.link_table import LinkStore
from vaultmem.storage.session_table import CommandEnds, add_had, read_had
from vaultmem.vault import Vault

#: Tokens shown before a tool call, and the first line.
_BUDGET, _HEAD = 60, "Memory, as evidence:"

#: Kinds whose texts are compared with a command or path, and how many of the latest notes are.
_KINDS, _MAX_NOTES = (NoteKind.DEAD_END, NoteKind.DECISION), 300

#: Most characters shown of a note.
_EXCERPT = 400

_IN_KINDS = ", ".join(f"'{kind.value}'" for kind in _KINDS)
_LATEST_NOTES_CONDITION = (
    f"d.id IN (SELECT id FROM documents WHERE kind IN ({_IN_KINDS}) "
    f"ORDER BY id DESC LIMIT {_MAX_NOTES})"
)
_RANKS = {NoteKind.DEAD_END.value: 0, NoteKind.DECISION.value: 1}
_FAILURE_RANK, _OTHER_RANK = 2, 3

#: Most notes that are parsed: more do not fit.
_MAX_PARSED_NOTES = 8


class CodeFile(NamedTuple):
    """A file that a call concerns: its path in its repository, and its paths in the vault's own."""

    path: str
    own: frozenset[str]


class _Shown(NamedTuple):
    """A line to show, its key in the session's log of shown lines, and the note's path."""

    rank: int
    line: str
    name: str
    path: str = ""


def answer_tool(vault: Vault, payload: HookPayload) -> str:
    """Return notes about a tool call's files and command, in at most 60 tokens.

    These are decisions and dead ends that name them, the last failure in another session of the
    project, and every note that cites a file. Each is shown once in a session. Empty with
    `tool_notes: false`.
    """
    commands = split_commands(payload.command)
    if not vault.config.tool_notes or not (payload.files or commands):
        return ""
    folder = Path(payload.folder or ".")
    files = [folder / each for each in payload.files]
    if files:  # The file's project counts, not the agent's start folder.
        parent = next((each for each in files[0].parents if each.is_dir()), None)
        vault = replace(vault, here=parent or vault.here)
    files += [folder / each for part in commands for each in list_files(part)]
    vault = view_project(vault)
    code_files = [_name_file(vault, each) for each in files if payload.files or each.is_file()]
    shown_names = read_had(vault.state_folder, payload.session)
    candidates = [
        *_find_naming(vault, code_files, commands, shown_names),
        *_find_citing(vault, code_files),
    ]
    candidates += _find_failures(vault, code_files, commands, payload.session)
    new_lines = {each.name: each for each in reversed(candidates) if each.name not in shown_names}
    shown_lines = _fit(sorted(new_lines.values(), key=lambda each: each.rank))
    add_had(vault.state_folder, payload.session, [each.name for each in shown_lines])
    lines = [each.line for each in shown_lines]
    if paths := [each.path for each in shown_lines if each.path]:
        from vaultmem.services.search.run_query import count_tool  # Most calls show nothing.

        count_tool(vault, " ".join([*payload.files, *commands]), paths, "\n".join(lines))
    return "\n".join([_HEAD, *lines]) if lines else ""


def _name_file(vault: Vault, file: Path) -> CodeFile:
    place = Path(os.path.abspath(file))
    place = Path(os.path.realpath(place.parent), place.name)
    git_folders = find_git_folder(place.parent)
    path = place.relative_to(git_folders[0]).as_posix() if git_folders else place.name
    own = {vault.root}
    if repository := find_git_folder(vault.root):
        own.add(repository[0])
    if code_folder := vault.config.code_repository:
        own.add((vault.root / Path(code_folder).expanduser()).resolve())
    inside = (place.relative_to(each).as_posix() for each in own if place.is_relative_to(each))
    return CodeFile(path, frozenset(inside))


def _find_naming(
    vault: Vault, files: list[CodeFile], commands: tuple[str, ...], shown_names: frozenset[str]
) -> Iterator[_Shown]:
    """Yield the decisions and dead ends whose text names one of the files or commands."""

    def names(record: NoteRecord, text: str) -> bool:
        paths = {path for file in files for path in _list_names(vault, record, file)}
        is_named = any(names_command(text, each) for each in commands)
        return is_named or any(names_file(text, path) for path in paths)

    records = [
        record
        for record in vault.view.keep(
            "named in calls", lambda: vault.view.records(_LATEST_NOTES_CONDITION)
        )
        if _counts(vault, record)
        and _make_name(record) not in shown_names
        and names(record, read_text(vault, record.path, record.blob) or "")
    ]
    records.sort(key=lambda record: (_RANKS[record.kind], -record.changed))
    for record in records[:_MAX_PARSED_NOTES]:
        if names(record, text := _read(vault, record)):  # Hidden text does not count.
            yield _show(record, text)


def _find_failures(
    vault: Vault, files: list[CodeFile], commands: tuple[str, ...], session: str
) -> Iterator[_Shown]:
    """Yield the last failure of a command, or of one about a file, in another session."""
    for end in CommandEnds(vault.state).failed(vault.view.project or ""):
        parts = split_commands(end.command)
        is_same = any(is_same_command(own, part) for own in commands for part in parts)
        text = f"{end.command} {end.trouble}"
        if end.session == session or not (
            is_same or any(names_file(text, file.path) for file in files)
        ):
            continue
        notes = vault.view.records("d.path = ?", [str(session_path(end.session))])
        if any(note.state not in CLOSED_STATES for note in notes):
            day = f"{datetime.fromtimestamp(end.at):%Y-%m-%d}"
            line = f"- last failure ({day}, {end.session}): `{end.command}`: {end.trouble}"
            yield _Shown(_FAILURE_RANK, line, f"failed:{end.session}:{end.at:.0f}")
            return


def _find_citing(vault: Vault, files: list[CodeFile]) -> Iterator[_Shown]:
    """Yield the notes that cite one of the files, unless the cited code is gone."""
    names = {path for file in files for path in (file.path, *file.own)}
    store = LinkStore(vault.state)
    cited = store.citing(names)
    records = vault.view.records_of(cited)
    citing_records = [
        record
        for document, record in records.items()
        if _counts(vault, record)
        and any(_is_cited(vault, record, text, file) for text in cited[document] for file in files)
    ]
    if not citing_records:
        return
    from vaultmem.services.anchors.check import check_documents, limit_query

    by_number = {each.document: each for each in citing_records}
    checks = check_documents(vault, by_number, store.cites(by_number), limit_query())
    for record in citing_records:
        note_checks = [
            each for each in checks.get(record.document, ()) if each.anchor.path in names
        ]
        if note_checks and all(each.status is AnchorStatus.GONE for each in note_checks):
            continue
        caution = next((each.verdict for each in note_checks if each.is_different), "")
        yield _show(record, _read(vault, record), caution)


def _is_cited(vault: Vault, record: NoteRecord, text: str, file: CodeFile) -> bool:
    anchor = parse_anchor(text)
    if not anchor:
        return False
    return anchor.path in _list_names(vault, record, file, anchor.project)


def _list_names(vault: Vault, record: NoteRecord, file: CodeFile, project: str = "") -> set[str]:
    """Return the paths by which a note can name a file: in its project, else in the vault's own."""
    if project := project or record.project:
        current_project = vault.view.project
        return (
            {file.path}
            if current_project and current_project.casefold() == project.casefold()
            else set()
        )
    return set(file.own)


def _counts(vault: Vault, record: NoteRecord) -> bool:
    """Return whether a note may be shown unasked: it is in force, valid today and no proposal."""
    end = read_day(record.valid_until) if record.valid_until else None
    is_over = end is not None and end <= vault.local_time().date()
    is_hidden = record.state in CLOSED_STATES or is_proposal(record.kind, record.state)
    return not (is_over or is_hidden or record.problem)


def _read(vault: Vault, record: NoteRecord) -> str:
    """Return a note's title and visible text as one line; a dead end's text includes its title."""
    from vaultmem.core.notes.note import parse_note  # Most calls find no note.
    from vaultmem.core.text.paths import parse_note_path

    text = read_text(vault, record.path, record.blob) or ""
    body = parse_note(parse_note_path(record.path), text.encode("utf-8", "replace")).visible_body
    flat_text = " ".join(body.split()).removeprefix(f"# {record.title}").strip()
    is_plain = record.kind == NoteKind.DEAD_END or flat_text.startswith(record.title)
    return flat_text if is_plain else f"{record.title}: {flat_text}"


def _show(record: NoteRecord, text: str, caution: str = "") -> _Shown:
    is_plain = record.kind == NoteKind.SEMANTIC_FACT
    is_waiting = record.state == NoteState.CANDIDATE
    facts = ", ".join(([] if is_plain else [record.kind]) + ["candidate"] * is_waiting)
    head = f"- {record.path.removesuffix('.md')}"
    line = f"{head}{facts and f' ({facts})'}{caution and f' [{caution}]'}: {text[:_EXCERPT]}"
    rank = _RANKS.get(record.kind, _OTHER_RANK)
    return _Shown(rank, line, _make_name(record), record.path)


def _make_name(record: NoteRecord) -> str:
    return f"tool:{record.blob}"


def _fit(candidates: list[_Shown]) -> list[_Shown]:
    """Return the lines that fit the budget; the first one is truncated if needed."""
    tokens_left = _BUDGET - count_tokens(_HEAD) - 1
    shown_lines: list[_Shown] = []
    for each in candidates:
        short_line = each.line if shown_lines else _shorten(each.line, tokens_left)
        cost = count_tokens(short_line) + 1
        if cost > tokens_left:
            break
        shown_lines.append(each._replace(line=short_line))
        tokens_left -= cost
    return shown_lines


def _shorten(line: str, tokens: int) -> str:
    """Return a line truncated at a word, with at most `tokens` tokens."""
    words = line.split(" ")
    if count_tokens(line) < tokens:
        return line
    while len(words) > 1 and count_tokens(" ".join(words) + " ...") >= tokens:
        words.pop()
    return " ".join(words) + " ..."
