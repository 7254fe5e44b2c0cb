"""Commit messages: the first line contains the event and its notes, in at most 72 columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import PurePosixPath
from textwrap import wrap
from typing import NamedTuple

from vaultmem.core.secrets.scan import mask_secrets
from vaultmem.core.sessions.session import FOLDER
from vaultmem.core.text.display import replace_characters, width
from vaultmem.core.text.paths import is_note_name

#: Most columns of a first line; git's lists, mails and hosting sites truncate longer ones.
COLUMNS = 72

_MAX_LINES = 200
_TRUNCATION_MARK = "..."
_SEPARATORS = " -_"
#: Fewest columns in which a truncated name is still useful.
_MIN_NAME_COLUMNS = 12
#: Most names that are tried in a first line.
_MAX_NAMES = 12

#: The trailer with the notes that were shown to the commit's session.
SHOWN_NOTES = "Shown-Notes"

#: The separator of notes in the trailer; no new note's name has it. git is slow with many trailers.
_NOTE_SEPARATOR = " | "
_MAX_SHOWN = 2_000


class ShownNote(NamedTuple):
    """A note shown to a session, and the first time, in seconds since the epoch."""

    path: str
    at: int


def format_message(
    subject: str,
    body: Sequence[str],
    trailers: Mapping[str, str],
    shown_notes: Sequence[ShownNote] = (),
) -> str:
    """Return a message for `git interpret-trailers`; empty trailers are omitted.

    Each line stays one line, so no text can imitate a trailer. A subject that is too wide is
    truncated, and the body begins with the whole subject.
    """
    whole = _one_line(subject, 500)
    first = cut(whole)
    body_lines = [_one_line(line, 500) for line in body[:_MAX_LINES]]
    if len(body) > len(body_lines):
        body_lines.append(f"... and {len(body) - len(body_lines)} more")
    lines = [f"{key}: {_one_line(value, 200)}" for key, value in trailers.items() if value]
    lines += [f"{SHOWN_NOTES}: {each}" for each in _format_shown(shown_notes)]
    paragraph = "" if first == whole else "\n".join(wrap(whole, COLUMNS, break_on_hyphens=False))
    parts = [first, paragraph, "\n".join(body_lines), "\n".join(lines)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _format_shown(notes: Iterable[ShownNote]) -> Iterator[str]:
    """Yield trailer values: one per second with shown notes, more if long; skip odd names."""
    for timestamp, group in groupby(notes, lambda each: each.at):
        first = line = f"{datetime.fromtimestamp(timestamp, UTC):%Y-%m-%dT%H:%M:%SZ} "
        for path, _ in group:
            if _NOTE_SEPARATOR in path or path != _one_line(path, len(path)):
                continue
            if line != first and len(line) + len(path) > _MAX_SHOWN:
                yield line
                line = first
            line += (_NOTE_SEPARATOR if line != first else "") + path
        if line != first:
            yield line


def parse_shown(value: str) -> list[ShownNote]:
    """Return the notes in a trailer's value; empty if its form is unknown."""
    time, _, paths = value.strip().partition(" ")
    try:
        timestamp = int(datetime.fromisoformat(time).timestamp())
    except (ValueError, OverflowError, OSError):
        return []
    return [ShownNote(path, timestamp) for path in paths.split(_NOTE_SEPARATOR) if path]


def read_subject(message: str) -> str:
    """Return the first line of a message."""
    return message.partition("\n")[0]


def format_files(kind: str, paths: Iterable[str], tail: str = "") -> str:
    """Return a subject: the event and as many file names as fit."""
    ordered = sorted(dict.fromkeys(paths), key=lambda path: (not is_note_name(path), path))
    names = list(map(format_file, ordered[:_MAX_NAMES]))
    room = COLUMNS - width(f"{kind}: {tail}")
    for count in range(len(names), 1, -1):
        if width(listing := _list(names[:count], len(ordered) - count)) <= room:
            return f"{kind}: {listing}{tail}"
    more = f" and {len(ordered) - 1} more" if ordered[1:] else ""
    return f"{kind}: {cut(names[0] if names else '', room - len(more))}{more}{tail}"


def format_pair(kind: str, first: str, between: str, second: str) -> str:
    """Return a subject that names two files, each with a share of the columns.

    If the columns are too few, the common start of the second name is omitted.
    """
    first_name, second_name = format_file(first), format_file(second)
    room = COLUMNS - width(f"{kind}: {between}")
    if width(first_name + second_name) > room:
        shared = next(
            (n for n, (a, b) in enumerate(zip(first_name, second_name, strict=False)) if a != b), 0
        )
        start = max(first_name.rfind(mark, 0, shared) for mark in _SEPARATORS) + 1
        second_name = (
            f"{_TRUNCATION_MARK}{second_name[start:]}" if start > _MIN_NAME_COLUMNS else second_name
        )
    first_name = cut(first_name, max(room // 2, room - width(second_name)))
    return f"{kind}: {first_name}{between}{cut(second_name, room - width(first_name))}"


def format_file(path: str) -> str:
    """Return a file's name for a commit message; a note's name has no folder or ending."""
    pure = PurePosixPath(path)
    name = _one_line(mask_secrets(pure.stem if is_note_name(path) else pure.name), 200)
    return f"session {name}" if pure.parts[:1] == (FOLDER,) and is_note_name(path) else name


def cut(text: str, columns: int = COLUMNS) -> str:
    """Return text of at most `columns`, truncated after a word if longer."""
    if width(text) <= columns:
        return text
    room = max(columns, _MIN_NAME_COLUMNS) - len(_TRUNCATION_MARK)
    end = len(text)
    while width(text[:end]) > room:
        end -= 1
    word = max(text.rfind(mark, 0, end + 1) for mark in _SEPARATORS)
    position = word if word * 2 > end else end
    return text[:position].rstrip(f"{_SEPARATORS},;:.(") + _TRUNCATION_MARK


def _list(names: Sequence[str], rest: int) -> str:
    last = f"{rest} more" if rest else names[-1]
    head = names if rest else names[:-1]
    return f"{', '.join(head)} and {last}"


def _one_line(text: str, limit: int) -> str:
    printable = replace_characters(text, lambda c: c if c.isprintable() else " ")
    return " ".join(printable.split())[:limit]
