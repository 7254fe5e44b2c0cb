"""Run a request's work on the vault, and turn errors into pages."""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial, wraps
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl, unquote_to_bytes

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from vaultmem.core.notes.changes import PropertyChange
from vaultmem.core.text.display import escape_bytes
from vaultmem.core.text.json_values import as_plain
from vaultmem.core.text.line_diff import DiffPiece, Passage, diff_words, mark_diff
from vaultmem.errors import (
    ConflictError,
    ForbiddenError,
    LockTimeoutError,
    MergeConflictError,
    NoteNotFoundError,
    NoVaultError,
    PendingError,
    RefusedError,
    VaultError,
    VersionMismatchError,
    wrap_os_error,
)
from vaultmem.services.history.diff import FileOperation, summarise_operation
from vaultmem.services.vaults.companions import EVERY, add_named, list_askable, open_other_vault
from vaultmem.storage.files import UnsafeFileError
from vaultmem.storage.git.log import Commit, read_commit
from vaultmem.vault import Vault
from vaultmem.web.rendering import BELOW, Site, Visitor
from vaultmem.workers import Caller, Workers

if TYPE_CHECKING:
    from vaultmem.services.curation.review import WaitingCounts

# What goes wrong, said as a page to browsers and as problem details (RFC 9457) to programs.

#: The HTTP status of each expected failure; of one that is not here, that of its nearest parent.
STATUSES: dict[type[VaultError], int] = {
    NoVaultError: 404,
    NoteNotFoundError: 404,
    RefusedError: 422,
    ForbiddenError: 403,
    ConflictError: 409,
    VersionMismatchError: 412,
    PendingError: 409,
    MergeConflictError: 409,
    UnsafeFileError: 422,
    LockTimeoutError: 503,
    VaultError: 500,
}


#: Headers of some statuses: how to be let in, and in how many seconds to ask again.
_HEADERS = {401: {"WWW-Authenticate": "Bearer"}, 503: {"Retry-After": "5"}}


_NOT_FOUND = HTTPStatus.NOT_FOUND


def find_status(error: VaultError) -> int:
    """Return the HTTP status that an expected failure has."""
    return next(STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES)


def reject_failure(request: Request, error: VaultError, **facts: Any) -> Response:
    """Return the answer to what failed as may be expected, with what a program goes by."""
    facts = {"code": type(error).__name__, "exit_code": error.exit_code, **facts}
    if isinstance(error, MergeConflictError):
        facts["conflicts"] = as_plain(error.conflicts)
    return refuse(request, find_status(error), escape_bytes(str(error)), **facts)


def refuse(request: Request, status: int, told: str, **facts: Any) -> Response:
    """Return the answer to what cannot be done: why, and what helps.

    `facts` are for programs alone.
    """
    if wants_page(request):
        return _show_message(request, status, told)
    problem = {"type": "about:blank", "title": get_status_text(status), "status": status}
    return JSONResponse(
        {**problem, "detail": told, **facts},
        status,
        _HEADERS.get(status),
        media_type="application/problem+json",
    )


#: The part of an error that helps in a terminal alone: the page has links instead.
_FOR_TERMINALS = re.compile(r"; (?:did you mean .*\?|(?:see|run) `vaultmem .*)$", re.DOTALL)


async def refuse_page(request: Request, status: int, reason: str) -> Response:
    """Return the page that gives the reason of a failure, with the head of all pages.

    Where nothing was found, it names what has a similar name.
    """
    work = partial(_find_similar, request.url.path) if status == _NOT_FOUND else _find_nothing
    # What an address asks of may be why it fails: without it, there is a head all the same.
    for asked in (request, Request({**request.scope, "query_string": b""})):
        with suppress(VaultError, OSError):
            frame, near = await read(asked, work)
            if status == _NOT_FOUND:
                reason = _FOR_TERMINALS.sub("", reason) + "." * (not reason.endswith("."))
            return _show_message(asked, status, reason, frame, near)
    return refuse(request, status, reason)


def _show_message(
    request: Request,
    status: int,
    reason: str,
    frame: PageFrame | None = None,
    near: Sequence[tuple[str, str]] = (),
) -> Response:
    from vaultmem.web.rendering import render_page

    title = get_status_text(status)
    return render_page(
        request, "message.html", status, title=title, told=reason, vault=frame, near=near
    )


def _find_nothing(_: Vault) -> list[tuple[str, str]]:
    return []


def _find_similar(place: str, vault: Vault) -> list[tuple[str, str]]:
    """Return names that the last part of an address may be meant for, each with its page."""
    page, _, name = place.lstrip("/").partition("/")
    if page == "session":
        from vaultmem.core.text.suggest import find_near
        from vaultmem.services.sessions.find_session import list_facts

        near = find_near(name, [each.id for each in list_facts(vault)])
        return [(each, f"/session/{each}") for each in near]
    from vaultmem.services.views.resolve_names import find_similar

    return [(each, f"/note/{each}") for each in find_similar(vault, name or page)]


def get_status_text(status: int) -> str:
    """Return the words that HTTP has for a status."""
    return HTTPStatus(status).phrase


def wants_page(request: Request) -> bool:
    """Tell whether a browser asks for a page, and no program for an answer."""
    path = request.url.path
    return not path.startswith(("/api/", "/mcp")) and "text/html" in request.headers.get(
        "accept", ""
    )


#: Digits of a number that nobody means; reading thousands of them is refused by Python.
_LONG = 20

#: Fields of a form at most.
_FIELDS = 200

#: Pages of a list at most.
_PAGES = 10_000

Value = TypeVar("Value")
Route = Callable[[Request], Awaitable[Response]]


class PageFrame(NamedTuple):
    """What each page says of the vault: its name, and what is checked out or looked at.

    `others` are the user's other vaults that may be looked at, by name, and `other` is that which
    is, "all" for all together. `moment` is the commit that is looked at, where it is not what is
    there now. `lag` says why what is shown is older than the notes. `waiting` has what waits for a
    decision in the vault that is served.
    """

    name: str
    branch: str
    commit: str
    moment: Commit | None = None
    lag: str = ""
    others: tuple[str, ...] = ()
    other: str = ""
    waiting: WaitingCounts | None = None


async def read(request: Request, work: Callable[[Vault], Value]) -> tuple[PageFrame, Value]:
    """Return what `work` makes of the vault as the request's `at` has it, and its frame."""
    workers: Workers = request.app.state.workers
    at, other = (request.query_params.get(name, "") for name in ("at", "vault"))
    look = partial(_look, at, other, BELOW.get(), work)
    return await workers.read(look, make_caller(request))


async def write(request: Request, work: Callable[[Vault], Value]) -> Value:
    """Return what `work` did.

    Raises:
        RefusedError: whoever asks may only read.
    """
    workers: Workers = request.app.state.workers
    return await workers.write(work, make_caller(request))


def make_caller(request: Request) -> Caller:
    """Return in whose name a request is answered, and what it may do."""
    visitor: Visitor = request.state.visitor
    site: Site = request.app.state.site
    return Caller(
        visitor.agent,
        "",
        site.ref,
        site.environment,
        may_write=visitor.may_write,
        asks_others=site.asks_others,
        guest=visitor.guest,
    )


def answers(route: Route) -> Route:
    """Let a route's expected failures be answered as pages, or as problem details.

    The gate answers what nobody expected.
    """

    @wraps(route)
    async def answer(request: Request) -> Response:
        try:
            return await route(request)
        except HTTPException as error:
            return refuse(request, error.status_code, error.detail)
        except (VaultError, OSError) as error:
            failure = wrap_os_error(error)
            if wants_page(request):
                return await refuse_page(request, find_status(failure), str(failure))
            return reject_failure(request, failure)

    return answer


def read_path(request: Request, below: str) -> str:
    """Return the vault's path behind a part of an address, whatever bytes it has."""
    raw: bytes = request.scope.get("raw_path") or request.url.path.encode()
    path = os.fsdecode(unquote_to_bytes(raw.partition(b"?")[0]))
    return path.removeprefix(below)


def read_count(text: str, most: int) -> int | None:
    """Return a number from 0 to `most`, which stands for all beyond it; None for what is none."""
    if not (text.isascii() and text.isdecimal()):
        return None
    return min(int(text), most) if len(text) < _LONG else most


def read_page(given: Mapping[str, str]) -> int:
    """Return which page of a list is asked for, from 0."""
    return read_count(given.get("page", ""), _PAGES) or 0


async def read_form(request: Request) -> dict[str, str]:
    """Return a form's fields, each once.

    Raises:
        HTTPException: it has too many fields.
        RefusedError: it is none, or has a field twice.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip()
    text = (await request.body()).decode("utf-8", "replace")
    try:
        pairs = parse_qsl(text, max_num_fields=_FIELDS)
    except ValueError:
        told = f"that form has more than {_FIELDS} fields; load the page again"
        raise HTTPException(400, told) from None
    if kind != "application/x-www-form-urlencoded" or len(dict(pairs)) != len(pairs):
        raise RefusedError("that form is not of this page; load the page again")
    return dict(pairs)


def go_back(request: Request, place: str, told: str = "", undo: str = "") -> Response:
    """Return an answer that leads to a page, which tells what was done, and what undoes it."""
    visit = getattr(request.state, "visit", None)
    if told and visit is not None:
        visit.notices.append((told, undo))
    return RedirectResponse(place, 303)


def _look(
    at: str, other: str, below: str, work: Callable[[Vault], Value], vault: Vault
) -> tuple[PageFrame, Value]:
    BELOW.set(below)  # Whoever works has a context of its own; links are made there too.
    others = _list_others(vault)
    if other == EVERY:
        list_askable(vault)  # It refuses a caller who cannot search other vaults.
    elif other:
        vault = open_other_vault(vault, other)
    from vaultmem.services.views.open_view import view_at

    seen = view_at(vault, at) if at else vault
    done = work(seen)  # It may find what waits, which the frame counts.
    return frame_vault(vault, at)._replace(others=others, other=other), done


def open_asked(vault: Vault, other: str) -> list[Vault]:
    """Return the vaults that a page searches: all if `other` says so, else the one it shows."""
    return add_named(vault, [other])[0] if other == EVERY else [vault]


def _list_others(vault: Vault) -> tuple[str, ...]:
    """Return the names of the user's other vaults, as far as they may be looked at from here."""
    if vault.opener is None:
        return ()
    try:
        known = list_askable(vault)
    except VaultError:
        return ()
    return tuple(name for name, path in known.items() if path != str(vault.root))


def frame_vault(vault: Vault, at: str) -> PageFrame:
    """Return what each page says of the vault, looked at as it was `at` a time."""
    head = vault.head()
    branch, commit = (head.branch, head.commit) if head else ("", "")
    frame = PageFrame(
        vault.root.name, branch, commit, _format_moment(vault, at), vault.notices.stale
    )
    return frame._replace(waiting=_count_waiting(vault))


def _count_waiting(vault: Vault) -> WaitingCounts | None:
    """Return what waits for a decision; None for a commit, of which nothing is decided."""
    from vaultmem.services.curation.review import count_waiting

    return count_waiting(vault) if vault.view.has_work_tree else None


def _format_moment(vault: Vault, at: str) -> Commit | None:
    if not at:
        return None
    from vaultmem.services.history.commits import resolve_commit

    try:
        return read_commit(vault.history, resolve_commit(vault, at))
    except NoteNotFoundError:
        return None


# What changed in a file, as pages show it: properties as values, text by its words.

#: Lines of a file's diff, and of all diffs of a page, that are shown unasked.
_LINES, _ALL_LINES = 120, 600

#: Characters of a property's value.
_VALUE = 1_000


class ShownChange(NamedTuple):
    """What was done to a file; `left` counts the lines that are not shown."""

    operation: FileOperation
    told: str
    properties: list[tuple[PropertyChange, list[DiffPiece]]]
    passages: list[Passage]
    left: int


def show_changes(operations: Iterable[FileOperation], whole: bool = False) -> Iterator[ShownChange]:
    """Yield what a page shows of changes; `whole`: however long they are."""
    room = _ALL_LINES
    for each in operations:
        lines = _list_lines(each)
        most = len(lines) if whole else min(_LINES, room)
        room -= min(len(lines), most)
        yield ShownChange(
            each,
            _summarise(each),
            list(_show_properties(each)),
            mark_diff(lines[:most]),
            max(len(lines) - most, 0),
        )


def _list_lines(operation: FileOperation) -> Sequence[str]:
    """Return the lines of a diff: of the properties as they are written, if no value changed."""
    note = operation.note
    if note is None:
        return ()
    return note.body if note.properties else (*note.frontmatter_diff, *note.body)


def _summarise(operation: FileOperation) -> str:
    """Return in words what was done, but for the properties, which stand below."""
    note = operation.note
    if note is None or not note.properties:
        return summarise_operation(operation)
    rest = note._replace(properties=(), frontmatter_diff=())
    return summarise_operation(operation._replace(note=rest)) if rest else "properties"


def _show_properties(operation: FileOperation) -> Iterator[tuple[PropertyChange, list[DiffPiece]]]:
    note = operation.note
    for each in note.properties if note else ():
        old, new = (v if isinstance(v, str) else ", ".join(v) for v in (each.old, each.new))
        yield each, diff_words(old[:_VALUE], new[:_VALUE])
