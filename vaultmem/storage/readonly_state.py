"""A look into a vault's state that makes, locks and waits for nothing: for who may not disturb."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from urllib.parse import quote

from vaultmem.storage.git.head import common_folder, find_git_folder
from vaultmem.storage.state import StateDatabase


def query_state(folder: Path, sql: str) -> list[tuple[str, ...]]:
    """Return rows of a vault's database as it is; none where it cannot be read at once."""
    try:
        file = quote(os.fspath(StateDatabase(folder).path))
        connection = sqlite3.connect(f"file:{file}?mode=ro", timeout=0, uri=True)
        try:
            return connection.execute(sql).fetchall()
        finally:
            connection.close()
    except (sqlite3.Error, OSError):
        return []


def list_refs(root: Path) -> list[str]:
    """Return the branches and tags of the repository around a folder, without git."""
    found = find_git_folder(root)
    if found is None:
        return []
    common = common_folder(found[1])
    names = []
    for kind in ("refs/heads/", "refs/tags/"):
        for folder, _, files in os.walk(common / kind):
            names += [os.path.relpath(os.path.join(folder, file), common / kind) for file in files]
    try:
        packed = (common / "packed-refs").read_text(encoding="utf-8", errors="replace").split()
    except OSError:
        packed = []
    kept = (ref for ref in packed if ref.startswith(("refs/heads/", "refs/tags/")))
    names += [ref.split("/", 2)[2] for ref in kept]
    return sorted({name for name in names if not name.endswith(".lock")})
