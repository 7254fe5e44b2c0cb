"""Sync without being asked: after a session, and every so often; and only where that is wanted."""

from __future__ import annotations

import contextlib
import json
import math
import sys
import time
from subprocess import DEVNULL, PIPE, Popen
from typing import NamedTuple

from vaultmem.core.settings import read_interval
from vaultmem.errors import RefusedError, VaultError
from vaultmem.services.syncing.place import count_waiting, find_place, name_address, read_record
from vaultmem.storage.git.remotes import read_remotes
from vaultmem.storage.processes import make_environment
from vaultmem.vault import Vault

#: Settings of whoever works here just now, who did not ask for it.
_WHO = frozenset({"VAULTMEM_AGENT", "VAULTMEM_SESSION_ID", "VAULTMEM_REF"})


class SyncState(NamedTuple):
    """With which remote a vault is synced, and how that stands.

    `at` and `good_at` are when the last sync was, and the last that came to its end (seconds since
    the epoch, 0: never); `outcome` is that of the last, and `told` why it was no better. `waiting`
    counts commits that the remote did not have then. `problem` says why nothing is synced unasked
    although vaultmem.yaml wants it.
    """

    remote: str
    every: str
    at: float
    good_at: float
    outcome: str
    told: str
    waiting: int
    problem: str


class Synced(NamedTuple):
    """What a sync that nobody asked for did; `is_problem` where somebody should look.

    One that `moved` commits is worth telling each time, any other once.
    """

    text: str
    is_problem: bool = False
    moved: bool = False


def check_unasked(vault: Vault) -> None:
    """Make sure that the vault may be synced without anybody asking for it.

    A vault that somebody else made could name any remote, so the person has to have synced with
    that address once on this machine; and what else is in a repository is not ours to push.

    Raises:
        RefusedError: it may not; it says what to do.
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
    if read_record(vault).agreed != name_address(place.remote):
        raise RefusedError(
            f"{name}: not synced by itself until you have run `vaultmem sync` once on this machine"
        )


def read_sync_state(vault: Vault) -> SyncState | None:
    """Return how the vault stands with its remote; None where it has none and wants none."""
    config, last = vault.config, read_record(vault)
    is_projects = bool(vault.history.prefix) and not last.at  # Its remote is not there for notes.
    if not config.sync_remote and (is_projects or not read_remotes(vault.history).known):
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
    """Begin a sync in a process of its own, where one is wanted unasked; it is not waited for."""
    if vault.config.sync_remote and not vault.ref:
        with contextlib.suppress(VaultError, OSError):
            check_unasked(vault)
            _start(vault, DEVNULL).returncode = 0  # It goes on by itself.


def _start(vault: Vault, output: int) -> Popen[bytes]:
    # -P: the current folder may be a vault that has a folder called `vaultmem`.
    command = [sys.executable, "-P", "-m", "vaultmem", "sync", "--unasked", "--json"]
    env = make_environment(vault.environment)
    return Popen(
        [*command, "--vault", str(vault.root)],
        env={name: value for name, value in env.items() if name not in _WHO},
        stdin=DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,
    )


class Clock:
    """Syncs a vault every so often, one process at a time; `poll` never waits."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._next = 0.0
        self._running: Popen[bytes] | None = None
        self._told: Synced | None = None

    def hurry(self) -> None:
        """Let the next sync be due, if the vault is synced unasked at all."""
        self._next = 0.0 if self._vault.config.sync_remote else self._next

    def poll(self) -> Synced | None:
        """Begin a sync that is due; return what one did that has ended, if that is new."""
        found = self._begin() if self._running is None else self._take_end(self._running)
        if found is None or (found == self._told and not found.moved):
            return None
        self._told = found
        return found

    def _begin(self) -> Synced | None:
        every, now = read_interval(self._vault.config.sync_every), time.monotonic()
        if now < self._next or not self._vault.config.sync_remote:
            return None
        self._next = now + every if every else math.inf
        try:
            check_unasked(self._vault)
        except VaultError as error:
            return Synced(str(error), is_problem=True)
        self._running = _start(self._vault, PIPE)
        return None

    def _take_end(self, process: Popen[bytes]) -> Synced | None:
        if process.poll() is None:
            return None
        self._running = None
        out, err = process.communicate()
        if not process.returncode and not out:  # Somebody else is at it.
            return None
        try:
            return _describe(json.loads(out))
        except (ValueError, KeyError, TypeError):
            lines = err.decode("utf-8", "replace").strip().splitlines()
            last = lines[-1].removeprefix("vaultmem: error: ") if lines else ""
            return Synced(last or f"a sync ended with status {process.returncode}", True)


def _describe(told: dict[str, object]) -> Synced | None:
    if told["outcome"] == "offline":
        return Synced(f"offline; commits waiting: {told['waiting']}")
    if told["outcome"] != "synced":
        return Synced(f"not synced: {told['told']}", is_problem=True)
    if not (told["fetched"] or told["pushed"]):
        return None
    text = f"{told['remote']}: commits in: {told['fetched']}, out: {told['pushed']}"
    return Synced(text, moved=True)
