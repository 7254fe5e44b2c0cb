"""The answers of the server: the JSON of the commands, typed as far as programs go by it."""

from __future__ import annotations

from typing import Any, TypedDict


class Version(TypedDict):
    """A note as somebody read it: what is changed is this version, or nothing."""

    path: str
    blob: str


class NoteRecord(Version):
    """What a list says of a note."""

    title: str
    kind: str
    state: str
    pinned: bool
    context: str
    tags: list[str]
    tokens: int


class Note(Version):
    """A note, or the section of it that was asked for."""

    title: str
    kind: str
    state: str
    pinned: bool
    tags: list[str]
    properties: dict[str, Any]
    heading: str | None
    text: str
    caution: str | None


class Hit(Version):
    """A note that was found, by its best section."""

    heading: str | None
    line: int
    title: str
    kind: str
    state: str
    score: float
    text: str
    explanation: dict[str, Any]


class Answer(TypedDict):
    """What a recall found; `match_strength` is strong, weak or none."""

    query: str
    hits: list[Hit]
    match_strength: str
    corrections: dict[str, str]
    suggestion: str | None
    omitted: int


class PackItem(Version):
    """A section in a pack, what it costs and why it is there."""

    heading: str | None
    group: str
    pinned: bool
    tokens: int
    score: float
    text: str
    explanation: dict[str, Any]


class LeftOut(Version):
    """A section that was considered for a pack; `reason` is room, share or alike."""

    heading: str | None
    reason: str
    instead: str | None


class Pack(TypedDict):
    """A context pack: its text, what it shows, what it left out, and its receipt."""

    text: str
    match_strength: str | None
    items: list[PackItem]
    omitted: list[LeftOut]
    omitted_pins: list[str]
    tokens: dict[str, float]
    receipt: str | None


class Remembered(Version):
    """A memory that was written; `outcome` is created, or known where a note said it already."""

    title: str
    state: str
    outcome: str
    similar: list[dict[str, Any]]
    proposed: list[dict[str, Any]]
    cited: list[str]
    offered: list[str]
