"""Export a vault's pages as files that need no server."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import vaultmem
from vaultmem.vault import Vault
from vaultmem.web.export.contents import gather_contents
from vaultmem.web.export.folder import MARK, check_folder, prepare_folder
from vaultmem.web.export.list_pages import ListWriter
from vaultmem.web.export.note_pages import write_file
from vaultmem.web.export.sharing import collecting_rarely, share_notes
from vaultmem.web.export.terms import write_terms


class Exported(NamedTuple):
    """What was exported and where to, and how long it took (seconds).

    `left_out` are the notes that are quarantined, `pages` all pages besides the notes'.
    """

    folder: str
    notes: int
    left_out: int
    pictures: int
    pages: int
    commit: str
    seconds: float


def export_html(vault: Vault, folder: Path, progress: Callable[[int, int], None]) -> Exported:
    """Write what the vault shows, which must be in sync, as pages into a folder.

    It is empty, or an earlier export, whose place the new one takes at the end.

    Raises:
        RefusedError: the folder has something else in it, or is the vault's.
    """
    begun = time.monotonic()
    folder = folder.resolve()
    check_folder(folder, vault.root.resolve())
    contents = gather_contents(vault)
    many = len(contents.records)
    with prepare_folder(folder) as fresh:
        with collecting_rarely(), share_notes(vault, contents, fresh) as write_notes:
            pages = ListWriter(vault, contents, fresh).write()
            write_terms(vault, contents.records, fresh)
            for done in write_notes():
                progress(min(done, many - 1), many)
        progress(many, many)
        pictures = sum(1 for each in fresh.glob("file/*/*"))
        mark = {"vaultmem": vaultmem.__version__, "notes": many, "commit": contents.frame.commit}
        write_file(fresh, MARK, json.dumps(mark).encode())
    left_out = len(vault.view.documents()) - many
    seconds = round(time.monotonic() - begun, 2)
    commit = contents.commit or contents.frame.commit
    return Exported(os.fspath(folder), many, left_out, pictures, pages, commit, seconds)
