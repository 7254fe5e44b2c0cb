"""Which files have a word in their properties: many are looked at, few have to be read."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

#: Properties stand at the start, and a block of them has at most 64 KiB.
_START_BYTES = 68 * 1024

_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


def find_mentions(root: Path, paths: Iterable[str], word: bytes) -> list[str]:
    """Return those of the vault's files whose block of properties holds a word."""
    found = []
    for path in paths:
        try:
            descriptor = os.open(f"{root}{os.sep}{path}", _FLAGS | getattr(os, "O_BINARY", 0))
        except OSError:
            continue
        try:
            regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
            if regular and is_mentioned(os.read(descriptor, _START_BYTES), word):
                found.append(path)
        except OSError:
            continue
        finally:
            os.close(descriptor)
    return found


def is_mentioned(data: bytes, word: bytes) -> bool:
    """Tell whether a word stands where the properties of a note's bytes would be."""
    if not data.removeprefix(b"\xef\xbb\xbf").startswith(b"---"):
        return False
    end = data.find(b"\n---", 3)
    return word in (data if end < 0 else data[:end])
