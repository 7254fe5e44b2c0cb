"""Vaults of a pool, each named with its remote, and the clone of one on this disk."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from vaultmem.core.json_values import as_named
from vaultmem.errors import FaultError, NoVaultError, RefusedError, VaultError, name_failure
from vaultmem.storage.atomic import make_private_folder, write_atomically
from vaultmem.storage.git.clones import (
    fetch_branches,
    is_whole,
    make_clone,
    read_branches,
    settle_clone,
)
from vaultmem.storage.git.remote import LONGEST, Listed, list_branches
from vaultmem.storage.git.remotes import Remote
from vaultmem.storage.git.vault_history import History
from vaultmem.storage.lock import hold_lock
from vaultmem.storage.vault_list import is_vault_name
from vaultmem.vault import UserFolders, make_key

#: Seconds that a remote has to list its branches, where a caller cannot go on without it.
TELLS_WITHIN = 10.0

#: Seconds after which it is written down again that a remote was heard of.
_EXACT = 1.0


class Source(NamedTuple):
    """A vault of a pool: its name there, its remote (URL or path), its branch, else HEAD's."""

    name: str
    remote: str
    branch: str = ""


def check_sources(sources: Iterable[Source]) -> dict[str, Source]:
    """Return sources by name, in their order.

    Raises:
        RefusedError: a name cannot be one, or two are the same but for capitals; a remote is none.
    """
    found: dict[str, Source] = {}
    known: set[str] = set()
    for each in sources:
        if not is_vault_name(each.name):
            raise RefusedError(
                f'"{each.name}" cannot be a vault\'s name: letters, digits, "-", "." and "_", '
                "40 at most"
            )
        if each.name.casefold() in known:
            raise RefusedError(f"{each.name}: named twice; give each vault a name of its own")
        if not each.remote.strip() or each.remote.startswith("-") or "\n" in each.remote:
            raise RefusedError(f"{each.name}: its remote has to be an address or a folder")
        known.add(each.name.casefold())
        found[each.name] = each
    return found


def read_sources(file: Path) -> list[Source]:
    """Return the sources of a file: `NAME REMOTE [BRANCH]` a line; `#` begins a remark.

    A remote that is a relative path is one from the file's folder. Of a folder, they are the bare
    repositories in it (`NAME.git`).

    Raises:
        RefusedError: a line says something else, or names cannot be used.
        VaultError: the file cannot be read.
    """
    if file.is_dir():
        return _list_repositories(file)
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        raise RefusedError(f"{file}: not UTF-8; save it so") from None
    except OSError as error:
        why = error.strerror or error
        raise VaultError(f"{file}: {why}; name a file or folder that says which vaults") from None
    found = []
    for number, line in enumerate(lines, 1):
        words = line.partition(" #")[0].split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) not in {2, 3}:
            raise RefusedError(f"{file}, line {number}: write NAME REMOTE, and a branch if need be")
        remote = words[1]
        if remote.startswith((".", "~")):
            remote = str((file.parent / Path(remote).expanduser()).resolve())
        found.append(Source(words[0], remote, *words[2:]))
    return list(check_sources(found).values())


def _list_repositories(folder: Path) -> list[Source]:
    found = sorted(each for each in folder.glob("*.git") if (each / "HEAD").is_file())
    if not found:
        raise RefusedError(f"{folder}: no bare repository (NAME.git) is in this folder")
    return list(check_sources(Source(each.stem, str(each.resolve())) for each in found).values())


class Record(NamedTuple):
    """What is remembered of a clone: of what it was made, and at which commit it is.

    `contacted` is when its remote was last heard of (seconds since the epoch); `problem` says why
    it could not be asked since, "" where it could.

    `made` is another for each time it is made; `place` is which folder its remote is, where that is
    on this machine: another one in its place is another vault's. One that is not `settled` is on
    its way from that commit to another, or a write was: whoever did it is at it, or was killed.
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


class Turns:
    """Lets the threads of this process through one by one, in the order in which they come.

    Waiting for a lock of the disk has no order, and looks again only now and then.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._waiting: deque[threading.Lock] = deque()

    @contextlib.contextmanager
    def take(self) -> Iterator[None]:
        """Have a turn for the time of a `with`."""
        own = threading.Lock()
        own.acquire()
        with self._guard:
            self._waiting.append(own)
            is_first = len(self._waiting) == 1
        try:
            if not is_first:
                own.acquire()
            yield
        finally:
            with self._guard:
                had_turn = self._waiting[0] is own
                self._waiting.remove(own)
                if had_turn and self._waiting:
                    self._waiting[0].release()


class Clone:
    """One vault's folder in a pool's; one thread at a time reads or changes it, by its `lock`.

    `writers` take turns before they wait for that lock. `asked_at` is when this process last asked
    the remote (`time.monotonic`), None if never, and `problem` why that failed.
    """

    def __init__(self, source: Source, folder: Path, folders: UserFolders) -> None:
        self.source = source
        self.asked_at: float | None = None
        self.problem = ""
        self.writers = Turns()
        self.root = folder / "clones" / source.name
        self.lock = folder / "locks" / f"{source.name}.lock"
        self.state = folders.state / "vaults" / make_key(self.root)
        self.remote = Remote("origin", source.remote)
        self._kept = folders.data
        self._file = folder / "records" / f"{source.name}.json"
        self._known: tuple[object, Record | None] = None, None
        for each in (self._file.parent, self.lock.parent, self.root.parent):
            make_private_folder(each)

    @property
    def record(self) -> Record | None:
        """What is remembered; None where there is no clone, or one of another remote or branch."""
        try:
            status = os.stat(self._file)
            os.stat(self.root / ".git/HEAD")
            key = status.st_mtime_ns, status.st_ino, status.st_size
            if key != self._known[0]:
                told = json.loads(self._file.read_text(encoding="utf-8"))
                self._known = key, Record(**told)
        except (OSError, ValueError, TypeError):
            return None
        known = self._known[1]
        named = known and self.source.branch in {"", known.branch}
        return known if known and named and known.remote == self.source.remote else None

    def follow(self, patience: float = LONGEST, seconds: float = TELLS_WITHIN) -> Record:
        """Bring it to where its remote is; where that does not answer in time, say so and stay.

        Raises:
            VaultError: there is no clone yet, and none could be made.
            BusyError: somebody else is at it for longer than `patience` (s).
        """
        with hold_lock(self.lock, patience):
            known = self.record
            if known is not None and self._find_place() not in {"", known.place}:
                self.unsettle()
                self.forget()
            elif known is not None:
                try:
                    return self._follow(known, seconds)
                except (VaultError, OSError) as error:
                    if self.is_whole():  # A full disk, say.
                        return self._note(known, str(name_failure(error)), settled=False)
            self.drop()
            self.state.mkdir(parents=True)
            history = make_clone(self.root, self.remote, self.source.branch or "main", self.state)
            listed = self.ask(history)
            if listed.trouble:
                raise FaultError(f"no clone yet: {listed.told}")
            if told := fetch_branches(history, self.remote, LONGEST):
                raise FaultError(f"no clone yet: {told}")
            return self._settle(history, self._begin_record(listed), None)

    def ask(self, history: History, seconds: float = TELLS_WITHIN) -> Listed:
        """Ask the remote for its branches; one on this machine is looked at."""
        folder = self.remote.folder
        found = read_branches(folder) if folder is not None else None
        return found or list_branches(history, self.remote, seconds)

    def unsettle(self) -> None:
        """Note that it is about to be changed, so that who was killed meanwhile is noticed."""
        if (known := self.record) and known.settled:
            self._keep(known._replace(settled=False))

    def restore(
        self, branches: Mapping[str, str] = MappingProxyType({}), is_clean: bool = False
    ) -> None:
        """Take back all that is in no branch of the remote's.

        The remote has `branches` now as well, and lacks those that have no commit there. A clone
        that `is_clean` has nothing else than these.
        """
        with hold_lock(self.lock):
            if known := self.record:
                moved = {k: v for k, v in {**known.branches, **branches}.items() if v}
                found = known._replace(branches=moved, commit=moved[known.branch])
                before = known.branches if is_clean else None
                self._settle(History(self.root, self.state), found, before)

    def is_whole(self) -> bool:
        """Tell whether git finds nothing wrong with it."""
        try:
            return is_whole(History(self.root, self.state))
        except (VaultError, OSError):
            return False

    def drop(self) -> None:
        """Remove the clone and all that was made of it."""
        with hold_lock(self.lock):
            self._file.unlink(missing_ok=True)
            for folder in (self.root, self.state):
                shutil.rmtree(folder, ignore_errors=True)

    def forget(self) -> None:
        """Remove all that there is of the vault here."""
        self.drop()
        for folder in self._kept.glob(f"*/{self.state.name}"):
            shutil.rmtree(folder, ignore_errors=True)

    def _follow(self, known: Record, seconds: float) -> Record:
        history = History(self.root, self.state)
        listed = self.ask(history, seconds)
        if listed.trouble:
            return self._stay(history, known, f"its remote was not reached: {listed.told}")
        try:
            found = self._begin_record(listed, known)
        except NoVaultError as error:  # It may be the last that has them.
            return self._stay(history, known, str(error))
        if known.settled and (found.branches, found.branch) == (known.branches, known.branch):
            if known.problem or found.contacted - known.contacted > _EXACT:
                self._keep(found)
            return found
        if found.branches != known.branches and (
            told := fetch_branches(history, self.remote, LONGEST)
        ):
            return self._stay(history, known, f"its remote was not read: {told}")
        return self._settle(history, found, known.branches if known.settled else None)

    def _stay(self, history: History, known: Record, problem: str) -> Record:
        """Note why it is as it was; what somebody who was killed left goes all the same."""
        if not known.settled:
            self._settle(history, known, None)
        return self._note(known, problem)

    def _note(self, known: Record, problem: str, settled: bool = True) -> Record:
        found = known._replace(problem=problem, settled=settled)
        if found != known:
            self._keep(found)
        return found

    def _settle(self, history: History, found: Record, known: Mapping[str, str] | None) -> Record:
        self.unsettle()
        settle_clone(history, found.branches, found.branch, known)
        found = found._replace(settled=True)
        self._keep(found)
        return found

    def _begin_record(self, listed: Listed, known: Record | None = None) -> Record:
        """Return what is to be remembered of a remote's branches.

        Raises:
            NoVaultError: the branch that is to be read is not among them.
        """
        branch = self.source.branch or listed.head
        if branch not in listed.branches:
            told = f"no branch {branch}" if listed.branches else "no commit"
            raise NoVaultError(f"its remote has {told} yet")
        made = known.made if known else os.urandom(8).hex()
        branches = dict(listed.branches)
        stands = branch, branches[branch], branches, time.time()
        return Record(self.source.remote, made, *stands, place=self._find_place())

    def _find_place(self) -> str:
        """Return which folder the remote is, "" if it is none here, or is not there now."""
        try:
            return str(os.stat(self.remote.folder).st_ino) if self.remote.folder else ""
        except OSError:
            return ""

    def _keep(self, record: Record) -> None:
        data = json.dumps(as_named(record)).encode()
        write_atomically(self._file, data, durable=False)
