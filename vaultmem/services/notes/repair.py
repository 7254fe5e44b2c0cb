"""Repair the links that lead nowhere since files were renamed or moved in the folder."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import NamedTuple

from vaultmem.core.delta.commit_message import name_files
from vaultmem.core.links.rewrite import LinkEdit, apply_edits, plan_repairs
from vaultmem.errors import NoteNotFoundError, RefusedError
from vaultmem.services.finding.links import LinkGraph
from vaultmem.services.history.present import find_uncommitted
from vaultmem.services.lifecycle.transition import refuse_branch
from vaultmem.services.notes.rename import read_text
from vaultmem.services.reading.read_notes import read_note
from vaultmem.services.reading.renames import follow_renames, read_renames
from vaultmem.services.writing.change import Change
from vaultmem.services.writing.commit import CommitReport
from vaultmem.services.writing.ownership import Pending, read_pending
from vaultmem.services.writing.parts import Event
from vaultmem.services.writing.write import write
from vaultmem.vault import Vault

#: What repairs the links; status and doctor name it.
HOW_TO_REPAIR = "`vaultmem links --repair` repairs them"


class Repair(NamedTuple):
    """The link edits by note, the notes that lose their trust by it, and the commits."""

    edits: Mapping[str, list[LinkEdit]] = MappingProxyType({})
    untrusted: tuple[str, ...] = ()
    report: CommitReport = CommitReport()

    @property
    def links(self) -> int:
        """The number of links."""
        return sum(map(len, self.edits.values()))


def plan_repair(vault: Vault, pending: Pending | None = None) -> Repair:
    """Return which links would be changed: they lead nowhere, and led to a file that was moved.

    Renames of all commits and of the folder (`pending`) are known. The vault must be in sync.

    Raises:
        RefusedError: the vault's ref is a branch that is not checked out.
    """
    refuse_branch(vault)
    if vault.head() is None:
        return Repair()
    moved = find_uncommitted(vault, pending or read_pending(vault))
    moved = {**read_renames(vault), **moved}
    edits = _find_edits(vault, moved) if moved else {}
    changed = {path for path, made in edits.items() if any(not e.link.property for e in made)}
    return Repair(edits, tuple(sorted(vault.trust.notes().keys() & changed)))


def repair_links(vault: Vault) -> Repair:
    """Change these links, in one commit; nothing else of the notes is changed.

    Raises:
        ConflictError, RefusedError, PendingError: as for `write`.
    """

    def plan(change: Change) -> Repair:
        repair = plan_repair(vault)
        for path, edits in repair.edits.items():
            note = change.read(PurePosixPath(path))
            data = apply_edits(read_text(vault, note), edits, path).encode()
            change.replace(note.path, data, note.blob)
        if repair.edits:
            subject = name_files("repair links", repair.edits)
            change.commit(Event("write", subject, vault.author, intent="refine"))
        return repair

    repair, report = write(vault, plan)
    return repair._replace(report=report)


def _find_edits(vault: Vault, moved: Mapping[str, str]) -> dict[str, list[LinkEdit]]:
    graph = LinkGraph(vault)
    found = {old: follow_renames(old, graph.files, moved) for old in moved.keys() - graph.files}
    present = {old: new for old, new in found.items() if new in graph.files}
    if not present:
        return {}
    before, former = graph.names_before(present), {new: old for old, new in present.items()}
    edits = {}
    for document, links in graph.all_links():
        path = graph.paths[document]
        place = (former.get(path, path), path)
        if not any(
            graph.names.find(link, path) is None and before.find(link, place[0]) for link in links
        ):
            continue
        with contextlib.suppress(NoteNotFoundError, RefusedError):  # It cannot be changed.
            text = read_text(vault, read_note(vault, PurePosixPath(path)))
            if planned := plan_repairs(text, place, before, graph.names, present):
                edits[path] = planned
    return dict(sorted(edits.items()))
