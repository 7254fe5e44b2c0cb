"""Routes of the operations: who asks, which version they know, and the answer as JSON."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from vaultmem.core.json_values import as_plain
from vaultmem.vault import Vault
from vaultmem.web.api.document import write_document
from vaultmem.web.api.given import read_given
from vaultmem.web.api.operation import BASE, Given, Moment, Operation, Tag
from vaultmem.web.api.table import OPERATIONS
from vaultmem.web.asking import answers, make_caller
from vaultmem.web.events import stream_events
from vaultmem.workers.workers import Workers


class Answered(NamedTuple):
    """An answer as JSON, and its version as an ETag, "" if it has none."""

    data: bytes
    tag: str = ""


def list_routes() -> list[BaseRoute]:
    """Return the routes of the API."""
    return [
        Route(f"{BASE}/openapi.json", _show_document),
        Route(f"{BASE}/events", stream_events),
        *(Route(each.route, _make_endpoint(each), methods=[each.method]) for each in OPERATIONS),
    ]


async def _show_document(_: Request) -> Response:
    return JSONResponse(write_document(OPERATIONS))


def _make_endpoint(operation: Operation) -> Any:
    @answers
    async def endpoint(request: Request) -> Response:
        given = await read_given(operation, request)
        caller = make_caller(request)._replace(ref=given.get("ref", ""))
        workers: Workers = request.app.state.workers
        read = workers.read_long if operation.long else workers.read
        done = await read(partial(_look, operation, given), caller)
        return _respond(request, done)

    return endpoint


def _look(operation: Operation, given: Given, vault: Vault) -> Answered:
    """Return what an operation that reads says of the vault at the moment that is asked about."""
    seen = vault
    if operation.moment is Moment.SEEN and given.get("at"):
        from vaultmem.services.reading.look import look_at

        seen = look_at(vault, given["at"])
    plain = as_plain(operation.run(seen, given))
    if vault.lag and isinstance(plain, dict):
        plain["behind"] = vault.lag
    return Answered(_write(plain), _make_tag(operation.tag, seen, plain))


def _make_tag(tag: Tag, seen: Vault, plain: Any) -> str:
    if tag is Tag.BLOB:
        return f'"{plain["blob"]}"'
    if tag is Tag.NONE or seen.lag:
        return ""
    head = seen.head()
    held = repr((head, seen.view.key())).encode("utf-8", "surrogatepass")
    return f'W/"{hashlib.sha256(held).hexdigest()[:24]}"'


def _respond(request: Request, done: Answered) -> Response:
    headers = {"ETag": done.tag, "Cache-Control": "no-cache"} if done.tag else {}
    if done.tag and _has_same(request.headers.getlist("if-none-match"), done.tag):
        return Response(status_code=304, headers=headers)
    return Response(done.data, 200, headers, "application/json")


def _has_same(given: Iterable[str], tag: str) -> bool:
    """Tell whether one of the versions that somebody has is this one; weak ones count."""
    named = re.findall(r'\*|"[^"]*"', ",".join(given))
    return tag.removeprefix("W/") in named or "*" in named


def _write(plain: Any) -> bytes:
    return json.dumps(plain, ensure_ascii=False, allow_nan=False).encode("utf-8")
