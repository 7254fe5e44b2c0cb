"""How a vault is used on each machine: read, and written to this machine's ref for `sync` to push.

A machine shares when each note was last used, which sessions are open, who wrote what plain git
committed, and lists of trusted notes that were signed. Queries, receipts, turns and counts stay.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

from vaultmem.core.text.blob import blob_id
from vaultmem.errors import LockTimeoutError, RefusedError, VaultError
from vaultmem.services.search.trusted import verify_signed
from vaultmem.services.views.attribution import collect_attribution, import_attribution
from vaultmem.services.views.follow_renames import follow_renames, read_renames
from vaultmem.storage.git.machine_refs import (
    MACHINE,
    REFS,
    SESSIONS,
    Machine,
    MachineRef,
    drop_ref,
    find_own,
    format_machine,
    format_signed,
    format_times,
    format_usage,
    get_owner_name,
    is_shared,
    list_files,
    list_refs,
    read_machines,
    read_owner,
    rename_own,
    write_files,
)
from vaultmem.storage.lock import hold_lock
from vaultmem.storage.query_log import NoteUsage, SignalStore
from vaultmem.storage.session_table import ActiveSessions, Transcripts
from vaultmem.vault import Store, Vault


def read_usage(vault: Vault) -> dict[str, NoteUsage]:
    """Return all notes that ever surfaced, by path; some may be gone.

    The last use is that on any machine; counts and scores are this machine's.
    """
    now = vault.now()
    own = SignalStore(vault.state, vault.state_folder).surfaced().values()
    others = (
        NoteUsage(path, 0, min(at, now), 0.0)
        for machine in list_machines(vault, with_usage=True)
        for path, at in machine.usage.items()
    )
    return _add_up(vault, [*own, *others])


def list_machines(vault: Vault, *, with_usage: bool = False) -> list[Machine]:
    """Return what other machines wrote of this vault, none outside of git."""
    if vault.head() is None:
        return []
    return read_machines(vault.history, vault.state, with_usage=with_usage)


def publish(vault: Vault) -> str | None:
    """Write how the vault is used here to the machine's ref, if it changed; return its full name.

    The vault must be in sync. Nothing is written, and None returned, where `share_usage` is
    off or the vault is in no git.
    """
    if not vault.config.share_usage or vault.head() is None:
        return None
    history = vault.history
    with contextlib.suppress(
        LockTimeoutError
    ):  # What was noted down last is published the next time.
        SignalStore(vault.state, vault.state_folder).fold(vault.view.totals()[1], vault.wait)
    own, owner = find_own(history, vault.state), get_owner_name(history)
    published_files = list_files(history, own.commit)
    # A commit's files and its author's name are in the past of all that follow it.
    is_anew = bool(own.commit) and (
        read_owner(history, own.commit) != owner or not all(map(is_shared, published_files))
    )
    published_files = {} if is_anew else published_files
    files = {
        MACHINE: format_machine(history),
        SESSIONS: format_times(_find_open_sessions(vault)),
        **format_usage(_read_last_uses(vault)),
        **collect_attribution(vault),
        **format_signed(each for each in vault.store.signed_trust.lists() if each.signer),
    }
    changes: dict[str, bytes | None] = dict.fromkeys(published_files.keys() - files.keys())
    changes |= {
        path: data for path, data in files.items() if blob_id(data) != published_files.get(path)
    }
    if changes:
        own = write_files(history, own, changes, owner, int(vault.now()), is_anew)
    return own.name


def evidence_refspecs(vault: Vault) -> tuple[str, ...]:
    """Return the refspecs that fetch other machines' refs; none where they are not shared.

    A ref of theirs is what its machine last made of it, and none here is ever lost by that.
    """
    if not vault.config.share_usage:
        return ()
    own = find_own(vault.history, vault.state).machine
    return (f"+{REFS}*:{REFS}*", f"^{REFS}{own}.*")


def import_usage(vault: Vault) -> None:
    """Make what was fetched of other machines count: their newest refs, and what they signed."""
    newest: dict[str, MachineRef] = {}
    for ref in list_refs(vault.history):  # One with a higher number replaces the one before.
        if ref.machine in newest:
            drop_ref(vault.history, newest[ref.machine])
        newest[ref.machine] = ref
    with contextlib.suppress(VaultError):  # It is done with the next sync.
        import_attribution(vault, list_machines(vault))
    with contextlib.suppress(VaultError):  # Then what they signed does not count.
        verify_signed(vault)


def begin_anew(vault: Vault) -> None:
    """Give this machine another id, because another one writes under its own.

    That is so where the user's folders were copied to a second machine, or put back from a backup.
    """
    own = find_own(vault.history, vault.state)
    rename_own(vault.state)
    if own.commit:
        drop_ref(vault.history, own)


def store_data(vault: Vault, keeps_here: bool) -> str:
    """Let this copied vault keep the counts and receipts, or the vault that it was copied from.

    This vault keeps them if `keeps_here` is true. The other one gets a new id with its next write.
    Return the path of the one that keeps them.

    Raises:
        RefusedError: the vault is not a copy.
        OSError: the disk did not accept it.
    """
    vault_id, source = vault.store.id.id, vault.store.id.copied_from
    if not source:
        raise RefusedError(f"{vault.root}: not a copy of another vault on this machine")
    with vault.lock():
        if not keeps_here:
            vault.store.renew_id()
            return source
        other = Store(Path(source), vault.folders)
        with contextlib.closing(other), hold_lock(other.state_folder / "lock"):
            signals = SignalStore(vault.state, vault.state_folder)
            signals.move_from(SignalStore(other.state, other.state_folder))
            vault.store.receipts.move_from(other.receipts)
            vault.store.artifacts.move_from(other.artifacts)
            other.renew_id()
            vault.store.accept_id(vault_id)
    return str(vault.root)


def _find_open_sessions(vault: Vault) -> dict[str, float]:
    """Return when each session that is open here was last seen, in seconds since the epoch."""
    now = vault.now()
    turn_times = Transcripts(vault.root, 0).last_added()
    accounts = SignalStore(vault.state, vault.state_folder).accounts()
    # The latest account is the first of a session.
    call_times = {each.session: each.last for each in reversed(accounts)}
    return {
        each.id: max(each.at, call_times.get(each.id, 0.0), min(turn_times.get(each.id, 0.0), now))
        for each in ActiveSessions(vault.state_folder).all()
        if not each.recovered
    }


def _read_last_uses(vault: Vault) -> dict[str, float]:
    """Return when each note that is here was last used on this machine, by path."""
    own = _add_up(vault, SignalStore(vault.state, vault.state_folder).surfaced().values())
    return {path: own[path].last for path in vault.manifest.paths() if path in own}


def _add_up(vault: Vault, rows: Iterable[NoteUsage]) -> dict[str, NoteUsage]:
    """Return the sums by the paths that notes have now."""
    usage_rows = list(rows)
    current_paths = set(vault.manifest.paths())
    renames = (
        read_renames(vault) if any(each.path not in current_paths for each in usage_rows) else {}
    )
    sums: dict[str, NoteUsage] = {}
    for each in usage_rows:
        path = follow_renames(each.path, current_paths, renames)
        total = sums.get(path, NoteUsage(path, 0, 0.0, 0.0))
        sums[path] = NoteUsage(
            path,
            each.times + total.times,
            max(each.last, total.last),
            max(each.best, total.best),
            each.good_sessions + total.good_sessions,
            each.bad_sessions + total.bad_sessions,
            each.passed_assertions + total.passed_assertions,
            each.failed_assertions + total.failed_assertions,
        )
    return sums
