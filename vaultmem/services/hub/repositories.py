"""The bare repositories of a hub: create with safe settings, list, remove."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from vaultmem.core.text.paths import fold
from vaultmem.errors import NoteNotFoundError, RefusedError
from vaultmem.services.hub.hub_folder import MAKING, Hub, check_name
from vaultmem.services.memory.create_vault import create_vault
from vaultmem.storage.atomic import sync_folder
from vaultmem.storage.git.bare import BareGit, copy_refs
from vaultmem.storage.lock import hold_lock
from vaultmem.vault import UserFolders


def list_repositories(hub: Hub) -> dict[str, Path]:
    """Return the folder of each vault's repository by the vault's name."""
    folders = hub.repositories.glob("*.git")
    return {each.stem: each for each in sorted(folders) if not each.name.startswith(".")}


def find_repository(hub: Hub, name: str) -> Path:
    """Return a vault's repository.

    Raises:
        NoteNotFoundError: the hub has no vault of this name.
    """
    folder = list_repositories(hub).get(name)
    if folder is None:
        raise NoteNotFoundError(f"{name}: this hub has no vault of that name")
    return folder


def make_repository(
    hub: Hub, name: str, environment: Mapping[str, str], source: str = "", branch: str = ""
) -> Path:
    """Make a vault's repository, atomically.

    It gets the branches, tags and vaultmem refs of `source`; `branch` is its default branch.
    Without a source, its first commit has the files of `init`, so that everyone can write or
    propose.

    Raises:
        RefusedError: the name is invalid, or a vault has it apart from its case.
        SystemFailureError: git could not make it, or not read the source.
    """
    check_name(name)
    with hold_lock(hub.lock):
        twin = {fold(each): each for each in list_repositories(hub)}.get(fold(name))
        if twin is not None:
            raise RefusedError(f"{name}: this hub has a vault called {twin}; choose another name")
        temporary_folder, folder = (
            hub.repositories / f"{MAKING}{name}",
            hub.repositories / f"{name}.git",
        )
        shutil.rmtree(temporary_folder, ignore_errors=True)
        try:
            _init(hub, temporary_folder, environment, branch or "main")
            with contextlib.ExitStack() as stack:
                if not source:
                    source = str(stack.enter_context(_begin_vault(environment, branch or "main")))
                copy_refs(temporary_folder, environment, source, branch)
            os.rename(temporary_folder, folder)
            sync_folder(hub.repositories)
        finally:
            shutil.rmtree(temporary_folder, ignore_errors=True)
    return folder


def describe_repository(folder: Path, environment: Mapping[str, str]) -> tuple[str, int]:
    """Return a repository's default branch, and its number of commits."""
    git = BareGit(folder, environment)
    branch = git.run("symbolic-ref", "--short", "HEAD").decode("utf-8", "surrogateescape").strip()
    output = git.run("rev-list", "--count", f"refs/heads/{branch}", "--", fine=(0, 128))
    return branch, int(output or 0)


def set_up(hub: Hub, folder: Path, environment: Mapping[str, str]) -> None:
    """Write the hub's git settings and hook path into a repository's config."""
    git = BareGit(folder, environment)
    for key, value in settings_of(hub).items():
        git.run("config", "--file", str(folder / "config"), "--replace-all", key, value)


def settings_of(hub: Hub) -> dict[str, str]:
    """Return git's settings for a repository of the hub."""
    return {
        "core.hooksPath": str(hub.hooks),
        "core.fsync": "all",
        "core.fsyncMethod": "fsync",
        "core.logAllRefUpdates": "true",
        "core.bigFileThreshold": "16m",
        "gc.auto": "0",
        "http.receivepack": "true",
        "receive.autogc": "false",
        "receive.advertisePushOptions": "false",
        "receive.denyDeleteCurrent": "refuse",
        "receive.denyNonFastForwards": "true",
        "receive.fsckObjects": "true",
        "receive.maxInputSize": str(hub.limits.push_bytes),
        "receive.shallowUpdate": "false",
        "receive.unpackLimit": "100",
        **{f"receive.fsck.{kind}": "warn" for kind in _CHECKED_BY_HUB},
        "receive.fsck.nulInCommit": "error",  # Most tools do not show text after it.
    }


#: Problems that git's fsck only warns of: the push check has better messages, and logs them.
_CHECKED_BY_HUB = ("hasDot", "hasDotdot", "hasDotgit", "fullPathname", "nullSha1")


def remove_repository(hub: Hub, name: str, now: float) -> Path:
    """Move a vault's repository out of the hub, and return its new folder.

    Raises:
        NoteNotFoundError: the hub has no vault of this name.
    """
    with hold_lock(hub.lock):
        folder = find_repository(hub, name)
        at = time.strftime("%Y%m%dT%H%M%S", time.gmtime(now))
        removed_folder = hub.folder / "removed" / f"{name}-{at}.git"
        os.rename(folder, removed_folder)
        sync_folder(removed_folder.parent)
        sync_folder(hub.repositories)
    return removed_folder


@contextlib.contextmanager
def _begin_vault(environment: Mapping[str, str], branch: str) -> Iterator[Path]:
    """Yield a temporary empty vault, created in the name of the command's user."""
    with tempfile.TemporaryDirectory() as place:
        root = Path(place) / "vault"
        folders = UserFolders(*(Path(place) / name for name in UserFolders._fields))
        result = create_vault(root, by_person=True, environment=environment, folders=folders)
        result.vault.close()
        BareGit(root / ".git", environment).run("branch", "-m", branch)
        yield root


def _init(hub: Hub, folder: Path, environment: Mapping[str, str], branch: str) -> None:
    git = BareGit(folder, environment)
    command = ("init", "-q", "--bare", "--template=", "--object-format=sha1")
    git.run(*command, f"--initial-branch={branch}")
    set_up(hub, folder, environment)
