"""Export a vault as files that need no server: each page of the app, rendered in process.

Links lead from file to file. Quarantined notes are omitted, and so are pages that readers of the
files do not need or must not see: receipts, health, review, and the changes of commits.
"""

from __future__ import annotations

import contextlib
import json
import mimetypes
import os
import re
import shutil
import signal
import threading
import time
import unicodedata
from base64 import b32encode
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from hashlib import sha256
from itertools import groupby, islice
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any, NamedTuple, cast
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message

import vaultmem
from vaultmem.core.lifecycle import NoteState
from vaultmem.core.notes.record import NoteRecord
from vaultmem.errors import RefusedError, VaultError
from vaultmem.services.history.blame import BlamedLine, Trace
from vaultmem.services.history.explain import (
    CommitChange,
    NoteStory,
    describe_stories,
    group_changes,
    walk_history,
)
from vaultmem.services.sessions.find_session import list_sessions
from vaultmem.services.views.read_notes import read_bytes
from vaultmem.storage.atomic import exchange_files
from vaultmem.storage.git.log import Commit
from vaultmem.storage.lock import find_process
from vaultmem.vault import Vault
from vaultmem.web.export.export_terms import make_terms
from vaultmem.web.page_requests import PageFrame, frame_vault
from vaultmem.web.pages.note_page import LAST_COMMITS, PAGE, read_picture
from vaultmem.web.rendering import FILES, FileLinks, Site, Visitor, render_page
from vaultmem.web.web_app import STATIC, create_pages, load_all
from vaultmem.workers import Caller, Result, Work, Workers

#: The most characters of a page's name in its file name, to make the file recognizable.
_MAX_NAME_CHARS = 40

#: The most commits on the page of commits, and notes that are listed for one.
_MAX_COMMITS, _MAX_LISTED_NOTES = 200, 12

#: Notes whose histories are read from git in one call.
_CHUNK = 50

#: A browser that opens an SVG file directly runs the scripts in it.
_DRAWING = "image/svg+xml"

_FILES = {"/": "index.html", "/search": "search.html", "/notes": "notes.html"}
_FILES |= {"/sessions": "sessions.html", "/time": "time.html"}

_NO_PARAMS: Mapping[str, str] = MappingProxyType({})

#: A list of notes, by property and value; ("", "") is the list of all.
ListName = tuple[str, str]


class ExportResult(NamedTuple):
    """The number of exported files, the folder, and the duration in seconds.

    `omitted` are the quarantined notes, `pages` all pages except those of notes.
    """

    folder: str
    notes: int
    omitted: int
    pictures: int
    pages: int
    commit: str
    seconds: float


class ExportedCommit(NamedTuple):
    """A commit, the notes that it changed, and the number of other files."""

    commit: Commit
    notes: list[NoteRecord]
    more: int


class CommitDay(NamedTuple):
    """The commits of a day, newest first."""

    day: str
    commits: list[ExportedCommit]


def export_html(vault: Vault, folder: Path, progress: Callable[[int, int], None]) -> ExportResult:
    """Write the pages of a vault, which must be in sync, into a folder.

    The folder must be empty, missing, or an earlier export, which is replaced at the end.

    Raises:
        RefusedError: the folder has other files, or is inside the vault.
    """
    start = time.monotonic()
    folder = folder.resolve()
    check_folder(folder, vault.root.resolve())
    visible_vault = replace(vault, view=vault.view.leave_out(NoteState.QUARANTINED))
    with prepare_folder(folder) as fresh:
        writer = _SiteWriter(visible_vault, fresh)
        pages = writer.write(progress)
        pictures = sum(1 for each in fresh.glob("file/*/*"))
        note_count = len(writer.records)
        mark = {
            "vaultmem": vaultmem.__version__,
            "notes": note_count,
            "commit": writer.frame.commit,
        }
        (fresh / MARK).write_text(json.dumps(mark), encoding="ascii")
    omitted_count = len(vault.view.documents()) - note_count
    seconds = round(time.monotonic() - start, 2)
    commit = writer.commit or writer.frame.commit
    return ExportResult(
        os.fspath(folder), note_count, omitted_count, pictures, pages, commit, seconds
    )


class _SiteWriter:
    """Requests each page of a vault from the app, and writes it to its file."""

    def __init__(self, vault: Vault, folder: Path) -> None:
        self._vault = vault
        self._folder = folder
        self.commit = "" if vault.view.is_work_tree else vault.view.sources[0].commit
        self.frame = frame_vault(vault, self.commit)
        self._exported = vault.now()
        self.records = vault.view.records()
        self.records.sort(key=lambda each: (-each.changed, each.path))
        self._paths = {record.path: record for record in self.records}
        self._lists = Counter({("", ""): len(self.records)})
        self._lists.update(name for each in self.records for name in _build_list_paths(each))
        self._sessions = frozenset(each.id for each in list_sessions(vault))
        self._commits = list(self._list_commits())
        self._commit_names = frozenset(each.commit.commit for each in self._commits)
        self._pictures: dict[str, str] = {}
        self._vaults = _OneVault(vault, self.frame)
        load_all()
        self._app = create_pages(self._vaults, Site(vault.root, frozenset(), "", folder))
        self._app.router.routes.insert(0, Route("/time", self._show_commits))
        self._app.state.describe_history = _Histories(
            vault, self.commit, list(self._paths)
        ).describe_history

    def write(self, progress: Callable[[int, int], None]) -> int:
        """Write all pages; return their number without those of notes."""
        for file in STATIC.iterdir():
            self._write(f"static/{file.name}", file.read_bytes())
        for name, data in make_terms(self._vault.index.snapshot(), self.records, name_note):
            self._write(name, data)
        page_paths = ["/", "/search", "/time", "/sessions"]
        page_paths += [f"/session/{name}" for name in self._sessions]
        for path in page_paths:
            self._write_page(path)
        pages = 0
        for (name, value), count in self._lists.items():
            for page in range(max(1, -(-count // PAGE))):
                params = {name: value, "page": str(page) if page else ""}
                self._write_page("/notes", params)
                pages += 1
        for number, record in enumerate(self.records):
            progress(number, len(self.records))
            self._write_page(f"/note/{record.path}", {"rail": "1"})
        progress(len(self.records), len(self.records))
        return len(page_paths) + pages

    def _write_page(self, path: str, params: Mapping[str, str] = _NO_PARAMS) -> None:
        """Write a page; a missing note or session gets the page with that error.

        Raises:
            VaultError: any other page fails.
        """
        query_params = {name: value for name, value in params.items() if value}
        file = self._find(
            path, {name: query_params[name] for name in query_params if name != "rail"}
        )
        self._vaults.failure = None
        links = FILES.set(FileLinks(self._find, "../" * file.count("/"), self._exported))
        try:
            html = _ask(self._app, path, query_params)
        finally:
            FILES.reset(links)
        if self._vaults.failure is not None and not path.startswith(("/note/", "/session/")):
            raise self._vaults.failure
        self._write(file, html)

    def _write(self, name: str, data: bytes) -> None:
        file = self._folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)

    def _find(self, path: str, params: Mapping[str, str]) -> str:
        """Return the file of a page, "" if there is no such page."""
        _, kind, name = f"{path}/".split("/", 2)
        name = name.removesuffix("/")
        if path == "/notes":
            return self._find_list(**params)
        if params:
            return ""
        if kind == "note":
            return name_note(name) if name in self._paths else ""
        if kind == "session":
            return _name("session", name, name) if name in self._sessions else ""
        if kind == "commit":
            return f"time.html#c-{name}" if name in self._commit_names else ""
        if kind == "file":
            return self._copy_picture(name)
        return f"static/{name}" if kind == "static" else _FILES.get(path, "")

    def _find_list(self, page: str = "", **filters: str) -> str:
        name, value = next(iter(filters.items()), ("", ""))
        value = value.casefold() if name == "tag" else value
        if len(filters) > 1 or (name, value) not in self._lists:
            return ""
        suffix = f"-{int(page) + 1}.html" if page else ".html"
        return _name("list", value, f"{name}-{value}", suffix) if name else f"notes{suffix}"

    def _copy_picture(self, path: str) -> str:
        """Return the file of an image, written on first use; "" if it is not an image."""
        if path not in self._pictures:
            self._pictures[path] = ""
            with contextlib.suppress(VaultError, OSError):
                data, kind = read_picture(path, self._vault)
                if kind != _DRAWING:
                    suffix = mimetypes.guess_extension(kind) or ""
                    name = _name("file", path, PurePosixPath(path).stem, suffix)
                    self._write(name, data)
                    self._pictures[path] = name
        return self._pictures[path]

    async def _show_commits(self, request: Request) -> Response:
        """Show the last commits with their changed notes: exported commits have no pages."""
        groups = groupby(self._commits, lambda each: each.commit.time[:10])
        days = [CommitDay(day, list(group)) for day, group in groups]
        return render_page(request, "commits.html", vault=self.frame, days=days)

    def _list_commits(self) -> Iterator[ExportedCommit]:
        if self._vault.head() is None:
            return
        for commit, changes in islice(walk_history(self._vault, self.commit), _MAX_COMMITS):
            changed_notes = [self._paths[each.path] for each in changes if each.path in self._paths]
            notes = changed_notes[:_MAX_LISTED_NOTES]
            yield ExportedCommit(commit, notes, len(changes) - len(notes))


class _OneVault(Workers):
    """Runs the app's reads on one unchanging vault, in the calling thread."""

    def __init__(self, vault: Vault, frame: PageFrame) -> None:
        super().__init__(vault.root)
        self._vault = vault
        self._frame = frame
        self.failure: VaultError | None = None

    async def read(self, work: Work[Result], caller: Caller) -> Result:
        """Return the result of `work` on the vault, in the frame of the export."""
        try:
            result: Any = work(self._vault)
        except VaultError as error:
            self.failure = error
            raise
        answer: Any = (self._frame, result[1])
        return cast(Result, answer)


class _Histories:
    """Returns the histories of notes, reading those of the next notes in the same git call."""

    def __init__(self, vault: Vault, commit: str, paths: Sequence[str]) -> None:
        self._vault = vault
        self._commit = commit
        self._paths = paths
        self._places = {path: index for index, path in enumerate(paths)}
        self._read: dict[int, dict[str, NoteStory]] = {}

    def describe_history(
        self, path: str, at: str, vault: Vault
    ) -> tuple[Sequence[BlamedLine], Trace]:
        """Return the lines of a note with their authors, and its last versions.

        Raises:
            VaultError: git does not have them.
        """
        if vault.head() is None:
            raise RefusedError("The vault is in no git repository.")
        chunk = self._places[path] // _CHUNK
        if chunk not in self._read:
            self._read = {chunk: self._notify_all(self._paths[chunk * _CHUNK :][:_CHUNK])}
        story = self._read[chunk][path]
        return story.lines, Trace(path, story.versions[:LAST_COMMITS])

    def _notify_all(self, paths: Sequence[str]) -> dict[str, NoteStory]:
        texts = {}
        for path in paths:
            with contextlib.suppress(VaultError, OSError):  # Its own page shows the error.
                texts[path] = read_bytes(self._vault, PurePosixPath(path))
        return dict(describe_stories(self._vault, self._changes, texts))

    @cached_property
    def _changes(self) -> dict[str, list[CommitChange]]:
        return group_changes(walk_history(self._vault, self._commit), iter(self._paths))


def _ask(app: ASGIApp, path: str, params: Mapping[str, str]) -> bytes:
    """Return the app's page for a visitor who can only read.

    With `_OneVault` it never waits, so no event loop has to run it.
    """
    messages: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request"}

    async def send(message: Message) -> None:
        messages.append(message)

    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "raw_path": quote(os.fsencode(path)).encode("ascii"),
        "query_string": urlencode(params).encode("ascii"),
        "headers": [(b"accept", b"text/html")],
        "state": {"visitor": Visitor(may_write=False)},
    }
    for _ in app(scope, receive, send).__await__():
        raise RuntimeError(f"{path}: this page waits for something")
    return b"".join(message.get("body", b"") for message in messages)


def _build_list_paths(record: NoteRecord) -> Iterator[ListName]:
    """Yield the lists that contain a note, including those of parent folders and tags."""
    yield "state", record.state
    yield "kind", record.kind
    yield from (("context", each) for each in _list_above(record.context))
    tags = dict.fromkeys(each for tag in record.tags for each in _list_above(tag.casefold()))
    yield from (("tag", each) for each in tags)


def _list_above(name: str) -> Iterator[str]:
    parts = name.strip("/").split("/")
    yield from filter(None, ("/".join(parts[: end + 1]) for end in range(len(parts))))


def name_note(path: str) -> str:
    """Return the file of a note's page."""
    return _name("note", path, PurePosixPath(path).stem)


@lru_cache(100_000)
def _name(folder: str, text: str, label: str, suffix: str = ".html") -> str:
    """Return a file's path, unique to the text on any file system.

    It depends on the text alone, so that it is stable. Subfolders keep folders small: FAT allows
    only some thousand files in one.
    """
    key = b32encode(sha256(os.fsencode(text)).digest()[:10]).decode("ascii").lower()
    plain = unicodedata.normalize("NFKD", label).encode("ascii", "ignore").decode("ascii").lower()
    words = "-".join(re.findall("[a-z0-9]+", plain))[:_MAX_NAME_CHARS].strip("-")
    return f"{folder}/{key[0]}/{'-'.join(filter(None, (words, key)))}{suffix}"


# The folder of an export: check it, and replace it by a new one.

#: The file that marks an export, and all other names in one.
MARK = ".vaultmem-export"
_EXPORT_NAMES = {
    *(MARK, "index.html", "search.html", "time.html", "sessions.html"),
    *("note", "file", "list", "session", "search", "static"),
}


def check_folder(folder: Path, root: Path) -> None:
    """Check that an export can be written to a folder.

    Raises:
        RefusedError: it has other files, or it contains the vault or is inside it.
    """
    if folder == root or root in folder.parents or folder in root.parents:
        raise RefusedError(f"{folder}: that is the vault's; name a folder outside of it")
    if not folder.exists():
        return
    if not folder.is_dir():
        raise RefusedError(f"{folder}: that is a file; name a folder")
    names = set(os.listdir(folder))
    others = sorted(name for name in names - _EXPORT_NAMES if not _is_page(name))
    if names and (MARK not in names or others):
        problem = f"has {others[0]}, which no export has" if others else "is not an export"
        raise RefusedError(f"{folder}: {problem}; name a folder that is empty or not there")


def _is_page(name: str) -> bool:
    return name.startswith("notes") and name.endswith(".html")


@contextlib.contextmanager
def prepare_folder(folder: Path) -> Iterator[Path]:
    """Yield a new folder that replaces the old one at the end of the context.

    After an error, the old folder is unchanged and the new one is removed.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    _sweep(folder)
    fresh = _beside(folder, "new", os.getpid())
    fresh.mkdir()
    try:
        yield fresh
        with _undisturbed():
            _replace(folder, fresh)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _replace(folder: Path, fresh: Path) -> None:
    """Replace the old folder by the new one, in one step if the system can."""
    if not folder.exists():
        os.rename(fresh, folder)
        return
    with contextlib.suppress(OSError):
        exchange_files(fresh, folder)
        return
    old = _beside(folder, "old", os.getpid())
    try:
        os.rename(folder, old)
    except OSError as error:
        raise RefusedError(
            f"{folder}: cannot be replaced ({error.strerror}); name a folder in it"
        ) from None
    os.rename(fresh, folder)
    shutil.rmtree(old, ignore_errors=True)


def _beside(folder: Path, role: str, pid: int | str) -> Path:
    return folder.with_name(f".{folder.name}.vaultmem-{role}-{pid}")


def _sweep(folder: Path) -> None:
    """Remove the leftovers of killed exports; restore the old folder if one was half replaced."""
    for role in ("old", "new"):
        prefix = _beside(folder, role, "").name
        for name in os.listdir(folder.parent):
            pid = name.removeprefix(prefix)
            if name == pid or not pid.isdecimal() or find_process(int(pid)) is not None:
                continue
            if role == "old" and not folder.exists():
                os.rename(folder.with_name(name), folder)
            else:
                shutil.rmtree(folder.with_name(name), ignore_errors=True)


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Ignore SIGINT and SIGTERM in the main thread while the context is open."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    old_handlers = {
        number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in old_handlers.items():
            signal.signal(number, handler)
