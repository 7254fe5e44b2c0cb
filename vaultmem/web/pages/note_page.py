"""Pages of notes: one note with its sidebar, and the list of notes."""

from __future__ import annotations

import mimetypes
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import groupby
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from vaultmem.core.lifecycle import NoteState
from vaultmem.core.notes.note import Note
from vaultmem.core.notes.record import NoteRecord, has_tag
from vaultmem.core.text.paths import parse_note_path
from vaultmem.errors import NoteNotFoundError, RefusedError, VaultError
from vaultmem.services.history.blame import BlamedLine, Trace
from vaultmem.services.packs.receipts import ShownSections
from vaultmem.vault import Vault
from vaultmem.web.markdown.html import Rendered, render_note
from vaultmem.web.page_requests import PageFrame, answers, read, read_page, read_path
from vaultmem.web.rendering import FILES, PICTURES, build_link_context, render_page

#: Versions in the list beside a note, and packs and recalls that showed it.
LAST_COMMITS = 8

#: Notes that link to one, of those that are listed.
MENTIONS = 200

#: Bytes of a picture at most.
MOST_BYTES = 16 * 1024 * 1024


class NotePage(NamedTuple):
    """A note, and its text as HTML; a quarantined one has none, and is shown as its characters."""

    note: Note
    record: NoteRecord | None
    is_trusted: bool
    rendered: Rendered | None


class LineAuthor(NamedTuple):
    """Lines (first and last, 1-based) that one author wrote in one commit."""

    first: int
    last: int
    line: BlamedLine


class NoteSidebar(NamedTuple):
    """What stands beside a note: its history, who links to it, and what showed it to whom.

    `problem` says why its history cannot be told.
    """

    written: list[LineAuthor]
    trace: Trace | None
    mentions: list[NoteRecord]
    shown: list[ShownSections]
    problem: str = ""


def collect_note(path: str, at: str, vault: Vault) -> NotePage:
    """Return a note by its path, or its name; its links lead to notes as they were at `at`."""
    from vaultmem.services.search.trusted import trusted_documents
    from vaultmem.services.views.read_notes import read_note, resolve_address

    found, _ = resolve_address(vault, path)
    note = read_note(vault, found)
    record = next(iter(vault.view.records("d.path = ?", (str(found),))), None)
    is_trusted = record is not None and record.document in trusted_documents(vault)
    is_shown = note.state != NoteState.QUARANTINED
    rendered = (
        render_note(note.text, str(found), build_link_context(at, vault)) if is_shown else None
    )
    return NotePage(note, record, is_trusted, rendered)


#: Returns the lines of a note with who wrote them, and its last versions, as it is or was `at`.
TellHistory = Callable[[str, str, Vault], tuple[Sequence[BlamedLine], Trace]]


def describe_history(path: str, at: str, vault: Vault) -> tuple[Sequence[BlamedLine], Trace]:
    """Return the history of one note."""
    from vaultmem.services.history.blame import blame_note, trace_note
    from vaultmem.services.history.commits import resolve_commit

    trace = trace_note(vault, path, LAST_COMMITS, resolve_commit(vault, at) if at else "")
    return blame_note(vault, path, at).lines, trace


def collect_rail(path: str, at: str, tell: TellHistory, vault: Vault) -> NoteSidebar:
    """Return who wrote a note's lines and when, what links to it, and what showed it to whom."""
    from vaultmem.services.packs.receipts import list_recent
    from vaultmem.services.search.link_walk import map_links
    from vaultmem.services.views.read_notes import resolve_address

    path = str(resolve_address(vault, path)[0])
    mentions = _name_notes(vault, map_links(vault).sources.get(path, ()))
    shown = list_recent(vault, LAST_COMMITS, path=path)
    try:
        lines, trace = tell(path, at, vault)
    except VaultError as error:
        return NoteSidebar([], None, mentions, shown, str(error))
    return NoteSidebar(join_lines(lines), trace, mentions, shown)


def join_lines(blamed: Iterable[BlamedLine]) -> list[LineAuthor]:
    """Return neighbouring lines of one origin as one, empty ones left out at both ends."""
    runs = []
    for _, group in groupby(blamed, lambda line: (line.commit and line.commit.commit, line.who)):
        lines = [line for line in group if line.text.strip()]
        if lines:
            runs.append(LineAuthor(lines[0].number, lines[-1].number, lines[0]))
    return runs


def _name_notes(vault: Vault, paths: Sequence[str]) -> list[NoteRecord]:
    marks = ", ".join("?" * len(paths[:MENTIONS]))
    return vault.view.records(f"d.path IN ({marks})", paths[:MENTIONS])


@answers
async def show_note(request: Request) -> Response:
    """Show a note, with what stands beside it if that is asked for."""
    path = read_path(request, "/note/")
    at = request.query_params.get("at", "")
    frame, page = await read(request, partial(collect_note, path, at))
    is_whole = "rail" in request.query_params
    rail = (await _read_rail(request, path, at))[1] if is_whole else None
    return render_page(request, "note.html", vault=frame, page=page, rail=rail)


@answers
async def show_rail(request: Request) -> Response:
    """Show what stands beside a note; its page loads it behind the note."""
    path, at = read_path(request, "/rail/"), request.query_params.get("at", "")
    frame, rail = await _read_rail(request, path, at)
    return render_page(request, "rail.html", vault=frame, path=path, rail=rail)


async def _read_rail(request: Request, path: str, at: str) -> tuple[PageFrame, NoteSidebar]:
    tell: TellHistory = getattr(request.app.state, "describe_history", describe_history)
    return await read(request, partial(collect_rail, path, at, tell))


@answers
async def show_file(request: Request) -> Response:
    """Answer with a picture of the vault, which no browser takes for anything else."""
    _, (data, kind) = await read(request, partial(read_picture, read_path(request, "/file/")))
    policy = "default-src 'none'; style-src 'unsafe-inline'; sandbox"  # Drawings have styles.
    headers = {"Content-Security-Policy": policy}
    return Response(data, 200, headers, kind)


def read_picture(path: str, vault: Vault) -> tuple[bytes, str]:
    """Return a picture's bytes and kind, as the folder has it or the commit that is looked at.

    Raises:
        RefusedError: it is no picture, or lies outside of the vault.
        NoteNotFoundError: there is none.
    """
    from vaultmem.storage.files import read_file
    from vaultmem.storage.git.trees import find_entry

    inside = parse_note_path(path)
    kind = mimetypes.guess_type(inside.name)[0] or ""
    if kind not in PICTURES:
        raise RefusedError(f"{path}: only pictures are shown")
    if vault.view.is_work_tree:
        return read_file(vault.root, inside, MOST_BYTES), kind
    entry = find_entry(vault.history, vault.view.sources[0].commit, path)
    if entry is None:
        raise NoteNotFoundError(f"{path}: there is no such file")
    return vault.history.objects.read(entry.blob)[1], kind


# Notes by state, kind, tag, context and name, and how many there are of each.

#: Notes on a page, and values of a property that are offered: more where nobody can type one.
PAGE, _OFFERED, _OFFERED_IN_FILES = 100, 24, 500


class NoteListRequest(NamedTuple):
    """Which notes are listed; what is empty lets all through. `name` is a part of title or path."""

    state: str = ""
    kind: str = ""
    tag: str = ""
    context: str = ""
    name: str = ""

    def admits(self, record: NoteRecord) -> bool:
        """Tell whether a note is wanted."""
        return (
            self.state in ("", record.state)
            and self.kind in ("", record.kind)
            and (not self.tag or has_tag(record.tags, self.tag))
            and f"{record.context}/".startswith(f"{self.context}/" if self.context else "")
            and self.name.casefold() in f"{record.title}\n{record.path}".casefold()
        )


class FilterChoice(NamedTuple):
    """A property by which the list can be made shorter: its values, and how many have each."""

    name: str
    values: list[tuple[str, int]]


class NoteList(NamedTuple):
    """A page of notes, the last changed first, how many there are, and what else may be chosen."""

    notes: list[NoteRecord]
    total: int
    choices: list[FilterChoice]


def collect_notes(wanted: NoteListRequest, page: int, vault: Vault) -> NoteList:
    """Return one page (from 0) of the notes that are wanted."""
    found = list(filter(wanted.admits, vault.view.keep("notes by time", lambda: _sort(vault))))
    choices = [
        _offer("state", (record.state for record in found)),
        _offer("kind", (record.kind for record in found)),
        _offer("context", (record.context for record in found)),
        _offer("tag", (tag for record in found for tag in record.tags)),
    ]
    return NoteList(found[page * PAGE : (page + 1) * PAGE], len(found), choices)


def _sort(vault: Vault) -> list[NoteRecord]:
    return sorted(vault.view.records(), key=lambda record: (-record.changed, record.path))


def _offer(name: str, values: Iterable[str]) -> FilterChoice:
    counts = Counter(value for value in values if value)
    most = _OFFERED if FILES.get() is None else _OFFERED_IN_FILES
    return FilterChoice(name, counts.most_common(most))


@answers
async def show_notes(request: Request) -> Response:
    """Show a page of notes."""
    given = request.query_params
    wanted = NoteListRequest(
        **{name: given.get(name, "")[:500].strip("#/ ") for name in NoteListRequest._fields}
    )
    page = read_page(given)
    frame, listed = await read(request, partial(collect_notes, wanted, page))
    template = "note_rows.html" if "part" in given else "notes.html"
    return render_page(
        request, template, vault=frame, wanted=wanted, listed=listed, page=page, size=PAGE
    )
