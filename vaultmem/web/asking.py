"""How a request's work gets to the vault, and how what goes wrong there gets to whoever asked."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from functools import partial, wraps
from typing import NamedTuple, TypeVar
from urllib.parse import parse_qsl, unquote_to_bytes

from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from vaultmem.errors import NoteNotFoundError, RefusedError, VaultError, name_failure
from vaultmem.services.vaults.beside import EVERY, add_named, list_askable, see_other
from vaultmem.storage.git.log import Commit, read_commit
from vaultmem.vault import Vault
from vaultmem.web.refusing import refuse, refuse_failure
from vaultmem.web.site import BELOW, Site
from vaultmem.web.visits import Visitor
from vaultmem.workers.caller import Caller
from vaultmem.workers.workers import Workers

#: Digits of a number that nobody means; reading thousands of them is refused by Python.
_LONG = 20

#: Fields of a form at most.
_FIELDS = 200

#: Pages of a list at most.
_PAGES = 10_000

Value = TypeVar("Value")
Route = Callable[[Request], Awaitable[Response]]


class Frame(NamedTuple):
    """What each page says of the vault: its name, and what is checked out or looked at.

    `others` are the user's other vaults that may be looked at, by name, and `other` is that which
    is, "all" for all together. `moment` is the commit that is looked at, where it is not what is
    there now. `lag` says why what is shown is older than the notes.
    """

    name: str
    branch: str
    commit: str
    moment: Commit | None = None
    lag: str = ""
    others: tuple[str, ...] = ()
    other: str = ""


async def read(request: Request, work: Callable[[Vault], Value]) -> tuple[Frame, Value]:
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
            return refuse_failure(request, name_failure(error))

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


def read_page(given: QueryParams) -> int:
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
) -> tuple[Frame, Value]:
    BELOW.set(below)  # Whoever works has a context of its own; links are made there too.
    others = _list_others(vault)
    if other == EVERY:
        list_askable(vault)  # It refuses a caller who cannot search other vaults.
    elif other:
        vault = see_other(vault, other)
    from vaultmem.services.reading.look import look_at

    seen = look_at(vault, at) if at else vault
    return frame_vault(vault, at)._replace(others=others, other=other), work(seen)


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


def frame_vault(vault: Vault, at: str) -> Frame:
    """Return what each page says of the vault, looked at as it was `at` a time."""
    head = vault.head()
    branch, commit = (head.branch, head.commit) if head else ("", "")
    return Frame(vault.root.name, branch, commit, _name_moment(vault, at), vault.notices.stale)


def _name_moment(vault: Vault, at: str) -> Commit | None:
    if not at:
        return None
    from vaultmem.services.history.commits import resolve_commit

    try:
        return read_commit(vault.history, resolve_commit(vault, at))
    except NoteNotFoundError:
        return None
