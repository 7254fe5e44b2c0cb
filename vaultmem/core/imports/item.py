"""What an export holds: memories and conversations, each known by what it is called there."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, NamedTuple

from vaultmem.core.lifecycle import Kind, State
from vaultmem.core.notes.edit_properties import PropertyValue
from vaultmem.core.notes.note import KNOWN_PROPERTIES
from vaultmem.core.transcripts.event import Event, Source
from vaultmem.core.transcripts.event import Kind as Said

#: Properties of others that are kept: how many, and how long a text of one may be.
_MOST, _LONGEST = 20, 500
_NAME = re.compile(r"[^\W\d][\w-]{0,60}")

#: Names that mean something here beside those of every note.
_MEANT = KNOWN_PROPERTIES | {
    *("tag", "alias", "about", "valid_from", "valid_until", "pending_restore_at", "status"),
    *("started", "ended", "goal", "workspace", "windows", "touched", "decisions", "continues"),
    *("forked_from", "next_step"),
}


class MemoryItem(NamedTuple):
    """A memory: `origin` is its id where it comes from, the same each time.

    `folders` are names for where it goes, outermost first, and `name` is the file's, where links
    go by that. `own` are further properties. `said_by` tells whose words it is: "user", or "".
    """

    origin: str
    text: str
    title: str = ""
    folders: tuple[str, ...] = ()
    name: str = ""
    kind: Kind = Kind.SEMANTIC_FACT
    state: State = State.CANDIDATE
    tags: tuple[str, ...] = ()
    created: datetime | None = None
    own: Mapping[str, PropertyValue] = MappingProxyType({})
    said_by: str = ""

    @property
    def digest(self) -> str:
        """Stands for what it says, whatever becomes of it here."""
        return digest_text(self.text)


class Conversation(NamedTuple):
    """A talk as it stands at its origin: the branch that was last shown, oldest turn first."""

    origin: str
    title: str
    turns: tuple[Event, ...]
    started: datetime | None = None
    ended: datetime | None = None
    url: str = ""


class Unread(NamedTuple):
    """What could not be read: where it is, and why."""

    where: str
    reason: str


Item = MemoryItem | Conversation | Unread


def make_talk(
    origin: str,
    title: object,
    said: Iterable[Event | None],
    started: object = None,
    ended: object = None,
    url: str = "",
) -> Iterator[Conversation]:
    """Yield the talk of these turns, if it has a name and any; times are as written there."""
    turns = tuple(each for each in said if each is not None)
    if origin and turns:
        times = read_moment(started), read_moment(ended)
        yield Conversation(origin, read_text(title), turns, *times, url)


def make_turn(role: str, text: str, at: object) -> Event:
    """Return what a user or an assistant said, at a time as it is written there."""
    moment = read_moment(at)
    when = moment.isoformat(timespec="seconds") if moment else ""
    return Event(Said.REQUEST if role == "user" else Said.ANSWER, Source(), when, text)


def digest_text(text: str) -> str:
    """Return the digest of a text, blank lines around it left out."""
    return hashlib.sha256(text.strip().encode("utf-8", "surrogatepass")).hexdigest()[:12]


def read_text(value: object) -> str:
    """Return a value as text that a note can hold; "" if it is none."""
    if not isinstance(value, str):
        return ""
    return value.encode("utf-8", "replace").decode("utf-8").replace("\0", "\ufffd").strip()


def read_list(value: object) -> list[Any]:
    """Return a list as it is; of anything else, nothing."""
    return value if isinstance(value, list) else []


def read_tags(value: object) -> tuple[str, ...]:
    """Return a list of words, or one text of them, as tags."""
    texts = value.split(",") if isinstance(value, str) else read_list(value)
    tags = (re.sub(r"[^\w/-]+", "-", read_text(text)).strip("-/") for text in texts)
    return tuple(dict.fromkeys(tag for tag in tags if tag))


def read_moment(value: object) -> datetime | None:
    """Return a time in seconds since the epoch, or as ISO 8601 (UTC where unsaid), if it is one."""
    try:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            is_sound = math.isfinite(value) and 0 < value < 1e11
            return datetime.fromtimestamp(value, UTC) if is_sound else None
        if isinstance(value, str) and len(value) < 40:
            moment = datetime.fromisoformat(value.strip())
            return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError, OSError):
        pass
    return None


def keep_properties(given: Mapping[str, object]) -> dict[str, PropertyValue]:
    """Return what may stand in a note of the properties that somebody else gave theirs.

    None that means something here: a text from elsewhere says nothing of its own standing.
    """
    kept: dict[str, PropertyValue] = {}
    for name, value in given.items():
        if len(kept) >= _MOST or name.casefold() in _MEANT or not _NAME.fullmatch(name):
            continue
        if isinstance(value, (bool, int, float)):
            kept[name] = value
        elif isinstance(value, str) and 0 < len(value.strip()) <= _LONGEST:
            kept[name] = read_text(value)
        elif isinstance(value, (list, tuple)) and all(isinstance(each, str) for each in value):
            kept[name] = tuple(map(read_text, value[:_MOST]))
    return kept
