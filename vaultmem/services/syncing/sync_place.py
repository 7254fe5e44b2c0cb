"""The remote and branch that a vault syncs with, its sync state, and background syncs."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import re
import shlex
import sys
import time
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from typing import NamedTuple

from vaultmem.core.settings import read_interval
from vaultmem.core.text.json_values import as_json_object
from vaultmem.errors import NoteNotFoundError, PendingError, RefusedError, VaultError
from vaultmem.services.views.open_view import find_branch
from vaultmem.storage.atomic import write_atomically
from vaultmem.storage.git.remote import Remote, Remotes, read_remotes
from vaultmem.storage.lock import make_environment
from vaultmem.storage.value_store import read_value_if_sound
from vaultmem.vault import Vault

#: The default name of a remote.
ORIGIN = "origin"

_FILE = "sync.json"


def format_init(branch: str) -> str:
    """Return the command that makes an empty remote, whose clones check out the branch."""
    return f"`git init --bare -b {shlex.quote(branch)} FOLDER`"


def _describe_none(branch: str) -> str:
    return (
        "this vault has no remote yet; make an empty repository somewhere, and run "
        "`vaultmem sync URL` once (a folder on a stick or a server will do: "
        f"{format_init(branch)})"
    )


class SyncTarget(NamedTuple):
    """A remote, the vault's branch, and the branch's name there.

    `is_new`: the repository does not know the remote yet.
    """

    remote: Remote
    branch: str
    upstream: str
    is_new: bool = False

    @property
    def tracking(self) -> str:
        """The remote-tracking ref of the branch."""
        return f"refs/remotes/{self.remote.name}/{self.upstream}"

    @property
    def name(self) -> str:
        """The branch there, for messages."""
        return f"{self.remote.name}/{self.upstream}"


class LastSync(NamedTuple):
    """The last sync, and the last successful one (`good_at`), in seconds since the epoch.

    `agreed` is a digest of the address that the user has synced with by hand. `rescue` is the ref
    at the remote with rejected commits. `evidence` is the commit of this machine's usage ref there;
    `refused_at` is when the remote last rejected that ref (0: never).
    """

    remote: str = ""
    at: float = 0.0
    outcome: str = ""
    told: str = ""
    good_at: float = 0.0
    agreed: str = ""
    rescue: str = ""
    evidence: str = ""
    refused_at: float = 0.0


def find_place(vault: Vault, where: str = "") -> SyncTarget:
    """Return the target of a sync: `where` is a remote's name or an address.

    The default is the remote in vaultmem.yaml, then the branch's upstream, then "origin" or the
    only remote, then the last one synced with.

    Raises:
        NoteNotFoundError: there is no such remote, or none at all.
        RefusedError: there are several, or another one has the name.
        PendingError: no branch is checked out.
    """
    branch = find_branch(vault) or vault.history.head().branch
    if not branch:
        obstacle = vault.history.obstacle(may_be_detached=True) or (
            "no branch is checked out (HEAD is detached); "
            "`vaultmem switch --create NAME` makes one here"
        )
        raise PendingError(f"not synced: {obstacle}")
    remotes = read_remotes(vault.history)
    if where:
        remote = _find_sync_remote(vault, remotes, branch, where)
    else:
        remote = _choose(vault, remotes, branch)
    upstream_remote, upstream_branch = remotes.upstreams.get(branch, ("", ""))
    upstream = upstream_branch if upstream_branch and upstream_remote == remote.name else branch
    return SyncTarget(remote, branch, upstream, remote.name not in remotes.by_name)


def find_tip(vault: Vault, ref: str) -> str:
    """Return the commit of a ref by its full name, empty if there is none."""
    command = ("show-ref", "--verify", "--hash", "--", ref)
    return vault.history.git.run(*command, check=False)


def count_waiting(vault: Vault, place: SyncTarget) -> int:
    """Return how many commits of the branch the remote lacked when last asked."""
    ours = find_tip(vault, f"refs/heads/{place.branch}")
    exclusions = ("--not", f"--remotes={place.remote.name}")
    return int(vault.history.git.run("rev-list", "--count", ours, *exclusions, "--")) if ours else 0


def read_record(vault: Vault) -> LastSync:
    """Return the record of the last sync, or an empty one."""
    return read_value_if_sound(vault.state_folder / _FILE, LastSync) or LastSync()


def store_record(vault: Vault, record: LastSync) -> None:
    """Write the record of a sync, without waiting for the disk."""
    data = json.dumps(as_json_object(record)).encode()
    write_atomically(vault.state_folder / _FILE, data, durable=False)


def digest_address(remote: Remote) -> str:
    """Return a digest of a remote's addresses, which can contain credentials."""
    return hashlib.sha256(f"{remote.url}\n{remote.push_url}".encode()).hexdigest()


def _choose(vault: Vault, remotes: Remotes, branch: str) -> Remote:
    configured_name = vault.config.sync_remote
    if configured_name and configured_name not in remotes.by_name:
        raise NoteNotFoundError(
            f'vaultmem.yaml syncs with "{configured_name}", and git knows no such remote here; '
            f"run `git remote add {configured_name} URL`, or `vaultmem sync URL`"
        )
    upstream = remotes.upstreams.get(branch, ("", ""))[0]
    for name in (configured_name, upstream, ORIGIN):
        if name in remotes.by_name:
            return remotes.by_name[name]
    if len(remotes.by_name) == 1:
        return next(iter(remotes.by_name.values()))
    if remotes.by_name:
        if last := remotes.by_name.get(read_record(vault).remote):
            return last
        names = sorted(remotes.by_name)
        raise RefusedError(
            f"there are several remotes ({', '.join(names)}); choose one, such as "
            f"`vaultmem sync {shlex.quote(names[0])}`"
        )
    raise NoteNotFoundError(_describe_none(branch))


def _find_sync_remote(vault: Vault, remotes: Remotes, branch: str, where: str) -> Remote:
    if where in remotes.by_name:
        return remotes.by_name[where]
    if not _is_address(where):
        names = ", ".join(sorted(remotes.by_name))
        hint = f"git knows {names}" if names else _describe_none(branch)
        raise NoteNotFoundError(f"{where}: no remote is called that; {hint}")
    remote = Remote(ORIGIN, _make_absolute(where))
    for existing in remotes.by_name.values():
        if existing.url in {where, remote.url}:
            return existing
    if ORIGIN in remotes.by_name:
        raise RefusedError(
            f"{ORIGIN} is {remotes.by_name[ORIGIN].display_url} already; to add another one run "
            "`git remote add NAME URL` and `vaultmem sync NAME`"
        )
    folder = remote.folder
    if folder is not None and folder.is_relative_to(vault.history.git.work_tree):
        raise RefusedError(f"{where}: inside of the vault's own repository; choose another place")
    return remote


def _is_address(text: str) -> bool:
    return not text.startswith("-") and bool(re.search(r"[:/\\~]", text) or os.path.isdir(text))


def _make_absolute(where: str) -> str:
    """Return an address that is valid in any folder."""
    remote = Remote("", where)
    if remote.folder is None or where.startswith("file://"):
        return where
    return str(Path(where).expanduser().resolve())


# Background sync: after a session, and at intervals, if configured.

#: Settings of the current caller, who did not ask for the sync.
_CALLER_VARIABLES = frozenset({"VAULTMEM_AGENT", "VAULTMEM_SESSION_ID", "VAULTMEM_REF"})


class SyncState(NamedTuple):
    """The remote that a vault is synced with, and the state of the sync.

    `at` and `good_at` are the last sync and the last successful one (seconds since the epoch, 0:
    never). `outcome` is that of the last, `message` its reason. `waiting` counts commits that the
    remote lacks. `problem` is why background sync does not run although vaultmem.yaml enables it.
    """

    remote: str
    interval: str
    at: float
    good_at: float
    outcome: str
    message: str
    waiting: int
    problem: str


class BackgroundSync(NamedTuple):
    """The result of a background sync; `is_problem` if the user should look.

    Results that `moved` commits are reported each time, others once.
    """

    text: str
    is_problem: bool = False
    moved: bool = False


def check_unasked(vault: Vault) -> None:
    """Check that the vault may be synced in the background.

    A foreign vault could name any remote, so the user must have synced with the address once on
    this machine. A larger repository is not synced: its other files are not ours to push.

    Raises:
        RefusedError: it may not; with a remedy.
        VaultError: there is no such remote.
    """
    name = vault.config.sync_remote
    if not name:
        raise RefusedError('vaultmem.yaml has no "sync_remote", so nothing is synced by itself')
    place = find_place(vault)
    if vault.history.prefix:
        raise RefusedError(
            "the vault is a folder of a larger repository, which is not synced by itself; "
            "run `vaultmem sync`"
        )
    if read_record(vault).agreed != digest_address(place.remote):
        raise RefusedError(
            f"{name}: not synced by itself until you have run `vaultmem sync` once on this machine"
        )


def read_sync_state(vault: Vault) -> SyncState | None:
    """Return the state of the vault's sync; None if it has no remote and none is configured."""
    config, last = vault.config, read_record(vault)
    is_projects = bool(vault.history.prefix) and not last.at  # Its remote is not for notes.
    if not config.sync_remote and (is_projects or not read_remotes(vault.history).by_name):
        return None
    try:
        place = find_place(vault)
        name, waiting, problem = place.remote.name, count_waiting(vault, place), ""
        if config.sync_remote:
            check_unasked(vault)
    except VaultError as error:
        name, waiting, problem = last.remote or config.sync_remote, 0, str(error)
        if not config.sync_remote:
            return None
    return SyncState(
        name, config.sync_every, last.at, last.good_at, last.outcome, last.told, waiting, problem
    )


def sync_later(vault: Vault) -> None:
    """Start a background sync as a process, if enabled; do not wait for it."""
    if vault.config.sync_remote and not vault.ref:
        with contextlib.suppress(VaultError, OSError):
            check_unasked(vault)
            _start(vault, DEVNULL).returncode = 0  # It runs on by itself.


def _start(vault: Vault, output: int) -> Popen[bytes]:
    # -P: the current folder can be a vault that has a folder called `vaultmem`.
    command = [sys.executable, "-P", "-m", "vaultmem", "sync", "--unasked", "--json"]
    env = make_environment(vault.environment)
    return Popen(
        [*command, "--vault", str(vault.root)],
        env={name: value for name, value in env.items() if name not in _CALLER_VARIABLES},
        stdin=DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,
    )


class Clock:
    """A timer that syncs a vault at intervals, one process at a time; `poll` never waits."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._next = 0.0
        self._running: Popen[bytes] | None = None
        self._last_result: BackgroundSync | None = None

    def hurry(self) -> None:
        """Make the next sync due now, if background sync is enabled."""
        self._next = 0.0 if self._vault.config.sync_remote else self._next

    def poll(self) -> BackgroundSync | None:
        """Start a sync that is due; return the result of a finished one, if it is new."""
        result = self._begin() if self._running is None else self._extract_end(self._running)
        if result is None or (result == self._last_result and not result.moved):
            return None
        self._last_result = result
        return result

    def _begin(self) -> BackgroundSync | None:
        every, now = read_interval(self._vault.config.sync_every), time.monotonic()
        if now < self._next or not self._vault.config.sync_remote:
            return None
        self._next = now + every if every else math.inf
        try:
            check_unasked(self._vault)
        except VaultError as error:
            return BackgroundSync(str(error), is_problem=True)
        self._running = _start(self._vault, PIPE)
        return None

    def _extract_end(self, process: Popen[bytes]) -> BackgroundSync | None:
        if process.poll() is None:
            return None
        self._running = None
        out, err = process.communicate()
        if not process.returncode and not out:  # Another process syncs.
            return None
        try:
            return _describe(json.loads(out))
        except (ValueError, KeyError, TypeError):
            lines = err.decode("utf-8", "replace").strip().splitlines()
            last = lines[-1].removeprefix("vaultmem: error: ") if lines else ""
            return BackgroundSync(last or f"a sync ended with status {process.returncode}", True)


def _describe(result: dict[str, object]) -> BackgroundSync | None:
    if result["outcome"] == "offline":
        return BackgroundSync(f"offline; commits waiting: {result['waiting']}")
    if result["outcome"] != "synced":
        return BackgroundSync(f"not synced: {result['message']}", is_problem=True)
    if not (result["fetched"] or result["pushed"]):
        return None
    text = f"{result['remote']}: commits in: {result['fetched']}, out: {result['pushed']}"
    return BackgroundSync(text, moved=True)
