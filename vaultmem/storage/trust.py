"""The trust record: which texts the owner lets instruct. In the user's own folder, not the vault.

Not a cache: it records promotions by the person, or by an agent that vaultmem.yaml allows. A
promotion is for the text of an active note. When the owner moves the note out of `active`, removes
it or replaces its text, the entry is withdrawn (`services/reading/withdraw.py`).

Next to it are the signed lists of notes that were verified here. The newest of each signer is kept,
with its signature, so that none that is older ever counts again, and so that it can be verified
again when another signer is allowed, or one no longer.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from vaultmem.storage.kept import NAMELESS, KeptFolder, Names, read_value, read_value_if_sound


class TrustRecord(NamedTuple):
    """What the owner said of the vault at a path: by path, the digest of each text vouched for.

    `names` are those of its repository, empty where none was known; `companions` are the folders of
    other vaults that may be asked whenever it is. `withdrawn` is by path each digest that no longer
    counts, with the time (seconds since the epoch). A record that is not `trusted` only withdraws.
    """

    trusted: bool
    notes: dict[str, str]
    vault: str = ""
    names: tuple[str, ...] = ()
    companions: tuple[str, ...] = ()
    withdrawn: dict[str, dict[str, float]] = {}  # noqa: RUF012  # A NamedTuple's default, never changed.


class TrustStore:
    """One JSON file for each vault: `trusted`, and the digest of each promoted note's text.

    A record that names a repository holds for no other that comes to stand in the vault's place.
    `beside` returns the files of the same vault in other work trees, whose word counts here too.
    """

    def __init__(
        self,
        file: Path,
        vault: str = "",
        names: Names = NAMELESS,
        beside: Callable[[], Sequence[Path]] = tuple,
    ) -> None:
        self._file = file
        self._vault = vault
        self._names = names
        self._beside = beside

    def is_trusted(self) -> bool:
        """Tell whether the owner has said that this vault may instruct at all."""
        return any(record.trusted for record in self._find_all())

    def notes(self) -> dict[str, set[str]]:
        """Return path and text digests of each note that was promoted by somebody trusted.

        There is one digest of each, and others where other work trees vouch for other texts.
        """
        withdrawn = self.withdrawn_here()
        found: dict[str, set[str]] = {}
        for record in self._find_all():
            for path, digest in record.notes.items():
                if (path, digest) not in withdrawn:
                    found.setdefault(path, set()).add(digest)
        return found

    def notes_beside(self) -> set[tuple[str, str]]:
        """Return path and digest of each text that only other work trees trust."""
        own = self._find()
        here = set(own.notes.items()) if own else set()
        return {text for each in self._find_all() for text in each.notes.items()} - here

    def withdrawn_here(self) -> dict[tuple[str, str], float]:
        """Return when (seconds since the epoch) each text was withdrawn here: path and digest."""
        own = self._find()
        return _list_withdrawn([own] if own else [])

    def withdrawn(self) -> dict[tuple[str, str], float]:
        """Return when each text was withdrawn last, in any clone of this user."""
        records = filter(None, map(_read_if_sound, self._list_files()))
        return _list_withdrawn(each for each in records if each.withdrawn and self._holds(each))

    def companions(self) -> set[str]:
        """Return the folders of other vaults that may be asked whenever this one is."""
        return {folder for record in self._find_all() for folder in record.companions}

    def record(self, notes: Mapping[str, str], companions: Sequence[str] | None = None) -> None:
        """Trust the vault, and these notes (path to text digest) besides those already trusted.

        Its companions are those known before, unless others are given.
        """
        found = self._find_named()
        withdrawn = {
            path: {each: at for each, at in digests.items() if each != notes.get(path)}
            for path, digests in found.withdrawn.items()
        }
        self._write(
            found._replace(
                notes={**found.notes, **notes},
                companions=found.companions if companions is None else tuple(companions),
                withdrawn={path: digests for path, digests in withdrawn.items() if digests},
                trusted=True,
            )
        )

    def withdraw(self, texts: Iterable[tuple[str, str]], at: float) -> None:
        """Let these texts (path and digest) count no longer, whichever record or list has them."""
        found = self._find_named()
        notes, withdrawn = dict(found.notes), dict(found.withdrawn)
        for path, digest in texts:
            if notes.get(path) == digest:
                del notes[path]
            withdrawn[path] = {**withdrawn.get(path, {}), digest: at}
        self._write(found._replace(notes=notes, withdrawn=withdrawn))

    def _find_named(self) -> TrustRecord:
        """Return this place's own record with all names of its repository, a new one if none is."""
        found = self._find() or TrustRecord(trusted=False, notes={})
        names = tuple(dict.fromkeys((*found.names, *self._names.every())))
        return found._replace(vault=self._vault, names=names)

    def _list_files(self) -> list[Path]:
        return sorted(self._file.parent.glob("*.json"))

    def elsewhere(self) -> list[TrustRecord]:
        """Return what was said of the same repository at other paths, or of another one here."""
        files = [file for file in self._list_files() if file != self._file]
        name = self._names.one() if files else ""
        found = [
            record
            for file in files
            if (record := _read_if_sound(file)) and record.vault and record.trusted
        ]
        same = [each for each in found if name in each.names]
        mine = _read_if_sound(self._file)
        return same if mine is None or self.is_trusted() else [mine, *same]

    def _find_all(self) -> list[TrustRecord]:
        """Return the records that hold here: this place's own, and those of other work trees."""
        found = [self._find(), *map(_read_if_sound, self._beside())]
        return [record for record in found if record and self._holds(record)]

    def _find(self) -> TrustRecord | None:
        record = read_value(self._file, TrustRecord)
        return record if record and self._holds(record) else None

    def _holds(self, record: TrustRecord) -> bool:
        """Tell whether a record is of the repository that is here."""
        if not record.names or self._names.one() in record.names:
            return True
        return bool(set(record.names) & set(self._names.every()))

    def _write(self, record: TrustRecord) -> None:
        KeptFolder(self._file.parent).write_value(self._file.name, record)


def _list_withdrawn(records: Iterable[TrustRecord]) -> dict[tuple[str, str], float]:
    found: dict[tuple[str, str], float] = {}
    for record in records:
        for path, digests in record.withdrawn.items():
            for digest, at in digests.items():
                found[path, digest] = max(at, found.get((path, digest), at))
    return found


def _read_if_sound(file: Path) -> TrustRecord | None:
    return read_value_if_sound(file, TrustRecord)


#: Seconds after which signatures are verified again: a key may be allowed until a date.
_FRESH = 86_400


class SignedList(NamedTuple):
    """A list as it was signed, and the name of an allowed signer who did, "" if none did."""

    signer: str
    text: str
    signature: str


class _Stamp(NamedTuple):
    """A file of signers, as it was when lists were verified; zeros if it was not there."""

    file: str
    changed: int = 0
    size: int = 0
    inode: int = 0


class _Verified(NamedTuple):
    """When lists were verified, against files as they were then."""

    at: float
    stamps: tuple[_Stamp, ...]
    lists: tuple[SignedList, ...]


class SignedTrust:
    """The file of one vault, which is known by its names."""

    def __init__(self, file: Path, names: Names = NAMELESS) -> None:
        self._file = file
        self._names = names

    def lists(self) -> tuple[SignedList, ...]:
        """Return all lists that were ever verified here, but those that newer ones replaced."""
        known = self._read()
        return known.lists if known else ()

    def named(self) -> set[tuple[str, str]]:
        """Return path and digest of each text that a list names, whether or not it counts now."""
        lists = [json.loads(each.text) for each in self.lists()]
        return {text for each in lists for text in each["notes"].items()}

    def notes(self, now: float) -> dict[tuple[str, str], int] | None:
        """Return path and digest of each text that is vouched for, each with its list's serial.

        None: the lists must be verified.
        """
        known = self._read()
        if known is None:
            return {}
        files = [stamp.file for stamp in known.stamps]
        if not 0 <= now - known.at < _FRESH or _stamp(files) != known.stamps:
            return None
        found: dict[tuple[str, str], int] = {}
        for each in known.lists:
            content = json.loads(each.text) if each.signer else {}  # Verified when it was kept.
            for text in content["notes"].items() if self.is_meant(content.get("names", ())) else ():
                found[text] = max(content["serial"], found.get(text, 0))
        return found

    def is_meant(self, names: Sequence[str]) -> bool:
        """Tell whether a list that names a vault so means this one."""
        return self._names.one() in names or not set(self._names.every()).isdisjoint(names)

    def write(self, lists: Iterable[SignedList], signers: Iterable[str], now: float) -> None:
        """Keep lists that were verified against these files of signers just now."""
        known = _Verified(now, _stamp(signers), tuple(lists))
        KeptFolder(self._file.parent).write_value(self._file.name, known)

    def _read(self) -> _Verified | None:
        """Return what was verified, None where nothing was; a damaged file has nothing."""
        known = read_value_if_sound(self._file, _Verified)
        return known or (_Verified(0.0, (), ()) if self._file.exists() else None)


def _stamp(files: Iterable[str]) -> tuple[_Stamp, ...]:
    """Return what changes with each of the files."""
    stamps = []
    for file in files:
        try:
            found = os.stat(file)
        except OSError:
            stamps.append(_Stamp(file))
        else:
            stamps.append(_Stamp(file, found.st_mtime_ns, found.st_size, found.st_ino))
    return tuple(stamps)
