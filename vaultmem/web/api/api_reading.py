"""HTTP operations that read: state of the vault, history, notes and their versions."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import PurePosixPath
from typing import Any

from starlette.exceptions import HTTPException

from vaultmem.errors import NoteNotFoundError, VersionMismatchError
from vaultmem.operations.branch_changes import BRANCH, LIST_CONFLICTS, PLAN_MERGE
from vaultmem.operations.checks import DOCTOR, STATUS
from vaultmem.operations.curation import CURATE, DEDUP, SIMILAR
from vaultmem.operations.declaration import Given, Operation, Tag, VersionScope
from vaultmem.operations.history_views import HISTORY_VIEWS
from vaultmem.operations.links import BACKLINKS, BROKEN, LINKS, ORPHANS
from vaultmem.operations.note_data import (
    counts_json,
)
from vaultmem.operations.notes import GET, LIST, LIST_SOURCES, SOURCE_NOTES
from vaultmem.operations.review_queue import LIST_REVIEW
from vaultmem.operations.schemas import record, rows
from vaultmem.operations.usage_stats import PINNED, RECENT, STATS
from vaultmem.vault import Vault

STATE = (
    STATUS,
    DOCTOR,
    STATS,
    RECENT,
    LIST_REVIEW,
    LIST_CONFLICTS,
    CURATE,
    DEDUP,
)


HISTORY = (*HISTORY_VIEWS, BRANCH, PLAN_MERGE)


# Operations that show notes, with their tags, contexts and links.


def _count_tags(vault: Vault, _: Given) -> Any:
    from vaultmem.services.views.read_notes import count_notes

    return counts_json("tags", count_notes(vault, lambda each: each.tags))


def _count_contexts(vault: Vault, _: Given) -> Any:
    from vaultmem.services.views.read_notes import count_notes

    return counts_json("contexts", count_notes(vault, lambda each: (each.context,)))


_COUNTS = rows(name="string", notes="integer")

_view = partial(Operation, versions=VersionScope.SEEN, tag=Tag.VIEW)

NOTES = (
    LIST,
    GET,
    _view(
        "list_tags",
        "GET /tags",
        "Count the notes of each tag; archived, deprecated and quarantined ones are left out.",
        _count_tags,
        output_schema=record(tags=_COUNTS),
    ),
    _view(
        "list_contexts",
        "GET /contexts",
        "Count the notes of each context; archived, deprecated and quarantined ones are left out.",
        _count_contexts,
        output_schema=record(contexts=_COUNTS),
    ),
    PINNED,
    LINKS,
    BACKLINKS,
    BROKEN,
    ORPHANS,
    LIST_SOURCES,
    SOURCE_NOTES,
    SIMILAR,
)


# Lists as tables, for spreadsheets.


def find_rows(operation: Operation) -> str:
    """Return the name of the list that a read operation returns first; "" without a list.

    Such a list is also served as CSV.
    """
    if operation.method != "GET" or "format" in operation.parameters:
        return ""
    lists = operation.output_schema.get("properties", {}).items()
    rows = (name for name, schema in lists if schema.get("items", {}).get("type") == "object")
    return next(rows, "")


def write_table(table: Sequence[Mapping[str, Any]]) -> bytes:
    """Return the rows of a list as CSV, with a header of all properties."""
    columns = dict.fromkeys(name for row in table for name in row)
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow(columns)
    writer.writerows([_format_cell(row.get(name)) for name in columns] for row in table)
    return buffer.getvalue().encode("utf-8", "replace")


def _format_cell(value: Any) -> str:
    if isinstance(value, str):
        # A spreadsheet would run such a text as a formula.
        return f"'{value}" if value.startswith(("=", "+", "-", "@", "\t", "\r")) else value
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return _format_cell(", ".join(value))
    return json.dumps(value, ensure_ascii=False) if value is not None else ""


# Versions of responses: the client's cached one, and the one it wants to change.

#: The value of `If-Match` for any version.
_ANY_VERSION = "*"


def make_tag(tag: Tag, view: Vault, plain: Any) -> str:
    """Return the ETag of a read result, "" if it has no ETag."""
    if tag is Tag.BLOB:
        return f'"{plain["blob"]}"'
    if tag is Tag.NONE or view.notices.stale:
        return ""
    version = repr((view.head(), view.view.key())).encode("utf-8", "surrogatepass")
    return f'W/"{hashlib.sha256(version).hexdigest()[:24]}"'


def has_same(headers: Iterable[str], tag: str) -> bool:
    """Return whether the client already has this version; weak ETags count."""
    tags = re.findall(r'\*|"[^"]*"', ",".join(headers))
    return tag.removeprefix("W/") in tags or _ANY_VERSION in tags


def read_wanted(headers: Iterable[str]) -> frozenset[str]:
    """Return the blob ids in `If-Match`, without weak ETags."""
    matches = re.findall(r'(\*)|(W/)?"([^"]*)"', ",".join(headers))
    return frozenset(star or blob for star, weak, blob in matches if not weak)


def expect(operation: Operation, arguments: Given, versions: frozenset[str], vault: Vault) -> Vault:
    """Return the vault for changing the operation's note, if it has one of these versions.

    Raises:
        HTTPException: no version is given.
        VersionMismatchError: the note has another version.
        NoteNotFoundError: there is no such note.
    """
    from vaultmem.services.views.read_notes import read_as_written, resolve_address

    try:
        path = resolve_address(vault, arguments["path"])[0]
    except NoteNotFoundError:
        if "at" in operation.body:  # A removed note can be restored.
            return vault
        raise
    blob = read_as_written(vault, path).blob
    if not versions:
        message = "If-Match is missing; send the ETag from GET, or * for any version"
        raise HTTPException(428, f"{operation.name}: {message}")
    if _ANY_VERSION in versions:
        return vault
    if blob not in versions:
        raise VersionMismatchError(f"{path}: changed since the version in If-Match; read it again")
    return replace(vault, expected={str(path): versions})


def tag_written(vault: Vault, path: PurePosixPath | None) -> str:
    """Return the ETag of a written note, "" if it was removed."""
    from vaultmem.services.views.open_view import view_at
    from vaultmem.services.views.read_notes import read_as_written

    if path is None:
        return ""
    view = view_at(vault) if vault.ref else vault
    return f'"{read_as_written(view, path).blob}"'
