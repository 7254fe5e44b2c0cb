"""Trace a statement: the sessions that were shown it, and what they wrote afterwards.

Receipts and the query log record what a session was shown. For other machines, the session's
commits name these notes. Commits and the journal record what it wrote. A file that an agent opens
by itself leaves no trace.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cached_property, partial
from itertools import chain
from pathlib import PurePosixPath
from typing import NamedTuple

from vaultmem.core.anchors import RESTS_ON
from vaultmem.core.notes.changes import FileChange
from vaultmem.core.notes.edit_properties import list_items
from vaultmem.core.notes.frontmatter import read_timestamp
from vaultmem.core.notes.link_syntax import LinkNames, find_links
from vaultmem.core.notes.note import Note, UnreadableNoteError, parse_note
from vaultmem.core.packs.receipt import read_plain
from vaultmem.core.search.terms import term_sequence
from vaultmem.core.sessions.session import FOLDER, plain_id
from vaultmem.core.similarity.compare import KnownText, TextSimilarity, compare_texts, is_brief
from vaultmem.core.similarity.statement import split_sentences
from vaultmem.core.text.blob import blob_id
from vaultmem.core.text.line_diff import match_lines, split_bytes
from vaultmem.core.text.paths import is_note_name
from vaultmem.errors import NoteNotFoundError, RefusedError
from vaultmem.services.changes.ownership import find_line_authors, read_pending
from vaultmem.services.history.commits import resolve_commit
from vaultmem.services.packs.receipts import ShownSections, find_named, find_showings
from vaultmem.services.views.follow_renames import walk_present
from vaultmem.services.views.read_notes import read_note, resolve_address
from vaultmem.storage.git.checkout import HeadTree
from vaultmem.storage.git.log import Commit, walk_refs
from vaultmem.vault import Vault

#: Minimum similarity of a text that repeats a statement.
_MIN_REPEAT_SIMILARITY = 0.6

#: Sentences are compared only if they share at least one in so many of a statement's terms.
_TERMS_PER_SHARED_TERM = 3

#: Differences after which a text does not repeat a statement, even if they only add something.
_DENIAL_KINDS = frozenset({"negation", "limit", "modality", "quantifier", "update", "subject"})

_MARK = re.compile(r"(?:[-*+>#]+|\d{1,9}[.)])\s+")


class SpreadKind(StrEnum):
    """How a note of another session uses what the session was shown."""

    REPEATS = "repeats"
    CITES = "cites"
    #: The note with the statement names the session as another confirmation.
    CONFIRMS = "confirms"
    NEITHER = ""


class Reader(NamedTuple):
    """A session, an agent without a session, or a person (both "") that was shown a statement.

    `at` is the first time, in seconds since the epoch. `kind` is "pack", "recall", "tool", or
    "commit" if only a commit names it. `receipt` is the pack's receipt. `paths` are the shown notes
    of the vault named `vault` ("" for the first one).
    """

    agent: str
    session: str
    at: float
    kind: str
    receipt: str
    paths: tuple[str, ...]
    vault: str = ""


class LaterNote(NamedTuple):
    """A note that a reader wrote after it was shown a statement.

    `commit` contains the note, or is None. `branches` are those that contain the commit. `source`
    is the note whose statement is repeated or cited.
    """

    agent: str
    session: str
    vault: str
    path: str
    commit: Commit | None
    branches: tuple[str, ...]
    relation: SpreadKind
    source: str


class Spread(NamedTuple):
    """The spread of the statements of some notes: readers and their later writings.

    `skipped` names the vaults that could not be read, with the reason.
    """

    target: str
    sources: tuple[str, ...]
    readers: tuple[Reader, ...]
    writings: tuple[LaterNote, ...]
    skipped: tuple[str, ...] = ()

    @property
    def reached(self) -> tuple[LaterNote, ...]:
        """The writings that repeat, cite or confirm a statement."""
        return tuple(each for each in self.writings if each.relation)


class AuthorChange(NamedTuple):
    """One author's change of a note: the note after it, and the added lines.

    `before` is the earlier note, None for a new one. `at` is in seconds since the epoch, infinite
    for uncommitted changes. `added` are lines of the body.
    """

    vault: str
    commit: Commit | None
    path: str
    agent: str
    session: str
    at: float
    before: Note | None
    note: Note
    added: str


class _Statement(NamedTuple):
    """A sentence to trace, with the title and path of its note, and its index terms."""

    text: str
    title: str
    path: str
    terms: frozenset[str]


#: A filter for authors, by agent, session and time of writing.
IsAuthor = Callable[[str, str, float], bool]


class VaultWrites:
    """All changes of a vault: the commits of all branches, and uncommitted changes."""

    def __init__(self, vault: Vault, name: str = "") -> None:
        self.vault, self.name = vault, name
        has_git = vault.head() is not None
        # The commits of the merged branch contain its changes.
        history = walk_refs(vault.history) if has_git else ()
        self.commits = [each for each in history if len(each[0].parents) < 2]
        pending = read_pending(vault) if has_git else None
        self._pending = pending.files if pending else {}
        self._moved = pending.moved if pending else {}

    @cached_property
    def names(self) -> LinkNames:
        """All paths that ever existed, to resolve links."""
        paths = {change.path for _, changes in self.commits for change in changes}
        return LinkNames(paths | self._pending.keys())

    @cached_property
    def _present(self) -> dict[tuple[str, str], str]:
        changes = walk_present(self.vault, self._moved)
        return {(commit.commit, each.path): present_path for commit, each, present_path in changes}

    def find_now(self, written: AuthorChange) -> str:
        """Return the note's current path on the checked-out branch, or ""."""
        commit = written.commit
        return self._present.get((commit.commit, written.path), "") if commit else written.path

    def find_renamed(self, path: str) -> str:
        """Return the current path of the last note that a commit had at a path, or ""."""
        return next((now for (_, old), now in self._present.items() if old == path), "")

    def list_written(self, is_author: IsAuthor, commit: str = "") -> Iterator[AuthorChange]:
        """Yield the changes of authors that match, oldest first, optionally of one commit only."""
        for each, changes in reversed(self.commits):
            writers = [(each.agent, each.session), *((w.agent, w.session) for w in each.wrote)]
            if commit in {"", each.commit} and any(
                is_author(*writer, each.at) for writer in writers
            ):
                yield from self._read_commit(each, changes, is_author)
        for path, file in () if commit else self._pending.items():
            if file is not None and is_note_name(path):
                yield from self._read_pending(path, file[1], is_author)

    def _read_commit(
        self, commit: Commit, changes: Iterable[FileChange], is_author: IsAuthor
    ) -> Iterator[AuthorChange]:
        objects, prefix = self.vault.history.objects, self.vault.history.prefix
        for each in changes:
            if each.blob and each.is_regular and is_note_name(each.path):
                blobs = filter(None, (each.old_blob, each.blob))
                *before, data = (objects.read(blob)[1] for blob in blobs)
                find = partial(commit.find_writer, prefix + each.path)
                writers = [find(number)[1:3] for number in range(1, len(split_bytes(data)) + 1)]
                yield from self._split(commit, each.path, before, data, writers, is_author)

    def _read_pending(self, path: str, data: bytes, is_author: IsAuthor) -> Iterator[AuthorChange]:
        vault = self.vault
        head = HeadTree(vault.state).entries([path]).get(path)
        before = [vault.history.objects.read(head.blob)[1]] if head else []
        authors = find_line_authors(vault, path, blob_id(data), data)
        yield from self._split(None, path, before, data, [x[:2] for x in authors], is_author)

    def _split(
        self,
        commit: Commit | None,
        path: str,
        before: Sequence[bytes],
        data: bytes,
        writers: Sequence[tuple[str, str]],
        is_author: IsAuthor,
    ) -> Iterator[AuthorChange]:
        """Yield a note's change once for each matching author of its new lines."""
        try:
            note, *old = (parse_note(PurePosixPath(path), each) for each in (data, *before))
        except UnreadableNoteError:
            return
        lines = split_bytes(data)
        matches = match_lines(split_bytes(before[0]) if before else [], lines)
        kept_lines = {place + at for _, place, length in matches for at in range(length)}
        body = note.text.count("\n", 0, note.frontmatter.body)
        lines_by_writer: dict[tuple[str, str], list[str]] = {}
        for number, line in enumerate(lines):
            if number not in kept_lines:
                own = lines_by_writer.setdefault(writers[number], [])
                own += [line.removesuffix("\r")] if number >= body else []
        at = commit.at if commit else float("inf")
        for writer, own in lines_by_writer.items():
            if is_author(*writer, at):
                old_note = old[0] if old else None
                yield AuthorChange(
                    self.name, commit, path, *writer, at, old_note, note, "\n".join(own)
                )


def find_spread(vaults: Sequence[Vault], target: str) -> Spread:
    """Return the spread of the statements of a note, session or commit of the first vault.

    A session that repeats a statement spreads it too, so readers of the repetition count as well.
    The indexes of all vaults must be up to date.

    Raises:
        NoteNotFoundError: there is no such note, session or commit.
        RefusedError: the target is empty, or has no statement that can be traced.
    """
    names = dict(zip(["", *(each.name for each in vaults[1:])], vaults, strict=True))
    writes = {name: VaultWrites(vault, name) for name, vault in names.items()}
    search = _Search(writes)
    label, own = search.choose_target(target)
    if not search.statements:
        raise RefusedError(f"{label}: no statement in it can be followed")
    while search.fresh:
        search.follow(own)
    return search.describe(label)


class _Search:
    """The statements, readers and writings found so far.

    A wording is a sentence that repeats a statement. A session that was shown a wording is a
    reader. Its writings are compared with the statements only, so no other text is traced.
    """

    def __init__(self, writes: Mapping[str, VaultWrites]) -> None:
        self.statements: list[_Statement] = []
        self.fresh: set[str] = set()
        self._wordings: set[str] = set()
        self._writes = writes
        self._created: dict[tuple[str, str], tuple[str, str]] = {}
        self._readers: dict[tuple[str, str], Reader] = {}
        self._writings: dict[tuple[str, str, str, str], LaterNote] = {}

    def choose_target(self, target: str) -> tuple[str, IsAuthor]:
        """Add the statements of a session, note or commit; return its label and an author filter.

        Raises:
            NoteNotFoundError: there is no such session, note or commit.
            RefusedError: the target is empty; a person's notes have an empty session.
        """
        first, session = self._writes[""], plain_id(target)
        if not session:
            raise RefusedError(
                "name a note, session or commit, as in `vaultmem trace --spread s-7`"
            )

        def is_own(_: str, writer: str, __: float) -> bool:
            return writer == session

        if own := [*first.list_written(is_own)]:
            for each in own:
                self._add_written(each)
            return f"session {session}", is_own
        with contextlib.suppress(NoteNotFoundError, RefusedError):
            try:
                path = resolve_address(first.vault, target)[0]
            except NoteNotFoundError:
                path = resolve_address(first.vault, first.find_renamed(target))[0]
            note = read_note(first.vault, path)
            self._created["", str(note.path)] = ("", "")
            self._add_text(note.visible_body, note.title, str(note.path))
            return str(note.path), lambda *_: False
        try:
            commit = resolve_commit(first.vault, target)
        except NoteNotFoundError as error:
            raise NoteNotFoundError(
                f"{error}; no note has that name and no such session wrote a note, "
                "see `vaultmem list` and `vaultmem session list`"
            ) from None
        for each in first.list_written(lambda *_: True, commit):
            self._add_written(each)
        return f"commit {commit[:7]}", lambda *_: False

    def _add_written(self, written: AuthorChange) -> None:
        self._add_created(written)
        self._add_text(written.added, written.note.title, written.path)

    def _add_created(self, written: AuthorChange) -> None:
        if not written.before:
            author, writes = (written.agent, written.session), self._writes[written.vault]
            self._created.setdefault((written.vault, written.path), author)
            self._created.setdefault((written.vault, writes.find_now(written)), author)

    def _add_text(self, text: str, title: str, path: str) -> None:
        """Add the sentences of a text. A text with only short sentences is one statement."""
        text = "\n".join(each for each in text.split("\n") if not each.startswith("#"))
        sentences = [each for each in split_sentences(text) if not is_brief(each)]
        if not sentences and not path.startswith(f"{FOLDER}/"):
            sentences = [text] * bool(text.strip())
        for each in sentences:
            if self._add_wording(each):
                self.statements.append(_Statement(each, title, path, _list_terms(each)))

    def _add_wording(self, text: str) -> bool:
        """Also search shown texts for this sentence; return whether it is new."""
        plain = read_plain(_MARK.sub("", text, count=1))
        is_new = bool(plain) and plain not in self._wordings
        if is_new:
            self._wordings.add(plain)
            self.fresh.add(plain)
        return is_new

    def follow(self, is_own: IsAuthor) -> None:
        """Find readers of the new wordings, and what the readers wrote afterwards."""
        texts, self.fresh = self.fresh, set()

        def has_text(text: str) -> bool:
            return any(map(text.__contains__, texts))

        for each in self._writes.values():
            commits = (commit for commit, _ in each.commits)
            readings = (
                find_showings(each.vault, has_text),
                find_named(each.vault, commits, has_text),
            )
            for reading in chain(*readings):
                self._add_reader(each.name, reading, is_own)
        for each in self._writes.values():
            for written in each.list_written(self._is_reader):
                self._judge(each, written)

    def _add_reader(self, vault: str, reading: ShownSections, is_own: IsAuthor) -> None:
        call, sections = reading.showing
        key = (call.agent, call.session)
        reader = self._readers.get(key)
        if not is_own(*key, call.at) and not (reader and reader.at <= call.at):
            paths = tuple(dict.fromkeys(path for path, _, _ in sections))
            self._readers[key] = Reader(*key, call.at, call.kind, reading.receipt, paths, vault)

    def _is_reader(self, agent: str, session: str, at: float) -> bool:
        reader = self._readers.get((agent, session))
        return reader is not None and at >= int(reader.at)

    def _judge(self, writes: VaultWrites, written: AuthorChange) -> None:
        """Record a reader's writing, unless the note is older than the reading."""
        reader = self._readers[written.agent, written.session]
        created = 0.0 if written.before else read_timestamp(written.note.created)
        if created and created < int(reader.at):
            return
        key = (written.vault, written.path, written.agent, written.session)
        writing = self._writings.get(key)
        if writing is not None and writing.relation:
            return
        method, source = self._compare(writes, written)
        self._writings[key] = LaterNote(
            *(written.agent, written.session, written.vault, written.path, written.commit),
            *((), method, source),
        )

    def _compare(self, writes: VaultWrites, written: AuthorChange) -> tuple[SpreadKind, str]:
        """Return how a text uses the statements, and the source note."""
        note, is_denied, source = written.note, False, ""
        for sentence in split_sentences(written.added):
            text, terms = KnownText(sentence, note.title), _list_terms(sentence, note.title)
            for each in self.statements:
                if len(each.terms & terms) * _TERMS_PER_SHARED_TERM < len(each.terms):
                    continue
                likeness = compare_texts(each.text, text, context=each.title)
                is_denied |= likeness.is_contradiction
                if _is_repeated(likeness):
                    source = source or each.path
                    self._add_wording(sentence)
        if source:
            self._add_created(written)
            return SpreadKind.REPEATS, source
        if (written.vault, written.path) in self._created and _is_confirmed(written):
            return SpreadKind.CONFIRMS, written.path
        citation = "" if is_denied else self._find_cited(writes, written)
        return (SpreadKind.CITES, citation) if citation else (SpreadKind.NEITHER, "")

    def _find_cited(self, writes: VaultWrites, written: AuthorChange) -> str:
        """Return a note with a statement, by another author, to which a new link leads, or ""."""
        old = _list_targets(writes, written.before, written.path)
        for target in _list_targets(writes, written.note, written.path) - old:
            author = self._created.get((written.vault, target))
            if author not in {None, (written.agent, written.session)}:
                return target
        return ""

    def describe(self, label: str) -> Spread:
        """Return the result, with readers in the order of their first reading."""
        readers = sorted(self._readers.values(), key=lambda each: each.at)
        order = {(each.agent, each.session): number for number, each in enumerate(readers)}
        refs = {name: each.vault.history.refs for name, each in self._writes.items()}
        writings = [
            each._replace(branches=tuple(refs[each.vault].list_branches_with(each.commit.commit)))
            if each.relation and each.commit
            else each
            for each in self._writings.values()
        ]
        writings.sort(key=lambda each: (order[each.agent, each.session], each.vault, each.path))
        sources = tuple(dict.fromkeys(each.path for each in self.statements))
        return Spread(label, sources, tuple(readers), tuple(writings))


def _list_terms(*texts: str) -> frozenset[str]:
    return frozenset(term_sequence("\n".join(texts)))


def _is_repeated(likeness: TextSimilarity) -> bool:
    """Return whether a text repeats a statement in any wording, and denies no part of it."""
    return likeness.similarity >= _MIN_REPEAT_SIMILARITY and all(
        each.kind == "wording" or not (each.ours or each.kind in _DENIAL_KINDS)
        for each in likeness.differences
    )


def _is_confirmed(written: AuthorChange) -> bool:
    """Return whether the change adds a confirmation."""
    old_items = list_items(written.before, "confirmed_by") if written.before else ()
    return not {*list_items(written.note, "confirmed_by")} <= {*old_items}


def _list_targets(writes: VaultWrites, note: Note | None, path: str) -> set[str]:
    """Return the notes that a note cites as its sources."""
    links = find_links(note.text, note.frontmatter) if note else ()
    targets = (writes.names.find(each, path) for each in links if each.property in RESTS_ON)
    return {each for each in targets if each}
