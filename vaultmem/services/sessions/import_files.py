"""Make sessions of the files that agents keep of theirs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from vaultmem.core.sessions.session import Status
from vaultmem.errors import NoteNotFoundError
from vaultmem.services.sessions.begin import NewSession, start_session
from vaultmem.services.sessions.close import close_session
from vaultmem.services.sessions.read import get_session
from vaultmem.services.sessions.take_in import TakenIn, identify_transcript, take_transcript
from vaultmem.services.sessions.write import act_in
from vaultmem.vault import Vault


def find_transcripts(names: Sequence[str]) -> Iterator[Path]:
    """Yield the files that are named, and the .jsonl files in folders, by name.

    Raises:
        NoteNotFoundError: there is no such file or folder.
    """
    for name in names:
        place = Path(name).expanduser()
        if place.is_dir():
            yield from sorted(file for file in place.rglob("*.jsonl") if file.is_file())
        elif place.is_file():
            yield place
        else:
            raise NoteNotFoundError(f"{place}: no such file or folder")


def import_transcript(vault: Vault, file: Path) -> TakenIn:
    """Take a transcript into its session, which is made and closed if the vault has none of it.

    A session that is open stays so. What was taken in before is not taken in again.

    Raises:
        NoteNotFoundError, RefusedError: as for `identify_transcript`.
    """
    found = identify_transcript(file)
    writer = act_in(vault, "", found.agent)
    try:
        get_session(writer, found.session)
        is_new = False
    except NoteNotFoundError:
        folder = Path(found.folder)
        workspace = folder if found.folder and folder.is_dir() else file.parent
        new = NewSession(found.session, workspace=workspace, pid=os.getpid())
        start_session(writer, new, pick_up=False)
        is_new = True
    taken = take_transcript(writer, found.session, file)
    if is_new:
        close_session(writer, found.session, Status.OK, f"Imported from {file.name}.")
    return taken
