"""Compact unused notes: first to a summary, then to keywords, then archive them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from vaultmem.core.commit_message import format_files
from vaultmem.core.curation.compaction import (
    DecayAges,
    DecayStep,
    Fidelity,
    plan_step,
    read_fidelity,
)
from vaultmem.core.lifecycle import OWNER_KINDS, NoteKind, NoteState
from vaultmem.core.notes.encoding import format_foreign
from vaultmem.core.notes.note import Note
from vaultmem.core.notes.record import NoteRecord
from vaultmem.core.notes.sections import format_full_text
from vaultmem.core.similarity.statement import list_added
from vaultmem.core.text.display import pluralize
from vaultmem.core.text.token_count import count_tokens
from vaultmem.errors import NoteNotFoundError, RefusedError
from vaultmem.services.changes.commit import CommitReport
from vaultmem.services.changes.commit_parts import Event
from vaultmem.services.changes.write import Edit, write_event
from vaultmem.services.curation.curate import KEPT_APART, LastUse, read_uses
from vaultmem.services.curation.dream import is_night, note_night
from vaultmem.services.curation.review import find_reasons
from vaultmem.services.lifecycle.transition import as_agent, check_branch
from vaultmem.services.views.read_notes import find_note
from vaultmem.services.views.texts import read_full
from vaultmem.services.views.update_index import sync_vault
from vaultmem.storage.query_log import SignalStore
from vaultmem.vault import Vault

#: Maximum queries to use for a summary: the newest ones that returned the note.
_MAX_ASKED = 20

#: State key for the time of the last compaction.
_WORK = "compacted"

_STATES = frozenset({NoteState.ACTIVE, NoteState.STALE})


class Compaction(NamedTuple):
    """One step for a note: its level before, its new text, and its tokens before and after."""

    path: str
    blob: str
    step: DecayStep
    before: Fidelity
    text: str
    idle_days: int
    tokens: int
    tokens_left: int


class CompactResult(NamedTuple):
    """The steps that are due. `exempt` counts old notes that are kept, by reason."""

    steps: tuple[Compaction, ...]
    exempt: Mapping[str, int]
    reports: tuple[CommitReport, ...] = ()


def plan_compaction(vault: Vault) -> CompactResult:
    """Return the steps that are due, at most one for each note. The index must be up to date.

    These notes are kept:

    - pinned notes, policies, skills and preferences, and notes that a person wrote or edited
    - sessions, tasks, reference material, and notes in another encoding
    - notes that others link to, or that contain a preference
    - short notes with a number that no other note has
    - uncommitted notes, because git could not restore their full text

    Raises:
        RefusedError: the ref is a branch that is not checked out, or the vault has no git.
    """
    check_branch(vault)
    if vault.head() is None:
        raise RefusedError("compaction needs git, which keeps the full texts; run `vaultmem init`")
    records = [r for r in vault.view.records() if NoteState(r.state) in _STATES and not r.problem]
    uses = read_uses(vault, records)
    config = vault.config
    ages = DecayAges(
        config.summary_after_days, config.keywords_after_days, config.archive_after_days
    )
    due_records = [
        r for r in records if uses[r.path].idle_days(vault.now()) >= min(ages.summary, ages.archive)
    ]
    signals = SignalStore(vault.state, vault.state_folder)
    find_reason = find_reasons(vault, records) if due_records else None
    exempt_counts: dict[str, int] = {}
    steps: list[Compaction] = []
    for record in due_records:
        reason = _find_exemption(vault, record, uses[record.path])
        note = None if reason else _read(vault, record)
        if note is not None and find_reason is not None:
            reason = find_reason(record.document, note)
        if reason:
            exempt_counts[reason] = exempt_counts.get(reason, 0) + 1
        elif note is not None:
            idle_days = uses[record.path].idle_days(vault.now())
            steps.extend(_plan_note(vault, record, note, idle_days, ages, signals))
    order = list(DecayStep)
    steps.sort(key=lambda each: (order.index(each.step), each.path))
    return CompactResult(tuple(steps), exempt_counts)


def compact(vault: Vault) -> CompactResult:
    """Apply the steps that are due, in one commit for each kind of step.

    Raises:
        RefusedError: as for `plan_compaction`.
        PendingError: the notes are changed; their commit has to wait.
    """
    with vault.lock():
        sync_vault(vault)
        plan = plan_compaction(vault)
        machine = as_agent(vault)
        reports = [
            write_event(machine, _as_changes(steps), _make_event(machine, step, steps))
            for step in DecayStep
            if (steps := [each for each in plan.steps if each.step is step])
        ]
        note_night(vault, _WORK)
    return plan._replace(reports=tuple(reports))


def compact_if_due(vault: Vault) -> CompactResult | None:
    """Compact if vaultmem.yaml enables it and a night has passed since; else return None.

    Raises:
        RefusedError, PendingError: as for `compact`.
    """
    return compact(vault) if is_night(vault, vault.config.compact_every, _WORK) else None


def _find_exemption(vault: Vault, record: NoteRecord, use: LastUse) -> str:
    """Return why a note must not be compacted, or ""."""
    if record.pinned:
        return "pinned"
    if NoteKind(record.kind) in OWNER_KINDS:
        is_wish = NoteKind(record.kind) is NoteKind.PREFERENCE
        return "a preference" if is_wish else "a policy or skill"
    if record.path.startswith(KEPT_APART):
        return "a session, task or reference material"
    if record.encoding:
        return format_foreign(record.encoding)
    if use.by_person:
        return "written or edited by a person"
    if not vault.manifest.is_committed(record.path, record.blob):
        return "in no commit yet"
    return ""


def _read(vault: Vault, record: NoteRecord) -> Note | None:
    """Return a note, or None if its content has changed."""
    note = find_note(vault, record.path)
    return note if note is not None and note.blob == record.blob else None


def _plan_note(
    vault: Vault,
    record: NoteRecord,
    note: Note,
    idle_days: float,
    ages: DecayAges,
    signals: SignalStore,
) -> Iterator[Compaction]:
    queries = list(dict.fromkeys(each.query for each in signals.signals(record.path)))
    try:
        is_shortened = idle_days < ages.archive
        original, full_text = _find_original(vault, note) if is_shortened else (None, "")
        plan = plan_step(note, idle_days, ages, queries[:_MAX_ASKED], original, full_text)
    except (NoteNotFoundError, RefusedError):  # No full text, or a property cannot be set.
        return
    if plan is not None:
        step, text = plan
        yield Compaction(
            *(record.path, record.blob, step, read_fidelity(note), text, int(idle_days)),
            *(count_tokens(note.text), count_tokens(text)),
        )


def _find_original(vault: Vault, note: Note) -> tuple[Note | None, str]:
    """Return the full note of a summary (else None), and the address of the full text.

    Raises:
        NoteNotFoundError: git does not have the full text.
        RefusedError: text was added to the note since, and must be kept.
    """
    head = vault.head()
    commit = head.commit if head is not None else ""
    if (level := read_fidelity(note)) is not Fidelity.SUMMARY:
        return None, format_full_text(note.blob, commit) if level is Fidelity.FULL else ""
    if not note.full_text:
        raise NoteNotFoundError(f"{note.path}: it does not name its full text")
    original = read_full(vault, note)
    if list_added(note.body, original.text):
        raise RefusedError(f"{note.path}: added to since it was shortened")
    return original, note.full_text


def _as_changes(
    steps: Sequence[Compaction],
) -> dict[PurePosixPath, Edit]:
    return {PurePosixPath(each.path): _replace(each) for each in steps}


def _replace(step: Compaction) -> Edit:
    """Return the edit of a step. It does nothing if the note has changed meanwhile."""
    return lambda note: step.text if note.blob == step.blob else note.text


def _make_event(vault: Vault, step: DecayStep, steps: Sequence[Compaction]) -> Event:
    head = vault.head()
    commit = head.commit[:12] if head else ""
    phrases = {
        DecayStep.SUMMARY: "to a summary",
        DecayStep.KEYWORDS: "to keywords",
        DecayStep.ARCHIVED: "archived",
    }
    subject = format_files("compact", [each.path for each in steps], f" {phrases[step]}")
    body = [
        f"{each.path}: {each.before} to {each.step}, "
        f"{each.tokens} to {pluralize(each.tokens_left, 'token')}, "
        f"not asked for in {pluralize(each.idle_days, 'day')}"
        for each in steps
    ]
    if step in {DecayStep.SUMMARY, DecayStep.KEYWORDS}:
        body.insert(0, f"What they were: vaultmem restore NOTE --at {commit}")
    return Event("compact", subject, vault.author, tuple(body), "refine")
