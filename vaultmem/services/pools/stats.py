"""What a vault of a pool holds and takes, and how far its remote was followed."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from vaultmem.core.finding.query import NoteFilter
from vaultmem.errors import VaultError, name_failure
from vaultmem.services.finding.eligible import choose_sections
from vaultmem.services.pools.clone import Clone
from vaultmem.vault import Vault


class VaultStats(NamedTuple):
    """How a vault of a pool is: what it holds, bytes on disk, and how far its remote was followed.

    `age` is in seconds since its remote was last heard of, -1 if never. `problem` says why it was
    not since, or why there is no clone.
    """

    notes: int = 0
    sections: int = 0
    tokens: int = 0
    clone_bytes: int = 0
    index_bytes: int = 0
    commit: str = ""
    age: float = -1.0
    problem: str = ""


def count_vault(clone: Clone, open_vault: Callable[[], Vault]) -> VaultStats:
    """Return how a vault is that has been cloned; it is opened for that, and not followed."""
    record = clone.record
    if record is None:
        return VaultStats(problem="not cloned yet")
    problem, notes, tokens, sections = record.problem, 0, 0, 0
    try:
        vault = open_vault()
        notes, tokens = vault.view.totals()
        sections = choose_sections(vault, vault.index.snapshot(), NoteFilter()).size
    except (VaultError, OSError) as error:
        problem = problem or str(name_failure(error))
    return VaultStats(
        notes=notes,
        sections=sections,
        tokens=tokens,
        clone_bytes=weigh_folder(clone.root),
        index_bytes=weigh_folder(clone.state),
        commit=record.commit,
        age=max(0.0, clone.now() - record.contacted),
        problem=problem,
    )


def weigh_folder(folder: Path) -> int:
    """Return the bytes that a folder takes on the disk."""
    size = 0
    for place, _, files in os.walk(folder):
        for file in files:
            with contextlib.suppress(OSError):
                size += os.lstat(os.path.join(place, file)).st_blocks * 512
    return size
