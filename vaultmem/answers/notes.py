"""Notes and commits of them as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vaultmem.core.notes.record import NoteRecord
    from vaultmem.services.reading.read_notes import FoundNote
    from vaultmem.services.writing.commit import CommitReport


def record_json(record: NoteRecord) -> dict[str, Any]:
    """Return what is known of a note without reading it."""
    return {
        "path": record.path,
        "blob": record.blob,
        "title": record.title,
        "kind": record.kind,
        "state": record.state,
        "pinned": record.pinned,
        "context": record.context,
        "tags": record.tags,
        "created": record.created or None,
        "updated": record.updated or None,
        "confidence": record.confidence,
        "source": record.source or None,
        "agent": record.agent or None,
        "session": record.session or None,
        "tokens": record.tokens,
        "warnings": record.warnings,
    }


def note_json(found: FoundNote) -> dict[str, Any]:
    """Return a note that was read, or one section of it."""
    from vaultmem.core.notes.values import as_json as property_json

    note = found.note
    return {
        "path": str(note.path),
        "blob": note.blob,
        "title": note.title,
        "kind": note.kind,
        "state": note.state,
        "pinned": note.pinned,
        "tags": note.tags,
        "properties": {prop.name: property_json(prop) for prop in note.matter.properties},
        "heading": found.section.heading if found.section else None,
        "text": found.text,
        "warnings": note.warnings,
    }


def report_json(report: CommitReport) -> dict[str, Any]:
    """Return the commits that an event made."""
    return {
        "commit": report.commit or None,
        "commits": [{"commit": commit, "subject": subject} for commit, subject in report.commits],
        "paths": report.paths,
        "skipped": report.skipped,
    }
