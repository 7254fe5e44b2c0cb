"""Find memories that should be checked: claims about an environment, refs that moved on, doubts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import PurePosixPath

from vaultmem.core.curating.proposal import Action, Proposal
from vaultmem.core.finding.excerpt import choose_excerpt
from vaultmem.core.finding.hit import Hit
from vaultmem.core.notes.note import Note
from vaultmem.core.notes.record import NoteRecord, SectionRecord
from vaultmem.core.packs.caution import OLD_DAYS, is_environment_claim
from vaultmem.errors import NoteNotFoundError, RefusedError
from vaultmem.services.curating.refs import find_changed_refs
from vaultmem.services.curating.uses import Use
from vaultmem.services.notes.read import read_note
from vaultmem.vault import Vault

#: A memory of less confidence has to be confirmed within so many days.
LOW_CONFIDENCE = 0.5
UNCONFIRMED_DAYS = 30


def find_doubtful(
    vault: Vault, records: Sequence[NoteRecord], uses: Mapping[str, Use]
) -> Iterator[Proposal]:
    """Yield a proposal for each note that somebody should check, with the reasons joined."""
    now = vault.now()
    changed = find_changed_refs(vault, records, uses)
    for record in records:
        days = (now - uses[record.path].written) / 86_400
        reasons: list[str] = []
        evidence: list[str] = []
        if record.path in changed:
            reasons.append("what it rests on has changed")
            evidence.extend(changed[record.path])
        is_low = record.confidence is not None and record.confidence < LOW_CONFIDENCE
        note = _read(vault, record) if days > min(OLD_DAYS, UNCONFIRMED_DAYS) else None
        if is_low and note and days > UNCONFIRMED_DAYS and note.matter.get("confirmed_by") is None:
            reasons.append("of low confidence, and nobody confirmed it")
            evidence.append(f"confidence {record.confidence:g}, {_tell_age(uses, record, days)}")
        if note and days > OLD_DAYS and (claim := _find_claim(record, note)):
            reasons.append("an old claim about an environment")
            evidence.append(f'"{claim}", {_tell_age(uses, record, days)}')
        if reasons:
            reason = "; ".join(reasons)
            yield Proposal(Action.REVALIDATE, record.path, record.blob, reason, tuple(evidence))


def _find_claim(record: NoteRecord, note: Note) -> str:
    """Return the start of the first section that says something of a machine, "" for none."""
    for section in note.sections:
        span = (section.start, section.end, section.line)
        place = SectionRecord(0, section.ordinal, section.heading, section.parents, *span)
        text = note.section_text(section)
        if is_environment_claim(Hit(record, place, text, 0.0, (), 0.0, 1.0)):
            return choose_excerpt(text, ())
    return ""


def _read(vault: Vault, record: NoteRecord) -> Note | None:
    try:
        return read_note(vault, PurePosixPath(record.path))
    except (NoteNotFoundError, RefusedError):
        return None


def _tell_age(uses: Mapping[str, Use], record: NoteRecord, days: float) -> str:
    day = datetime.fromtimestamp(uses[record.path].written).date()
    return f"written {day}, {int(days)} days ago"
