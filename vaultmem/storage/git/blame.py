"""Which commit each line of a file comes from, and which files have a word in their properties."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from vaultmem.storage.git.vault_history import History

_HEADER = re.compile(r"([0-9a-f]{40}) ([0-9]+) ([0-9]+)(?: [0-9]+)?")


class LineOrigin(NamedTuple):
    r"""A line without its `\n`, and the commit that wrote it; no UTF-8 is lone surrogates.

    `path` (inside the repository) and `number` (1-based) are the line's in that commit.
    """

    commit: str
    text: str
    path: str
    number: int


def blame_file(history: History, commit: str, path: str) -> list[LineOrigin]:
    """Return the origin of each line of a file as a commit has it.

    `commit` is a full id, so git looks at no file of the work tree and runs no filter.
    Source of the format: `git blame --help`, "THE PORCELAIN FORMAT".
    """
    out = history.git.run(
        *("blame", "--porcelain", "--no-textconv", "--no-ignore-revs-file", "--root"),
        *(commit, "--", history.prefix + path),
    )
    origins: list[LineOrigin] = []
    at, number = "", 0
    paths: dict[str, str] = {}  # Told again only where a commit has lines of several.
    for line in out.split("\n"):
        if line.startswith("\t"):
            origins.append(LineOrigin(at, line[1:], paths.get(at, ""), number))
        elif line.startswith("filename "):
            paths[at] = line.removeprefix("filename ")
        elif header := _HEADER.fullmatch(line):
            at, number = header[1], int(header[2])
    return origins


#: Properties are at the start, and a block of them has at most 64 KiB.
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
    """Tell whether a word is where the properties of a note's bytes would be."""
    if not data.removeprefix(b"\xef\xbb\xbf").startswith(b"---"):
        return False
    end = data.find(b"\n---", 3)
    return word in (data if end < 0 else data[:end])
