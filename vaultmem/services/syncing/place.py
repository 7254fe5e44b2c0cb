"""Where a vault is synced with: which remote, which branch of it; and what is known of it here."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shlex
from pathlib import Path
from typing import NamedTuple

from vaultmem.core.json_values import as_named
from vaultmem.errors import NoteNotFoundError, PendingError, RefusedError
from vaultmem.services.reading.look import find_branch
from vaultmem.storage.atomic import write_atomically
from vaultmem.storage.git.remotes import Remote, Remotes, read_remotes
from vaultmem.vault import Vault

#: The name of a remote that nobody has named.
ORIGIN = "origin"

_FILE = "sync.json"

_NONE = (
    "this vault has no remote yet; make an empty repository somewhere, and run `vaultmem sync URL` "
    "once (a folder on a stick or a server will do: `git init --bare FOLDER`)"
)


class Place(NamedTuple):
    """A remote, the vault's branch, and the name that the branch has there.

    `is_new` is one that the repository does not know yet.
    """

    remote: Remote
    branch: str
    upstream: str
    is_new: bool = False

    @property
    def tracking(self) -> str:
        """The ref that says where the branch was there when it was last asked."""
        return f"refs/remotes/{self.remote.name}/{self.upstream}"

    @property
    def name(self) -> str:
        """The branch there, as people say it."""
        return f"{self.remote.name}/{self.upstream}"


class LastSync(NamedTuple):
    """The last sync, and when one last came to its end, in seconds since the epoch.

    `agreed` says to which address the person has synced by hand; `rescue` is the ref at the remote
    that has what could not go to its branch, `evidence` the commit of this machine's ref there,
    `refused_at` when the remote last refused that ref (0: it takes it).
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


def find_place(vault: Vault, where: str = "") -> Place:
    """Return where the vault is synced with: `where` is a remote's name or an address.

    Without it, that is what vaultmem.yaml says, else where the branch goes by git's settings, else
    the only remote that there is, or of several the last one that it was synced with.

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
    remote = _name_remote(vault, remotes, where) if where else _choose(vault, remotes, branch)
    known, there = remotes.upstreams.get(branch, ("", ""))
    upstream = there if there and known == remote.name else branch
    return Place(remote, branch, upstream, remote.name not in remotes.known)


def find_tip(vault: Vault, ref: str) -> str:
    """Return the commit of a ref by its full name, empty if there is none."""
    command = ("show-ref", "--verify", "--hash", "--", ref)
    return vault.history.git.run(*command, check=False)


def count_waiting(vault: Vault, place: Place) -> int:
    """Return how many commits of the branch the remote did not have when it was last asked."""
    ours = find_tip(vault, f"refs/heads/{place.branch}")
    known = ("--not", f"--remotes={place.remote.name}")
    return int(vault.history.git.run("rev-list", "--count", ours, *known, "--")) if ours else 0


def read_record(vault: Vault) -> LastSync:
    """Return what is remembered; nothing, where it is lost."""
    with contextlib.suppress(OSError, ValueError, TypeError):
        told = json.loads((vault.state_folder / _FILE).read_text(encoding="utf-8"))
        return LastSync(**{name: told[name] for name in LastSync._fields if name in told})
    return LastSync()


def keep_record(vault: Vault, record: LastSync) -> None:
    """Remember a sync; it is not worth waiting for the disk."""
    data = json.dumps(as_named(record)).encode()
    write_atomically(vault.state_folder / _FILE, data, durable=False)


def name_address(remote: Remote) -> str:
    """Return a digest of where commits go: an address may hold what lets somebody sign in."""
    return hashlib.sha256(f"{remote.url}\n{remote.push_url}".encode()).hexdigest()


def _choose(vault: Vault, remotes: Remotes, branch: str) -> Remote:
    named = vault.config.sync_remote
    if named and named not in remotes.known:
        raise NoteNotFoundError(
            f'vaultmem.yaml syncs with "{named}", and git knows no such remote here; '
            f"run `git remote add {named} URL`, or `vaultmem sync URL`"
        )
    upstream = remotes.upstreams.get(branch, ("", ""))[0]
    for name in (named, upstream, ORIGIN):
        if name in remotes.known:
            return remotes.known[name]
    if len(remotes.known) == 1:
        return next(iter(remotes.known.values()))
    if remotes.known:
        if last := remotes.known.get(read_record(vault).remote):
            return last
        names = sorted(remotes.known)
        raise RefusedError(
            f"there are several remotes ({', '.join(names)}); choose one, such as "
            f"`vaultmem sync {shlex.quote(names[0])}`"
        )
    raise NoteNotFoundError(_NONE)


def _name_remote(vault: Vault, remotes: Remotes, where: str) -> Remote:
    if where in remotes.known:
        return remotes.known[where]
    if not _is_address(where):
        told = f"git knows {', '.join(sorted(remotes.known))}" if remotes.known else _NONE
        raise NoteNotFoundError(f"{where}: no remote is called that; {told}")
    remote = Remote(ORIGIN, _make_absolute(where))
    for known in remotes.known.values():
        if known.url in {where, remote.url}:
            return known
    if ORIGIN in remotes.known:
        raise RefusedError(
            f"{ORIGIN} is {remotes.known[ORIGIN].shown} already; for another one beside it run "
            "`git remote add NAME URL` and `vaultmem sync NAME`"
        )
    folder = remote.folder
    if folder is not None and folder.is_relative_to(vault.history.git.work_tree):
        raise RefusedError(f"{where}: inside of the vault's own repository; choose another place")
    return remote


def _is_address(text: str) -> bool:
    return not text.startswith("-") and bool(re.search(r"[:/\\~]", text) or os.path.isdir(text))


def _make_absolute(where: str) -> str:
    """Return an address that means the same from any folder."""
    remote = Remote("", where)
    if remote.folder is None or where.startswith("file://"):
        return where
    return str(Path(where).expanduser().resolve())
