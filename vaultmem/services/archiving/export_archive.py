"""Put a whole vault into one file: its notes, its history, and what lies outside of it."""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import vaultmem
from vaultmem.core.archive import (
    ARTIFACTS,
    FILES,
    HISTORY,
    RECEIPTS,
    SESSIONS,
    STATE,
    TRUST,
    Manifest,
    is_kept,
    is_safe,
    stays_inside,
)
from vaultmem.core.safe_text import escape_bytes
from vaultmem.errors import RefusedError, name_failure
from vaultmem.services.reading.sync import sync_vault
from vaultmem.storage.archive_file import ArchiveWriter, open_archive
from vaultmem.storage.durable_state import dump_state
from vaultmem.storage.files import open_beneath
from vaultmem.storage.git.bundle import write_bundle
from vaultmem.storage.links import find_attachments
from vaultmem.storage.lock import hold_lock
from vaultmem.storage.session_table import ActiveSessions
from vaultmem.storage.signals import SignalStore
from vaultmem.vault import Vault

_BLOCK = 1024 * 1024


class Archived(NamedTuple):
    """What is in an archive, and how large it is (bytes).

    `skipped` says of files of the vault why they are not in it.
    """

    file: str
    bytes: int
    notes: int
    files: int
    commits: int
    receipts: int
    trusted: bool
    skipped: dict[str, str]


def export_archive(
    vault: Vault, file: Path, progress: Callable[[int, int], None] = lambda done, total: None
) -> Archived:
    """Write all of a vault into an archive, which takes an earlier one's place at the end.

    Writers wait meanwhile, so it is of one moment.

    Raises:
        RefusedError: the file is something else, or in the vault; or a merge is under way.
        VaultError: the disk did not take it, or a file could not be read.
    """
    file = file.resolve()
    _check_target(vault, file)
    try:
        with (
            hold_lock(vault.state_folder / "export.lock"),
            contextlib.closing(ArchiveWriter(file.parent)) as writer,
        ):
            manifest, skipped = _gather(vault, writer)
            size = writer.write(file, manifest, progress)
    except OSError as error:
        raise name_failure(error) from error
    return Archived(
        os.fspath(file),
        size,
        manifest.notes,
        manifest.count(FILES),
        manifest.commits,
        manifest.count(RECEIPTS),
        TRUST in manifest.members,
        skipped,
    )


def _check_target(vault: Vault, file: Path) -> None:
    if file.is_relative_to(vault.root.resolve()):
        raise RefusedError(f"{file}: in the vault itself; name a file outside of it")
    if not file.parent.is_dir():
        raise RefusedError(f"{file.parent}: no such folder")
    if file.exists():
        try:
            with open_archive(file):
                pass
        except (RefusedError, OSError):
            told = f"{file}: it is there, and no archive of a vault; name another file"
            raise RefusedError(told) from None


def _gather(vault: Vault, writer: ArchiveWriter) -> tuple[Manifest, dict[str, str]]:
    """Give the writer all members, while nobody else writes; return the manifest."""
    with vault.lock():
        sync_vault(vault)
        SignalStore(vault.state, vault.state_folder).fold(vault.view.totals()[1])
        head, folder, commits = vault.head(), "", 0
        if head is not None:
            if told := vault.history.obstacle(may_be_detached=True):
                raise RefusedError(f"{told}; end it first")
            folder = vault.history.prefix
            commits = int(vault.history.git.run("rev-list", "--count", "--all"))
            if commits:
                writer.add(HISTORY, write_bundle(vault.history))
        skipped = dict(_add_files(vault, writer))
        _add_kept(vault, writer)
        writer.add(STATE, dump_state(vault.state))
    made = datetime.fromtimestamp(int(vault.now()), UTC).isoformat()
    manifest = Manifest(
        vaultmem=vaultmem.__version__,
        made=made,
        name=vault.root.name,
        folder=folder,
        branch=head.branch if head else "",
        commit=head.commit if head else "",
        notes=vault.view.totals()[0],
        commits=commits,
        members=writer.members,
    )
    return manifest, skipped


def _add_files(vault: Vault, writer: ArchiveWriter) -> Iterator[tuple[str, str]]:
    """Add the vault's files; yield which of them are left out, and why."""
    paths = _list_files(vault)
    sparse = set() if vault.head() is None else vault.history.find_skipped(paths)
    for path in sorted(paths):
        if path in sparse:
            raise RefusedError(
                f"{path}: a sparse checkout leaves it out; run `git sparse-checkout disable` first"
            )
        if told := _add_file(vault, writer, path):
            yield escape_bytes(path), told


def _list_files(vault: Vault) -> set[str]:
    """Return what git has or would take, all notes, transcripts and media.

    What git ignores otherwise may be a secret, or can be made again.
    """
    paths = {*vault.manifest.blobs(), *find_attachments(vault.root)}
    if vault.head() is None:
        found = (Path(folder, name) for folder, _, names in os.walk(vault.root) for name in names)
        paths |= {each.relative_to(vault.root).as_posix() for each in found}
    else:
        command = ("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--full-name")
        where = ("--", vault.history.prefix) if vault.history.prefix else ()
        listed = vault.history.git.run(*command, *where).split("\0")
        paths |= {path.removeprefix(vault.history.prefix) for path in listed if path}
    return paths


def _add_file(vault: Vault, writer: ArchiveWriter, path: str) -> str:
    """Add one file; return why it is left out, "" if it is not."""
    if not is_safe(path):
        return "no name that every system can hold"
    try:
        found = os.lstat(vault.root / path)
    except OSError:
        return ""  # Removed, and not committed yet.
    if stat.S_ISLNK(found.st_mode):
        target = os.readlink(vault.root / path)
        if not stays_inside(path, target):
            return "a link that leads out of the vault"
        writer.add_link(FILES + path, target)
    elif stat.S_ISREG(found.st_mode):
        descriptor = open_beneath(vault.root, PurePosixPath(path))
        with os.fdopen(descriptor, "rb") as source:
            blocks = iter(lambda: source.read(_BLOCK), b"")
            writer.add(FILES + path, blocks, found.st_mtime_ns, bool(found.st_mode & 0o100))
    elif not stat.S_ISDIR(found.st_mode):
        return "no regular file"
    else:
        return "a repository of its own"
    return ""


def _add_kept(vault: Vault, writer: ArchiveWriter) -> None:
    """Add what is in the user's own folders: receipts, what was handed over, sessions, trust."""
    _add_named(writer, RECEIPTS, vault.store.receipts.files())
    _add_named(writer, ARTIFACTS, vault.store.artifacts.files())
    _add_named(writer, SESSIONS, sorted(ActiveSessions(vault.state_folder).folder.glob("*.json")))
    if vault.trust.is_trusted():
        notes = {path: sorted(digests) for path, digests in vault.trust.notes().items()}
        writer.add(TRUST, [json.dumps(notes, indent=1, sort_keys=True).encode()])


def _add_named(writer: ArchiveWriter, where: str, files: Iterable[Path]) -> None:
    for file in files:
        if is_kept(name := where + file.name):
            writer.add(name, [file.read_bytes()], file.stat().st_mtime_ns)
