"""Write a session's context windows and turns to its transcript and note."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from vaultmem.core.notes.edit_properties import set_property
from vaultmem.core.sessions.session import ContextWindow, Session, format_window
from vaultmem.core.sessions.session_note import parse_session
from vaultmem.core.sessions.turns import (
    TranscriptLine,
    TranscriptPosition,
    Turn,
    add_lines,
    join_turns,
)
from vaultmem.services.sessions.edit_session import edit_session
from vaultmem.services.sessions.find_session import find_path, open_transcripts
from vaultmem.services.sessions.search_turns import index_turns
from vaultmem.storage.git.setup import add_excludes, find_unignored
from vaultmem.vault import Vault

if TYPE_CHECKING:
    from vaultmem.core.notes.note import Note

#: Turns to write in one batch.
_BATCH = 200

#: Maximum windows in a note. Older ones are dropped; git keeps them.
_MAX_WINDOWS = 200

_IGNORED = "/transcripts/"


def add_turns(vault: Vault, session: str, turns: Iterable[Turn]) -> TranscriptPosition:
    """Add turns to a session's transcript, which is local and never committed.

    Text that looks like a credential is left out. Memory use is bounded for any number of turns.
    The note gets the counts when its window or the session ends.

    Raises:
        NoteNotFoundError: there is no such session.
    """
    return append_turns(vault, find_path(vault, session).stem, turns)


def append_turns(vault: Vault, session: str, turns: Iterable[Turn]) -> TranscriptPosition:
    """Add turns as `add_turns` does, for a session that might have no note yet."""
    transcripts = open_transcripts(vault)
    turn_iterator = iter(turns)
    with vault.lock():
        if not transcripts.exists(session):
            _exclude_transcripts(vault)
        tally = transcripts.tally(session)
        while batch := list(islice(turn_iterator, _BATCH)):
            lines: list[TranscriptLine] = []
            for turn in batch:
                new_lines, tally = add_lines(turn, tally)
                lines += new_lines
            transcripts.append(session, lines)
    index_turns(vault, session)
    return tally


def replace_turns(vault: Vault, session: str, turns: Iterable[Turn]) -> None:
    """Replace all turns of a session's transcript; if this fails, the old turns are kept."""

    def make_lines() -> Iterator[TranscriptLine]:
        tally = TranscriptPosition()
        for turn in turns:
            lines, tally = add_lines(turn, tally)
            yield from lines

    with vault.lock():
        open_transcripts(vault).replace(session, make_lines())
    index_turns(vault, session)


def read_last_turns(vault: Vault, session: str, limit: int) -> list[tuple[int, Turn]]:
    """Return the last turns of a session with their numbers, oldest first."""
    return list(reversed(list(islice(_read_turns_back(vault, session), limit))))


def begin_window(vault: Vault, session: str) -> Session:
    """End the session's context window at the transcript's current end, and begin the next one."""
    return edit_session(
        vault, session, lambda note: write_windows(note, read_tally(vault, session), begin=True)
    )


def mark_restore(vault: Vault, session: str) -> Session:
    """Mark a session for restore, because its context window is about to be lost.

    The next start of its agent in this workspace, or `resume_session`, restores it.
    """
    at = vault.local_time()

    def change(note: Note) -> str:
        text = note.text
        if parse_session(note).facts.is_open:
            text = write_windows(note, read_tally(vault, note.path.stem), begin=False)
        return set_property(text, "pending_restore_at", at)

    return edit_session(vault, session, change, closed_too=True)


def read_tally(vault: Vault, session: str) -> TranscriptPosition:
    """Return the number of turns and tokens in a session's transcript, and its digest."""
    return open_transcripts(vault).tally(session)


def write_windows(note: Note, tally: TranscriptPosition, begin: bool) -> str:
    """Return a session note's text with its window ended at a tally, and a new one if `begin`.

    A window without turns continues.
    """
    prop = note.frontmatter.get("windows")
    if prop is None and not tally.tokens:
        return note.text  # The first window of a session without turns.
    if prop is not None and prop.kind not in {"seq", "null"}:
        return note.text  # The property was changed by hand.
    texts = [*prop.value] if prop and isinstance(prop.value, tuple) else []
    windows = parse_session(note).windows
    last = max(windows, key=lambda window: window.number, default=ContextWindow(0, 0, 0))
    last_turn = max((window.turns[1] for window in windows if window.turns), default=0)
    start, is_open = (last.start, True) if last.end is None else (last.end, False)
    if tally.tokens > start or (is_open and not begin):
        number = last.number if is_open else last.number + 1
        bounds = (last_turn + 1, tally.turns) if tally.turns > last_turn else None
        digest = tally.digest if bounds else ""
        ended_window = ContextWindow(number, start, max(tally.tokens, start), bounds, digest)
        open_text = format_window(last) if is_open else ""
        texts = [*(text for text in texts if text != open_text), format_window(ended_window)]
        last, start, is_open = ended_window, max(tally.tokens, start), False
    if begin and not is_open:
        texts.append(format_window(ContextWindow(last.number + 1, start)))
    return set_property(note.text, "windows", tuple(texts[-_MAX_WINDOWS:]))


def _read_turns_back(vault: Vault, session: str) -> Iterator[tuple[int, Turn]]:
    """Yield turns, newest first."""
    lines: list[TranscriptLine] = []
    for line in open_transcripts(vault).read_back(session):
        if isinstance(line, TranscriptPosition):
            break
        if lines and line.number != lines[0].number:
            yield from join_turns(reversed(lines))
            lines = []
        lines.append(line)
    yield from join_turns(reversed(lines))


def _exclude_transcripts(vault: Vault) -> None:
    """Exclude transcripts from the user's own git commits."""
    if vault.head() is None:
        return
    if patterns := find_unignored(vault.history, [_IGNORED]):
        add_excludes(vault.history, patterns)
