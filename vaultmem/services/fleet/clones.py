"""The clones of a pool's vaults on this disk: fetched on use, one user at a time."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Concatenate, NamedTuple, TypeVar

from vaultmem.config import CONFIG_NAME, read_config
from vaultmem.errors import (
    DamagedError,
    ForbiddenError,
    LockTimeoutError,
    NoteNotFoundError,
    NoVaultError,
    RefusedError,
    SystemFailureError,
    VaultError,
    wrap_os_error,
)
from vaultmem.services.changes.commit import commit_event
from vaultmem.services.changes.commit_parts import Event
from vaultmem.services.fleet.clone import (
    Clone,
    CloneRecord,
    NodeVaults,
    VaultSource,
    VaultStats,
    check_sources,
    count_vault,
    measure_node,
)
from vaultmem.services.memory.create_vault import add_missing
from vaultmem.services.merging.branches import list_decided
from vaultmem.services.views.open_view import view_at
from vaultmem.services.views.update_index import sync_vault
from vaultmem.storage.atomic import raise_file_limit
from vaultmem.storage.git.bare import make_clone
from vaultmem.storage.git.commit_draft import RefMovedError
from vaultmem.storage.git.remote import (
    TRANSFER_TIMEOUT_SECONDS,
    PushOutcome,
    RemoteError,
    push,
    remove_branch,
)
from vaultmem.storage.git.vault_history import VaultHistory
from vaultmem.storage.lock import WRITER, hold_lock
from vaultmem.vault import UserFolders, Vault, VaultSettings, find_user_folders, open_vault

T = TypeVar("T")

#: A function that reads or changes a vault.
Work = Callable[[Vault], T]

#: Most vaults that are kept open; the files that each one uses, and those of the process.
MAX_OPEN_VAULTS = 1_000
_FILES_EACH, _OTHER_FILES = 6, 256

#: The reason for a vault that did not answer in time.
TIMEOUT_REASON = "no answer in time"

#: Seconds before a remote is asked again; longer if it did not answer.
FRESH_SECONDS = 5.0
_AFTER_FAILURE = 15.0

#: Seconds that a reader waits for a writer; then it reads the last commit.
_READER = 0.5

#: Seconds that a reader of a clone waits for its remote; how many remotes are asked at once.
_REMOTE_WAIT_SECONDS, _MAX_REMOTE_THREADS = 3.0, 8

#: Key of an index's state: the clone's commit when it was updated.
_INDEX_COMMIT_KEY = "pool_commit"

#: Moves a ref of a vault's remote: given the git folder with the commits, the ref, its old and its
#: new commit ("" for none). Raises ForbiddenError if the remote rejects it, RefMovedError if the
#: ref has moved.
Publish = Callable[[Path, str, str, str], None]

#: Attempts of a write if another push to the remote comes first.
_ATTEMPTS = 8

_BRANCH_PREFIX, _TRACKING_PREFIX = "refs/heads/", "refs/remotes/origin/"

_NO_SETTINGS: VaultSettings = {}


class _Opened(NamedTuple):
    """An open vault, the id of its clone (`clone_id`), and the commit of its index."""

    vault: Vault
    clone_id: str
    commit: str


class Clones:
    """The clones of some vaults; thread-safe, and processes can share a `folder`.

    A vault whose remote was asked within `fresh_for` seconds is read without a fetch. Trust is the
    trust record of the process's user.
    """

    def __init__(
        self,
        folder: Path,
        sources: Sequence[VaultSource] = (),
        fresh_for: float = FRESH_SECONDS,
        most_open: int = MAX_OPEN_VAULTS,
    ) -> None:
        self.folder = folder.absolute()
        own = find_user_folders({}).config
        self._folders = UserFolders(self.folder / "state", own, self.folder / "data")
        self._fresh_for = fresh_for
        files = raise_file_limit(most_open * _FILES_EACH + _OTHER_FILES)
        self._most_open = max(1, min(most_open, (files - _OTHER_FILES) // _FILES_EACH))
        self._clones: dict[str, Clone] = {}
        self._open: dict[str, _Opened] = {}
        self._helpers = ThreadPoolExecutor(_MAX_REMOTE_THREADS, "vaultmem-helper")
        self.hold(sources)

    @property
    def names(self) -> list[str]:
        """The vaults, in the order of their sources."""
        return list(self._clones)

    def hold(self, sources: Sequence[VaultSource]) -> None:
        """Replace the vaults; clones of other vaults are removed."""
        old_clones, clones = self._clones, dict[str, Clone]()
        for name, source in check_sources(sources).items():
            is_known = name in old_clones and old_clones[name].source == source
            clones[name] = (
                old_clones[name] if is_known else Clone(source, self.folder, self._folders)
            )
        self._clones = clones
        for name in old_clones.keys() - clones.keys():
            with hold_lock(old_clones[name].lock):
                self._close(name)
                old_clones[name].forget()

    def find(self, name: str) -> Clone:
        """Return a vault's clone, made or not.

        Raises:
            NoteNotFoundError: there is no such vault.
        """
        if name not in self._clones:
            raise NoteNotFoundError(f"{name}: no vault of that name")
        return self._clones[name]

    def fetch_clone(self, name: str, anew: bool = False) -> CloneRecord:
        """Clone a vault, or fetch if its remote was not asked recently, or if `anew`.

        Raises:
            NoteNotFoundError: there is no such vault.
            VaultError: there is no clone, and none could be made.
        """
        clone = self.find(name)
        record = clone.record
        if not anew and not self._is_due(clone):
            if record is None:
                raise VaultError(clone.problem)
            return record
        try:
            if record is None:
                new_record = clone.follow(TRANSFER_TIMEOUT_SECONDS)
            else:
                new_record = (
                    clone.follow(WRITER) if anew else clone.follow(0.0, _REMOTE_WAIT_SECONDS)
                )
        except LockTimeoutError:  # Another thread fetches it.
            if record is None:
                raise
            return record
        except (VaultError, OSError) as error:
            clone.asked_at, clone.problem = time.monotonic(), str(wrap_os_error(error))
            raise wrap_os_error(error) from error
        clone.asked_at, clone.problem = time.monotonic(), new_record.problem
        return new_record

    def fetch_all(self, names: Sequence[str], seconds: float | None = None) -> dict[str, str]:
        """Fetch vaults whose remotes were not asked recently; return why some have no clone.

        Several are fetched at once. Running fetches continue after `seconds`.
        """
        due_names = [name for name in names if self._is_due(self.find(name))]
        _, missing = self.map(Clones.fetch_clone, dict.fromkeys(due_names, ()), seconds)
        missing_names = [name for name in names if self.find(name).record is None]
        return {name: missing.get(name) or self.find(name).problem for name in missing_names}

    def map(
        self,
        work: Callable[Concatenate[Clones, str, ...], T],
        arguments: Mapping[str, Sequence[object]],
        seconds: float | None = None,
    ) -> tuple[dict[str, T], dict[str, str]]:
        """Call a function for each of some vaults, several at once; return why some are missing.

        Running calls continue after `seconds`; queued ones are cancelled.
        """
        futures = {
            name: self._helpers.submit(work, self, name, *args) for name, args in arguments.items()
        }
        wait(futures.values(), seconds)
        results: dict[str, T] = {}
        missing: dict[str, str] = {}
        for name, future in futures.items():
            if not future.done():
                future.cancel()
                missing[name] = TIMEOUT_REASON
                continue
            try:
                results[name] = future.result()
            except (VaultError, OSError) as error:
                missing[name] = str(wrap_os_error(error))
        return results, missing

    @contextlib.contextmanager
    def open(
        self, name: str, settings: VaultSettings = _NO_SETTINGS, follows: bool = True
    ) -> Iterator[Vault]:
        """Open a vault, locked while the context is open; fetch it first if it `follows`.

        While a write runs, the vault is opened at its last commit.

        Raises:
            VaultError: as for `fetch_clone`; or it cannot be read.
        """
        if follows:
            self.fetch_clone(name)
        clone = self.find(name)
        record = clone.record
        patience = _READER if record is None or record.settled else 0.0
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(hold_lock(clone.lock, patience))
                vault = self._lend(clone, settings)
            except LockTimeoutError:
                vault = stack.enter_context(self._open_aside(clone, settings, at_commit=True))
            yield view_at(vault) if vault.ref else vault
        self._close_oldest()

    def read(
        self,
        name: str,
        work: Work[T],
        settings: VaultSettings = _NO_SETTINGS,
        takes_long: bool = False,
        follows: bool = True,
    ) -> T:
        """Return the result of `work` on a vault; repair the clone and repeat if it is damaged.

        Work that `takes_long` does not block writers, so it can see some files newer than others.
        """
        try:
            return self._read(name, work, settings, takes_long, follows)
        except (DamagedError, SystemFailureError):
            self._repair(name)
            return self._read(name, work, settings, takes_long, follows)

    def _read(
        self, name: str, work: Work[T], settings: VaultSettings, takes_long: bool, follows: bool
    ) -> T:
        with self.open(name, settings, follows) as vault:
            if not takes_long:
                return work(vault)
        with self._open_aside(self.find(name), settings) as vault:
            return work(view_at(vault) if vault.ref else vault)

    def write(
        self,
        name: str,
        work: Work[T],
        settings: VaultSettings = _NO_SETTINGS,
        identity: str = "",
        branch: str = "",
        publish: Publish | None = None,
    ) -> T:
        """Return the result of `work`, once the remote has its changes; otherwise undo them.

        Changes that `work` leaves are committed with the author in `settings`; a person's commits
        have `identity` (`Name <mail>`). With `branch`, they go there, and a missing branch is
        created. A remote without a commit gets a first one. `publish` moves the remote's refs, by
        default with a push. If others moved them meanwhile, the work is repeated.

        Raises:
            ForbiddenError: the remote rejects it; with its message.
            VaultError: `work` failed, or the remote cannot be reached.
        """
        signed_settings = sign(settings, identity, branch)
        clone = self.find(name)
        publish = publish or partial(push_ref, clone)
        with clone.writers, hold_lock(clone.lock):
            for _ in range(_ATTEMPTS):
                with contextlib.suppress(RefMovedError):
                    return self._write(clone, work, signed_settings, publish)
        raise VaultError(f"not written: others keep pushing to {name}; try again")

    def _write(self, clone: Clone, work: Work[T], settings: VaultSettings, publish: Publish) -> T:
        record = self._make_ready(clone, settings, publish)
        try:
            vault = self._lend(clone, settings)
        except DamagedError:  # Its files are reset.
            clone.restore()
            vault = self._lend(clone, settings)
        clone.unsettle()
        vault.state.put(_INDEX_COMMIT_KEY, "")
        new_tips: dict[str, str] = {}
        try:
            result, new_tips = land(vault, work, publish, record.branches)
        except BaseException:
            with contextlib.suppress(VaultError, OSError):
                forget_waiting(vault)
            raise
        finally:
            is_clean = len(new_tips) == 1
            clone.restore(new_tips, is_clean)
            if not is_clean:
                self._close(clone.source.name)
            self._lend(clone, _NO_SETTINGS)  # The next reader need not index.
        return result

    def stats(self, name: str) -> VaultStats:
        """Return the stats of a vault, without asking its remote."""
        clone = self.find(name)
        if clone.record is None:
            return VaultStats(problem=clone.problem or "not cloned yet")
        with hold_lock(clone.lock):
            return count_vault(clone, lambda: self._lend(clone, _NO_SETTINGS))

    def describe(self) -> NodeVaults:
        """Return the status of these vaults, without asking remotes."""
        records = {name: each.record for name, each in self._clones.items()}
        clone_records = {name: each for name, each in records.items() if each}
        stale = max((time.time() - each.contacted for each in clone_records.values()), default=0.0)
        status = measure_node(self.folder, len(clone_records), max(0.0, stale))
        missing = {
            name: each.problem
            for name, each in self._clones.items()
            if each.problem and name not in clone_records
        }
        return NodeVaults(
            status, {name: each.problem for name, each in clone_records.items()}, missing
        )

    def close(self) -> None:
        """Wait for running work, and close all vaults."""
        self._helpers.shutdown(cancel_futures=True)
        for name in list(self._open):
            self._close(name)

    def _is_due(self, clone: Clone) -> bool:
        """Return whether a vault's remote should be asked."""
        record = clone.record
        if clone.asked_at is None or (record is None and not clone.problem):
            return True
        if record and not record.settled:
            return True
        is_away = clone.problem and clone.remote.folder is None
        pause = max(self._fresh_for, _AFTER_FAILURE) if is_away else self._fresh_for
        return time.monotonic() - clone.asked_at >= pause

    def _lend(self, clone: Clone, settings: VaultSettings) -> Vault:
        """Return an up-to-date Vault on an open clone; the caller holds its lock.

        Raises:
            NoVaultError: there is no clone, or no vault in it.
            DamagedError: its files were changed here.
        """
        name, record = clone.source.name, clone.record
        if record is None or not (clone.root / CONFIG_NAME).is_file():
            raise NoVaultError(f"no vault: its remote has no {CONFIG_NAME}")
        entry = self._open.get(name)
        if entry is not None and entry.clone_id != record.made:
            self._close(name)
            entry = None
        if entry is None:
            entry = _Opened(open_vault(clone.root, folders=self._folders), record.made, "")
            entry.vault.state.disable_fsync()  # The remote has all acknowledged writes.
        self._open.pop(name, None)
        self._open[name] = entry  # Most recently used.
        if entry.commit != record.commit:
            own = replace(entry.vault, config=read_config(clone.root))
            _sync(own, record.commit)
            entry = entry._replace(vault=own, commit=record.commit)
            self._open[name] = entry
        return replace(open_vault(**self._complete(settings, entry.vault)), name=name)

    @contextlib.contextmanager
    def _open_aside(
        self, clone: Clone, settings: VaultSettings, at_commit: bool = False
    ) -> Iterator[Vault]:
        """Open a vault without a lock; at its remote's last commit if `at_commit`."""
        record = clone.record
        if record is None:
            raise LockTimeoutError("its clone is being made; ask again")
        with contextlib.closing(open_vault(clone.root, folders=self._folders)) as own:
            vault = open_vault(**self._complete(settings, own))
            vault = replace(vault, name=clone.source.name)
            yield view_at(vault, record.commit) if at_commit and not vault.ref else vault

    def _complete(self, settings: VaultSettings, own: Vault) -> VaultSettings:
        new_settings = settings.copy()
        # The folder next to the clone has others, which its owners may not read.
        config = own.config._replace(code_repository="")
        new_settings["store"], new_settings["config"] = own.store, config
        return new_settings

    def _repair(self, name: str) -> None:
        """Repair a clone that is damaged or was changed here."""
        clone = self.find(name)
        with hold_lock(clone.lock):
            self._close(name)
            if clone.is_whole():
                clone.unsettle()
            else:
                clone.drop()
            self.fetch_clone(name, anew=True)

    def _make_ready(self, clone: Clone, settings: VaultSettings, publish: Publish) -> CloneRecord:
        """Fetch a vault's clone for a write; its remote must answer."""
        name = clone.source.name
        try:
            record = self.fetch_clone(name, anew=True)
        except NoVaultError:
            new_settings = settings.copy()
            new_settings["folders"], new_settings["ref"] = self._folders, ""
            initialize_remote(clone, new_settings, publish)
            record = self.fetch_clone(name, anew=True)
        if record.problem:
            raise VaultError(f"not written: {record.problem}")
        return record

    def _close_oldest(self) -> None:
        """Close the least recently used vaults, unless they are in use."""
        for name in list(self._open)[: max(0, len(self._open) - self._most_open)]:
            with (
                contextlib.suppress(LockTimeoutError, VaultError),
                hold_lock(self.find(name).lock, 0.0),
            ):
                self._close(name)

    def _close(self, name: str) -> None:
        if entry := self._open.pop(name, None):
            with contextlib.suppress(VaultError, OSError):
                entry.vault.close()


def _sync(vault: Vault, commit: str) -> None:
    """Update the index to a clone's files, which are those of a commit."""
    is_expected = vault.state.get(_INDEX_COMMIT_KEY) == commit
    report = sync_vault(vault)
    if not is_expected:
        vault.state.put(_INDEX_COMMIT_KEY, commit)
    elif report.added or report.changed or report.removed:
        vault.state.put(_INDEX_COMMIT_KEY, "")
        raise DamagedError("its clone was changed here, and is made again from its remote")


def sign(settings: VaultSettings, identity: str, branch: str) -> VaultSettings:
    """Return settings to write on a branch; a person's commits have `identity` (`Name <mail>`).

    By default, they have git's identity of the process's user.
    """
    new_settings = settings.copy()
    new_settings["ref"] = branch
    if identity:
        name, _, mail = identity.partition("<")
        variables = {"GIT_AUTHOR_NAME": name.strip(), "GIT_AUTHOR_EMAIL": mail.rstrip("> ").strip()}
        new_settings["environment"] = {**settings.get("environment", {}), **variables}
    return new_settings


def land(
    vault: Vault, work: Callable[[Vault], T], publish: Publish, remote_branches: Mapping[str, str]
) -> tuple[T, dict[str, str]]:
    """Do some work in a clone and publish it to the remote with `remote_branches`.

    Return its result, and the branches that moved, each with its new commit, "" if removed.

    Raises:
        ForbiddenError: the remote rejects it; with its message.
        RefMovedError: others have moved the branch.
        VaultError: the work failed, or the remote cannot be reached.
    """
    history = vault.history
    head, branch = history.head(), vault.ref
    if branch and branch not in {each.name for each in history.refs.branches()}:
        history.refs.create_branch(branch, head.commit)
    result = work(view_at(vault) if branch else vault)
    if not branch:
        event = Event("checkpoint", "", vault.author, intent="checkpoint")
        skipped = commit_event(vault, event).skipped
        if skipped:
            raise RefusedError(f"not written: {'; '.join(skipped.values())}")
    target = branch or head.branch
    tip = history.refs.branch_tip(target) if branch else history.head().commit
    if tip != remote_branches.get(target, ""):
        publish(
            history.git_folder, f"{_BRANCH_PREFIX}{target}", remote_branches.get(target, ""), tip
        )
    return result, {target: tip, **dict.fromkeys(_remove_decided(vault, tip, publish), "")}


def push_ref(clone: Clone, _: Path, ref: str, old: str, new: str) -> None:
    """Move a ref of a clone's remote by a push, as a `Publish` function; never forced."""
    history, name = VaultHistory(clone.root, clone.state), ref.removeprefix(_BRANCH_PREFIX)
    if new:
        result = push(history, clone.remote, [f"{new}:{ref}"])
    else:
        result = remove_branch(history, clone.remote, name, old)
    if result.trouble in {RemoteError.OFFLINE, RemoteError.MISSING}:
        raise VaultError(f"not written, the vault's remote is not reached: {result.message}")
    outcome, message = result.refs.get(ref, (PushOutcome.REFUSED, result.message))
    if outcome is PushOutcome.MOVED:
        raise RefMovedError
    if outcome is PushOutcome.REFUSED:
        raise ForbiddenError(f"not written, the vault's remote does not take it: {message}")
    arguments = (f"{_TRACKING_PREFIX}{name}", new) if new else ("-d", f"{_TRACKING_PREFIX}{name}")
    history.git.run("update-ref", *arguments)


def _remove_decided(vault: Vault, tip: str, publish: Publish) -> list[str]:
    """Remove proposals at the remote whose decision it has; return those removed."""
    removed_names: list[str] = []
    if not (vault.history.git_folder / "refs/vaultmem").exists():
        return removed_names
    for each in list_decided(vault):
        if vault.history.refs.is_ancestor(each.decision_commit, tip):
            with contextlib.suppress(VaultError, RefMovedError):  # Then it is decided again.
                publish(vault.history.git_folder, f"{_BRANCH_PREFIX}{each.name}", each.commit, "")
                removed_names.append(each.name)
        vault.history.git.run("update-ref", "-d", each.mark)
    return removed_names


def forget_waiting(vault: Vault) -> None:
    """Drop events to commit later: their changes are undone."""
    for number, _ in vault.operations.list_waiting():
        vault.operations.drop_waiting(number)


def initialize_remote(clone: Clone, settings: VaultSettings, publish: Publish) -> None:
    """Publish the files of `init` as the first commit of an empty remote.

    Raises:
        ForbiddenError: the remote rejects it; with its message.
        VaultError: it has commits, or cannot be reached.
    """
    clone.drop()
    clone.state.mkdir(parents=True)
    try:
        history = make_clone(clone.root, clone.remote, clone.source.branch or "main", clone.state)
        answer = clone.ask(history)
        if answer.trouble or answer.branches:
            raise VaultError(answer.message or "its remote has commits")
        with contextlib.closing(open_vault(clone.root, **settings)) as vault:
            add_missing(vault)
            event = Event("init", "init: new vault", vault.author, intent="observe")
            commit = commit_event(vault, event).commit
            branch = clone.source.branch or answer.head or "main"
            publish(history.git_folder, f"{_BRANCH_PREFIX}{branch}", "", commit)
    finally:
        shutil.rmtree(clone.root, ignore_errors=True)
