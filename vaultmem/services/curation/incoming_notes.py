"""Compare what came by a merge or a pull with what is known here, as `remember` does a new text."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial

from vaultmem.core.curation.proposal import ORDER, Proposal
from vaultmem.services.curation.curate import group_values, propose_merges, propose_pairs
from vaultmem.services.similarity.pairs import Pairs, compare_some, list_records
from vaultmem.storage.arrivals import keep_found, read_found, read_waiting
from vaultmem.vault import Vault

#: Notes that are compared before the clock is looked at.
_BATCH = 4

#: What is kept to be decided; then no more is compared.
_MOST = 500

_FROM = " arrived from "

#: Seconds for which a command compares that does something else, and one that is about it.
BESIDE, WHOLE = 1.0, 20.0


def take_in(vault: Vault, seconds: float) -> tuple[Proposal, ...]:
    """Compare notes that have come, for so long; return what is to be decided of all that came.

    The vault must be in sync. What is not done within that time waits for the next call. A note of
    which something was found, and that has changed since, is compared anew.
    """
    end = time.monotonic() + seconds
    waiting = _find_changed(vault) | read_waiting(vault.state)
    paths = list(waiting)
    for start in range(0, len(paths), _BATCH):
        if (start and time.monotonic() > end) or len(read_found(vault.state)) >= _MOST:
            break
        batch = paths[start : start + _BATCH]
        keep_found(vault.state, batch, partial(_join, vault, _compare(vault, batch, waiting)))
    found = list_arrived(vault)
    if len(found) < len(read_found(vault.state)):
        keep_found(vault.state, (), partial(_join, vault, ()))
    return group_values(vault, found)


def _compare(vault: Vault, paths: Sequence[str], senders: Mapping[str, str]) -> list[Proposal]:
    """Return what is to be decided of these notes and others, with who sent them."""
    pairs = compare_some(vault, paths)
    merges = list(propose_merges(vault, pairs, is_machine=False))
    merged = {frozenset((each.path, each.into)) for each in merges}
    left = [each for each in pairs.same if each.names not in merged]  # Not for this mover to merge.
    known = {each.names for each in pairs.contradicting} | merged
    near = {each.names: each for each in (*left, *pairs.near) if each.names not in known}
    pairs = Pairs((), pairs.contradicting, tuple(near.values()))
    dates = {each.path: (each.written, each.path) for each in list_records(vault, pairs)}
    found = [*merges, *propose_pairs(pairs, dates)]
    return [each._replace(evidence=(*_tell(each, senders), *each.evidence)) for each in found]


def _tell(proposal: Proposal, senders: Mapping[str, str]) -> list[str]:
    paths = (proposal.path, proposal.into)
    return [f"{path}{_FROM}{who}" for path in paths if (who := senders.get(path))]


def _join(vault: Vault, fresh: Sequence[Proposal], known: Sequence[Proposal]) -> list[Proposal]:
    """Return what is known and holds still, and what is new."""
    blobs = _read_blobs(vault, known) if known else {}
    kept = {each.id: each for each in known if _holds(each, blobs)}
    return list(({each.id: each for each in fresh} | kept).values())


def keep_current(vault: Vault, found: Sequence[Proposal]) -> list[Proposal]:
    """Return the proposals whose notes are as they were when they were made."""
    blobs = _read_blobs(vault, found) if found else {}
    return [each for each in found if _holds(each, blobs)]


def list_arrived(vault: Vault) -> tuple[Proposal, ...]:
    """Return what was found of notes that came, and is to be decided still."""
    held = keep_current(vault, read_found(vault.state))
    return tuple(sorted(held, key=lambda each: (ORDER.index(each.action), each.path, each.into)))


def _holds(proposal: Proposal, blobs: Mapping[str, str]) -> bool:
    now = (blobs.get(proposal.path), blobs.get(proposal.into))
    return now == (proposal.blob, proposal.into_blob)


def _read_blobs(vault: Vault, found: Sequence[Proposal]) -> dict[str, str]:
    files = vault.manifest.files(list({path for each in found for path in (each.path, each.into)}))
    return {path: file.blob for path, file in files.items()}


def _find_changed(vault: Vault) -> dict[str, str]:
    """Return the notes of what does not hold as it was found: by path, who sent them."""
    found = read_found(vault.state)
    blobs = _read_blobs(vault, found) if found else {}
    changed: dict[str, str] = {}
    for each in found:
        if not _holds(each, blobs):
            senders = dict(line.split(_FROM, 1) for line in each.evidence if _FROM in line)
            paths = (path for path in (each.path, each.into) if path in blobs)
            changed |= {path: senders.get(path, "") for path in paths}
    return changed
