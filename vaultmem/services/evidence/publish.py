"""Write how the vault is used on this machine to the machine's ref, for `sync` to push.

It is when each note was last used, which sessions are open, who wrote what plain git committed,
and lists of trusted notes that were signed. Queries, receipts, turns and counts stay here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from vaultmem.core.blob import blob_id
from vaultmem.errors import BusyError, VaultError
from vaultmem.services.evidence.signed import verify_signed
from vaultmem.services.evidence.usage import list_machines, read_last_uses
from vaultmem.services.reading.attribution import gather_attribution, take_attribution
from vaultmem.storage.git.machine_refs import (
    REFS,
    MachineRef,
    drop_ref,
    list_files,
    list_refs,
    read_owner,
    write_files,
)
from vaultmem.storage.machines import (
    MACHINE,
    SESSIONS,
    find_own,
    format_machine,
    format_signed,
    format_times,
    format_usage,
    is_shared,
    name_owner,
    rename_own,
)
from vaultmem.storage.session_table import ActiveSessions
from vaultmem.storage.signals import SignalStore
from vaultmem.storage.transcripts import Transcripts
from vaultmem.vault import Vault


def publish(vault: Vault) -> str | None:
    """Write how the vault is used here to the machine's ref, if it changed; return its full name.

    The vault must be in sync. Nothing is written, and None returned, where `share_evidence` is
    off or the vault is in no git.
    """
    if not vault.config.share_evidence or vault.head() is None:
        return None
    history = vault.history
    with contextlib.suppress(BusyError):  # What was noted down last is published the next time.
        SignalStore(vault.state, vault.state_folder).fold(vault.view.totals()[1], vault.patience)
    own, owner = find_own(history, vault.state), name_owner(history)
    known = list_files(history, own.commit)
    # A commit's files and its author's name are in the past of all that follow it.
    is_anew = bool(own.commit) and (
        read_owner(history, own.commit) != owner or not all(map(is_shared, known))
    )
    known = {} if is_anew else known
    files = dict(_gather(vault))
    changes: dict[str, bytes | None] = dict.fromkeys(known.keys() - files.keys())
    changes |= {path: data for path, data in files.items() if blob_id(data) != known.get(path)}
    if changes:
        own = write_files(history, own, changes, owner, int(vault.now()), is_anew)
    return own.name


def evidence_refspecs(vault: Vault) -> tuple[str, ...]:
    """Return the refspecs that fetch other machines' refs; none where they are not shared.

    A ref of theirs is what its machine last made of it, and none here is ever lost by that.
    """
    if not vault.config.share_evidence:
        return ()
    own = find_own(vault.history, vault.state).machine
    return (f"+{REFS}*:{REFS}*", f"^{REFS}{own}.*")


def begin_anew(vault: Vault) -> None:
    """Give this machine another id, because another one writes under its own.

    That is so where the user's folders were copied to a second machine, or put back from a backup.
    """
    own = find_own(vault.history, vault.state)
    rename_own(vault.state)
    if own.commit:
        drop_ref(vault.history, own)


def take_evidence(vault: Vault) -> None:
    """Make what was fetched of other machines count: their newest refs, and what they signed."""
    _drop_replaced(vault)
    with contextlib.suppress(VaultError):  # It is done with the next sync.
        take_attribution(vault, list_machines(vault))
    with contextlib.suppress(VaultError):  # Then what they signed does not count.
        verify_signed(vault)


def _drop_replaced(vault: Vault) -> None:
    """Remove refs here that their machine has replaced by one with a higher number."""
    newest: dict[str, MachineRef] = {}
    for ref in list_refs(vault.history):
        if ref.machine in newest:
            drop_ref(vault.history, newest[ref.machine])
        newest[ref.machine] = ref


def _gather(vault: Vault) -> Iterator[tuple[str, bytes]]:
    """Yield the files of this machine's ref."""
    yield MACHINE, format_machine(vault.history)
    yield SESSIONS, format_times(find_open_sessions(vault))
    yield from format_usage(read_last_uses(vault)).items()
    yield from gather_attribution(vault).items()
    yield from format_signed(each for each in vault.signed_trust.lists() if each.signer).items()


def find_open_sessions(vault: Vault) -> dict[str, float]:
    """Return when each session that is open here was last seen, in seconds since the epoch."""
    now = vault.now()
    said = Transcripts(vault.root, 0).last_added()
    accounts = SignalStore(vault.state, vault.state_folder).accounts()
    called = {each.session: each.last for each in reversed(accounts)}  # The latest stands first.
    return {
        each.id: max(each.at, called.get(each.id, 0.0), min(said.get(each.id, 0.0), now))
        for each in ActiveSessions(vault.state_folder).all()
        if not each.recovered
    }
