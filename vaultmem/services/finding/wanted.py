"""Find the notes that are to answer questions: by what people call them, wherever they moved."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from vaultmem.core.finding.questions import Question, split_notes
from vaultmem.core.links.names import Names, find_place
from vaultmem.errors import NoteNotFoundError
from vaultmem.services.finding.links import LinkGraph
from vaultmem.services.reading.titles import find_titled, tell_unknown
from vaultmem.vault import Vault

if TYPE_CHECKING:
    from vaultmem.core.notes.record import NoteRecord


class WantedNotes:
    """The notes of what is looked at, by path, name, alias or title; `now` is those of today.

    A note is followed when it was renamed since, or is to be in a commit.
    """

    def __init__(self, seen: Vault, now: WantedNotes | None = None) -> None:
        self._seen = seen
        self._now = now

    def find_all(self, question: Question) -> tuple[str, ...]:
        """Return the addresses (path or path#Heading) of the notes that a question names.

        Raises:
            NoteNotFoundError: there is no such note or heading, or several have that title.
        """
        found: dict[str, None] = {}
        for cell in question.notes:
            try:
                found[self._find(cell)] = None  # A title may have a comma in it.
            except NoteNotFoundError:
                names = split_notes(cell)
                if len(names) < 2:
                    raise
                found.update(dict.fromkeys(map(self._find, names)))
        return tuple(found)

    def follow(self, address: str) -> str:
        """Return the address that a note of today has here, "" if it is not there."""
        path, mark, heading = address.partition("#")
        if path in self._graph.documents:
            return address
        for old, new in self._moves:
            path = old if path == new else path
        return f"{path}{mark}{heading}" if path in self._graph.documents else ""

    def state_of(self, address: str) -> str:
        """Return the state of a note that is there."""
        record = self._records.get(address.partition("#")[0])
        return record.state if record else ""

    def _find(self, name: str) -> str:
        """Return the address that a name means."""
        written = name.removeprefix("[[").removesuffix("]]").partition("|")[0].strip()
        if path := self._find_path(written):
            return path
        named, _, heading = written.partition("#")
        path = self._find_path(named.strip()) if heading else ""
        if not path:
            raise NoteNotFoundError(tell_unknown(self._seen, named or written))
        sections = self._seen.view.sections_of([self._graph.documents[path]])
        place = find_place([each for _, each in sorted(sections.items())], heading, "")
        if place is None:
            raise NoteNotFoundError(f'{path} has no heading "{heading}"')
        return f"{path}#{place.heading}" if place.heading else path

    def _find_path(self, name: str) -> str:
        documents = self._graph.documents
        if (path := self._graph.names.resolve(name, "")) in documents:
            return path or ""
        titled = find_titled(self._seen, name)
        if len(titled) > 1:
            paths = ", ".join(titled[:3])
            raise NoteNotFoundError(f'"{name}" is the title of {paths}; name one by its path')
        return titled[0] if titled else self._find_renamed(name)

    def _find_renamed(self, name: str) -> str:
        """Return where a note is now that had this name before, or here what it is called now."""
        if self._now is not None:
            try:
                return self.follow(self._now._find(name))
            except NoteNotFoundError:
                return ""
        moved: dict[str, str] = {}
        for old, new in self._moves:
            moved.setdefault(old, moved.get(new, new))
        path = moved.get(Names(moved).resolve(name, "") or "", "")
        return path if path in self._graph.documents else ""

    @cached_property
    def _graph(self) -> LinkGraph:
        return LinkGraph(self._seen)

    @cached_property
    def _records(self) -> dict[str, NoteRecord]:
        return {record.path: record for record in self._seen.view.records()}

    @cached_property
    def _moves(self) -> Sequence[tuple[str, str]]:
        """The renames from here to now, or of all history up to now, newest first."""
        from vaultmem.storage.git.log import walk_renames

        now = self._now._seen if self._now is not None else self._seen
        last, here = _find_commit(now), _find_commit(self._seen)
        if not last:
            return []
        renames = walk_renames(now.history, f"{here}..{last}" if self._now is not None else last)
        committed = ((each.previous, each.path) for each in renames)
        return [*_list_uncommitted(now, last), *committed]


def _find_commit(vault: Vault) -> str:
    """Return the commit that is looked at, or that the folder is based on; "" if there is none."""
    if vault.view.sources:
        return vault.view.sources[0].commit
    head = vault.head()
    return head.commit if head is not None else ""


def _list_uncommitted(vault: Vault, commit: str) -> list[tuple[str, str]]:
    """Return old and new path of the notes that were renamed in the folder, their text kept."""
    if not vault.view.is_work_tree:
        return []
    tree, here = vault.history.tree(commit), vault.view.blobs()
    new = {blob: path for path, blob in here.items() if path not in tree}
    gone = ((path, entry.blob) for path, entry in tree.items() if path not in here)
    return [(path, new[blob]) for path, blob in gone if blob in new]
