"""Find the files of an import, and run it."""

from __future__ import annotations

import codecs
import json
import os
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple

from vaultmem.core.imports.export_formats import KINDS, ImportKind, guess_kind, split_objects
from vaultmem.core.imports.item import (
    Conversation,
    Item,
    MarkdownFile,
    UnreadableItem,
    parse_markdown,
)
from vaultmem.core.notes.encoding import decode_text
from vaultmem.core.text.display import pluralize
from vaultmem.core.text.paths import is_hidden, is_note_name
from vaultmem.core.text.suggest import suggest_similar
from vaultmem.errors import NoteNotFoundError, RefusedError, wrapping_os_errors
from vaultmem.services.changes.commit import UNCOMMITTED, CommitReport, commit_event
from vaultmem.services.changes.commit_parts import Event
from vaultmem.services.changes.ownership import find_pending
from vaultmem.services.exchange.import_notes import (
    ImportedItem,
    ImportOutcome,
    ImportResult,
    import_conversation,
    import_memory,
    import_transcript,
    list_imported,
)
from vaultmem.services.sessions.edit_session import act_in
from vaultmem.services.views.open_view import find_branch
from vaultmem.vault import Vault

#: Most bytes of a markdown file, and most files of a zip.
_MAX_FILE, _MAX_MEMBERS = 32 * 1024 * 1024, 100_000

#: Files, and objects of each, that are used to guess a kind.
_MAX_KIND_SAMPLES = 20

#: A zip member that grows more than this is not text: it would fill memory or time.
_MAX_RATIO = 200


class ImportFile(NamedTuple):
    """A file to import: its name for messages, size (bytes), path parts and modification time.

    `inner_parts` are the parts of its path below the named place; `path`: None for a file in a zip.
    """

    name: str
    size: int
    parts: tuple[str, ...]
    inner_parts: tuple[str, ...]
    modified: datetime | None
    open: Callable[[], IO[bytes]]
    path: Path | None = None


def find_sources(
    kind: ImportKind, names: Sequence[str], archives: ExitStack
) -> Iterator[ImportFile | UnreadableItem]:
    """Yield the files of a kind: named files, and matching files in folders and zips.

    Links in folders are not followed, and zips are not unpacked to disk; `archives` closes them.

    Raises:
        NoteNotFoundError: there is no such file, or a folder or zip has none of that kind.
    """
    for name in names:
        place = Path(os.path.abspath(Path(name).expanduser()))
        if place.is_dir():
            files = _scan_import_folder(kind, place)
        elif not place.is_file():
            raise NoteNotFoundError(f"{place}: no such file or folder")
        elif zipfile.is_zipfile(place):
            files = _scan_zip(kind, place, archives)
        else:
            files = iter([_name_file(place, place.name)])
        first = next(files, None)
        if first is None:
            raise NoteNotFoundError(f"{place}: nothing of that kind is in it")
        yield first
        yield from files


def read_source(kind: ImportKind, source: ImportFile) -> Iterator[tuple[Item, int]]:
    """Yield a file's items with the bytes read so far; unreadable items are `UnreadableItem`."""
    try:
        with source.open() as stream:
            is_markdown = source.parts[-1].lower().endswith((".md", ".markdown"))
            items = (
                _read_markdown(kind.read_file, source, stream)
                if is_markdown and kind.read_file
                else _read_json(kind, source, stream)
            )
            for item in items:
                yield item, stream.tell()
    except (OSError, zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        yield UnreadableItem(source.name, f"cannot be read ({reason})"), source.size


def guess_place(place: str) -> str:
    """Return the kind of export that a file, folder or zip looks like, "" if unknown."""
    for kind in KINDS.values():
        if kind.read_file and not kind.read_object:
            continue
        with ExitStack() as archives, suppress(NoteNotFoundError, RefusedError, OSError):
            for source in islice(find_sources(kind, [place], archives), _MAX_KIND_SAMPLES):
                if isinstance(source, ImportFile) and (guess := _guess_source(source)):
                    return guess
    return ""


def _guess_source(source: ImportFile) -> str:
    with source.open() as stream, suppress(zipfile.BadZipFile, EOFError, RuntimeError):
        text = codecs.getreader("utf-8-sig")(stream, "replace")
        for item in islice(split_objects(text.read), _MAX_KIND_SAMPLES):
            value = _parse(item or "")
            if isinstance(value, dict) and (guess := guess_kind(value)):
                return guess
    return ""


def _read_markdown(
    read: Callable[[MarkdownFile], Iterator[Item]], source: ImportFile, stream: IO[bytes]
) -> Iterator[Item]:
    data = stream.read(_MAX_FILE + 1)
    if len(data) > _MAX_FILE:
        yield UnreadableItem(source.name, f"larger than {_MAX_FILE // 1024**2} MiB")
        return
    text = decode_text(data).text
    file = parse_markdown(source.parts, source.inner_parts, text, source.modified)
    yield from _guard(read(file), source.name)


def _read_json(kind: ImportKind, source: ImportFile, stream: IO[bytes]) -> Iterator[Item]:
    if kind.read_object is None:
        yield UnreadableItem(source.name, "not a file of markdown")
        return
    is_any, begin = False, ""
    text = codecs.getreader("utf-8-sig")(stream, "replace")

    def read(size: int) -> str:
        nonlocal begin
        part = text.read(size)
        begin = begin or part
        return part

    for number, item in enumerate(split_objects(read), 1):
        is_any = True
        item_name = f"{source.name}, item {number}"
        if item is None:
            yield UnreadableItem(item_name, "cut off, or larger than 64 MiB")
            continue
        value = _parse(item)
        if isinstance(value, dict):
            yield from _guard(kind.read_object(value), item_name)
        else:
            yield UnreadableItem(item_name, "no JSON object")
    if not is_any and "".join(begin.split()) != "[]":
        yield UnreadableItem(source.name, "no JSON in it")


def _guard(items: Iterator[Item], item_name: str) -> Iterator[Item]:
    """Yield items; yield an `UnreadableItem` if their format is unknown."""
    try:
        yield from items
    except (TypeError, ValueError, KeyError, AttributeError, RecursionError) as error:
        yield UnreadableItem(item_name, f"of an unknown form ({type(error).__name__})")


def _parse(text: str) -> Any:
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None


def _scan_import_folder(kind: ImportKind, place: Path) -> Iterator[ImportFile | UnreadableItem]:
    for folder, folders, files in os.walk(place):
        folders[:] = sorted(name for name in folders if not is_hidden(name))
        for name in sorted(files):
            file = Path(folder, name)
            display_name = f"{place.name}/{file.relative_to(place).as_posix()}"
            if (
                not is_hidden(name)
                and kind.files.search(f"/{display_name}")
                and not file.is_symlink()
            ):
                yield _name_file(file, display_name)


def _name_file(file: Path, display_name: str) -> ImportFile:
    below, status = PurePosixPath(display_name).parts, file.stat()
    return ImportFile(
        name=display_name,
        size=status.st_size,
        parts=file.parts[1:],
        inner_parts=below[1:] or below,
        modified=datetime.fromtimestamp(status.st_mtime, UTC),
        open=lambda: open(file, "rb"),
        path=file,
    )


def _scan_zip(
    kind: ImportKind, place: Path, archives: ExitStack
) -> Iterator[ImportFile | UnreadableItem]:
    try:
        archive = archives.enter_context(zipfile.ZipFile(place))
    except zipfile.BadZipFile as error:
        raise RefusedError(f"{place}: a damaged zip ({error}); download it again") from None
    members = [each for each in archive.infolist() if not each.is_dir()]
    if len(members) > _MAX_MEMBERS:
        raise RefusedError(f"{place}: more than {_MAX_MEMBERS:,} files in it")
    for member in members:
        parts = tuple(part for part in PurePosixPath(member.filename).parts if part not in "/..")
        display_name = "/".join((place.name, *parts))
        if any(map(is_hidden, parts)) or not kind.files.search(f"/{display_name}"):
            continue
        if member.file_size > max(member.compress_size, 64 * 1024) * _MAX_RATIO:
            yield UnreadableItem(display_name, "it grows too much when it is unpacked")
            continue
        yield _build_member_name(archive, member, display_name, parts)


def _build_member_name(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, display_name: str, parts: tuple[str, ...]
) -> ImportFile:
    try:
        modified: datetime | None = datetime(*member.date_time)
    except ValueError:
        modified = None
    path_parts = (display_name.split("/")[0], *parts)
    return ImportFile(
        display_name, member.file_size, path_parts, parts, modified, lambda: archive.open(member)
    )


# Run an import: compare each item of each file with the vault, and make one commit at the end.

#: Most items of an outcome that a report lists; all are counted.
MAX_LISTED_ITEMS = 1_000

#: The message if an error ended an import after some items.
_PARTIAL_IMPORT_TEXT = "what was imported before is safe on disk, and the same again goes on"


@dataclass
class ImportReport:
    """The outcomes of an import (or a dry run): counts for each file, and the items."""

    kind: str
    dry_run: bool
    counts: dict[str, Counter[ImportOutcome]] = field(default_factory=dict)
    items: list[ImportedItem] = field(default_factory=list)
    turns: int = 0
    commits: CommitReport = field(default_factory=CommitReport)
    _outcome_counts: Counter[ImportOutcome] = field(default_factory=Counter)

    def add(self, source: str, result: ImportedItem) -> None:
        """Count an item; list it unless its outcome has many."""
        self.counts.setdefault(source, Counter())[result.outcome] += 1
        self._outcome_counts[result.outcome] += 1
        self.turns += result.turns
        if self._outcome_counts[result.outcome] <= MAX_LISTED_ITEMS:
            self.items.append(result)

    def count(self, *outcomes: ImportOutcome) -> int:
        """Return the number of items with one of these outcomes."""
        return sum(each[outcome] for each in self.counts.values() for outcome in outcomes)


def import_kind(
    vault: Vault,
    name: str,
    places: Sequence[str],
    *,
    dry_run: bool = False,
    again: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> ImportReport:
    """Import the items of a kind in files, folders and zips; with `dry_run`, only report.

    With `again`, turns of sessions are imported again from their transcripts.

    Each item is durable by itself; one commit follows at the end. A repeated import continues an
    interrupted one. The vault must be in sync.

    Raises:
        RefusedError: there is no such kind, a zip is damaged, or nothing could be read.
        NoteNotFoundError: a place does not exist, or has nothing of that kind.
        PendingError: everything is imported; the commit has to wait.
    """
    kind = find_kind(name)
    # The agent of the export is the author, so the notes are not trusted.
    writer, report = act_in(vault, "", kind.agent), ImportReport(name, dry_run)
    old_count = len(vault.notices.written)
    with ExitStack() as archives:
        try:
            sources = list(find_sources(kind, places, archives))
        except NoteNotFoundError as error:
            raise NoteNotFoundError(f"{error}{_describe_guess(name, places)}") from None
        imports = list_imported(writer, name)
        for source, item in _read_all(kind, sources, progress):
            message = (
                _PARTIAL_IMPORT_TEXT
                if len(vault.notices.written) > old_count
                else "nothing was written"
            )
            with wrapping_os_errors(message):
                result = (
                    import_transcript(writer, item, dry_run, again)
                    if isinstance(item, Path)
                    else _take(writer, name, item, imports, dry_run)
                )
                report.add(source, result)
    if report.count(ImportOutcome.UNREAD) == sum(report.count(o) for o in ImportOutcome):
        _check_kind(name, places, report)
    if not dry_run:
        with wrapping_os_errors(UNCOMMITTED):
            report.commits = _commit(
                writer, name, {*imports.paths, *vault.notices.written[old_count:]}
            )
    return report


def find_kind(name: str) -> ImportKind:
    """Return the kind of a name.

    Raises:
        RefusedError: there is none.
    """
    if name not in KINDS:
        names = ("archive", *KINDS)
        suggestion = suggest_similar(name, names, f"; use one of {', '.join(names)}")
        raise RefusedError(f'import: "{name}" is not a kind of export{suggestion}')
    return KINDS[name]


def _check_kind(name: str, places: Sequence[str], report: ImportReport) -> None:
    """Check an import without a readable item; an empty export is accepted.

    Raises:
        RefusedError: nothing could be read, or it is not an export of that kind.
    """
    hint = _describe_guess(name, places)
    if report.items:
        raise RefusedError(f"import: {report.items[0].item}: {report.items[0].remark}{hint}")
    if hint:
        raise RefusedError(f"import: {places[0]}: not an export of {name}{hint}")


def _describe_guess(name: str, places: Sequence[str]) -> str:
    """Return a hint with the kind that places look like, "" if it is `name` or unknown."""
    guess = next(filter(None, map(guess_place, places)), name)
    return "" if guess == name else f"; it looks like {guess}: `vaultmem import {guess} FILE`"


def _read_all(
    kind: ImportKind,
    sources: Sequence[ImportFile | UnreadableItem],
    progress: Callable[[int, int], None],
) -> Iterable[tuple[str, Item | Path]]:
    total = sum(each.size for each in sources if isinstance(each, ImportFile))
    read_bytes = 0
    for source in sources:
        if isinstance(source, UnreadableItem):
            yield source.place, source
            continue
        for item, position in _read_source(kind, source):
            yield source.name, item
            progress(min(read_bytes + position, total) // 1024, total // 1024 + 1)
        read_bytes += source.size
    progress(total // 1024 + 1, total // 1024 + 1)


def _read_source(kind: ImportKind, source: ImportFile) -> Iterable[tuple[Item | Path, int]]:
    if kind.read_object or kind.read_file:
        return read_source(kind, source)
    unread = UnreadableItem(source.name, "inside a zip; unpack it first")
    return [(source.path or unread, source.size)]


def _take(
    vault: Vault, kind: str, item: Item, imports: ImportResult, dry_run: bool
) -> ImportedItem:
    if isinstance(item, UnreadableItem):
        return ImportedItem(item.place, ImportOutcome.UNREAD, "", item.reason)
    if isinstance(item, Conversation):
        return import_conversation(vault, kind, item, imports.conversations, dry_run)
    return import_memory(vault, kind, item, imports, dry_run)


def _commit(vault: Vault, kind: str, written_paths: set[str]) -> CommitReport:
    """Commit the files of this import, and of an earlier one that was killed."""
    if vault.head() is None or find_branch(vault):
        return CommitReport()
    pending = find_pending(vault)
    paths = tuple(path for path in pending.files if path in written_paths)
    if not paths:
        return CommitReport()
    agents = {file_author.agent for path in paths if (file_author := pending.owners[path].author)}
    author = vault.author._replace(agent=agents.pop()) if len(agents) == 1 else vault.author
    subject = f"import: {kind}, {pluralize(sum(map(is_note_name, paths)), 'note')}"
    event = Event("import", subject, author, intent="observe", only=paths)
    return commit_event(vault, event)
