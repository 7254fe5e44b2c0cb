"""The OpenAPI document (3.1) of the operations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import vaultmem
from vaultmem.operations.operation import BASE, Operation, Tag
from vaultmem.operations.schemas import Schema, record, rows
from vaultmem.web.site import BELOW

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

_HEADERS = {
    "Agent": ("Vaultmem-Agent", "In whose name; `api` if not given. A program is never a person."),
    "Session": ("Vaultmem-Session", "The session that the agent works in."),
    "IfNoneMatch": ("If-None-Match", "The ETag that is known; 304 where it still holds."),
    "IfMatch": ("If-Match", "The ETag of the version that is changed; 412 where it is another."),
}


def write_document(operations: Iterable[Operation]) -> dict[str, Any]:
    """Return the document of these operations."""
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
                name: {"name": header, "in": "header", "description": told, "schema": _TEXT}
                for name, (header, told) in _HEADERS.items()
            },
        },
    }


def _describe(operation: Operation) -> dict[str, Any]:
    made: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.purpose,
        "parameters": _list_parameters(operation),
        "responses": _list_responses(operation),
    }
    if operation.body:
        asks = operation.asks
        content = {"application/json": {"schema": asks}}
        made["requestBody"] = {"required": bool(asks["required"]), "content": content}
    return made


def _list_parameters(operation: Operation) -> list[dict[str, Any]]:
    places = (("path", operation.parts), ("query", operation.parameters))
    listed = [
        {
            "name": name,
            "in": place,
            "required": place == "path" or name in operation.asks["required"],
            "description": schema["description"],
            "schema": {key: value for key, value in schema.items() if key != "description"},
        }
        for place, schemas in places
        for name, schema in schemas.items()
    ]
    headers = ["Agent", "Session"]
    if operation.tag is not Tag.NONE:
        headers.append("IfNoneMatch")
    if operation.changes:
        headers.append("IfMatch")
    return [*listed, *({"$ref": f"#/components/parameters/{name}"} for name in headers)]


def _list_responses(operation: Operation) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "description": "The answer.",
        "content": {"application/json": {"schema": operation.gives}},
    }
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
        "Problem details (RFC 9457): `detail` says why and what helps, in the words of the command "
        "line. `code` is a class of vaultmem.errors, `exit_code` that of the command."
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
            "description": "Events, until whoever listens goes.",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        },
        "default": _PROBLEMS,
    },
}
