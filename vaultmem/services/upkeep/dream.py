"""Dream: promote what was recalled often and well, from the signals that recalls left behind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from vaultmem.core.counting import count_things
from vaultmem.core.delta.commit_message import name_files
from vaultmem.core.lifecycle import CLOSED_STATES, State
from vaultmem.core.notes.edit_properties import write_state
from vaultmem.core.notes.note import Note
from vaultmem.core.paths import DREAMS
from vaultmem.core.upkeep.memory_file import MEMORY, MemoryMove, add_bullets, name_heading
from vaultmem.errors import NoteNotFoundError
from vaultmem.services.finding.links import NewLinks
from vaultmem.services.lifecycle.transition import act_as_machine, refuse_branch
from vaultmem.services.reading.sync import sync_vault
from vaultmem.services.upkeep.nights import is_night, note_night
from vaultmem.services.upkeep.weigh import NEW_MEMORY, NEXT_NIGHT, Candidate, weigh_recalled
from vaultmem.services.writing.change import Change
from vaultmem.services.writing.commit import CommitReport
from vaultmem.services.writing.edit_notes import check_text
from vaultmem.services.writing.parts import Event
from vaultmem.services.writing.write import replace_text, write
from vaultmem.vault import Vault

#: The name under which the last dream's time is kept.
_WORK = "dreamt"

#: How a diary begins; as an archived note it is in no pack, and in no recall unless asked for.
_DIARY = """---
kind: reflection
state: archived
---
# Dreams

What `vaultmem dream` promoted, with the score of each.

"""


class Dream(NamedTuple):
    """All that was weighed, strongest first; what may leave MEMORY.md; the commits."""

    candidates: tuple[Candidate, ...]
    moves: tuple[MemoryMove, ...]
    report: CommitReport

    @property
    def promoted(self) -> tuple[Candidate, ...]:
        """The notes that are promoted, strongest first."""
        return tuple(each for each in self.candidates if not each.held)

    @property
    def left(self) -> tuple[Candidate, ...]:
        """The notes that only `dream_limit` holds back until the next night."""
        return tuple(each for each in self.candidates if each.held == NEXT_NIGHT)


def dream(vault: Vault, is_dry: bool = False) -> Dream:
    """Promote the strongest notes that were never promoted, in one commit; `is_dry` only looks.

    Each becomes active and, if it is global, is named in MEMORY.md as far as that has room;
    DREAMS.md lists all.
    Nobody's trust follows from it: policies and skills still wait for their owner's promotion.

    Raises:
        RefusedError: the vault's ref is a branch that is not checked out.
        PendingError: the notes are changed; their commit has to wait.
    """
    refuse_branch(vault)
    if is_dry:
        sync_vault(vault)
        weighed = weigh_recalled(vault)
        return Dream(weighed.candidates, weighed.moves, CommitReport())
    with vault.lock():
        sync_vault(vault)
        weighed = weigh_recalled(vault)
        found = Dream(weighed.candidates, weighed.moves, CommitReport())
        if found.promoted:
            found = found._replace(report=_promote(act_as_machine(vault), found.promoted))
        note_night(vault, _WORK)
    return found


def dream_if_due(vault: Vault) -> Dream | None:
    """Dream if vaultmem.yaml wants it and a night has come since the last time; None if not.

    Raises:
        VaultError: as for `dream`.
    """
    return dream(vault) if is_night(vault, vault.config.dream_every, _WORK) else None


def _promote(machine: Vault, promoted: Sequence[Candidate]) -> CommitReport:
    """Set the states, name the notes, write the diary, and commit that and nothing else."""
    bullets = [(name_heading(each.kind), each.bullet) for each in promoted if each.line]
    line = _make_diary_line(machine, promoted)

    def plan(change: Change) -> None:
        for each in promoted:
            replace_text(change, change.read(PurePosixPath(each.path)), _activate)
        if bullets:
            _add(change, MEMORY, NEW_MEMORY, lambda text: add_bullets(text, bullets))
        _add(change, DREAMS, _DIARY, lambda text: _end_line(text) + line)
        change.commit(_make_event(machine, promoted))

    return write(machine, plan).report


def _add(change: Change, path: PurePosixPath, start: str, edit: Callable[[str], str]) -> None:
    """Change a note's text, or make the note where there is none."""
    try:
        note = change.read(path)
    except NoteNotFoundError:
        text = edit(start)
        check_text(path, text)
        change.put(path, text.encode("utf-8"))
        return
    replace_text(change, note, lambda note: edit(note.text))


def _activate(note: Note) -> str:
    if note.state is State.ACTIVE or note.state in CLOSED_STATES:
        return note.text  # It may have been taken out of sight meanwhile.
    return write_state(note.text, State.ACTIVE)


def _end_line(text: str) -> str:
    return text if not text or text.endswith("\n") else f"{text}\n"


def _make_diary_line(vault: Vault, promoted: Sequence[Candidate]) -> str:
    day = vault.local_time().date()
    links = NewLinks(vault)
    named = (
        f"{links.in_property(each.path, str(DREAMS))} {each.strength.score:.2f}"
        for each in promoted
    )
    return f"- {day}: {', '.join(named)}\n"


def _make_event(vault: Vault, promoted: Sequence[Candidate]) -> Event:
    body = tuple(f"{each.path}: {_describe_promotion(each)}" for each in promoted)
    paths = [each.path for each in promoted]
    subject = name_files("promote", paths, ", by dream")
    only = (*paths, str(MEMORY), str(DREAMS))
    return Event("promote", subject, vault.author, body, "refine", only=only)


def _describe_promotion(each: Candidate) -> str:
    step = "active" if each.state == State.ACTIVE else f"{each.state} to active"
    found = each.strength
    counted = ((found.recalls, "recall"), (found.queries, "question"), (found.days, "day"))
    counts = ", ".join(count_things(number, what) for number, what in counted)
    return f"{step}, score {found.score:.2f}, {counts}"
