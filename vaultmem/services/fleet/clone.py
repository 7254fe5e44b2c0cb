"""A clone of one vault of a fleet on this disk, and its status."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from vaultmem import __version__
from vaultmem.core.search.query import NoteFilter
from vaultmem.core.text.json_values import as_json_object
from vaultmem.errors import (
    NoVaultError,
    RefusedError,
    SystemFailureError,
    VaultError,
    wrap_os_error,
)
from vaultmem.services.merging.branches import list_proposed
from vaultmem.services.search.score import choose_sections
from vaultmem.storage.atomic import make_private_folder, write_atomically
from vaultmem.storage.git.bare import (
    fetch_branches,
    is_whole,
    make_clone,
    read_branches,
    set_clone_branches,
)
from vaultmem.storage.git.remote import (
    TRANSFER_TIMEOUT_SECONDS,
    Remote,
    RemoteBranches,
    list_branches,
)
from vaultmem.storage.git.vault_history import VaultHistory
from vaultmem.storage.lock import hold_lock
from vaultmem.storage.user_files import is_vault_name
from vaultmem.storage.vault_id import make_key
from vaultmem.vault import UserFolders, Vault

#: Seconds a remote has to list its branches if the caller cannot go on without it.
LISTING_TIMEOUT_SECONDS = 10.0

#: Seconds before a new contact with a remote is recorded again.
_CONTACT_INTERVAL_SECONDS = 1.0


class VaultSource(NamedTuple):
    """A vault of a pool: its name, its remote (URL or path), and its branch (default: HEAD's)."""

    name: str
    remote: str
    branch: str = ""


def check_sources(sources: Iterable[VaultSource]) -> dict[str, VaultSource]:
    """Return sources by name, in their order.

    Raises:
        RefusedError: a name is invalid or used twice (case aside), or a remote is invalid.
    """
    by_name: dict[str, VaultSource] = {}
    seen: set[str] = set()
    for source in sources:
        if not is_vault_name(source.name):
            raise RefusedError(
                f'"{source.name}" cannot be a vault\'s name: letters, digits, "-", "." and "_", '
                "40 at most"
            )
        if source.name.casefold() in seen:
            raise RefusedError(f"{source.name}: named twice; give each vault a name of its own")
        if not source.remote.strip() or source.remote.startswith("-") or "\n" in source.remote:
            raise RefusedError(f"{source.name}: its remote has to be an address or a folder")
        seen.add(source.name.casefold())
        by_name[source.name] = source
    return by_name


def read_sources(file: Path) -> list[VaultSource]:
    """Return the sources of a file: `NAME REMOTE [BRANCH]` a line; `#` begins a comment.

    Relative remotes start from the file's folder. If `file` is a folder, the sources are its bare
    repositories (`NAME.git`).

    Raises:
        RefusedError: a line or a name is invalid.
        VaultError: the file cannot be read.
    """
    if file.is_dir():
        return _list_repositories(file)
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        raise RefusedError(f"{file}: not UTF-8; save it so") from None
    except OSError as error:
        reason = error.strerror or error
        raise VaultError(f"{file}: {reason}; name a file or folder that lists the vaults") from None
    sources = []
    for number, line in enumerate(lines, 1):
        words = line.partition(" #")[0].split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) not in {2, 3}:
            raise RefusedError(f"{file}, line {number}: write NAME REMOTE, and a branch if need be")
        remote = words[1]
        if remote.startswith((".", "~")):
            remote = str((file.parent / Path(remote).expanduser()).resolve())
        sources.append(VaultSource(words[0], remote, *words[2:]))
    return list(check_sources(sources).values())


def _list_repositories(folder: Path) -> list[VaultSource]:
    folders = sorted(each for each in folder.glob("*.git") if (each / "HEAD").is_file())
    if not folders:
        raise RefusedError(f"{folder}: no bare repository (NAME.git) is in this folder")
    return list(
        check_sources(VaultSource(each.stem, str(each.resolve())) for each in folders).values()
    )


class CloneRecord(NamedTuple):
    """The stored state of a clone: its remote and its commit.

    `contacted` is the last contact with its remote (seconds since the epoch); `problem` is why the
    last attempt failed, "" if it did not.

    `made` is a random id of the clone. `place` is the inode of a remote on this machine: if it
    changes, the remote is another vault. `settled` is false while the clone moves to another commit
    or is written, or if that was killed.
    """

    remote: str
    made: str
    branch: str
    commit: str
    branches: Mapping[str, str] = MappingProxyType({})
    contacted: float = 0.0
    problem: str = ""
    settled: bool = True
    place: str = ""


class Clone:
    """One vault's folder in a pool; hold its `lock` to read or change it.

    A writer holds `writers` before that lock, which is polled. `asked_at` is when this process last
    asked the remote (`time.monotonic`), None if never; `problem` is why that failed.
    """

    def __init__(self, source: VaultSource, folder: Path, folders: UserFolders) -> None:
        self.source = source
        self.asked_at: float | None = None
        self.problem = ""
        self.writers = threading.Lock()
        self.root = folder / "clones" / source.name
        self.lock = folder / "locks" / f"{source.name}.lock"
        self.state = folders.state / "vaults" / make_key(self.root)
        self.remote = Remote("origin", source.remote)
        self._kept = folders.data
        self._file = folder / "records" / f"{source.name}.json"
        self._known: tuple[object, CloneRecord | None] = None, None
        for each in (self._file.parent, self.lock.parent, self.root.parent):
            make_private_folder(each)

    @property
    def record(self) -> CloneRecord | None:
        """The stored record; None if there is no clone, or one of another remote or branch."""
        try:
            status = os.stat(self._file)
            os.stat(self.root / ".git/HEAD")
            key = status.st_mtime_ns, status.st_ino, status.st_size
            if key != self._known[0]:
                fields = json.loads(self._file.read_text(encoding="utf-8"))
                self._known = key, CloneRecord(**fields)
        except (OSError, ValueError, TypeError):
            return None
        record = self._known[1]
        has_branch = record and self.source.branch in {"", record.branch}
        return record if record and has_branch and record.remote == self.source.remote else None

    def follow(
        self, patience: float = TRANSFER_TIMEOUT_SECONDS, seconds: float = LISTING_TIMEOUT_SECONDS
    ) -> CloneRecord:
        """Clone or fetch; if the remote does not answer in time, keep the commit and record why.

        Raises:
            VaultError: there is no clone yet, and none could be made.
            LockTimeoutError: another thread or process holds the lock for over `patience` seconds.
        """
        with hold_lock(self.lock, patience):
            record = self.record
            if record is not None and self._find_place() not in {"", record.place}:
                self.unsettle()
                self.forget()
            elif record is not None:
                try:
                    return self._follow(record, seconds)
                except (VaultError, OSError) as error:
                    if self.is_whole():  # Such as a full disk.
                        return self._note(record, str(wrap_os_error(error)), settled=False)
            self.drop()
            self.state.mkdir(parents=True)
            history = make_clone(self.root, self.remote, self.source.branch or "main", self.state)
            answer = self.ask(history)
            if answer.trouble:
                raise SystemFailureError(f"no clone yet: {answer.message}")
            if problem := fetch_branches(history, self.remote, TRANSFER_TIMEOUT_SECONDS):
                raise SystemFailureError(f"no clone yet: {problem}")
            return self._resolve(history, self._begin_record(answer), None)

    def ask(
        self, history: VaultHistory, seconds: float = LISTING_TIMEOUT_SECONDS
    ) -> RemoteBranches:
        """Ask the remote for its branches; read them if it is on this machine."""
        folder = self.remote.folder
        branches = read_branches(folder) if folder is not None else None
        return branches or list_branches(history, self.remote, seconds)

    def unsettle(self) -> None:
        """Mark the clone as being changed, so that a killed change is noticed."""
        if (record := self.record) and record.settled:
            self._keep(record._replace(settled=False))

    def restore(
        self, branches: Mapping[str, str] = MappingProxyType({}), is_clean: bool = False
    ) -> None:
        """Reset the clone to its remote's branches; everything else is dropped.

        `branches` have moved at the remote; "" means removed. If the clone `is_clean`, only these
        differ.
        """
        with hold_lock(self.lock):
            if record := self.record:
                tips = {k: v for k, v in {**record.branches, **branches}.items() if v}
                new_record = record._replace(branches=tips, commit=tips[record.branch])
                old_branches = record.branches if is_clean else None
                self._resolve(VaultHistory(self.root, self.state), new_record, old_branches)

    def is_whole(self) -> bool:
        """Return whether git finds no damage in it."""
        try:
            return is_whole(VaultHistory(self.root, self.state))
        except (VaultError, OSError):
            return False

    def drop(self) -> None:
        """Remove the clone and its derived state."""
        with hold_lock(self.lock):
            self._file.unlink(missing_ok=True)
            for folder in (self.root, self.state):
                shutil.rmtree(folder, ignore_errors=True)

    def forget(self) -> None:
        """Remove all data of the vault here."""
        self.drop()
        for folder in self._kept.glob(f"*/{self.state.name}"):
            shutil.rmtree(folder, ignore_errors=True)

    def _follow(self, record: CloneRecord, seconds: float) -> CloneRecord:
        history = VaultHistory(self.root, self.state)
        answer = self.ask(history, seconds)
        if answer.trouble:
            return self._stay(history, record, f"its remote was not reached: {answer.message}")
        try:
            new_record = self._begin_record(answer, record)
        except NoVaultError as error:  # This clone might be the last with its commits.
            return self._stay(history, record, str(error))
        if record.settled and (new_record.branches, new_record.branch) == (
            record.branches,
            record.branch,
        ):
            if (
                record.problem
                or new_record.contacted - record.contacted > _CONTACT_INTERVAL_SECONDS
            ):
                self._keep(new_record)
            return new_record
        if new_record.branches != record.branches and (
            problem := fetch_branches(history, self.remote, TRANSFER_TIMEOUT_SECONDS)
        ):
            return self._stay(history, record, f"its remote was not read: {problem}")
        return self._resolve(history, new_record, record.branches if record.settled else None)

    def _stay(self, history: VaultHistory, record: CloneRecord, problem: str) -> CloneRecord:
        """Record why the commit stays, and undo a killed change."""
        if not record.settled:
            self._resolve(history, record, None)
        return self._note(record, problem)

    def _note(self, record: CloneRecord, problem: str, settled: bool = True) -> CloneRecord:
        new_record = record._replace(problem=problem, settled=settled)
        if new_record != record:
            self._keep(new_record)
        return new_record

    def _resolve(
        self, history: VaultHistory, record: CloneRecord, old_branches: Mapping[str, str] | None
    ) -> CloneRecord:
        self.unsettle()
        set_clone_branches(history, record.branches, record.branch, old_branches)
        record = record._replace(settled=True)
        self._keep(record)
        return record

    def _begin_record(
        self, answer: RemoteBranches, old_record: CloneRecord | None = None
    ) -> CloneRecord:
        """Return the record for a remote's branches.

        Raises:
            NoVaultError: the remote does not have the vault's branch.
        """
        branch = self.source.branch or answer.head
        if branch not in answer.branches:
            problem = f"no branch {branch}" if answer.branches else "no commit"
            raise NoVaultError(f"its remote has {problem} yet")
        clone_id = old_record.made if old_record else os.urandom(8).hex()
        branches = dict(answer.branches)
        fields = branch, branches[branch], branches, time.time()
        return CloneRecord(self.source.remote, clone_id, *fields, place=self._find_place())

    def _find_place(self) -> str:
        """Return the inode of a local remote, "" if it is remote or missing."""
        try:
            return str(os.stat(self.remote.folder).st_ino) if self.remote.folder else ""
        except OSError:
            return ""

    def _keep(self, record: CloneRecord) -> None:
        data = json.dumps(as_json_object(record)).encode()
        write_atomically(self._file, data, durable=False)


# The status of a pool's vaults and nodes; also as metrics.


class VaultStats(NamedTuple):
    """A vault's stats: its contents, bytes on disk, and the state of its remote.

    `age` is in seconds since the last contact with the remote, -1 if never. `problem` is why a
    later contact failed, or why there is no clone. `proposals` counts open proposals.
    """

    notes: int = 0
    sections: int = 0
    tokens: int = 0
    clone_bytes: int = 0
    index_bytes: int = 0
    commit: str = ""
    age: float = -1.0
    problem: str = ""
    proposals: int = 0


class NodeStatus(NamedTuple):
    """A node's status; it has clones of `ready` vaults.

    `stale` is the longest time without contact to a remote, in seconds. `memory` of the process,
    `disk` of its folder and `free` on its disk are in bytes.
    """

    name: str
    host: str = ""
    ready: int = 0
    stale: float = 0.0
    memory: int = 0
    disk: int = 0
    free: int = 0
    problem: str = ""


class NodeVaults(NamedTuple):
    """A node, its vaults with their problems ("" for none), and why others failed."""

    status: NodeStatus
    ready: dict[str, str]
    missing: dict[str, str]


class PoolStatus(NamedTuple):
    """A pool's status; `problems` are reasons why vaults are missing or not fetched."""

    version: str
    vaults: int
    ready: int
    nodes: tuple[NodeStatus, ...]
    problems: Mapping[str, str]


def describe_pool(names: Sequence[str], nodes: Sequence[NodeVaults]) -> PoolStatus:
    """Return the status of a pool from its nodes."""
    clone_problems = {name: problem for each in nodes for name, problem in each.ready.items()}
    missing = {name: problem for each in nodes for name, problem in each.missing.items()}
    problems = {
        name: problem
        for name in names
        if (
            problem := clone_problems[name]
            if name in clone_problems
            else missing.get(name, "not cloned yet")
        )
    }
    ready = sum(name in clone_problems for name in names)
    status = tuple(each.status for each in nodes)
    return PoolStatus(__version__, len(names), ready, status, problems)


def count_vault(clone: Clone, open_vault: Callable[[], Vault]) -> VaultStats:
    """Return the stats of a cloned vault; it is opened, but not fetched."""
    record = clone.record
    if record is None:
        return VaultStats(problem="not cloned yet")
    problem, notes, tokens, sections, proposals = record.problem, 0, 0, 0, 0
    try:
        vault = open_vault()
        notes, tokens = vault.view.totals()
        sections = choose_sections(vault, vault.index.snapshot(), NoteFilter()).statistics.sections
        proposals = len(list_proposed(vault))
    except (VaultError, OSError) as error:
        problem = problem or str(wrap_os_error(error))
    return VaultStats(
        notes=notes,
        sections=sections,
        tokens=tokens,
        clone_bytes=measure_folder(clone.root),
        index_bytes=measure_folder(clone.state),
        commit=record.commit,
        age=max(0.0, time.time() - record.contacted),
        problem=problem,
        proposals=proposals,
    )


def measure_node(folder: Path, ready: int, stale: float) -> NodeStatus:
    """Return the status of this process as a node with `ready` vaults."""
    return NodeStatus(
        "here",
        platform.node(),
        ready,
        stale,
        memory=_read_memory(),
        disk=measure_folder(folder),
        free=shutil.disk_usage(folder).free if folder.exists() else 0,
    )


def measure_folder(folder: Path) -> int:
    """Return the bytes that a folder uses on the disk."""
    size = 0
    for place, _, files in os.walk(folder):
        for file in files:
            with contextlib.suppress(OSError):
                size += os.lstat(os.path.join(place, file)).st_blocks * 512
    return size


def _read_memory() -> int:
    """Return the bytes of this process's memory; 0 if unknown."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0


#: For each node: a field of its status, its metric, its type, and its help text.
_OF_NODES = (
    ("ready", "ready_vaults", "gauge", "Vaults of which the node has a clone."),
    ("stale", "stale_seconds", "gauge", "For how long a remote was not heard of, at most."),
    ("memory", "memory_bytes", "gauge", "Memory of its process."),
    ("disk", "disk_bytes", "gauge", "What its folder takes on the disk."),
    ("free", "disk_free_bytes", "gauge", "What is left on that disk."),
)


def write_metrics(status: PoolStatus) -> str:
    """Return the figures of a pool and its nodes for Prometheus (text format 0.0.4)."""
    return "".join(f"{line}\n" for line in _write_lines(status))


def _write_lines(status: PoolStatus) -> Iterator[str]:
    gauges = (
        ("vaults", "Vaults of the pool.", status.vaults),
        ("ready_vaults", "Vaults that have a clone.", status.ready),
        ("problem_vaults", "Vaults with a problem.", len(status.problems)),
        ("nodes", "Nodes.", len(status.nodes)),
    )
    for name, help_text, value in gauges:
        yield from _begin(f"vaultmem_pool_{name}", "gauge", help_text)
        yield f"vaultmem_pool_{name} {value}"
    for field, name, kind, help_text in _OF_NODES:
        yield from _begin(f"vaultmem_node_{name}", kind, help_text)
        for each in status.nodes:
            yield f"vaultmem_node_{name}{_name_node(each)} {getattr(each, field)}"


def _begin(name: str, kind: str, help_text: str) -> Iterator[str]:
    yield f"# HELP {name} {help_text}"
    yield f"# TYPE {name} {kind}"


def _name_node(node: NodeStatus) -> str:
    quoted = node.name.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return f'{{node="{quoted}"}}'
