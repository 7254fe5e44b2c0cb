"""What a request gives an operation: of the types that its schemas say, and nothing else."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, NoReturn
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import Request

from vaultmem.errors import RefusedError
from vaultmem.operations.operation import BASE, Operation
from vaultmem.operations.schemas import Schema, find_problem
from vaultmem.web.asking import read_path

#: Parameters at most, each counted as often as it is given.
_MANY = 500


async def read_given(operation: Operation, request: Request) -> dict[str, Any]:
    """Return what a request gives an operation.

    Raises:
        RefusedError: something is missing, unknown, twice there, or not what it should be.
    """
    query = request.scope["query_string"].decode("ascii", "replace")
    given = _read_query(operation.parameters, query)
    _refuse_unknown(operation, given, operation.parameters, "parameter")
    body = await _read_body(request)
    _refuse_unknown(operation, body, operation.body, "field of the body")
    given |= body
    for name in operation.parts:
        given[name] = request.path_params[name]
    if "path" in operation.parts:
        given["path"] = read_path(request, BASE + operation.path.partition("{")[0])
    if problem := find_problem(operation.takes, given):
        raise RefusedError(f"{operation.name}: {problem}")
    return given


def _refuse_unknown(
    operation: Operation, given: dict[str, Any], known: Mapping[str, Schema], what: str
) -> None:
    for name in given:
        if name not in known:
            there = f"there are {', '.join(known)}" if known else "it takes none"
            raise RefusedError(f'{operation.name}: "{name[:100]}" is no {what}; {there}')


def _read_query(known: dict[str, Schema], query: str) -> dict[str, Any]:
    """Return parameters, each of the type that it should be where its text is of one."""
    texts: dict[str, list[str]] = defaultdict(list)
    try:
        pairs = parse_qsl(query, keep_blank_values=True, errors="strict", max_num_fields=_MANY)
    except ValueError:
        raise RefusedError("the query is not UTF-8, or too long") from None
    for name, value in pairs:
        texts[name].append(value)
    return {name: _convert(name, known.get(name, {}), values) for name, values in texts.items()}


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
    """Return the fields of a JSON object, {} where there is no body.

    Raises:
        RefusedError: it is none.
        HTTPException: it says that it is something else.
    """
    data = await request.body()
    if not data:
        return {}
    kind = request.headers.get("content-type", "").partition(";")[0].strip().casefold()
    if kind != "application/json":
        raise HTTPException(415, "a body is JSON; send it with Content-Type: application/json")
    try:
        given = json.loads(data.decode("utf-8"), parse_constant=_refuse_constant)
        json.dumps(given, ensure_ascii=False).encode("utf-8")  # No half of a surrogate pair.
    except (ValueError, RecursionError):
        raise RefusedError("the body is not JSON; send an object in UTF-8") from None
    if not isinstance(given, dict):
        raise RefusedError("the body is JSON, but no object; send one")
    return given


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)
