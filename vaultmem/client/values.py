"""The server's JSON responses, typed as far as programs rely on them."""

from __future__ import annotations

from typing import Any, TypedDict


class Version(TypedDict):
    """A note's path and version; a change applies to this version only."""

    path: str
    blob: str


class NoteRecord(Version):
    """A note's entry in a list."""

    title: str
    kind: str
    state: str
    pinned: bool
    context: str
    tags: list[str]
    tokens: int


class Note(Version):
    """A note, or the requested section of it."""

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
    """A note returned by a query, with its best section."""

    heading: str | None
    line: int
    title: str
    kind: str
    state: str
    score: float
    text: str
    explanation: dict[str, Any]


class Answer(TypedDict):
    """The result of a query; `match_strength` is strong, weak or none."""

    query: str
    hits: list[Hit]
    match_strength: str
    corrections: dict[str, str]
    suggestion: str | None
    omitted: int


class PackItem(Version):
    """A section in a pack, with its tokens and the match explanation."""

    heading: str | None
    group: str
    pinned: bool
    tokens: int
    score: float
    text: str
    explanation: dict[str, Any]


class LeftOut(Version):
    """A section omitted from a pack; `reason` is room, share or alike."""

    heading: str | None
    reason: str
    instead: str | None


class Pack(TypedDict):
    """A context pack: its text, its shown and omitted sections, and its receipt."""

    text: str
    match_strength: str | None
    items: list[PackItem]
    omitted: list[LeftOut]
    omitted_pins: list[str]
    tokens: dict[str, float]
    receipt: str | None


class Remembered(Version):
    """A written memory; `outcome` is created, or known if a note already states it."""

    title: str
    state: str
    outcome: str
    similar: list[dict[str, Any]]
    proposed: list[dict[str, Any]]
    cited: list[str]
    offered: list[str]
