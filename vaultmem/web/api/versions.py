"""Versions of answers: which one somebody has, and which one they want to change."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

from starlette.exceptions import HTTPException

from vaultmem.errors import ChangedError, NoteNotFoundError
from vaultmem.operations.operation import Given, Operation, Tag
from vaultmem.vault import Vault

#: What `If-Match` says where any version will do.
_ANY = "*"


def make_tag(tag: Tag, seen: Vault, plain: Any) -> str:
    """Return the ETag of what was read, "" if it has none."""
    if tag is Tag.BLOB:
        return f'"{plain["blob"]}"'
    if tag is Tag.NONE or seen.notices.stale:
        return ""
    held = repr((seen.head(), seen.view.key())).encode("utf-8", "surrogatepass")
    return f'W/"{hashlib.sha256(held).hexdigest()[:24]}"'


def has_same(given: Iterable[str], tag: str) -> bool:
    """Tell whether one of the versions that somebody has is this one; weak ones count."""
    named = re.findall(r'\*|"[^"]*"', ",".join(given))
    return tag.removeprefix("W/") in named or _ANY in named


def read_wanted(given: Iterable[str]) -> frozenset[str]:
    """Return the versions that `If-Match` names, as blob ids; weak ones name none."""
    named = re.findall(r'(\*)|(W/)?"([^"]*)"', ",".join(given))
    return frozenset(star or blob for star, weak, blob in named if not weak)


def expect(operation: Operation, given: Given, wanted: frozenset[str], vault: Vault) -> Vault:
    """Return the vault for changing the note of an operation where it is one of these versions.

    Raises:
        HTTPException: none is named.
        ChangedError: it is another.
        NoteNotFoundError: there is none.
    """
    from vaultmem.services.reading.read_notes import read_as_written, resolve_address

    try:
        path = resolve_address(vault, given["path"])[0]
    except NoteNotFoundError:
        if "at" in operation.body:  # One that was removed comes back.
            return vault
        raise
    blob = read_as_written(vault, path).blob
    if not wanted:
        told = "say in If-Match which version is changed: the ETag that GET gave, or * for any"
        raise HTTPException(428, f"{operation.name}: {told}")
    if _ANY in wanted:
        return vault
    if blob not in wanted:
        raise ChangedError(f"{path}: not the version of If-Match any more; read it again")
    return replace(vault, expected={str(path): wanted})


def tag_written(vault: Vault, path: PurePosixPath | None) -> str:
    """Return the ETag of a note that was written, "" where it is gone."""
    from vaultmem.services.reading.look import look_at
    from vaultmem.services.reading.read_notes import read_as_written

    if path is None:
        return ""
    seen = look_at(vault) if vault.ref else vault
    return f'"{read_as_written(seen, path).blob}"'
