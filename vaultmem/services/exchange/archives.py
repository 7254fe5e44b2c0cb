"""Export a vault as one archive file, and import it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple, Unpack

import vaultmem
from vaultmem.config import Config
from vaultmem.core.notes.record import NoteRecord
from vaultmem.core.search.query import NoteFilter
from vaultmem.core.text.display import escape_bytes
from vaultmem.errors import RefusedError, VaultError, wrap_os_error
from vaultmem.services.search.link_walk import FoundLink, LinkGraph
from vaultmem.services.search.trusted import verify_signed
from vaultmem.services.views.read_notes import find_note, list_notes
from vaultmem.services.views.update_index import sync_vault
from vaultmem.storage.archive_file import (
    ARTIFACTS,
    FILES,
    HISTORY,
    RECEIPTS,
    SESSIONS,
    STATE,
    TRUST,
    ArchiveManifest,
    ArchiveWriter,
    is_kept,
    is_safe,
    naming_archive,
    open_archive,
    stays_inside,
)
from vaultmem.storage.atomic import make_private_folder, sync_folder, write_atomically
from vaultmem.storage.files import open_beneath
from vaultmem.storage.git.maintenance import import_bundle, write_bundle
from vaultmem.storage.git.runner import make_repository
from vaultmem.storage.git.setup import add_excludes, find_unignored, install_driver
from vaultmem.storage.git.vault_history import VaultHistory
from vaultmem.storage.link_table import find_attachments
from vaultmem.storage.lock import hold_lock
from vaultmem.storage.query_log import SignalStore
from vaultmem.storage.session_table import ActiveSessions
from vaultmem.storage.state import StateDatabase
from vaultmem.storage.trust_record import TrustStore
from vaultmem.storage.value_store import RepositoryNames, ValueFolder, dump_state, load_state
from vaultmem.storage.vault_id import make_key
from vaultmem.vault import (
    HOW_TO_SAY,
    UserFolders,
    Vault,
    VaultSettings,
    find_user_folders,
    open_vault,
)

if TYPE_CHECKING:
    from vaultmem.core.notes.note import Note


_BLOCK = 1024 * 1024


class ArchiveResult(NamedTuple):
    """An archive's contents and size (bytes); `skipped` maps files to why they are not in it."""

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
) -> ArchiveResult:
    """Write a whole vault into an archive; an earlier archive is replaced at the end.

    Writers wait meanwhile, so the archive is consistent.

    Raises:
        RefusedError: the file exists and is not an archive, or is in the vault; or a merge is in
            progress.
        VaultError: the archive could not be written, or a file not be read.
    """
    file = file.resolve()
    _check_target(vault, file)
    try:
        with (
            hold_lock(vault.state_folder / "export.lock"),
            contextlib.closing(ArchiveWriter(file.parent)) as writer,
        ):
            manifest, skipped = _collect(vault, writer)
            size = writer.write(file, manifest, progress)
    except OSError as error:
        raise wrap_os_error(error) from error
    return ArchiveResult(
        os.fspath(file),
        size,
        manifest.notes,
        manifest.count(FILES),
        manifest.commits,
        manifest.count(RECEIPTS),
        TRUST in manifest.members,
        skipped,
    )


def check_outside(vault: Vault, file: Path) -> None:
    """Check that a file to write is outside of the vault, in a folder that exists.

    Raises:
        RefusedError: it is not.
    """
    if file.is_relative_to(vault.root.resolve()):
        raise RefusedError(f"{file}: in the vault itself; name a file outside of it")
    if not file.parent.is_dir():
        raise RefusedError(f"{file.parent}: no such folder; make it first, or name another file")


def _check_target(vault: Vault, file: Path) -> None:
    check_outside(vault, file)
    if file.exists():
        try:
            with open_archive(file):
                pass
        except (RefusedError, OSError):
            message = f"{file}: it is there, and no archive of a vault; name another file"
            raise RefusedError(message) from None


def _collect(vault: Vault, writer: ArchiveWriter) -> tuple[ArchiveManifest, dict[str, str]]:
    """Add all members to the writer under the vault's lock; return the manifest."""
    with vault.lock():
        sync_vault(vault)
        SignalStore(vault.state, vault.state_folder).fold(vault.view.totals()[1])
        head, folder, commits = vault.head(), "", 0
        if head is not None:
            if obstacle := vault.history.obstacle(may_be_detached=True):
                raise RefusedError(f"{obstacle}; end it first")
            folder = vault.history.prefix
            commits = int(vault.history.git.run("rev-list", "--count", "--all"))
            if commits:
                writer.add(HISTORY, write_bundle(vault.history))
        skipped = dict(_add_files(vault, writer))
        _add_kept(vault, writer)
        writer.add(STATE, dump_state(vault.state))
    timestamp = datetime.fromtimestamp(int(vault.now()), UTC).isoformat()
    manifest = ArchiveManifest(
        vaultmem=vaultmem.__version__,
        made=timestamp,
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
    """Add the vault's files; yield skipped files with the reasons."""
    paths = _list_files(vault)
    sparse_paths = set() if vault.head() is None else vault.history.find_skipped(paths)
    for path in sorted(paths):
        if path in sparse_paths:
            raise RefusedError(
                f"{path}: a sparse checkout leaves it out; run `git sparse-checkout disable` first"
            )
        if reason := _add_file(vault, writer, path):
            yield escape_bytes(path), reason


def _list_files(vault: Vault) -> set[str]:
    """Return all files that git tracks or would add, notes, transcripts and media.

    Other ignored files might be secret, or can be made again.
    """
    paths = {*vault.manifest.blobs(), *find_attachments(vault.root)}
    if vault.head() is None:
        files = (Path(folder, name) for folder, _, names in os.walk(vault.root) for name in names)
        paths |= {each.relative_to(vault.root).as_posix() for each in files}
    else:
        command = ("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--full-name")
        pathspec = ("--", vault.history.prefix) if vault.history.prefix else ()
        output = vault.history.git.run(*command, *pathspec).split("\0")
        names = (path.removeprefix(vault.history.prefix) for path in output)
        paths |= {name.removesuffix("/") for name in names if name}  # `other/` is a repository.
    return paths


def _add_file(vault: Vault, writer: ArchiveWriter, path: str) -> str:
    """Add one file; return why it is skipped, "" if it is not."""
    if not is_safe(path):
        return "no name that every system can hold; rename it, and export again"
    try:
        status = os.lstat(vault.root / path)
    except OSError:
        return ""  # Removed, and not committed yet.
    if stat.S_ISLNK(status.st_mode):
        target = os.readlink(vault.root / path)
        if not stays_inside(path, target):
            return "a link that leads out of the vault"
        writer.add_link(FILES + path, target)
    elif stat.S_ISREG(status.st_mode):
        descriptor = open_beneath(vault.root, PurePosixPath(path))
        with os.fdopen(descriptor, "rb") as source:
            blocks = iter(lambda: source.read(_BLOCK), b"")
            writer.add(FILES + path, blocks, status.st_mtime_ns, bool(status.st_mode & 0o100))
    elif not stat.S_ISDIR(status.st_mode):
        return "no regular file"
    else:
        return "a repository of its own"
    return ""


def _add_kept(vault: Vault, writer: ArchiveWriter) -> None:
    """Add data from the user's folders: receipts, artifacts, sessions and trust."""
    _add_named(writer, RECEIPTS, vault.store.receipts.files())
    _add_named(writer, ARTIFACTS, vault.store.artifacts.files())
    _add_named(writer, SESSIONS, sorted(ActiveSessions(vault.state_folder).folder.glob("*.json")))
    if vault.trust.is_trusted():
        notes = {path: sorted(digests) for path, digests in vault.trust.notes().items()}
        writer.add(TRUST, [json.dumps(notes, indent=1, sort_keys=True).encode()])


def _add_named(writer: ArchiveWriter, prefix: str, files: Iterable[Path]) -> None:
    for file in files:
        if is_kept(name := prefix + file.name):
            writer.add(name, [file.read_bytes()], file.stat().st_mtime_ns)


# Import a vault from an archive into a new folder: checked first, and all of it or nothing.

_DIGEST = re.compile(r"[0-9a-f]{64}")

#: Paths that git must ignore in a vault, unless a file already does.
_LOCAL = ("transcripts/", "CONTEXT.md")

#: The folder of data from outside the vault, in an archive.
_EXTERNAL_FOLDER = "kept"

#: Bytes that must stay free.
_MIN_FREE_BYTES = 64 * 1024 * 1024


class UnarchiveResult(NamedTuple):
    """The contents of an archive, and the folder they are in now.

    `vouched` counts texts that were trusted where it was made; `trusted`: they are trusted here
    too.
    """

    folder: str
    made: str
    vaultmem: str
    notes: int
    files: int
    commits: int
    receipts: int
    vouched: int
    trusted: bool
    dry_run: bool


def import_archive(
    file: Path,
    folder: Path | None,
    *,
    trust: bool = False,
    dry_run: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
    **settings: Unpack[VaultSettings],
) -> UnarchiveResult:
    """Import an archive into a folder, by default one with the vault's name; or only check it.

    The folder must be empty or missing. Texts trusted on the archive's machine are trusted here
    only with `trust`, which needs the owner. `settings` are `open_vault`'s.

    Raises:
        RefusedError: the folder is not empty, the archive is invalid, or an agent trusts.
        VaultError: it could not be written, or the disk is full. Then no files are left.
    """
    if trust and (settings.get("agent") or settings.get("by_person") is False):
        raise RefusedError(f"only a person can trust a vault: {HOW_TO_SAY}")
    folders = settings.get("folders") or find_user_folders({})
    try:
        with open_archive(file) as archive:
            target = _find_target(folder, archive.manifest)
            with _staging(target, folders, archive.manifest) as stage:
                _check_room(stage)
                archive.unpack(stage.place, progress)
                with naming_archive(file):
                    names, digests = _build(stage), _read_trust(stage)
                if not dry_run:
                    _put_in_place(stage, target, names, digests if trust else {})
    except OSError as error:
        raise wrap_os_error(error) from error
    if not dry_run:
        _verify(target / archive.manifest.folder, settings)
    return _describe(target, archive.manifest, len(digests), trust, dry_run)


def _verify(root: Path, settings: VaultSettings) -> None:
    """Accept trust lists with valid signatures; without this, they are ignored at first."""
    settings["config"] = Config()
    with contextlib.suppress(VaultError), contextlib.closing(open_vault(root, **settings)) as vault:
        verify_signed(vault)


def _describe(
    target: Path, manifest: ArchiveManifest, trusted_count: int, trust: bool, dry_run: bool
) -> UnarchiveResult:
    return UnarchiveResult(
        os.fspath(target / manifest.folder),
        manifest.made,
        manifest.vaultmem,
        manifest.notes,
        manifest.count(FILES),
        manifest.commits,
        manifest.count(RECEIPTS),
        trusted_count,
        trust and trusted_count > 0,
        dry_run,
    )


def _find_target(folder: Path | None, manifest: ArchiveManifest) -> Path:
    """Return the folder for the vault's repository.

    Raises:
        RefusedError: it is not empty, or is the current one, which cannot be replaced.
    """
    name = (manifest.folder or manifest.name).split("/")[0]
    if folder is None and (not name or name.startswith((".", "-")) or set(name) & set("/\\:")):
        raise RefusedError("name the folder that the vault is to have")
    target = Path(os.path.abspath(name if folder is None else folder.expanduser()))
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise RefusedError(f"{target}: it is there, and no folder; name another")
    if target.is_dir() and next(target.iterdir(), None) is not None:
        raise RefusedError(f"{target}: not empty; name a folder that is not there yet")
    if target == Path.cwd():
        raise RefusedError(
            f"{target}: it is the current folder; name a folder that does not exist yet"
        )
    return target


class _Stage(NamedTuple):
    """The folders of an import: `files` hidden next to the target, others in the user's folders.

    `state` becomes the vault's. `kept_folder` is removed before the vault appears.
    """

    files: Path
    state: Path
    kept_folder: Path
    folders: UserFolders
    manifest: ArchiveManifest

    @property
    def root(self) -> Path:
        """The vault's folder."""
        return self.files / self.manifest.folder

    def place(self, name: str) -> Path:
        """Return the path of a member."""
        inside = name.removeprefix(FILES)
        return self.kept_folder / name if inside == name else self.root / inside


@contextlib.contextmanager
def _staging(target: Path, folders: UserFolders, manifest: ArchiveManifest) -> Iterator[_Stage]:
    """Yield empty folders for an import; remove them at the end, and those of a killed import."""
    files = target.with_name(f".{target.name}.vaultmem-import")
    state, kept_folder = folders.state / "import", folders.state / "import.kept"
    stage = _Stage(files, state, kept_folder, folders, manifest)
    make_private_folder(folders.state)
    target.parent.mkdir(parents=True, exist_ok=True)
    with hold_lock(folders.state / "import.lock"):
        try:
            for each in (state, kept_folder, files):
                _remove(each)
                each.mkdir(mode=0o777 if each == files else 0o700)
            stage.root.mkdir(parents=True, exist_ok=True)
            yield stage
        finally:
            for each in (state, kept_folder, files):
                _remove(each)


def _remove(folder: Path) -> None:
    """Remove a folder, if it exists."""
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(folder)


def _check_room(stage: _Stage) -> None:
    size = stage.manifest.size
    for place in (stage.files, stage.kept_folder):
        if size + _MIN_FREE_BYTES > (free := shutil.disk_usage(place).free):
            raise RefusedError(f"it needs {size:,} bytes; {free:,} are free at {place.parent}")


def _build(stage: _Stage) -> RepositoryNames:
    """Make repository and state from the unpacked files; return the vault's names."""
    state = StateDatabase(stage.state)
    if (lines := stage.kept_folder / STATE).exists():
        with open(lines, "rb") as rows:
            load_state(state, rows)
    state.close()
    _build_sessions(stage)
    manifest, names = stage.manifest, RepositoryNames()
    if manifest.branch or manifest.commit:
        make_repository(stage.files)
        history = VaultHistory(stage.root, stage.state)
        bundle = stage.kept_folder / HISTORY if HISTORY in manifest.members else None
        import_bundle(history, bundle, manifest.branch, manifest.commit)
        install_driver(history)
        add_excludes(history, find_unignored(history, _LOCAL))
        known_names = history.find_names()
        names = RepositoryNames(lambda: next(iter(known_names), ""), lambda: known_names)
        history.close()
    return names


def _build_sessions(stage: _Stage) -> None:
    """Restore open sessions without their processes, which were on another machine."""
    active = ActiveSessions(stage.state)
    for record in ActiveSessions(stage.kept_folder / _EXTERNAL_FOLDER).all():
        active.put(record._replace(processes=()))


def _read_trust(stage: _Stage) -> dict[str, str]:
    """Return a digest of each trusted text, by path."""
    if TRUST not in stage.manifest.members:
        return {}
    try:
        notes = json.loads((stage.kept_folder / TRUST).read_bytes())
        last_digests = {str(path): str(digests[-1]) for path, digests in notes.items()}
    except (ValueError, TypeError, AttributeError, IndexError, RecursionError):
        last_digests = {"": ""}
    if not all(map(_DIGEST.fullmatch, last_digests.values())):
        raise RefusedError("what it trusts cannot be read")
    return last_digests


def _put_in_place(
    stage: _Stage, target: Path, names: RepositoryNames, digests: dict[str, str]
) -> None:
    """Move everything to its place, the vault's folder last.

    The user's data of an earlier vault at this path is removed, but not its receipts and trust.
    """
    root, folders = target / stage.manifest.folder, stage.folders
    key = make_key(Path(os.path.abspath(root)))
    for member, kind in ((RECEIPTS, "receipts"), (ARTIFACTS, "artifacts")):
        _add_new(stage.kept_folder / member, folders.data / kind / key, names)
    if digests:
        TrustStore(folders.config / "trust" / f"{key}.json", str(root), names).record(digests)
    _remove(stage.kept_folder)
    if hasattr(os, "sync"):
        os.sync()
    state = folders.state / "vaults" / key
    make_private_folder(state.parent)
    _remove(state)
    stage.state.rename(state)
    if target.is_dir():
        target.rmdir()
    stage.files.rename(target)
    sync_folder(target.parent)


def _add_new(source: Path, folder: Path, names: RepositoryNames) -> None:
    """Copy new files into one of the user's folders."""
    if source.is_dir():
        ValueFolder(folder, names).make()
        for file in sorted(source.iterdir()):
            if not (folder / file.name).exists():
                write_atomically(folder / file.name, file.read_bytes(), mode=0o600, durable=False)
                shutil.copystat(file, folder / file.name)


# Read all notes, or those that match a filter, one after the other: for other tools.


class Lines(NamedTuple):
    """A file with one line of JSON for each note, and their number."""

    file: str
    notes: int


class WholeNote(NamedTuple):
    """A note with its properties, body and links; `note`: None if unreadable.

    Links go to notes, not to headings.
    """

    record: NoteRecord
    note: Note | None
    links: list[FoundLink]


def read_all(vault: Vault, note_filter: NoteFilter) -> Iterator[WholeNote]:
    """Yield the notes that match the filter, by path; the vault must be in sync."""
    graph = LinkGraph(vault)
    for record in list_notes(vault, note_filter):
        yield WholeNote(record, find_note(vault, record.path), graph.links_of(record.document))
