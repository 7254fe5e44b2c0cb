"""A hub's folder: its settings, its audit log, and its reasons for a rejection.

hub.yaml         limits, edited by the owner
grants.json      tokens and permissions (mode 0600)
claims.json      users of machines' refs
repositories/    a bare repository for each vault, NAME.git
removed/         repositories of removed vaults
hooks/           the hook that every repository runs
audit/           the audit log, one file a month
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from vaultmem.core.text.json_values import as_json_object, as_typed
from vaultmem.errors import NoVaultError, RefusedError, SystemFailureError, VaultError
from vaultmem.storage.atomic import make_private_folder, sync_folder, write_atomically
from vaultmem.storage.lock import hold_lock
from vaultmem.storage.user_files import is_vault_name

CONFIG_NAME = "hub.yaml"

#: The hook by which git has each push checked, and the module that it runs.
_HOOK, _HOOK_MODULE = "pre-receive", "vaultmem.cli.push_check"

VERSION = 1

_FOLDERS = ("repositories", "removed", "hooks", "audit")
_HUB_ENTRY_NAMES = {*_FOLDERS, "grants.json", "claims.json", "hub.lock", "hub.lock.next"}

#: Name prefix of a repository that is being made.
MAKING = ".making-"

_TEXT = """\
# The limits of this hub; a change counts from the next push on. Sizes are in bytes, or end with K,
# M or G. `vaultmem hub check` reports whether this file can be read.
version: 1

# One push: its size as it is sent, and how many commits and changed files are new with it.
push_bytes: 64M
push_commits: 10000
push_files: 20000

# One note, any other file, and what all new files hold together.
note_bytes: 1M
file_bytes: 16M
total_bytes: 512M

# Branches and other refs that one push may move, and those below refs/vaultmem/rescue/ that one
# name may have in a vault.
push_refs: 50
rescues: 50

# Seconds that the check of one push may take.
seconds: 60

# Seconds of processor time for each git process that a fetch or a push starts.
cpu_seconds: 300
"""

_LINE = re.compile(r"([a-z_]+):[ \t]*([0-9]+[KMG]?)[ \t]*(?:#.*)?")
_SIZE = re.compile(r"([0-9]+)([KMG]?)")
_UNITS = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}


class PushLimits(NamedTuple):
    """The limits of one push, from hub.yaml; sizes in bytes."""

    push_bytes: int = 64 * 1024**2
    push_commits: int = 10_000
    push_files: int = 20_000
    note_bytes: int = 1024**2
    file_bytes: int = 16 * 1024**2
    total_bytes: int = 512 * 1024**2
    push_refs: int = 50
    rescues: int = 50
    seconds: int = 60
    cpu_seconds: int = 300


class Hub(NamedTuple):
    """A hub's folder and limits."""

    folder: Path
    limits: PushLimits = PushLimits()

    @property
    def repositories(self) -> Path:
        """The folder of the bare repositories."""
        return self.folder / "repositories"

    @property
    def hooks(self) -> Path:
        """The folder of the hook that each of them runs."""
        return self.folder / "hooks"

    def hide_folder(self, text: str) -> str:
        """Return a text without the hub's path on the server, for callers."""
        return text.replace(f"{self.folder}/", "").replace(str(self.folder), "the hub")

    @property
    def lock(self) -> Path:
        """The lock file for changes of the hub's own files."""
        return self.folder / "hub.lock"


def make_hub(folder: Path) -> Hub:
    """Make a hub of a folder, or complete a partial one.

    Raises:
        RefusedError: the folder is a hub, or has other files.
        SystemFailureError: it could not be written.
    """
    if (folder / CONFIG_NAME).exists():
        raise RefusedError(f"{folder}: is a hub already; `vaultmem hub check` looks at it")
    if folder.is_dir() and (
        other_files := {each.name for each in folder.iterdir()} - _HUB_ENTRY_NAMES
    ):
        raise RefusedError(
            f"{folder}: holds something else ({min(other_files)}); name an empty folder"
        )
    hub = Hub(folder.resolve())
    try:
        make_private_folder(folder)
        os.chmod(folder, 0o700)
        _make_whole(hub)
        write_atomically(folder / CONFIG_NAME, _TEXT.encode(), mode=0o600)
    except OSError as error:
        raise SystemFailureError(f"{folder}: the hub cannot be made ({error.strerror})") from error
    return hub


def open_hub(folder: Path) -> Hub:
    """Open a hub to serve or change it; repair its folder after a killed process.

    Raises:
        NoVaultError: the folder is not a hub.
        VaultError: hub.yaml cannot be read, or a newer vaultmem made it.
    """
    hub = read_hub(folder)
    try:
        with hold_lock(hub.lock):
            _make_whole(hub)
    except OSError as error:
        raise SystemFailureError(f"{folder}: the hub cannot be used ({error.strerror})") from error
    return hub


def read_hub(folder: Path) -> Hub:
    """Open a hub read-only.

    Raises:
        NoVaultError, VaultError: as for `open_hub`.
    """
    file = folder / CONFIG_NAME
    try:
        text = file.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise NoVaultError(
            f"{folder}: no hub ({CONFIG_NAME}) is there; make one with `vaultmem hub init`"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", "") or "not UTF-8"
        raise VaultError(f"{CONFIG_NAME}: cannot be read ({reason})") from error
    return Hub(folder.resolve(), parse_limits(text))


def parse_limits(text: str) -> PushLimits:
    """Parse hub.yaml.

    Raises:
        VaultError: a key is unknown, a value is not a number, or the version is newer.
    """
    limits: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _LINE.fullmatch(line.rstrip())
        if match is None:
            raise VaultError(
                f"{CONFIG_NAME}, line {number}: write `key: NUMBER`, with K, M or G for sizes"
            )
        if match[1] == "version":
            if int(match[2].rstrip("KMG")) > VERSION:
                raise VaultError(f"{CONFIG_NAME}: a newer vaultmem made this hub; update vaultmem")
        else:
            limits[match[1]] = parse_limit(match[1], match[2], f"{CONFIG_NAME}, line {number}")
    return PushLimits(**limits)


def parse_limit(key: str, text: str, location: str) -> int:
    """Return the value of a limit, such as `64K`.

    Raises:
        VaultError: there is no such limit, or the value is not a number above 0.
    """
    if key not in PushLimits._fields:
        from vaultmem.core.text.suggest import suggest_similar

        raise VaultError(
            f'{location}: unknown key "{key}"{suggest_similar(key, PushLimits._fields)}'
        )
    match = _SIZE.fullmatch(text)
    if match is None:
        raise VaultError(f'{location}: "{key}" must be a number, with K, M or G for sizes')
    if not int(match[1]):
        raise VaultError(f'{location}: "{key}" must be more than 0')
    return int(match[1]) * _UNITS[match[2]]


def check_name(name: str) -> str:
    """Return a name for a vault or user, if it is valid in addresses and refs on all systems.

    Raises:
        RefusedError: it is not.
    """
    is_odd = ".." in name or name.lower().endswith((".", ".git", ".lock"))
    if not is_vault_name(name) or is_odd:
        raise RefusedError(
            f'"{name}" is not a valid name; use letters and digits, with - . _ between them, '
            "40 at most"
        )
    return name


def _make_whole(hub: Hub) -> None:
    """Make missing folders and the hook, and remove partial files of a killed process."""
    for name in _FOLDERS:
        make_private_folder(hub.folder / name)
    write_hook(hub.hooks)
    import shutil

    for leftover in hub.repositories.glob(f"{MAKING}*"):
        shutil.rmtree(leftover, ignore_errors=True)
    for leftover in hub.folder.glob(".vaultmem-*.tmp"):
        leftover.unlink(missing_ok=True)


def write_hook(folder: Path) -> None:
    """Write the hook if it is missing or differs."""
    if find_hook(folder):
        write_atomically(folder / _HOOK, _make_hook(), mode=0o700)


def find_hook(folder: Path) -> str:
    """Return the problem with the hook in a folder, "" if it is fine."""
    file = folder / _HOOK
    if not file.is_file():
        return "the hook is missing: git accepts each push unchecked"
    if not os.access(file, os.X_OK):
        return "the hook cannot be executed: git accepts each push unchecked"
    return "" if file.read_bytes() == _make_hook() else "the hook is not this vaultmem's"


def _make_hook() -> bytes:
    python = shlex.quote(sys.executable)
    # -P: git starts it in the repository.
    return f"#!/bin/sh\n# Written by vaultmem.\nexec {python} -P -m {_HOOK_MODULE}\n".encode()


# The JSON files of a hub: grants and claims.

_JSON_VERSION = 1


def read_json(hub: Hub, name: str, key: str, hint: Any) -> Any:
    """Return the value of a hub's JSON file as the type `hint`; None if there is no file.

    Raises:
        VaultError: the file cannot be read, as a whole.
    """
    try:
        content = json.loads((hub.folder / name).read_text(encoding="utf-8"))
        if content["version"] > _JSON_VERSION:
            raise VaultError(f"{name}: a newer vaultmem wrote it; update vaultmem")
        return as_typed(content[key], hint)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = getattr(error, "strerror", "") or error
        raise VaultError(f"{name}: cannot be read ({reason}); correct it, or restore it") from error


def write_json(hub: Hub, name: str, key: str, value: Any) -> None:
    """Replace a JSON file of the hub.

    Raises:
        SystemFailureError: the file could not be written.
    """
    content = {"version": _JSON_VERSION, key: as_json_object(value)}
    try:
        data = json.dumps(content, indent=1, ensure_ascii=False).encode() + b"\n"
        write_atomically(hub.folder / name, data, mode=0o600)
    except OSError as error:
        raise SystemFailureError(f"{name}: could not be written ({error.strerror})") from error


# The audit log: lines of JSON, a file a month, never rewritten. A line is on the disk before the
# caller gets an answer.


class AuditEntry(NamedTuple):
    """One action or refusal, `at` seconds since the epoch.

    `who` is the grant's name and `grant` its id, both "" if not authenticated; `origin` is the
    client's address, or "api", "mcp" or "page". `what` is "push", "ask", "grant" and the like.
    `outcome` is "done", "refused" or "failed"; "begun" for a "write" to a fleet, whose "push"
    follows. `details` depend on `what`: refs and reasons of a push, number of hits of a query.
    """

    at: float
    who: str
    grant: str
    origin: str
    what: str
    vaults: tuple[str, ...]
    outcome: str
    details: Mapping[str, Any] = MappingProxyType({})


def record(hub: Hub, entry: AuditEntry) -> None:
    """Append an entry, durably.

    Raises:
        SystemFailureError: it could not be written; then the logged action must not be done.
    """
    file = hub.folder / "audit" / f"{time.strftime('%Y-%m', time.gmtime(entry.at))}.jsonl"
    line = json.dumps(_as_row(entry), ensure_ascii=True).encode() + b"\n"
    try:
        with hold_lock(hub.folder / "audit" / ".lock"):
            is_new = not file.exists()
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT
            with os.fdopen(os.open(file, flags, 0o600), "r+b", buffering=0) as stream:
                if stream.seek(0, os.SEEK_END):
                    stream.seek(-1, os.SEEK_END)
                    line = line if stream.read(1) == b"\n" else b"\n" + line  # Cut by a kill.
                stream.write(line)
                os.fsync(stream.fileno())
            if is_new:
                sync_folder(file.parent)
    except OSError as error:
        raise SystemFailureError(
            f"audit/{file.name}: cannot be written ({error.strerror})"
        ) from error


def read_audit(
    hub: Hub,
    who: str = "",
    vault: str = "",
    what: str = "",
    outcome: str = "",
    since: float = 0.0,
) -> Iterator[AuditEntry]:
    """Yield the entries that match all given filters, newest first, without broken lines."""
    for file in sorted((hub.folder / "audit").glob("*.jsonl"), reverse=True):
        for line in reversed(file.read_bytes().splitlines()):
            entry = _read(line)
            if entry is None or entry.at < since:
                continue
            filters = (
                (who, (entry.who, entry.grant)),
                (vault, entry.vaults),
                (what, (entry.what,)),
                (outcome, (entry.outcome,)),
            )
            if all(not expected or expected in values for expected, values in filters):
                yield entry


def count_broken(hub: Hub) -> int:
    """Return the number of broken lines in the audit log."""
    files = (hub.folder / "audit").glob("*.jsonl")
    return sum(_read(line) is None for file in files for line in file.read_bytes().splitlines())


def _as_row(entry: AuditEntry) -> dict[str, Any]:
    timestamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(entry.at))
    return {"time": timestamp, **entry._asdict(), "details": dict(entry.details)}


def _read(line: bytes) -> AuditEntry | None:
    try:
        row = json.loads(line)
        values = [row[name] for name in AuditEntry._fields]
        return AuditEntry(*values)._replace(vaults=tuple(row["vaults"]))
    except (ValueError, KeyError, TypeError):
        return None


# The refusals of a push: subject, reason, and remedy.

#: Most refusals that the pusher gets, and most refusals (and refs) that are logged.
MAX_REPORTED_REFUSALS, MAX_LOGGED_REFUSALS = 20, 200


class Refusal(NamedTuple):
    """One refusal: its subject, the reason, and the remedy."""

    subject: str
    reason: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.subject}: {self.reason}; {self.remedy}"


def cut_refusals(refusals: Sequence[Refusal], most: int) -> list[str]:
    """Return at most `most` refusals as lines, and the number of others."""
    more = [f"and {len(refusals) - most:,} more"] if len(refusals) > most else []
    return [*map(str, refusals[:most]), *more]


class RefUpdate(NamedTuple):
    """A ref that a push wants to move, from a commit to another; 40 zeros for none."""

    ref: str
    old: str
    new: str

    @property
    def is_new(self) -> bool:
        """Return whether the ref is to be created."""
        return not self.old.strip("0")

    @property
    def is_removal(self) -> bool:
        """Return whether the ref is to be removed."""
        return not self.new.strip("0")
