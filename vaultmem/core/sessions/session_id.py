"""Ids of sessions: each is the name of a note, so it must be one on every system."""

from __future__ import annotations

import hashlib
import re
from datetime import datetime
from pathlib import PurePosixPath

from vaultmem.core.paths import check_new_name
from vaultmem.errors import RefusedError

#: The folder of the sessions' notes.
FOLDER = "sessions"

_SAFE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9_-])?")
_LINK = re.compile(r"\[\[([^\[\]|]+)(?:\|[^\[\]]*)?\]\]")
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


def session_path(session: str) -> PurePosixPath:
    """Return where the note of a session is written."""
    return PurePosixPath(FOLDER, f"{session}.md")


def plain_id(text: str) -> str:
    """Return the id that a text means: an id, `[[id]]`, or the note's path."""
    link = _LINK.fullmatch(text.strip())
    bare = link[1].strip() if link else text.strip()
    return bare.removeprefix(f"{FOLDER}/").removesuffix(".md")


def check_session_id(text: str) -> str:
    """Return an id that a new session can have.

    Raises:
        RefusedError: it cannot be a file's name on every system; says one that can.
    """
    session = plain_id(text)
    if not is_safe_id(session):
        raise RefusedError(
            f'"{text}" cannot be a session\'s id; use letters, digits, ".", "_" and "-", '
            f"100 at most, such as {map_session_id(text)}"
        )
    return session


def is_safe_id(text: str) -> bool:
    """Tell whether every system can hold a note of this name, and git a trailer of it."""
    if not _SAFE.fullmatch(text) or text.lower().endswith(".md"):
        return False
    try:
        check_new_name(session_path(text))
    except RefusedError:
        return False
    return True


def map_session_id(text: str) -> str:
    """Return the id for what another program calls its session: the same each time.

    A safe one is kept; of others what is safe, and a digest that tells them apart.
    """
    if is_safe_id(text):
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    bare = _UNSAFE.sub("-", text).strip("-._")[:60].rstrip("-._")
    return f"s-{bare}-{digest}" if bare else f"s-{digest}"


def make_session_id(now: datetime, chance: str) -> str:
    """Return a new id that sorts by time; `chance` is a few random hexadecimal digits."""
    return f"s-{now:%Y%m%d-%H%M%S}-{chance}"
