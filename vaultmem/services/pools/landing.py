"""Have what somebody wrote in a clone land at its remote; and begin a vault at an empty one."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import TypeVar

from vaultmem.errors import ForbiddenError, RefusedError, VaultError
from vaultmem.services.notes.create import add_missing
from vaultmem.services.pools.clone import Clone
from vaultmem.services.reading.look import look_at
from vaultmem.services.syncing.place import ORIGIN
from vaultmem.services.syncing.sync import Check, Outcome, sync_remote
from vaultmem.services.writing.commit import commit_event
from vaultmem.services.writing.divide import Event
from vaultmem.storage.git.clones import make_clone
from vaultmem.storage.git.remote import Fate, push
from vaultmem.vault import Vault, VaultSettings, open_vault

T = TypeVar("T")


def sign(settings: VaultSettings, identity: str, branch: str) -> VaultSettings:
    """Return settings for writing on a branch, with a person's commits in the name of `identity`.

    That is `Name <mail>`; without it, who git takes the process's user for.
    """
    signed = settings.copy()
    signed["ref"] = branch
    if identity:
        name, _, mail = identity.partition("<")
        named = {"GIT_AUTHOR_NAME": name.strip(), "GIT_AUTHOR_EMAIL": mail.rstrip("> ").strip()}
        signed["environment"] = {**settings.get("environment", {}), **named}
    return signed


def land(vault: Vault, work: Callable[[Vault], T], check: Check | None) -> tuple[T, dict[str, str]]:
    """Do some work in a clone and push it; return what it did, and which branches have moved.

    Each branch comes with its commit, "" where it was removed.

    Raises:
        ForbiddenError: the remote does not take it, or `check`; with the words of either.
        VaultError: the work failed, or the remote cannot be reached.
    """
    history = vault.history
    here, branch = history.head(), vault.ref
    if branch and branch not in {each.name for each in history.refs.branches()}:
        history.refs.create_branch(branch, here.commit)
    done = work(look_at(vault) if branch else vault)
    if not branch:
        event = Event("checkpoint", "", vault.author, intent="checkpoint")
        left = commit_event(vault, event).skipped
        if left:
            raise RefusedError(f"not written: {'; '.join(left.values())}")
    report = sync_remote(vault, ORIGIN, alone=True, check=check)
    if report.outcome is Outcome.OFFLINE:
        raise VaultError(f"not written, the vault's remote is not reached: {report.told}")
    if report.outcome is not Outcome.SYNCED:
        kind = ForbiddenError if report.outcome is Outcome.REFUSED else RefusedError
        raise kind(f"not written, the vault's remote does not take it: {report.told}")
    landed = branch or here.branch
    return done, {landed: history.refs.branch_tip(landed), **dict.fromkeys(report.removed, "")}


def forget_waiting(vault: Vault) -> None:
    """Drop events that were to be committed later: what they are about is taken back."""
    for number, _ in vault.operations.list_waiting():
        vault.operations.drop_waiting(number)


def begin_vault(clone: Clone, settings: VaultSettings, check: Check | None) -> None:
    """Give a remote without a commit its first one: what `init` lays down.

    Raises:
        ForbiddenError: the remote does not take it, or `check`; with the words of either.
        VaultError: it has commits, or is not reached.
    """
    clone.drop()
    clone.state.mkdir(parents=True)
    try:
        history = make_clone(clone.root, clone.remote, clone.source.branch or "main", clone.state)
        listed = clone.ask(history)
        if listed.trouble or listed.branches:
            raise VaultError(listed.told or "its remote has commits")
        vault = open_vault(clone.root, **settings)
        try:
            add_missing(vault)
            event = Event("init", "init: new vault", vault.author, intent="observe")
            made = commit_event(vault, event).commit
            ref = f"refs/heads/{clone.source.branch or listed.head or 'main'}"
            if check is not None:
                check(history.git_folder, ref, "", made)
            done = push(vault.history, clone.remote, [f"{made}:{ref}"])
        finally:
            vault.close()
        fate, told = next(iter(done.refs.values()), (None, done.told))
        if fate not in {Fate.DONE, Fate.CURRENT}:
            raise ForbiddenError(f"not written, the vault's remote does not take it: {told}")
    finally:
        shutil.rmtree(clone.root, ignore_errors=True)
