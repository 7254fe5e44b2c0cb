"""The operations, and their routes: who asks, which version they know, and the answer as JSON.

What the table of operations says is served, documented, checked and tested.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, Router

from vaultmem.core.json_values import as_plain
from vaultmem.core.safe_text import escape_bytes
from vaultmem.errors import ChangedError, RefusedError, VaultError
from vaultmem.operations.finding import FINDING
from vaultmem.operations.notes import note_data
from vaultmem.operations.operation import BASE, Front, Given, Moment, Operation
from vaultmem.operations.projects import LIST as LIST_PROJECTS
from vaultmem.operations.session_views import SESSION_VIEWS
from vaultmem.operations.sessions import SESSION_RECORD
from vaultmem.operations.tasks import FAMILY, TASKS
from vaultmem.vault import Vault
from vaultmem.web.api.deciding import DECIDING
from vaultmem.web.api.document import write_document
from vaultmem.web.api.given import read_given
from vaultmem.web.api.history import HISTORY
from vaultmem.web.api.judging import JUDGING
from vaultmem.web.api.notes import NOTES
from vaultmem.web.api.state import STATE
from vaultmem.web.api.versions import expect, has_same, make_tag, read_wanted, tag_written
from vaultmem.web.api.writing import WRITING
from vaultmem.web.asking import answers, make_caller
from vaultmem.web.events import stream_events
from vaultmem.web.refusing import refuse_failure
from vaultmem.web.site import BELOW
from vaultmem.workers.caller import Caller
from vaultmem.workers.workers import Workers

OPERATIONS: tuple[Operation, ...] = (
    *NOTES,
    *FINDING,
    *JUDGING,
    *HISTORY,
    *SESSION_RECORD,
    *(each for each in SESSION_VIEWS if Front.HTTP not in each.excused),
    FAMILY,
    *TASKS,
    LIST_PROJECTS,
    *STATE,
    *WRITING,
    *DECIDING,
)


_READS_ONLY = (
    "this only reads; programs write without `vaultmem serve --read-only`, browsers with --write"
)

#: Characters of a session's name at most.
_LONGEST = 200


class Answered(NamedTuple):
    """An answer as JSON, its version as an ETag ("" if it has none), and where what is new is."""

    data: bytes
    tag: str = ""
    made: str = ""


async def _show_document(_: Request) -> Response:
    return JSONResponse(write_document(OPERATIONS))


def _make_endpoint(operation: Operation) -> Any:
    @answers
    async def endpoint(request: Request) -> Response:
        given = await read_given(operation, request)
        caller = _make_caller(request, given)._replace(operation=operation.name)
        workers: Workers = request.app.state.workers
        if operation.writes:
            return await _write(operation, given, request, workers, caller)
        read = workers.read_long if operation.long else workers.read
        done = await read(partial(_look, operation, given), caller)
        if done.tag and has_same(request.headers.getlist("if-none-match"), done.tag):
            return Response(status_code=304, headers={"ETag": done.tag})
        return _respond(done, 200, {})

    return endpoint


def _make_caller(request: Request, given: Given) -> Caller:
    session = request.headers.get("vaultmem-session", "")
    if len(session) > _LONGEST:
        raise RefusedError(f"Vaultmem-Session has {_LONGEST} characters at most")
    caller = make_caller(request)
    return caller._replace(ref=given.get("ref") or caller.ref, session=session)


async def _write(
    operation: Operation, given: Given, request: Request, workers: Workers, caller: Caller
) -> Response:
    if not (caller.may_write or caller.guest):  # A hub's guest is told more, by its workers.
        raise HTTPException(403, _READS_ONLY)
    wanted = read_wanted(request.headers.getlist("if-match"))
    try:
        done = await workers.write(partial(_change, operation, given, wanted), caller)
    except ChangedError as error:
        now = await workers.read(partial(_read_now, given), caller._replace(operation=""))
        refusal = refuse_failure(request, error, current=now)
        if now:
            refusal.headers["ETag"] = f'"{now["blob"]}"'
        return refusal
    made = f"{BELOW.get()}{BASE}/notes/{quote(done.made)}"
    place = {"Location": made} if done.made else {}
    return _respond(done, 201 if done.made else 200, place)


def _look(operation: Operation, given: Given, vault: Vault) -> Answered:
    """Return what an operation that reads says of the vault at the moment that is asked about."""
    seen = vault
    if operation.moment is Moment.SEEN and given.get("vault"):
        from vaultmem.services.vaults.beside import see_other

        seen = see_other(vault, given["vault"])
    if operation.moment is Moment.SEEN and given.get("at"):
        from vaultmem.services.reading.look import look_at

        seen = look_at(seen, given["at"])
    plain = as_plain(operation.answer(seen, given))
    if vault.notices.stale and isinstance(plain, dict):
        plain["behind"] = vault.notices.stale
    return Answered(_dump(plain), make_tag(operation.tag, seen, plain))


def _change(operation: Operation, given: Given, wanted: frozenset[str], vault: Vault) -> Answered:
    """Return what an operation did."""
    if not operation.changes:
        plain = _name_branch(vault, as_plain(operation.answer(vault, given)))
        is_new = operation.creates and plain["outcome"] == "created"
        tag = f'"{plain["blob"]}"' if operation.creates else ""
        return Answered(_dump(plain), tag, plain["path"] if is_new else "")
    vault = expect(operation, given, wanted, vault)
    done, path = operation.change(vault, given)
    return Answered(_dump(_name_branch(vault, as_plain(done))), tag_written(vault, path))


def _name_branch(vault: Vault, plain: Any) -> Any:
    """Return an answer with the branch that was written to, where that is not checked out."""
    return (
        {**plain, "ref": escape_bytes(vault.notices.branches[-1])}
        if vault.notices.branches
        else plain
    )


def _read_now(given: Given, vault: Vault) -> Any:
    """Return the note that is there now, None where none can be read."""
    from vaultmem.services.reading.read_notes import get_note

    try:
        return as_plain(note_data(get_note(vault, given["path"])))
    except VaultError:
        return None


def _respond(done: Answered, status: int, headers: dict[str, str]) -> Response:
    tag = {"ETag": done.tag} if done.tag else {}
    return Response(done.data, status, {**headers, **tag}, "application/json")


def _dump(plain: Any) -> bytes:
    return json.dumps(plain, ensure_ascii=False, allow_nan=False).encode("utf-8")


#: What answers below `BASE`.
ROUTER = Router(
    [
        Route("/openapi.json", _show_document),
        Route("/events", stream_events),
        *(Route(each.route, _make_endpoint(each), methods=[each.method]) for each in OPERATIONS),
    ]
)
