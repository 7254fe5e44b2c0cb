"""One import: each item of each file through the comparison, and one commit at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from vaultmem.core.counting import count_things
from vaultmem.core.imports.item import Conversation, Item, Unread
from vaultmem.core.imports.kinds import KINDS, ImportKind
from vaultmem.core.suggest import ask_meant
from vaultmem.errors import NoteNotFoundError, RefusedError, naming_faults
from vaultmem.services.importing.sources import Source, find_sources, guess_place, read_source
from vaultmem.services.importing.take import (
    Imported,
    Outcome,
    Taken,
    list_imported,
    take_memory,
)
from vaultmem.services.importing.talks import take_conversation, take_transcript
from vaultmem.services.reading.look import find_branch
from vaultmem.services.sessions.edit_session import act_in
from vaultmem.services.writing.commit import UNCOMMITTED, CommitReport, commit_event
from vaultmem.services.writing.ownership import find_pending
from vaultmem.services.writing.parts import Event
from vaultmem.vault import Vault

#: Items of an outcome that a report names; all are counted.
MOST_NAMED = 1_000

#: What came of an import that a fault ended after some of it.
_SO_FAR = "what was imported before is safe on disk, and the same again goes on"


@dataclass
class ImportReport:
    """What an import did, or would do: of each file how many of each outcome, and which."""

    kind: str
    dry_run: bool
    counts: dict[str, Counter[Outcome]] = field(default_factory=dict)
    taken: list[Taken] = field(default_factory=list)
    turns: int = 0
    commits: CommitReport = field(default_factory=CommitReport)
    _named: Counter[Outcome] = field(default_factory=Counter)

    def add(self, source: str, taken: Taken) -> None:
        """Count an item, and name it unless there are many of its outcome."""
        self.counts.setdefault(source, Counter())[taken.outcome] += 1
        self._named[taken.outcome] += 1
        self.turns += taken.turns
        if self._named[taken.outcome] <= MOST_NAMED:
            self.taken.append(taken)

    def count(self, *outcomes: Outcome) -> int:
        """Return how many items of all files had one of these outcomes."""
        return sum(each[outcome] for each in self.counts.values() for outcome in outcomes)


def import_kind(
    vault: Vault,
    name: str,
    places: Sequence[str],
    *,
    dry_run: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> ImportReport:
    """Take in what files, folders and zips of a kind hold; only say what would be, if `dry_run`.

    Each item is durable by itself, and all of them one commit at the end. An import that ended
    before goes on where it was. The vault must be in sync.

    Raises:
        RefusedError: there is no such kind, a zip is damaged, or nothing could be read.
        NoteNotFoundError: a place does not exist, or has nothing of that kind.
        PendingError: all is there; the commit has to wait.
    """
    kind = find_kind(name)
    # It is in the name of whose memory it is: nobody else vouches.
    writer, report = act_in(vault, "", kind.agent), ImportReport(name, dry_run)
    before = len(vault.notices.written)
    with ExitStack() as archives:
        try:
            sources = list(find_sources(kind, places, archives))
        except NoteNotFoundError as error:
            raise NoteNotFoundError(f"{error}{_describe_guess(name, places)}") from None
        known = list_imported(writer, name)
        for source, item in _read_all(kind, sources, progress):
            done = _SO_FAR if len(vault.notices.written) > before else "nothing was written"
            with naming_faults(done):
                report.add(source, _take(writer, name, item, known, dry_run))
    if report.count(Outcome.UNREAD) == sum(report.count(o) for o in Outcome):
        _check_kind(name, places, report)
    if not dry_run:
        with naming_faults(UNCOMMITTED):
            report.commits = _commit(writer, name, {*known.paths, *vault.notices.written[before:]})
    return report


def find_kind(name: str) -> ImportKind:
    """Return the kind of a name.

    Raises:
        RefusedError: there is none.
    """
    if name not in KINDS:
        known = ("archive", *KINDS)
        near = ask_meant(name, known, f"; use one of {', '.join(known)}")
        raise RefusedError(f'import: "{name}" is not a kind of export{near}')
    return KINDS[name]


def _check_kind(name: str, places: Sequence[str], report: ImportReport) -> None:
    """Accept an export that is empty.

    Raises:
        RefusedError: nothing could be read, or it is no export of that kind.
    """
    looks = _describe_guess(name, places)
    if report.taken:
        raise RefusedError(f"import: {report.taken[0].item}: {report.taken[0].remark}{looks}")
    if looks:
        raise RefusedError(f"import: {places[0]}: not an export of {name}{looks}")


def _describe_guess(name: str, places: Sequence[str]) -> str:
    """Return which other kind places look like, and the command for it; "" if like none."""
    guessed = next(filter(None, map(guess_place, places)), name)
    return "" if guessed == name else f"; it looks like {guessed}: `vaultmem import {guessed} FILE`"


def _read_all(
    kind: ImportKind,
    sources: Sequence[Source | Unread],
    progress: Callable[[int, int], None],
) -> Iterable[tuple[str, Item | Path]]:
    total = sum(each.size for each in sources if isinstance(each, Source))
    done = 0
    for source in sources:
        if isinstance(source, Unread):
            yield source.where, source
            continue
        for item, at in _read_source(kind, source):
            yield source.name, item
            progress(min(done + at, total) // 1024, total // 1024 + 1)
        done += source.size
    progress(total // 1024 + 1, total // 1024 + 1)


def _read_source(kind: ImportKind, source: Source) -> Iterable[tuple[Item | Path, int]]:
    if kind.read_object or kind.read_file:
        return read_source(kind, source)
    unread = Unread(source.name, "inside a zip; unpack it first")
    return [(source.path or unread, source.size)]


def _take(vault: Vault, kind: str, item: Item | Path, known: Imported, dry_run: bool) -> Taken:
    if isinstance(item, Unread):
        return Taken(item.where, Outcome.UNREAD, "", item.reason)
    if isinstance(item, Path):
        return take_transcript(vault, item, dry_run)
    if isinstance(item, Conversation):
        return take_conversation(vault, kind, item, known.talks, dry_run)
    return take_memory(vault, kind, item, known, dry_run)


def _commit(vault: Vault, kind: str, written: set[str]) -> CommitReport:
    """Commit what this import wrote, and what one that was killed left."""
    if vault.head() is None or find_branch(vault):
        return CommitReport()
    pending = find_pending(vault)
    paths = tuple(path for path in pending.files if path in written)
    if not paths:
        return CommitReport()
    agents = {who.agent for path in paths if (who := pending.owners[path].author)}
    author = vault.author._replace(agent=agents.pop()) if len(agents) == 1 else vault.author
    subject = f"import: {kind}, {count_things(len(paths), 'note')}"
    event = Event("import", subject, author, intent="observe", only=paths)
    return commit_event(vault, event)
