"""Ask a remote for its branch; and what this machine knows of it without asking."""

from __future__ import annotations

from typing import NamedTuple

from vaultmem.errors import VaultError
from vaultmem.services.branching.proposals import PROPOSALS
from vaultmem.services.syncing.place import Place
from vaultmem.services.syncing.record import LastSync, name_address
from vaultmem.services.usage import evidence_refspecs, take_evidence
from vaultmem.storage.git.checkout import find_differences
from vaultmem.storage.git.remote import Fetched, Trouble, fetch
from vaultmem.vault import Vault


class Contact(NamedTuple):
    """Why a remote was not reached, "" if it was; and when a hub's token ends, as in `Fetched`."""

    told: str = ""
    token_ends: float = 0.0


def fetch_branch(vault: Vault, place: Place, known: LastSync, alone: bool = False) -> Contact:
    """Fetch the branch, what is proposed, and how other machines use the vault.

    With `alone`, the branch and nothing else.

    Raises:
        VaultError: it cannot be used at all.
    """
    spec = f"+refs/heads/{place.upstream}:{place.tracking}"
    prune = f"refs/remotes/{place.remote.name}/{PROPOSALS}"
    proposed = f"+refs/heads/{PROPOSALS}*:{prune}*"
    others = () if alone else (proposed, *evidence_refspecs(vault))
    wanted = [spec, *others]
    done = fetch(vault.history, place.remote, wanted, prune="" if alone else prune)
    token_ends = done.token_ends
    if is_absent := done.is_absent:  # Nothing was fetched then.
        done = fetch(vault.history, place.remote, others) if others else Fetched()
    if done.trouble:
        is_known = bool(known.agreed) and known.agreed == name_address(place.remote)
        return Contact(refuse_unless_offline(place, done.trouble, done.told, is_known))
    if is_absent and find_tip(vault, place.tracking):
        vault.history.git.run("update-ref", "-d", place.tracking)
    if not alone:
        take_evidence(vault)
    return Contact("", token_ends)


def find_tip(vault: Vault, ref: str) -> str:
    """Return the commit of a ref by its full name, empty if there is none."""
    command = ("show-ref", "--verify", "--hash", "--", ref)
    return vault.history.git.run(*command, check=False)


def count_waiting(vault: Vault, place: Place) -> int:
    """Return how many commits of the branch the remote did not have when it was last asked."""
    ours = find_tip(vault, f"refs/heads/{place.branch}")
    known = ("--not", f"--remotes={place.remote.name}")
    return int(vault.history.git.run("rev-list", "--count", ours, *known, "--")) if ours else 0


def check_related(vault: Vault, place: Place, joins: bool) -> None:
    """Make sure that both sides have a commit in common, or are to be joined.

    Raises:
        VaultError: they have none that is known here.
    """
    refs = vault.history.refs
    if joins or refs.merge_base(f"refs/heads/{place.branch}", place.tracking):
        return
    if refs.is_shallow():
        raise VaultError(
            f"not synced: this clone is shallow and has no commit that {place.name} has; "
            "`git fetch --unshallow` gets it"
        )
    raise VaultError(
        f"not synced: this vault and {place.name} were made apart, and have no commit in common; "
        "`vaultmem sync --join` makes one vault of both and keeps all notes"
    )


def refuse_outside(vault: Vault, place: Place, ours: str, theirs: str) -> None:
    """Leave to git what others changed in a larger repository that the vault is a folder of.

    Raises:
        VaultError: they changed files that are none of the vault's.
    """
    prefix, base = vault.history.prefix, vault.history.refs.merge_base(ours, theirs)
    changes = find_differences(vault.history, base, theirs) if prefix and base else ()
    outside = [path for path, _, _ in changes if not path.startswith(prefix)]
    if outside:
        raise VaultError(
            f"not synced: {place.name} has changes outside of the vault ({outside[0]} and so on); "
            "run `git pull --no-rebase --no-edit`, then `vaultmem sync`"
        )


def refuse_unless_offline(place: Place, trouble: Trouble, told: str, is_known: bool = True) -> str:
    """Return why a remote could not be reached.

    Raises:
        VaultError: it was reached, and does not let us, or is none.
    """
    remote = place.remote
    is_unplugged = trouble is Trouble.MISSING and remote.folder is not None and is_known
    if trouble is Trouble.OFFLINE or is_unplugged:
        return told
    where = remote.name if not place.is_new else remote.shown
    if trouble is Trouble.SIGN_IN:
        raise VaultError(
            f"{where}: does not let this machine in ({told}); try `git ls-remote {remote.shown}` "
            "until git needs to ask for nothing (an ssh key in the agent, or a credential helper)"
        )
    if trouble is Trouble.MISSING:
        raise VaultError(
            f"{where}: no repository is at {remote.shown} ({told}); make an empty one there "
            "(`git init --bare FOLDER`, or on the server's page), or correct the address"
        )
    raise VaultError(f"{where}: git could not talk with it: {told}")
