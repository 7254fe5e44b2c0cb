"""How often each note surfaced, on this machine and on all others, through renames.

Another person's machines may count what they like, so of each other person one use of a note
counts, and when the last was.
"""

from __future__ import annotations

from collections.abc import Iterable

from vaultmem.services.reading.renames import follow_renames, read_renames
from vaultmem.storage.machines import Machine, read_machines
from vaultmem.storage.signals import SignalStore, Surfaced
from vaultmem.vault import Vault


def list_machines(vault: Vault, *, with_usage: bool = True) -> list[Machine]:
    """Return what other machines wrote of this vault, none outside of git."""
    if vault.head() is None:
        return []
    return read_machines(vault.history, vault.state, with_usage=with_usage)


def read_usage(vault: Vault) -> dict[str, Surfaced]:
    """Return all notes that ever surfaced on any machine, by path; some may be gone."""
    now = vault.now()
    own = list(read_own_usage(vault))
    others: dict[str, list[Surfaced]] = {}
    for machine in list_machines(vault):
        rows = [each._replace(last=min(each.last, now)) for each in machine.usage.values()]
        if machine.is_mine:
            own += rows
        else:
            others.setdefault(machine.owner.email.casefold(), []).extend(rows)
    for rows in others.values():
        own += [each._replace(times=1, best=0.0) for each in add_up(vault, rows).values()]
    return add_up(vault, own)


def read_own_usage(vault: Vault) -> Iterable[Surfaced]:
    """Return all notes that ever surfaced on this machine."""
    return SignalStore(vault.state, vault.state_folder).surfaced().values()


def add_up(vault: Vault, rows: Iterable[Surfaced]) -> dict[str, Surfaced]:
    """Return the sums by the paths that notes have now."""
    listed = list(rows)
    here = set(vault.manifest.paths())
    moved = read_renames(vault) if any(each.path not in here for each in listed) else {}
    found: dict[str, Surfaced] = {}
    for each in listed:
        path = follow_renames(each.path, here, moved)
        known = found.get(path, Surfaced(path, 0, 0.0, 0.0))
        best = max(each.best, known.best)
        found[path] = Surfaced(path, each.times + known.times, max(each.last, known.last), best)
    return found
