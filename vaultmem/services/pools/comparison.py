"""What notes of many vaults say alike, and in what they contradict each other.

All notes are brought into one temporary vault, and compared there as `curate` compares a vault's.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from vaultmem.config import CONFIG_NAME
from vaultmem.services.likeness.pairs import Pair, compare_vault, is_counted, read_whole
from vaultmem.services.pools.jobs import Job, JobOptions, JobResults, run_job
from vaultmem.services.pools.pool import Pool
from vaultmem.services.reading.sync import sync_vault
from vaultmem.vault import UserFolders, Vault, open_vault


class Side(NamedTuple):
    """A note: its vault, what it is called, who wrote it, and when (seconds since the epoch)."""

    vault: str
    path: str
    title: str
    agent: str
    written: float


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


class Comparison(NamedTuple):
    """What came of comparing all vaults; `asked` were read only now, `notes` are all.

    `same` has the notes that state the same, the oldest first. What differs is in order of the
    newer notes, the last one first. `missing` vaults have no part in it.
    """

    same: tuple[tuple[Side, ...], ...]
    near: tuple[Differing, ...]
    contradicting: tuple[Differing, ...]
    vaults: int
    notes: int
    asked: int
    missing: dict[str, str]
    behind: dict[str, str]


def compare_all(pool: Pool, names: Iterable[str], options: JobOptions) -> Comparison:
    """Compare the notes of these vaults, or of all, with those of the others.

    What is alike or differs inside one vault is left to its own `curate`.
    """
    read = run_job(pool, names, options, Job("reading notes", _list_notes))
    with tempfile.TemporaryDirectory(prefix="vaultmem-compare-") as folder:
        whole = _Whole(Path(folder), read)
        with contextlib.closing(whole.open()) as vault:
            sync_vault(vault)
            pairs = compare_vault(vault, options.tell("comparing notes"))
    whole.join([pair.names for pair in pairs.same])
    return Comparison(
        same=tuple(whole.list_same()),
        near=tuple(whole.list_differing(pairs.near)),
        contradicting=tuple(whole.list_differing(pairs.contradicting)),
        vaults=len(read.done),
        notes=whole.notes,
        asked=read.asked,
        missing=read.missing,
        behind=read.behind,
    )


def _list_notes(vault: Vault) -> list[dict[str, Any]]:
    """Return the notes of a vault that are compared, with what tells who wrote them and when."""
    return [
        {
            "path": record.path,
            "title": record.title,
            "agent": record.agent,
            "written": record.written,
            "digest": record.body_digest,
            "text": note.text,
        }
        for record in vault.view.records()
        if is_counted(record) and (note := read_whole(vault, record.path))
    ]


class _Whole:
    """One vault of the notes of all; of copies, which all have one body and title, one is in it.

    `_groups` has for each note in it all notes that state the same, the oldest first.
    """

    def __init__(self, folder: Path, read: JobResults) -> None:
        self._folder = folder
        self._groups: dict[str, list[Side]] = {}
        self.notes = 0
        places: dict[tuple[str, str], str] = {}
        self._root = folder / "vault"
        self._root.mkdir()
        (self._root / CONFIG_NAME).touch()
        for vault, notes in read.items():
            for each in notes:
                self.notes += 1
                key = each["digest"], each["title"]
                if key not in places:
                    places[key] = self._write(vault, each)
                group = self._groups.setdefault(places[key], [])
                group.append(_make_side(vault, each))
        for group in self._groups.values():
            group.sort(key=_by_time)

    def open(self) -> Vault:
        """Open it; what vaultmem makes of it is beside it."""
        made = (self._folder / name for name in ("state", "config", "data"))
        return open_vault(self._root, folders=UserFolders(*made))

    def join(self, same: Sequence[frozenset[str]]) -> None:
        """Bring notes together that state the same in other words."""
        for pair in same:
            ours, theirs = (self._groups[path] for path in sorted(pair))
            if ours is not theirs:
                ours += theirs
                ours.sort(key=_by_time)
                for path in [path for path, group in self._groups.items() if group is theirs]:
                    self._groups[path] = ours

    def list_same(self) -> list[tuple[Side, ...]]:
        """Return what several vaults state, what most notes state first."""
        groups = {id(group): tuple(group) for group in self._groups.values() if _is_apart(group)}
        return sorted(groups.values(), key=lambda notes: (-len(notes), _by_time(notes[0])))

    def list_differing(self, pairs: Sequence[Pair]) -> list[Differing]:
        """Return the pairs whose notes are of several vaults, each pair of statements once."""
        found: dict[frozenset[int], Differing] = {}
        for pair in pairs:
            ours, theirs = (self._groups[str(each.path)] for each in (pair.ours, pair.theirs))
            key = frozenset((id(ours), id(theirs)))
            if key not in found and ours is not theirs and _is_apart([*ours, *theirs]):
                found[key] = _describe(pair, ours, theirs)
        order = sorted(found.values(), key=lambda each: _by_time(each.older), reverse=True)
        return sorted(order, key=lambda each: _by_time(each.newer), reverse=True)

    def _write(self, vault: str, note: Mapping[str, Any]) -> str:
        """Write a note where its first folder says what that says in its own vault."""
        first, *rest = PurePosixPath(note["path"]).parts
        path = PurePosixPath(first, vault, *rest) if rest else PurePosixPath(vault, first)
        file = self._root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(note["text"].encode("utf-8", "surrogateescape"))
        os.utime(file, (note["written"], note["written"]))
        return str(path)


def _describe(pair: Pair, ours: Sequence[Side], theirs: Sequence[Side]) -> Differing:
    is_older = _by_time(ours[0]) <= _by_time(theirs[0])
    older, newer = (ours, theirs) if is_older else (theirs, ours)
    differences = tuple(
        (each.kind, *((each.ours, each.theirs) if is_older else (each.theirs, each.ours)))
        for each in pair.likeness.differences
    )
    similarity = pair.likeness.similarity
    return Differing(older[0], newer[0], similarity, differences, len(older), len(newer))


def _make_side(vault: str, note: Mapping[str, Any]) -> Side:
    return Side(vault, *(note[name] for name in ("path", "title", "agent", "written")))


def _is_apart(group: Sequence[Side]) -> bool:
    return len({each.vault for each in group}) > 1


def _by_time(side: Side) -> tuple[float, str, str]:
    return side.written, side.vault, side.path
