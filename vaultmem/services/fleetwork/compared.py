"""What comes of comparing the notes of many vaults."""

from __future__ import annotations

from typing import NamedTuple


class Side(NamedTuple):
    """A note: its vault, what it is called, who wrote it, and when (seconds since the epoch)."""

    vault: str
    path: str
    title: str
    agent: str
    written: float


class Same(NamedTuple):
    """Notes of several vaults that state the same, the oldest first."""

    notes: tuple[Side, ...]


class Differing(NamedTuple):
    """Two statements of several vaults, the older one first, each with how many notes state it.

    `differences` are what differs: of what kind, what the older one says, what the newer one.
    `similarity` (0 to 1) is how much of one the other says.
    """

    older: Side
    newer: Side
    similarity: float
    differences: tuple[tuple[str, str, str], ...]
    older_notes: int
    newer_notes: int


class Compared(NamedTuple):
    """What came of comparing all vaults; `asked` were read only now, `notes` are all.

    What differs is in order of the newer notes, the last one first. What was told or compared of a
    vault that is missing is not in it.
    """

    same: tuple[Same, ...]
    near: tuple[Differing, ...]
    contradicting: tuple[Differing, ...]
    vaults: int
    notes: int
    asked: int
    missing: dict[str, str]
    behind: dict[str, str]
