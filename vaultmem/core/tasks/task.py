"""A task as its note tells it; people edit these notes, so all is read leniently."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import NamedTuple

from vaultmem.core.notes.note import Note
from vaultmem.core.sessions.session import plain_id

_WORD = re.compile(r"[^\W_]+(?:[._/:#@-][^\W_]+)*")


def find_ungrounded(text: str, sources: str) -> list[str]:
    """Return the names, numbers and identifiers of a text that no source has.

    What counts: everything with a digit, with a capital beyond a sentence's first letter, or with
    marks inside as paths and identifiers have. Plain words may be chosen freely.
    """
    known = {word.casefold() for word in _WORD.findall(sources)}
    known |= {part for word in known for part in re.split(r"[._/:#@-]", word)}
    missing = []
    for match in _WORD.finditer(text):
        word = match[0]
        begins = not text[: match.start()].rstrip() or text[: match.start()].rstrip()[-1] in ".!?:"
        is_name = any(mark.isupper() for mark in (word[1:] if begins else word))
        is_fact = is_name or any(mark.isdigit() for mark in word) or not word.isalnum()
        if is_fact and word.casefold() not in known:
            missing.append(word)
    return missing


FOLDER = "tasks"


class TaskStatus(StrEnum):
    """How a task stands; the last two are ends."""

    OPEN = "open"
    DOING = "doing"
    BLOCKED = "blocked"
    DONE = "done"
    DROPPED = "dropped"


ENDS = frozenset({TaskStatus.DONE, TaskStatus.DROPPED})


class Task(NamedTuple):
    """A task: `id` is its note's name, `next_step` what is to be done first, "" if nobody said.

    `sessions` are the ids of sessions that worked on it, the first first.
    """

    id: str
    path: str
    blob: str
    title: str
    status: str
    next_step: str
    created: str
    updated: str
    sessions: tuple[str, ...]
    text: str

    @property
    def is_over(self) -> bool:
        """Tell whether nobody is to go on with it."""
        return self.status in ENDS


def parse_task(note: Note) -> Task:
    """Return the task that a note tells of."""

    def value(name: str) -> str:
        prop = note.matter.get(name)
        found = prop.value if prop is not None else ""
        return ", ".join(found) if isinstance(found, tuple) else found

    prop = note.matter.get("sessions")
    given = prop.value if prop is not None else ()
    listed = given if isinstance(given, tuple) else (given,) if given else ()
    return Task(
        id=note.path.stem,
        path=str(note.path),
        blob=note.blob,
        title=note.title,
        status=value("status") or TaskStatus.OPEN,
        next_step=value("next"),
        created=value("created"),
        updated=value("updated"),
        sessions=tuple(map(plain_id, listed)),
        text=_without_title(note),
    )


def _without_title(note: Note) -> str:
    lines = note.visible_body.strip().splitlines()
    if lines and lines[0].lstrip("# ").strip() == note.title:
        lines = lines[1:]
    return "\n".join(lines).strip()
