"""The file to which each recall and pack appends one line; `signals` takes them from there."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

#: The file's name, beside the state database.
LOG = "calls.log"

#: Sections that are kept of a call.
MAX_SECTIONS = 50

_LARGE = 1024 * 1024


class Call(NamedTuple):
    """One recall or pack: `kind` says which, `sent` is its tokens, `flat` the whole vault's.

    `at` is in seconds since the epoch; `found` counts sections that answered the question. `flat`
    is -1 where nobody counted it.
    """

    at: float
    kind: str
    query: str
    agent: str
    session: str
    sent: int
    flat: int
    found: int


def append(folder: Path, call: Call, sections: Sequence[tuple[str, str, float]]) -> int:
    """Note down a call with its sections (path, heading, score); return the file's size.

    A failure to write is no failure of the command: then 0 is returned.
    """
    kept = [[path, heading, round(score, 4)] for path, heading, score in sections[:MAX_SECTIONS]]
    name = f"{time.time_ns():x}{os.urandom(3).hex()}"
    values = (call.at, call.kind, call.query, call.agent, call.session, call.sent, call.flat)
    line = json.dumps([name, *values, call.found, kept]) + "\n"
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
    try:
        descriptor = os.open(folder / LOG, flags, 0o600)
        try:
            os.write(descriptor, line.encode())
            return os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)
    except OSError:
        return 0


def is_large(size: int) -> bool:
    """Tell whether the lines should be taken into the database now."""
    return size > _LARGE
