"""Signed lists of notes that were verified here: in the user's own folder, beside the trust record.

The newest of each signer is kept, with its signature, so that none that is older ever counts again,
and so that it can be verified again when another signer is allowed, or one no longer.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from vaultmem.errors import FaultError
from vaultmem.storage.atomic import make_private_folder, write_atomically
from vaultmem.storage.places import NAMELESS, Names

#: Seconds after which signatures are verified again: a key may be allowed until a date.
_FRESH = 86_400


class SignedList(NamedTuple):
    """A list as it was signed, and the name of an allowed signer who did, "" if none did."""

    signer: str
    text: str
    signature: str


class _Verified(NamedTuple):
    """When lists were verified, against files as they were then."""

    at: float
    stamps: list[list[object]]
    lists: list[SignedList]


class SignedTrust:
    """The file of one vault, which is known by its names."""

    def __init__(self, file: Path, names: Names = NAMELESS) -> None:
        self._file = file
        self._names = names

    def lists(self) -> list[SignedList]:
        """Return all lists that were ever verified here, but those that newer ones replaced."""
        known = self._read()
        return known.lists if known else []

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
        files = [str(stamp[0]) for stamp in known.stamps]
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
        known = _Verified(now, _stamp(signers), list(lists))
        try:
            make_private_folder(self._file.parent)
            write_atomically(self._file, json.dumps(known).encode(), mode=0o600)
        except OSError as error:
            raise FaultError(f"{self._file}: could not be written: {error.strerror}") from error

    def _read(self) -> _Verified | None:
        """Return what was verified, None where nothing was; a damaged file has nothing."""
        try:
            at, stamps, lists = json.loads(self._file.read_bytes())
            return _Verified(float(at), list(stamps), [SignedList(*each) for each in lists])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError):
            return _Verified(0.0, [], [])


def _stamp(files: Iterable[str]) -> list[list[object]]:
    """Return what changes with each of the files."""
    stamps: list[list[object]] = []
    for file in files:
        try:
            found = os.stat(file)
        except OSError:
            stamps.append([file, 0, 0, 0])
        else:
            stamps.append([file, found.st_mtime_ns, found.st_size, found.st_ino])
    return stamps
