"""Pages of notes: one note with its status and its sidebar, and the list of notes."""

from __future__ import annotations

import mimetypes
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import groupby
from typing import NamedTuple
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from vaultmem.core.lifecycle import CLOSED_STATES, NoteState
from vaultmem.core.notes.encoding import CANVAS
from vaultmem.core.notes.note import Note
from vaultmem.core.notes.record import QUARANTINED, NoteRecord, has_tag
from vaultmem.core.notes.sections import MASK_CHAR
from vaultmem.core.text.display import format_names
from vaultmem.core.text.paths import parse_note_path
from vaultmem.core.validity import EARLY
from vaultmem.errors import NoteNotFoundError, RefusedError, VaultError
from vaultmem.services.history.blame import BlamedLine, Trace
from vaultmem.services.packs.receipts import ShownSections
from vaultmem.vault import Vault
from vaultmem.web.markdown.html import RenderedNote, render_note
from vaultmem.web.page_requests import PageFrame, answers, read, read_page, read_path
from vaultmem.web.rendering import FILES, PICTURES, build_link_context, render_page

#: The most versions in the sidebar of a note, and packs and recalls that showed it.
LAST_COMMITS = 8

#: The most backlinks that are listed, and characters of their lines.
MENTIONS, _LINE = 200, 160

#: The most bytes of an image.
MAX_BYTES = 16 * 1024 * 1024

#: Days after which a line gets the next color: the newest lines have the strongest.
_AGE_LIMIT_DAYS = (1, 7, 30, 365)


class StatusRemark(NamedTuple):
    """A reason why a note does not count in full, with its author, time and related note.

    `other` is the note that replaces or contradicts it. `stated_by` is the property that states it,
    "" for none, and `commit` is the one that wrote the property. `page` is another page about it.
    `time` is in seconds since the epoch.
    """

    words: str
    other: NoteRecord | None = None
    detail: str = ""
    author: str = ""
    is_agent: bool = False
    time: float | None = None
    stated_by: str = ""
    commit: str = ""
    page: str = ""


class NotePage(NamedTuple):
    """A note, the reasons why it does not count in full, and its text as HTML.

    A quarantined note has no HTML, and is shown as plain text. `file` is its path on this machine,
    "" if it has none, and `obsidian` is the link that opens it in Obsidian.
    """

    note: Note
    record: NoteRecord | None
    is_trusted: bool
    rendered: RenderedNote | None
    status: list[StatusRemark]
    file: str
    obsidian: str
    projects: tuple[str, ...]


class LineAuthor(NamedTuple):
    """Lines (first and last, 1-based) that one author wrote in one commit.

    `age` is from 0, for the newest, to 4. `parent` is the parent commit, "" if it does not have the
    note.
    """

    first: int
    last: int
    line: BlamedLine
    age: int
    parent: str


class Mention(NamedTuple):
    """A note that links to another, and the line of its first link."""

    record: NoteRecord
    line: str


class NoteSidebar(NamedTuple):
    """The sidebar of a note: its history, its backlinks, and the packs and recalls that showed it.

    `problem` is why its history cannot be read.
    """

    line_authors: list[LineAuthor]
    trace: Trace | None
    mentions: list[Mention]
    shown_sections: list[ShownSections]
    problem: str = ""


#: Returns the lines of a note with their authors, `at` a time.
ReadLines = Callable[[str, str, Vault], Sequence[BlamedLine]]

#: Returns these lines, and the note's last versions.
ReadHistory = Callable[[str, str, Vault], tuple[Sequence[BlamedLine], Trace]]


def collect_note(path: str, at: str, read_lines: ReadLines, vault: Vault) -> NotePage:
    """Return a note by its path or name; its links lead to notes at `at`."""
    from vaultmem.services.search.trusted import trusted_documents
    from vaultmem.services.views.read_notes import read_note, resolve_address

    note_path, _ = resolve_address(vault, path)
    note = read_note(vault, note_path)
    record = next(iter(vault.view.records("d.path = ?", (str(note_path),))), None)
    is_trusted = record is not None and record.document in trusted_documents(vault)
    is_shown = note.state != NoteState.QUARANTINED
    rendered = (
        render_note(note.text, str(note_path), build_link_context(at, vault)) if is_shown else None
    )
    status = list(_describe_status(note, record, vault))
    if any(each.stated_by for each in status):
        status = _date_status(status, note, partial(read_lines, str(note_path), at, vault))
    is_file = vault.view.is_work_tree and FILES.get() is None
    file = os.fspath(vault.root / note_path) if is_file else ""
    obsidian = f"obsidian://open?path={quote(os.fsencode(file), safe='')}" if file else ""
    projects = _list_projects(vault) if is_file else ()
    return NotePage(note, record, is_trusted, rendered, status, file, obsidian, projects)


def _list_projects(vault: Vault) -> tuple[str, ...]:
    from vaultmem.services.projects.project_table import read_projects

    with suppress(VaultError):
        return tuple(read_projects(vault).names)
    return ()


# The status of a note: the reasons why it does not count in full.


def _describe_status(note: Note, record: NoteRecord | None, vault: Vault) -> Iterator[StatusRemark]:
    """Yield the reasons why a note does not count in full, the most important first."""
    from vaultmem.core.secrets.suspicious import PROPERTY, find_suspicious
    from vaultmem.services.search.valid_spans import describe_validity, span_of

    if note.problem:
        yield StatusRemark("Invalid", detail=note.problem)
    reason = note.frontmatter.get("state_reason")
    reason_text = str(reason.value) if reason else ""
    if note.state is NoteState.QUARANTINED:
        yield StatusRemark(f"{QUARANTINED.capitalize()}.", None, reason_text, stated_by="state")
    if note.frontmatter.get(PROPERTY):
        places = [f"line {each.line}: {each.rule}" for each in find_suspicious(note.text)]
        words = format_names(places, 3) if places else "not in the current text"
        yield StatusRemark("Suspicious text", None, words, stated_by=PROPERTY)
    is_replaced = False
    if record is not None:
        for each in _describe_relations(record, vault):
            is_whole = each.words == "Replaced by"
            yield each._replace(detail=reason_text if is_whole else "")
            is_replaced = is_replaced or is_whole
    if note.state in _EXPLAINED_STATES and not is_replaced:
        yield StatusRemark(note.state.capitalize(), None, reason_text, stated_by="state")
    if note.conflict:
        yield StatusRemark("In conflict", detail=note.conflict, page="/conflicts")
    if record is None:
        return
    sources = vault.view.sources
    day = span_of(sources[0].at if sources else vault.now())
    if not is_replaced and (label := describe_validity(vault, record, day)):
        limit = "valid_from" if label.startswith(EARLY) else "valid_until"
        yield StatusRemark(label[0].upper() + label[1:], stated_by=limit)
    if vault.view.is_work_tree:
        yield from _describe_anchors(record, vault)


#: States that the status shows with author and reason; quarantine has its own words.
_EXPLAINED_STATES = frozenset({NoteState.STALE, NoteState.ARCHIVED, NoteState.DEPRECATED})

#: Relations between two notes, the stronger first, with the label on the older note's page.
_RELATIONS = {"supersedes": "Replaced by", "supersedes_part": "Replaced in part by"}


def _describe_relations(record: NoteRecord, vault: Vault) -> Iterator[StatusRemark]:
    """Yield the notes that replace a note, or else the open ones that contradict it."""
    from vaultmem.services.search.annotations import find_contradictions

    words: dict[str, str] = {}
    order = [*_RELATIONS]
    relations = find_contradictions(vault, [record])
    for each in sorted(relations, key=lambda each: each.reason not in order):
        first, second = each.first[1], each.second[1]
        if each.reason not in _RELATIONS:
            words.setdefault(second if first == record.path else first, "Contradicted by")
        elif second == record.path:
            words.setdefault(first, _RELATIONS[each.reason])
        else:
            words.setdefault(second, "")
    others = {each.path: each for each in _name_notes(vault, [p for p in words if words[p]])}
    is_replaced = "Replaced by" in words.values()
    for path, label in words.items():
        other = others.get(path)
        is_opposed = label == "Contradicted by"
        if other is None or (is_opposed and (is_replaced or other.state in CLOSED_STATES)):
            continue
        author = other.agent or "a person"
        stated_by = "superseded_by" if label == "Replaced by" else ""
        yield StatusRemark(label, other, "", author, bool(other.agent), other.written, stated_by)


def _describe_anchors(record: NoteRecord, vault: Vault) -> Iterator[StatusRemark]:
    """Yield the cited code that changed, with the first commit that changed it."""
    from vaultmem.services.anchors.check import check_documents, cited_by, find_change
    from vaultmem.storage.link_table import LinkStore

    citations = LinkStore(vault.state).cites([record.document])
    checks = check_documents(vault, {record.document: record}, citations) if citations else {}
    for each in checks.get(record.document, ()):
        if each.is_different:
            commit = find_change(vault, cited_by(record, each.anchor))
            words = f"{each}, {commit.subject} ({commit.commit[:10]})" if commit else f"{each}"
            author, timestamp = (commit.author, commit.at) if commit else ("", None)
            yield StatusRemark("Cited code changed", None, words, author, False, timestamp)


def _date_status(
    status: Sequence[StatusRemark],
    note: Note,
    read_lines: Callable[[], Sequence[BlamedLine]],
) -> list[StatusRemark]:
    """Return remarks with author, time and commit of the property that each is from."""
    lines: dict[int, BlamedLine] = {}
    with suppress(VaultError):
        lines = {each.number: each for each in read_lines()} if not note.problem else {}
    offset = note.text.count("\n", 0, note.frontmatter.start) + 1
    remarks = []
    for each in status:
        prop = note.frontmatter.get(each.stated_by) if each.stated_by else None
        line = lines.get(offset + prop.first) if prop else None
        if line and (commit := line.commit):
            each = each._replace(author=line.author, is_agent=bool(line.agent), time=commit.at)
            each = each._replace(commit=commit.commit)
        remarks.append(each)
    return remarks


def describe_history(path: str, at: str, vault: Vault) -> tuple[Sequence[BlamedLine], Trace]:
    """Return the history of one note."""
    from vaultmem.services.history.blame import trace_note
    from vaultmem.services.history.commits import resolve_commit

    trace = trace_note(vault, path, LAST_COMMITS, resolve_commit(vault, at) if at else "")
    return _read_blame(path, at, vault), trace


def collect_rail(path: str, at: str, read_lines: ReadHistory, vault: Vault) -> NoteSidebar:
    """Return the sidebar of a note: line authors, backlinks, and packs that showed it."""
    from vaultmem.services.packs.receipts import list_recent
    from vaultmem.services.views.read_notes import read_note, resolve_address

    note_path = resolve_address(vault, path)[0]
    path = str(note_path)
    mentions = _list_mentions(vault, path)
    showings = list_recent(vault, LAST_COMMITS, path=path)
    try:
        lines, trace = read_lines(path, at, vault)
        line_authors = _join_lines(_drop_unseen(read_note(vault, note_path), lines), path, vault)
    except VaultError as error:
        return NoteSidebar([], None, mentions, showings, str(error))
    return NoteSidebar(line_authors, trace, mentions, showings)


def _drop_unseen(note: Note, lines: Sequence[BlamedLine]) -> Iterator[BlamedLine]:
    """Yield the lines of a note that its page shows: no properties, comments or empty lines."""
    first = note.text.count("\n", 0, note.frontmatter.body)
    visible_lines = note.visible.split("\n")
    is_text = note.encoding != CANVAS  # The text of a canvas differs from its lines.
    for each in lines:
        is_known = is_text and each.number <= len(visible_lines)
        text = visible_lines[each.number - 1].replace(MASK_CHAR, "") if is_known else each.text
        if text.strip() and (each.number > first or not is_text):
            yield each


def _join_lines(lines: Iterable[BlamedLine], path: str, vault: Vault) -> list[LineAuthor]:
    """Return adjacent lines of one commit and author as one."""
    groups = groupby(lines, lambda line: (line.commit and line.commit.commit, line.author))
    runs = [[*group] for _, group in groups]
    parents = {
        each[0].commit.parents[0] for each in runs if each[0].commit and each[0].commit.parents
    }
    has_note = _find_with(vault, path, parents)
    line_authors = []
    for run in runs:
        commit = run[0].commit
        days = (vault.now() - commit.at) / 86_400 if commit else 0
        age = sum(days >= limit for limit in _AGE_LIMIT_DAYS)
        parent = next(iter(commit.parents), "") if commit else ""
        parent = parent if parent in has_note else ""
        line_authors.append(LineAuthor(run[0].number, run[-1].number, run[0], age, parent))
    return line_authors


def _find_with(vault: Vault, path: str, commits: Iterable[str]) -> set[str]:
    """Return the commits that contain a note; none in an export, which has no such pages."""
    commit_ids = [*commits]
    if FILES.get() is not None or "\n" in path or not commit_ids:
        return set()
    history = vault.history
    entries = history.objects.find_all(f"{each}:{history.prefix}{path}" for each in commit_ids)
    return {commit for commit, each in zip(commit_ids, entries, strict=True) if each is not None}


def _list_mentions(vault: Vault, path: str) -> list[Mention]:
    """Return the first backlinks of a note, each with the line of its first link."""
    from vaultmem.services.search.link_walk import map_links
    from vaultmem.services.views.texts import read_text

    sources = map_links(vault).sources.get(path, {})
    mentions = []
    for record in _name_notes(vault, [*sources]):
        text = read_text(vault, record.path, record.blob) or ""
        mentions.append(Mention(record, _slice_line(text, sources[record.path])))
    return mentions


def _slice_line(text: str, position: int) -> str:
    """Return the line around a position, truncated for the list."""
    first, last = text.rfind("\n", 0, position) + 1, text.find("\n", position)
    line = text[first : last if last >= 0 else None]
    start = max(position - first - _LINE // 2, 0)
    prefix, suffix = "..." if start else "", "..." if len(line) > start + _LINE else ""
    return f"{prefix}{line[start : start + _LINE].strip()}{suffix}"


def _name_notes(vault: Vault, paths: Sequence[str]) -> list[NoteRecord]:
    marks = ", ".join("?" * len(paths[:MENTIONS]))
    return vault.view.records(f"d.path IN ({marks})", paths[:MENTIONS]) if paths else []


@answers
async def show_note(request: Request) -> Response:
    """Show a note, with its sidebar if requested."""
    path = read_path(request, "/note/")
    at = request.query_params.get("at", "")
    frame, page = await read(request, partial(collect_note, path, at, _find_lines(request)))
    is_whole = "rail" in request.query_params
    rail = (await _read_rail(request, path, at))[1] if is_whole else None
    return render_page(request, "note.html", vault=frame, page=page, rail=rail)


@answers
async def show_rail(request: Request) -> Response:
    """Show the sidebar of a note; the note's page loads it later."""
    path, at = read_path(request, "/rail/"), request.query_params.get("at", "")
    frame, rail = await _read_rail(request, path, at)
    return render_page(request, "rail.html", vault=frame, path=path, rail=rail)


def _read_blame(path: str, at: str, vault: Vault) -> Sequence[BlamedLine]:
    """Return the lines of a note with their authors, cached for the page and its sidebar."""
    from vaultmem.services.history.blame import blame_note

    commit = (head := vault.head()) and head.commit
    return vault.view.keep("blame", lambda: blame_note(vault, path, at).lines, commit, path, at)


def _find_lines(request: Request) -> ReadLines:
    """Return the function that reads the lines of a note; an export reads all histories."""
    if not hasattr(request.app.state, "describe_history"):
        return _read_blame
    history = _find_history(request)
    return lambda path, at, vault: history(path, at, vault)[0]


def _find_history(request: Request) -> ReadHistory:
    read_lines: ReadHistory = getattr(request.app.state, "describe_history", describe_history)
    return read_lines


async def _read_rail(request: Request, path: str, at: str) -> tuple[PageFrame, NoteSidebar]:
    return await read(request, partial(collect_rail, path, at, _find_history(request)))


@answers
async def show_file(request: Request) -> Response:
    """Return an image of the vault, with headers that prevent scripts."""
    _, (data, kind) = await read(request, partial(read_picture, read_path(request, "/file/")))
    policy = "default-src 'none'; style-src 'unsafe-inline'; sandbox"  # SVG files have styles.
    headers = {"Content-Security-Policy": policy}
    return Response(data, 200, headers, kind)


def read_picture(path: str, vault: Vault) -> tuple[bytes, str]:
    """Return an image's bytes and media type, from the folder or the viewed commit.

    Raises:
        RefusedError: it is not an image, or is outside of the vault.
        NoteNotFoundError: there is no such file.
    """
    from vaultmem.storage.files import read_file
    from vaultmem.storage.git.trees import find_entry

    picture_path = parse_note_path(path)
    kind = mimetypes.guess_type(picture_path.name)[0] or ""
    if kind not in PICTURES:
        raise RefusedError(f"{path}: only images can be shown")
    if vault.view.is_work_tree:
        return read_file(vault.root, picture_path, MAX_BYTES), kind
    entry = find_entry(vault.history, vault.view.sources[0].commit, path)
    if entry is None:
        raise NoteNotFoundError(f"{path}: file not found")
    return vault.history.objects.read(entry.blob)[1], kind


# The list of notes, filtered by state, kind, tag, context and name.

#: Notes on a page, and the most values of a property; more in an export, where users cannot type
#: one.
PAGE, _MAX_PROPERTY_VALUES, _MAX_EXPORTED_VALUES = 100, 24, 500


class NoteListRequest(NamedTuple):
    """A filter of the listed notes; empty fields accept all. `name` is a part of title or path."""

    state: str = ""
    kind: str = ""
    tag: str = ""
    context: str = ""
    name: str = ""

    def admits(self, record: NoteRecord) -> bool:
        """Return whether a note matches the filter."""
        return (
            self.state in ("", record.state)
            and self.kind in ("", record.kind)
            and (not self.tag or has_tag(record.tags, self.tag))
            and f"{record.context}/".startswith(f"{self.context}/" if self.context else "")
            and self.name.casefold() in f"{record.title}\n{record.path}".casefold()
        )


class FilterChoice(NamedTuple):
    """A property to filter by: its values, and the number of notes with each."""

    name: str
    values: list[tuple[str, int]]


class NoteList(NamedTuple):
    """A page of notes, the last changed first, the number of all, and the filter's choices."""

    notes: list[NoteRecord]
    total: int
    choices: list[FilterChoice]


def collect_notes(list_request: NoteListRequest, page: int, vault: Vault) -> NoteList:
    """Return one page (from 0) of the notes that match a filter."""
    notes = list(
        filter(list_request.admits, vault.view.keep("notes by time", lambda: _sort(vault)))
    )
    choices = [
        _offer("state", (record.state for record in notes)),
        _offer("kind", (record.kind for record in notes)),
        _offer("context", (record.context for record in notes)),
        _offer("tag", (tag for record in notes for tag in record.tags)),
    ]
    return NoteList(notes[page * PAGE : (page + 1) * PAGE], len(notes), choices)


def _sort(vault: Vault) -> list[NoteRecord]:
    return sorted(vault.view.records(), key=lambda record: (-record.changed, record.path))


def _offer(name: str, values: Iterable[str]) -> FilterChoice:
    counts = Counter(value for value in values if value)
    limit = _MAX_PROPERTY_VALUES if FILES.get() is None else _MAX_EXPORTED_VALUES
    return FilterChoice(name, counts.most_common(limit))


@answers
async def show_notes(request: Request) -> Response:
    """Show a page of notes."""
    params = request.query_params
    list_request = NoteListRequest(
        **{name: params.get(name, "")[:500].strip("#/ ") for name in NoteListRequest._fields}
    )
    page = read_page(params)
    frame, note_list = await read(request, partial(collect_notes, list_request, page))
    template = "note_rows.html" if "part" in params else "notes.html"
    return render_page(
        request, template, vault=frame, wanted=list_request, listed=note_list, page=page, size=PAGE
    )
