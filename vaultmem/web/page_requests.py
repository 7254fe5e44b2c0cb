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
from vaultmem.services.vaults.companions import (
    ALL_VAULTS,
    add_named,
    list_askable,
    open_other_vault,
)
from vaultmem.storage.files import UnsafeFileError
from vaultmem.storage.git.log import Commit, read_commit
from vaultmem.vault import Vault
from vaultmem.web.rendering import BELOW, Site, Visitor
from vaultmem.workers import Caller, Workers

if TYPE_CHECKING:
    from vaultmem.services.curation.review import WaitingCounts

# Errors: a page for browsers, and problem details (RFC 9457) for programs.

#: The HTTP status of each expected error; others use their nearest base class.
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


#: Headers of some statuses: the login scheme, and seconds until a retry.
_HEADERS = {401: {"WWW-Authenticate": "Bearer"}, 503: {"Retry-After": "5"}}


_NOT_FOUND = HTTPStatus.NOT_FOUND


def find_status(error: VaultError) -> int:
    """Return the HTTP status of an expected error."""
    return next(STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES)


def reject_failure(request: Request, error: VaultError, **facts: Any) -> Response:
    """Return the response to an expected error, with details for programs."""
    facts = {"code": type(error).__name__, "exit_code": error.exit_code, **facts}
    if isinstance(error, MergeConflictError):
        facts["conflicts"] = as_plain(error.conflicts)
    return refuse(request, find_status(error), escape_bytes(str(error)), **facts)


def refuse(request: Request, status: int, reason: str, **facts: Any) -> Response:
    """Return the response to a failed request, with the reason and a remedy.

    `facts` are for programs only.
    """
    if wants_page(request):
        return _show_message(request, status, reason)
    problem = {"type": "about:blank", "title": get_status_text(status), "status": status}
    return JSONResponse(
        {**problem, "detail": reason, **facts},
        status,
        _HEADERS.get(status),
        media_type="application/problem+json",
    )


#: The part of an error that helps only in a terminal: the page has links instead.
_FOR_TERMINALS = re.compile(r"; (?:did you mean .*\?|(?:see|run) `vaultmem .*)$", re.DOTALL)


async def refuse_page(request: Request, status: int, reason: str) -> Response:
    """Return a page that shows the reason of a failure, with the usual header.

    If a page is not found, it lists similar names.
    """
    work = partial(_find_similar, request.url.path) if status == _NOT_FOUND else _find_nothing
    # The query string can be the cause: without it, the header can still be shown.
    for page_request in (request, Request({**request.scope, "query_string": b""})):
        with suppress(VaultError, OSError):
            frame, similar_names = await read(page_request, work)
            if status == _NOT_FOUND:
                reason = _FOR_TERMINALS.sub("", reason) + "." * (not reason.endswith("."))
            return _show_message(page_request, status, reason, frame, similar_names)
    return refuse(request, status, reason)


def _show_message(
    request: Request,
    status: int,
    reason: str,
    frame: PageFrame | None = None,
    similar_names: Sequence[tuple[str, str]] = (),
) -> Response:
    from vaultmem.web.rendering import render_page

    title = get_status_text(status)
    return render_page(
        request, "message.html", status, title=title, reason=reason, vault=frame, near=similar_names
    )


def _find_nothing(_: Vault) -> list[tuple[str, str]]:
    return []


def _find_similar(path: str, vault: Vault) -> list[tuple[str, str]]:
    """Return names similar to the last part of an address, each with its page."""
    page, _, name = path.lstrip("/").partition("/")
    if page == "session":
        from vaultmem.core.text.suggest import find_near
        from vaultmem.services.sessions.find_session import list_facts

        similar_names = find_near(name, [each.id for each in list_facts(vault)])
        return [(each, f"/session/{each}") for each in similar_names]
    from vaultmem.services.views.resolve_names import find_similar

    return [(each, f"/note/{each}") for each in find_similar(vault, name or page)]


def get_status_text(status: int) -> str:
    """Return the HTTP reason phrase of a status."""
    return HTTPStatus(status).phrase


def wants_page(request: Request) -> bool:
    """Return whether a browser requests a page, rather than a program an API response."""
    path = request.url.path
    return not path.startswith(("/api/", "/mcp")) and "text/html" in request.headers.get(
        "accept", ""
    )


#: Numbers with more digits are too large; Python refuses to parse thousands of digits.
_MAX_DIGITS = 20

#: The most fields of a form.
_FIELDS = 200

#: The most pages of a list.
_PAGES = 10_000

Value = TypeVar("Value")
Route = Callable[[Request], Awaitable[Response]]


class PageFrame(NamedTuple):
    """The values that each page shows about the vault: name, checked-out branch and commit.

    `others` are the names of the user's other vaults, and `other` is the viewed one of them, "all"
    for all together. `viewed_commit` is None for the current state. `lag` is the reason why the
    view is older than the notes. `waiting` counts the undecided items of the served vault.
    """

    name: str
    branch: str
    commit: str
    viewed_commit: Commit | None = None
    lag: str = ""
    others: tuple[str, ...] = ()
    other: str = ""
    waiting: WaitingCounts | None = None


async def read(request: Request, work: Callable[[Vault], Value]) -> tuple[PageFrame, Value]:
    """Return the result of `work` on the vault at the request's `at`, and the page's frame."""
    workers: Workers = request.app.state.workers
    at, other = (request.query_params.get(name, "") for name in ("at", "vault"))
    look = partial(_look, at, other, BELOW.get(), work)
    return await workers.read(look, make_caller(request))


async def write(request: Request, work: Callable[[Vault], Value]) -> Value:
    """Return the result of `work`, which may change the vault.

    Raises:
        RefusedError: the caller may only read.
    """
    workers: Workers = request.app.state.workers
    return await workers.write(work, make_caller(request))


def make_caller(request: Request) -> Caller:
    """Return the caller of a request, with its permissions."""
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
    """Wrap a route: expected errors become pages, or problem details.

    `AccessMiddleware` handles unexpected errors.
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


def read_path(request: Request, prefix: str) -> str:
    """Return the vault path after a URL prefix, with any bytes."""
    raw: bytes = request.scope.get("raw_path") or request.url.path.encode()
    path = os.fsdecode(unquote_to_bytes(raw.partition(b"?")[0]))
    return path.removeprefix(prefix)


def read_count(text: str, limit: int) -> int | None:
    """Return a number from 0 to `limit`, larger ones as `limit`; None if it is not a number."""
    if not (text.isascii() and text.isdecimal()):
        return None
    return min(int(text), limit) if len(text) < _MAX_DIGITS else limit


def read_page(params: Mapping[str, str]) -> int:
    """Return the requested page of a list, from 0."""
    return read_count(params.get("page", ""), _PAGES) or 0


async def read_form(request: Request) -> dict[str, str]:
    """Return a form's fields.

    Raises:
        HTTPException: it has too many fields.
        RefusedError: it is not a form, or has a field twice.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip()
    text = (await request.body()).decode("utf-8", "replace")
    try:
        pairs = parse_qsl(text, max_num_fields=_FIELDS)
    except ValueError:
        message = f"form has more than {_FIELDS} fields; reload the page"
        raise HTTPException(400, message) from None
    if kind != "application/x-www-form-urlencoded" or len(dict(pairs)) != len(pairs):
        raise RefusedError("invalid form; reload the page")
    return dict(pairs)


def go_back(request: Request, address: str, message: str = "", undo: str = "") -> Response:
    """Return a redirect to a page, which shows what was done, and the commit to undo."""
    visit = getattr(request.state, "visit", None)
    if message and visit is not None:
        visit.notices.append((message, undo))
    return RedirectResponse(address, 303)


def _look(
    at: str, other: str, prefix: str, work: Callable[[Vault], Value], vault: Vault
) -> tuple[PageFrame, Value]:
    BELOW.set(prefix)  # The worker has its own context; links are made there too.
    others = _list_others(vault)
    if other == ALL_VAULTS:
        list_askable(vault)  # Rejects a caller who cannot search other vaults.
    elif other:
        vault = open_other_vault(vault, other)
    from vaultmem.services.views.open_view import view_at

    view = view_at(vault, at) if at else vault
    result = work(view)  # First, since it can find new items for the frame's count.
    return frame_vault(vault, at)._replace(others=others, other=other), result


def open_asked(vault: Vault, other: str) -> list[Vault]:
    """Return the vaults that a page searches: all for `EVERY`, or else the one it shows."""
    return add_named(vault, [other])[0] if other == ALL_VAULTS else [vault]


def _list_others(vault: Vault) -> tuple[str, ...]:
    """Return the names of the user's other vaults that may be viewed from here."""
    if vault.opener is None:
        return ()
    try:
        vault_paths = list_askable(vault)
    except VaultError:
        return ()
    return tuple(name for name, path in vault_paths.items() if path != str(vault.root))


def frame_vault(vault: Vault, at: str) -> PageFrame:
    """Return the values that each page shows about the vault `at` a time."""
    head = vault.head()
    branch, commit = (head.branch, head.commit) if head else ("", "")
    frame = PageFrame(
        vault.root.name, branch, commit, _find_viewed_commit(vault, at), vault.notices.stale
    )
    return frame._replace(waiting=_count_waiting(vault))


def _count_waiting(vault: Vault) -> WaitingCounts | None:
    """Return the counts of undecided items; None for a commit, where nothing can be decided."""
    from vaultmem.services.curation.review import count_waiting

    return count_waiting(vault) if vault.view.has_work_tree else None


def _find_viewed_commit(vault: Vault, at: str) -> Commit | None:
    if not at:
        return None
    from vaultmem.services.history.commits import resolve_commit

    try:
        return read_commit(vault.history, resolve_commit(vault, at))
    except NoteNotFoundError:
        return None


# Changes of a file as pages show them: properties as values, text by words.

#: The most lines of a file's diff, and of all diffs on a page, that are shown by default.
_LINES, _ALL_LINES = 120, 600

#: The most characters of a property's value.
_VALUE = 1_000


class ShownChange(NamedTuple):
    """One operation on a file as displayed; `hidden_lines` counts the omitted lines."""

    operation: FileOperation
    summary: str
    properties: list[tuple[PropertyChange, list[DiffPiece]]]
    passages: list[Passage]
    hidden_lines: int


def show_changes(operations: Iterable[FileOperation], whole: bool = False) -> Iterator[ShownChange]:
    """Yield changes as a page shows them; `whole` disables the line limits."""
    room = _ALL_LINES
    for each in operations:
        lines = _list_lines(each)
        limit = len(lines) if whole else min(_LINES, room)
        room -= min(len(lines), limit)
        yield ShownChange(
            each,
            _summarise(each),
            list(_show_properties(each)),
            mark_diff(lines[:limit]),
            max(len(lines) - limit, 0),
        )


def _list_lines(operation: FileOperation) -> Sequence[str]:
    """Return the lines of a diff, including the raw frontmatter if no property value changed."""
    note = operation.note
    if note is None:
        return ()
    return note.body if note.properties else (*note.frontmatter_diff, *note.body)


def _summarise(operation: FileOperation) -> str:
    """Return a summary of an operation, without the properties, which are listed below it."""
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
