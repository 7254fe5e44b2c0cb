"""Which commit each line of a file comes from."""

from __future__ import annotations

import re
from typing import NamedTuple

from vaultmem.storage.git.history import History

_HEADER = re.compile(r"([0-9a-f]{40}) ([0-9]+) ([0-9]+)(?: [0-9]+)?")


class LineOrigin(NamedTuple):
    r"""A line without its `\n`, and the commit that wrote it; no UTF-8 is lone surrogates."""

    commit: str
    text: str


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
    at = ""
    for line in out.split("\n"):
        if line.startswith("\t"):
            origins.append(LineOrigin(at, line[1:]))
        elif header := _HEADER.fullmatch(line):
            at = header[1]
    return origins
