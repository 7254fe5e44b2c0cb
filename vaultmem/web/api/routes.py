"""Routes of the HTTP operations and their OpenAPI document.

The table of operations defines the routes, their documentation, validation and tests.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple, NoReturn
from urllib.parse import parse_qsl, quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, Router

import vaultmem
from vaultmem.core.text.display import escape_bytes
from vaultmem.core.text.json_values import as_plain
from vaultmem.errors import RefusedError, VaultError, VersionMismatchError
from vaultmem.operations.declaration import BASE, FrontEnd, Given, Operation, Tag, VersionScope
from vaultmem.operations.finding import FINDING
from vaultmem.operations.notes import note_data
from vaultmem.operations.projects import LIST as LIST_PROJECTS
from vaultmem.operations.schemas import Schema, find_problem, record, rows
from vaultmem.operations.session_turns import SESSION_TURNS
from vaultmem.operations.session_views import SESSION_VIEWS
from vaultmem.operations.sessions import SESSION_RECORD
from vaultmem.operations.tasks import FAMILY, TASKS
from vaultmem.vault import Vault
from vaultmem.web.api.api_reading import (
    HISTORY,
    NOTES,
    STATE,
    expect,
    find_rows,
    has_same,
    make_tag,
    read_wanted,
    tag_written,
    write_table,
)
from vaultmem.web.api.api_writing import DECIDING, JUDGING, WRITING
from vaultmem.web.background_jobs import stream_events
from vaultmem.web.page_requests import answers, make_caller, read_path, reject_failure
from vaultmem.web.rendering import BELOW
from vaultmem.workers import Caller, Workers

# The OpenAPI document (3.1) of the operations.

_PROBLEM = "#/components/schemas/Problem"

_SECURITY = {
    "token": {
        "type": "http",
        "scheme": "bearer",
        "description": "The token of programs, which `vaultmem serve` keeps in the state folder.",
    },
    "cookie": {
        "type": "apiKey",
        "in": "cookie",
        "name": "vaultmem-PORT",
        "description": "What a browser got for a one-time link; it writes only under --write.",
    },
}

_TEXT: Schema = {"type": "string", "maxLength": 200}

_FORMAT: dict[str, Any] = {
    "name": "format",
    "in": "query",
    "description": "json, or csv: the rows of the list alone, as a table.",
    "schema": {"type": "string", "enum": ["json", "csv"], "default": "json"},
}

_HEADERS = {
    "Agent": ("Vaultmem-Agent", "In whose name; `api` if not given. A program is never a person."),
    "Session": ("Vaultmem-Session", "The session that the agent works in."),
    "IfNoneMatch": ("If-None-Match", "The ETag that is known; 304 where it still holds."),
    "IfMatch": ("If-Match", "The ETag of the version that is changed; 412 where it is another."),
}


def write_document(operations: Iterable[Operation]) -> dict[str, Any]:
    """Return the OpenAPI document of these operations."""
    paths: dict[str, dict[str, Any]] = {}
    for each in operations:
        paths.setdefault(each.path, {})[each.method.lower()] = _describe(each)
    paths["/events"] = {"get": _EVENTS}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "vaultmem",
            "summary": "An agent's long-term memory: notes, recall, packs, history.",
            "version": vaultmem.__version__,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": f"{BELOW.get()}{BASE}"}],
        "security": [{name: []} for name in _SECURITY],
        "paths": paths,
        "components": {
            "schemas": {"Problem": _describe_problem()},
            "securitySchemes": _SECURITY,
            "parameters": {
                "Format": _FORMAT,
                **{
                    name: {"name": header, "in": "header", "description": text, "schema": _TEXT}
                    for name, (header, text) in _HEADERS.items()
                },
            },
        },
    }


def _describe(operation: Operation) -> dict[str, Any]:
    description: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.purpose,
        "parameters": _list_parameters(operation),
        "responses": _list_responses(operation),
    }
    if operation.body:
        schema = operation.request_schema
        content = {"application/json": {"schema": schema}}
        description["requestBody"] = {"required": bool(schema["required"]), "content": content}
    return description


def _list_parameters(operation: Operation) -> list[dict[str, Any]]:
    locations = (("path", operation.parts), ("query", operation.parameters))
    parameters = [
        {
            "name": name,
            "in": location,
            "required": location == "path" or name in operation.request_schema["required"],
            "description": schema["description"],
            "schema": {key: value for key, value in schema.items() if key != "description"},
        }
        for location, schemas in locations
        for name, schema in schemas.items()
    ]
    headers = ["Format"] if find_rows(operation) else []
    headers += ["Agent", "Session"]
    if operation.tag is not Tag.NONE:
        headers.append("IfNoneMatch")
    if operation.changes:
        headers.append("IfMatch")
    return [*parameters, *({"$ref": f"#/components/parameters/{name}"} for name in headers)]


def _list_responses(operation: Operation) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "description": "The answer.",
        "content": {"application/json": {"schema": operation.output_schema}},
    }
    if find_rows(operation):
        answer["content"][_CSV] = {"schema": {"type": "string"}}
    if operation.tag is not Tag.NONE or operation.changes:
        answer["headers"] = {"ETag": {"schema": {"type": "string"}}}
    responses: dict[str, Any] = {"200": answer, "default": _PROBLEMS}
    if operation.creates:
        responses["201"] = {**answer, "description": "It was made."}
    if operation.tag is not Tag.NONE:
        responses["304"] = {"description": "What is known still holds."}
    return responses


def _describe_problem() -> Schema:
    problem = record(type="string", title="string", status="integer", detail="string")
    problem["description"] = (
        "Problem details (RFC 9457): `detail` gives the reason and what helps, in the words of the "
        "command line. `code` is a class of vaultmem.errors, `exit_code` that of the command."
    )
    problem["properties"] |= {
        "code": {"type": "string"},
        "exit_code": {"type": "integer"},
        "conflicts": rows(path="string", what="string", ours="string", theirs="string"),
    }
    return problem


_PROBLEMS = {
    "description": "Why it cannot be done, and what helps.",
    "content": {"application/problem+json": {"schema": {"$ref": _PROBLEM}}},
}

_EVENTS = {
    "operationId": "listen",
    "summary": "Listen to which notes may have changed: events `changed`, each a list of paths.",
    "responses": {
        "200": {
            "description": "Events, until the client disconnects.",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        },
        "default": _PROBLEMS,
    },
}


# The arguments of an operation, validated against its schemas.

#: The most parameters of a request, counting repeated ones.
_MAX_PARAMETERS = 500


async def read_given(operation: Operation, request: Request) -> dict[str, Any]:
    """Return the arguments of an operation from a request.

    Raises:
        RefusedError: an argument is missing, unknown, repeated, or of the wrong type.
    """
    query = request.scope["query_string"].decode("ascii", "replace")
    formats: dict[str, Schema] = {"format": _FORMAT["schema"]} if find_rows(operation) else {}
    parameters = {**operation.parameters, **formats}
    arguments = _read_query(parameters, query)
    _reject_unknown(operation, arguments, parameters, "parameter")
    body = await _read_body(request)
    _reject_unknown(operation, body, operation.body, "field of the body")
    arguments |= body
    for name in operation.parts:
        arguments[name] = request.path_params[name]
    if "path" in operation.parts:
        arguments["path"] = read_path(request, BASE + operation.path.partition("{")[0])
    schema = operation.input_schema
    if problem := find_problem({**schema, "properties": schema["properties"] | formats}, arguments):
        raise RefusedError(f"{operation.name}: {problem}")
    return arguments


def _reject_unknown(
    operation: Operation, arguments: dict[str, Any], schemas: Mapping[str, Schema], noun: str
) -> None:
    for name in arguments:
        if name not in schemas:
            names = f"known are {', '.join(schemas)}" if schemas else "there are none"
            raise RefusedError(f'{operation.name}: unknown {noun} "{name[:100]}"; {names}')


def _read_query(schemas: dict[str, Schema], query: str) -> dict[str, Any]:
    """Return parameters, converted to the types of their schemas if possible."""
    texts: dict[str, list[str]] = defaultdict(list)
    try:
        pairs = parse_qsl(
            query, keep_blank_values=True, errors="strict", max_num_fields=_MAX_PARAMETERS
        )
    except ValueError:
        raise RefusedError("the query is not UTF-8, or too long") from None
    for name, value in pairs:
        texts[name].append(value)
    return {name: _convert(name, schemas.get(name, {}), values) for name, values in texts.items()}


def _convert(name: str, schema: Schema, values: list[str]) -> Any:
    kind = schema.get("type")
    if kind == "array":
        return values
    if len(values) > 1:
        raise RefusedError(f'"{name}" is given {len(values)} times; give it once')
    if kind == "boolean":
        return {"true": True, "false": False}.get(values[0], values[0])
    if kind == "integer" and re.fullmatch(r"-?[0-9]{1,18}", values[0]):
        return int(values[0])
    return values[0]


async def _read_body(request: Request) -> dict[str, Any]:
    """Return the fields of a JSON object, {} without a body.

    Raises:
        RefusedError: it is not a JSON object.
        HTTPException: its content type is not JSON.
    """
    data = await request.body()
    if not data:
        return {}
    kind = request.headers.get("content-type", "").partition(";")[0].strip().casefold()
    if kind != "application/json":
        raise HTTPException(415, "the body must be JSON; send Content-Type: application/json")
    try:
        fields = json.loads(data.decode("utf-8"), parse_constant=_reject_constant)
        json.dumps(fields, ensure_ascii=False).encode("utf-8")  # Rejects lone surrogates.
    except (ValueError, RecursionError):
        raise RefusedError("the body is not JSON; send an object in UTF-8") from None
    if not isinstance(fields, dict):
        raise RefusedError("the body is JSON, but not an object; send an object")
    return fields


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(name)


OPERATIONS: tuple[Operation, ...] = (
    *NOTES,
    *FINDING,
    *JUDGING,
    *HISTORY,
    *SESSION_RECORD,
    *(each for each in SESSION_VIEWS if FrontEnd.HTTP not in each.excused),
    *SESSION_TURNS,
    FAMILY,
    *TASKS,
    LIST_PROJECTS,
    *STATE,
    *WRITING,
    *DECIDING,
)

_BY_NAME = {each.name: each for each in OPERATIONS}


_READS_ONLY = (
    "this server is read-only for you; "
    "start `vaultmem serve` without --read-only, or with --write for a browser"
)

#: The most characters of a session's name.
_MAX_SESSION_CHARS = 200


_JSON, _CSV = "application/json", "text/csv"


class ApiResponse(NamedTuple):
    """A response, its version as an ETag ("" without one), and the path of a new note."""

    data: bytes
    tag: str = ""
    new_path: str = ""
    kind: str = _JSON


async def _show_document(_: Request) -> Response:
    return JSONResponse(write_document(OPERATIONS))


def _make_endpoint(operation: Operation) -> Any:
    @answers
    async def endpoint(request: Request) -> Response:
        arguments = await read_given(operation, request)
        rows = find_rows(operation)
        if rows and arguments.pop("format", "json") == "json":
            rows = ""
        caller = _make_caller(request, arguments)._replace(operation=operation.name)
        workers: Workers = request.app.state.workers
        if operation.writes:
            return await _write(operation, arguments, request, workers, caller)
        read = workers.read_long if operation.long else workers.read
        answer = await read(partial(_look, operation.name, arguments, rows), caller)
        if answer.tag and has_same(request.headers.getlist("if-none-match"), answer.tag):
            return Response(status_code=304, headers={"ETag": answer.tag})
        name = f'attachment; filename="{operation.path.split("/")[1]}.csv"'
        return _respond(answer, 200, {"Content-Disposition": name} if rows else {})

    return endpoint


def _make_caller(request: Request, arguments: Given) -> Caller:
    session = request.headers.get("vaultmem-session", "")
    if len(session) > _MAX_SESSION_CHARS:
        raise RefusedError(f"Vaultmem-Session has {_MAX_SESSION_CHARS} characters at most")
    caller = make_caller(request)
    return caller._replace(ref=arguments.get("ref") or caller.ref, session=session)


async def _write(
    operation: Operation, arguments: Given, request: Request, workers: Workers, caller: Caller
) -> Response:
    if not (caller.may_write or caller.guest):  # The workers of a hub report a more exact error.
        raise HTTPException(403, _READS_ONLY)
    versions = read_wanted(request.headers.getlist("if-match"))
    try:
        answer = await workers.write(partial(_change, operation.name, arguments, versions), caller)
    except VersionMismatchError as error:
        note = await workers.read(partial(_read_now, arguments), caller._replace(operation=""))
        refusal = reject_failure(request, error, current=note)
        if note:
            refusal.headers["ETag"] = f'"{note["blob"]}"'
        return refusal
    address = f"{BELOW.get()}{BASE}/notes/{quote(answer.new_path)}"
    headers = {"Location": address} if answer.new_path else {}
    return _respond(answer, 201 if answer.new_path else 200, headers)


def _look(name: str, arguments: Given, rows: str, vault: Vault) -> ApiResponse:
    """Return the response of a read operation, for the vault now or at the requested time.

    The operation is passed by name, since another process might run it. `rows` names the list to
    return as CSV, "" for the whole response as JSON.
    """
    operation, view = _BY_NAME[name], vault
    if operation.versions is VersionScope.SEEN and arguments.get("vault"):
        from vaultmem.services.vaults.companions import open_other_vault

        view = open_other_vault(vault, arguments["vault"])
    if operation.versions is VersionScope.SEEN and arguments.get("at"):
        from vaultmem.services.views.open_view import view_at

        view = view_at(view, arguments["at"])
    plain = as_plain(operation.answer(view, arguments))
    if vault.notices.stale and isinstance(plain, dict):
        plain["behind"] = vault.notices.stale
    tag = make_tag(operation.tag, view, plain)
    if rows:
        return ApiResponse(write_table(plain[rows]), tag, kind=_CSV)
    return ApiResponse(_dump(plain), tag)


def _change(name: str, arguments: Given, versions: frozenset[str], vault: Vault) -> ApiResponse:
    """Return the response of a write operation."""
    operation = _BY_NAME[name]
    if not operation.changes:
        plain = _label_branch(vault, as_plain(operation.answer(vault, arguments)))
        is_new = operation.creates and plain["outcome"] == "created"
        tag = f'"{plain["blob"]}"' if operation.creates else ""
        return ApiResponse(_dump(plain), tag, plain["path"] if is_new else "")
    vault = expect(operation, arguments, versions, vault)
    result, path = operation.change(vault, arguments)
    return ApiResponse(_dump(_label_branch(vault, as_plain(result))), tag_written(vault, path))


def _label_branch(vault: Vault, plain: Any) -> Any:
    """Return a response with the written branch, if it is not checked out.

    Warnings about written text that tries to instruct an agent are added, too.
    """
    if vault.notices.suspicious and isinstance(plain, dict):
        plain["suspicious"] = list(map(escape_bytes, vault.notices.suspicious))
    return (
        {**plain, "ref": escape_bytes(vault.notices.branches[-1])}
        if vault.notices.branches
        else plain
    )


def _read_now(arguments: Given, vault: Vault) -> Any:
    """Return the current note, None if it cannot be read."""
    from vaultmem.services.views.read_notes import get_note

    try:
        return as_plain(note_data(get_note(vault, arguments["path"])))
    except VaultError:
        return None


def _respond(answer: ApiResponse, status: int, headers: dict[str, str]) -> Response:
    tag = {"ETag": answer.tag} if answer.tag else {}
    return Response(answer.data, status, {**headers, **tag}, answer.kind)


def _dump(plain: Any) -> bytes:
    return json.dumps(plain, ensure_ascii=False, allow_nan=False).encode("utf-8")


#: The router of all paths below `BASE`.
ROUTER = Router(
    [
        Route("/openapi.json", _show_document),
        Route("/events", stream_events),
        *(Route(each.route, _make_endpoint(each), methods=[each.method]) for each in OPERATIONS),
    ]
)
