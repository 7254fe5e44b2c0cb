"""Remove a promoted note's bullet from MEMORY.md in the change that removes or hides the note."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from vaultmem.core.curation.memory_file import MEMORY, find_bullets
from vaultmem.core.lifecycle import HIDDEN_STATES
from vaultmem.core.notes.note import parse_readable_note
from vaultmem.core.text.paths import fold
from vaultmem.errors import NoteNotFoundError, RefusedError, VaultError
from vaultmem.services.changes.change import Change, NoteStep
from vaultmem.storage.git.blame_file import blame_file
from vaultmem.storage.git.log import read_commits
from vaultmem.vault import Vault


def drop_bullets(vault: Vault, change: Change) -> None:
    """Drop the lines that consolidation wrote about notes this change removes or hides.

    A line that a person wrote or edited stays. So does a line whose name also fits another note.
    """
    hidden_paths = [path for path, step in change.steps.items() if _is_gone(path, step)]
    head = vault.head() if hidden_paths and change.is_folder else None
    if head is None or not head.commit:
        return
    try:
        memory = change.read(MEMORY)
    except (NoteNotFoundError, RefusedError):
        return
    line_numbers = {
        line for path in hidden_paths for line in _find_lines(vault, change, memory.text, path)
    }
    lines = memory.text.splitlines(keepends=True)
    dreamt_lines = read_dreamt(vault, head.commit) if line_numbers else set()
    new_lines = [
        line
        for n, line in enumerate(lines)
        if n not in line_numbers or line.rstrip("\r\n") not in dreamt_lines
    ]
    if len(new_lines) == len(lines) or memory.encoding:
        return
    change.replace(MEMORY, "".join(new_lines).encode("utf-8"), memory.blob)
    if change.event is not None and change.event.only:
        change.event = change.event._replace(only=(*change.event.only, str(MEMORY)))


def _is_gone(path: str, step: NoteStep) -> bool:
    """Return whether a note is removed, or in a state that no pack shows."""
    if step.data is None:
        return True
    if not step.before or not any(state.encode() in step.data for state in HIDDEN_STATES):
        return False
    note = parse_readable_note(path, step.data)
    return note is not None and note.state in HIDDEN_STATES


def _find_lines(vault: Vault, change: Change, text: str, path: str) -> Iterator[int]:
    """Yield the lines that link to this note and to no other present or new note."""
    for line, link in find_bullets(text, path).items():
        suffix = fold(f"/{link}.md")
        others = {*vault.manifest.blobs(), *change.steps} - {path}
        if not any(fold(f"/{other}").endswith(suffix) for other in others):
            yield line


def read_dreamt(vault: Vault, commit: str) -> set[str]:
    """Return the lines of MEMORY.md in a commit that an agent's promotion wrote."""
    origins, commits = [], {}
    with contextlib.suppress(VaultError):  # It might be in no commit yet.
        origins = blame_file(vault.history, commit, str(MEMORY))
        commits = read_commits(vault.history, {origin.commit for origin in origins})
    return {
        origin.text.rstrip("\r")
        for origin in origins
        if commits[origin.commit].event == "promote" and commits[origin.commit].agent
    }
