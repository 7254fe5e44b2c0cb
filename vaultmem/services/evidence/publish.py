"""Write what this machine knows of the vault's use to its own ref, for `sync` to push.

Sessions are part of it: which were on this machine and when last. Receipts and turns, which have
words that the user or an agent wrote, are part of it only where no other person reads them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Container, Iterator, Mapping
from itertools import accumulate, islice

from vaultmem.core.blob import blob_id
from vaultmem.core.packs.receipt import parse_receipt, write_shared
from vaultmem.core.sessions.turns import Line, encode_line
from vaultmem.errors import BusyError, VaultError
from vaultmem.services.evidence.attribution import gather_attribution, take_attribution
from vaultmem.services.evidence.signed import verify_signed
from vaultmem.services.evidence.usage import add_up, read_own_usage
from vaultmem.services.evidence.words import may_send_words
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
    CALLS,
    MACHINE,
    PROMOTIONS,
    RECEIPTS,
    SESSIONS,
    TURNS,
    CallSums,
    SessionSign,
    find_own,
    format_calls,
    format_machine,
    format_promotions,
    format_sessions,
    format_signed,
    format_usage,
    has_words,
    is_name,
    name_owner,
    read_signs,
    rename_own,
)
from vaultmem.storage.session_table import ActiveSessions
from vaultmem.storage.signals import SignalStore
from vaultmem.storage.transcripts import Transcripts
from vaultmem.vault import Vault

#: Receipts that are published; older ones stay where they are.
MAX_RECEIPTS = 200


def publish(vault: Vault) -> str | None:
    """Write this machine's evidence to its ref, if it changed; return the ref's full name.

    The vault must be in sync. Nothing is written, and None returned, where `share_evidence` is
    off or the vault is in no git.
    """
    if not vault.config.share_evidence or vault.head() is None:
        return None
    history = vault.history
    with contextlib.suppress(BusyError):  # What was noted down last is published the next time.
        SignalStore(vault.state, vault.state_folder).fold(vault.view.totals()[1], vault.patience)
    own, owner = find_own(history, vault.state), name_owner(history)
    words = may_send_words(vault)
    # What a commit has, all that follow it have: words, and the name of whoever was the owner.
    is_anew = bool(own.commit) and (
        read_owner(history, own.commit) != owner or (has_words(history, own) and not words)
    )
    known = {} if is_anew else list_files(history, own.commit)
    files: dict[str, bytes | None] = dict(_gather(vault, own, words))
    if words:
        files |= _gather_receipts(vault, known)
    changes: dict[str, bytes | None] = dict.fromkeys(known.keys() - files.keys())
    for path, data in files.items():
        if data is not None and blob_id(data) != known.get(path):
            changes[path] = data
    if changes:
        own = write_files(history, own, changes, owner, int(vault.now()), is_anew)
    return own.name


def evidence_refspecs(vault: Vault) -> tuple[str, ...]:
    """Return what a fetch brings of other machines' evidence; nothing where it is not shared.

    A ref of theirs is what its machine last made of it, and none here is ever lost by that.
    """
    if not vault.config.share_evidence:
        return ()
    own = find_own(vault.history, vault.state).machine
    return (f"+{REFS}*:{REFS}*", f"^{REFS}{own}.*")


def begin_anew(vault: Vault) -> None:
    """Give this machine another id, because another one writes under its own.

    That is so where the user's folders were copied to a second machine, or put back from a backup.
    What was counted so far is in what the other one pushed.
    """
    own = find_own(vault.history, vault.state)
    rename_own(vault.state)
    store = SignalStore(vault.state, vault.state_folder)
    store.fold(vault.view.totals()[1])
    store.forget_sums()
    if own.commit:
        drop_ref(vault.history, own)


def take_evidence(vault: Vault) -> None:
    """Make what was fetched of other machines count: their newest refs, and what they signed."""
    _drop_replaced(vault)
    with contextlib.suppress(VaultError):  # It is done with the next sync.
        take_attribution(vault)
    with contextlib.suppress(VaultError):  # Then what they signed does not count.
        verify_signed(vault)


def _drop_replaced(vault: Vault) -> None:
    """Remove refs here that their machine has replaced by one with a higher number."""
    newest: dict[str, MachineRef] = {}
    for ref in list_refs(vault.history):
        if ref.machine in newest:
            drop_ref(vault.history, newest[ref.machine])
        newest[ref.machine] = ref


def _gather(vault: Vault, own: MachineRef, words: bool) -> Iterator[tuple[str, bytes]]:
    """Yield the files of this machine's evidence but for receipts; turns are among the words."""
    yield MACHINE, format_machine(vault.history, words)
    here = set(vault.manifest.paths())
    usage = add_up(vault, read_own_usage(vault)).values()
    yield from format_usage(each for each in usage if each.path in here).items()
    yield CALLS, format_calls(sum_calls(vault))
    promoted = {path: each for path, each in vault.trust.notes().items() if path in here}
    yield PROMOTIONS, format_promotions(promoted)
    signs = gather_signs(vault, read_signs(vault.history, own))
    yield SESSIONS, format_sessions(signs)
    yield from gather_attribution(vault).items()
    if words:
        yield from gather_turns(vault, signs).items()
    yield from format_signed(each for each in vault.signed_trust.lists() if each.signer).items()


def _gather_receipts(vault: Vault, known: Container[str]) -> dict[str, bytes | None]:
    """Return the newest receipts, None for each that is known and never changes."""
    files: dict[str, bytes | None] = {}
    for file in islice(vault.receipts.files(), MAX_RECEIPTS):
        path = f"{RECEIPTS}/{file.name}"
        if path in known:
            files[path] = None
            continue
        with contextlib.suppress(VaultError):  # Whoever looks for it here is told.
            text = write_shared(parse_receipt(vault.receipts.read(str(file))))
            if text is not None:
                files[path] = text.encode()
    return files


def sum_calls(vault: Vault) -> dict[str, CallSums]:
    """Return the sums of this machine's calls by kind."""
    sums: dict[str, CallSums] = {}
    for each in SignalStore(vault.state, vault.state_folder).accounts():
        known = sums.get(each.kind, CallSums())
        last = max(known.last, each.last)
        sums[each.kind] = CallSums(known.calls + each.calls, known.sent + each.sent, last)
    return sums


#: Sessions whose signs are published, those of which turns are, and lines and bytes of each.
_MAX_SIGNS = 200
_MAX_SHARED = 20
_MAX_LINES = 60
_MAX_BYTES = 64 * 1024


def gather_signs(vault: Vault, before: Mapping[str, SessionSign]) -> dict[str, SessionSign]:
    """Return the last sign of each session that was on this machine; `before` are those known."""
    now = vault.now()
    said = Transcripts(vault.root, 0).last_added()
    accounts = SignalStore(vault.state, vault.state_folder).accounts()
    called = {each.session: each.last for each in reversed(accounts)}  # The latest stands first.
    active = {record.id: record for record in ActiveSessions(vault.state_folder).all()}
    signs: dict[str, SessionSign] = {}
    for name in {*before, *said, *called, *active}:
        record = active.get(name)
        begun = record.at if record else 0.0
        known = before[name].at if name in before else 0.0
        at = max(known, begun, called.get(name, 0.0), min(said.get(name, 0.0), now))
        is_open = record is not None and not (record.recovered or record.is_gone)
        signs[name] = SessionSign(at, is_open)
    named = {name: sign for name, sign in signs.items() if is_name(name)}
    newest = sorted(named, key=lambda name: (-named[name].at, name))[:_MAX_SIGNS]
    return {name: named[name] for name in newest}


def gather_turns(vault: Vault, signs: Mapping[str, SessionSign]) -> dict[str, bytes]:
    """Return the last turns of the newest sessions that ended here, as files, if they are shared.

    They are only where the person trusts the vault, too: its settings come with it.
    """
    if not (vault.config.share_turns and vault.trust.is_trusted()):
        return {}
    ended = [name for name, sign in signs.items() if not sign.is_open]
    transcripts = Transcripts(vault.root, 0)
    files: dict[str, bytes] = {}
    for name in [each for each in ended if transcripts.exists(each)][:_MAX_SHARED]:
        with contextlib.suppress(VaultError):  # A link, or no file.
            last = islice(transcripts.read_back(name), _MAX_LINES)
            lines = [encode_line(line) for line in last if isinstance(line, Line)]
            files[f"{TURNS}/{name}.jsonl"] = b"".join(reversed(_fit(lines)))
    return files


def _fit(lines: list[bytes]) -> list[bytes]:
    """Return the first of the lines that are not too much together."""
    sizes = accumulate(map(len, lines))
    return [line for line, size in zip(lines, sizes, strict=True) if size <= _MAX_BYTES]
