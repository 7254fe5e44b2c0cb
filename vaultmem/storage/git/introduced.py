"""The changes that commits made to a vault's paths, with their dates."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from vaultmem.core.text.paths import is_text
from vaultmem.storage.git.runner import read_time

if TYPE_CHECKING:
    from vaultmem.storage.git.vault_history import VaultHistory


class IntroducedBlob(NamedTuple):
    """A path's new bytes in a commit ("" if removed), and the commit's time.

    The time is in seconds since the epoch.
    """

    path: str
    blob: str
    commit: str
    at: int


def find_brought(history: VaultHistory, commit: str, since: str) -> list[IntroducedBlob]:
    """Return the commits' changes of the vault's paths with UTF-8 names, newest first.

    Only commits of `commit` that `since` does not contain are read.
    """
    is_known = since and history.git.run("cat-file", "-t", since, check=False) == "commit"
    span = [commit, f"^{since}"] if is_known else [commit]
    pathspec = ["--", history.prefix] if history.prefix else []
    out = history.git.run(
        *("log", "--raw", "--no-abbrev", "--no-renames", "-z", "-c", "--root"),
        *("--no-ext-diff", "--no-textconv", "--format=%x01%ct %H", *span, *pathspec),
    )
    return _parse_brought(out, history.prefix)


def date_brought(changes: Iterable[IntroducedBlob]) -> dict[tuple[str, str], int]:
    """Return the time of the last commit that wrote each (path, blob)."""
    dates: dict[tuple[str, str], int] = {}
    for path, blob, _, at in changes:
        if blob:
            dates[path, blob] = max(at, dates.get((path, blob), at))
    return dates


def _parse_brought(out: str, prefix: str) -> list[IntroducedBlob]:
    changes: list[IntroducedBlob] = []
    at, commit = 0, ""
    parts = iter(out.split("\0"))
    for part in parts:
        part = part.strip("\n")
        if part.startswith("\x01"):
            time, _, commit = part[1:].partition("\n")[0].partition(" ")
            at = read_time(time)
            part = part.partition("\n")[2].strip("\n")
        if part.startswith(":"):
            parents = len(part) - len(part.lstrip(":"))  # For a merge, the result itself.
            path, blob = next(parts, "").removeprefix(prefix), part.split()[2 * parents + 1]
            if is_text(path):
                changes.append(IntroducedBlob(path, blob.strip("0") and blob, commit, at))
    return changes
