"""Commits, changes and the origin of lines as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vaultmem.core.delta.note_changes import PropertyChange
    from vaultmem.services.history.blame import Blame, BlamedLine
    from vaultmem.services.history.commits import Log
    from vaultmem.services.history.diff import Operation, ShownCommit, VaultDiff
    from vaultmem.services.history.explain import ChangeStep, Ground
    from vaultmem.services.history.trace import Trace, Version
    from vaultmem.storage.git.log import Commit


def commit_json(commit: Commit) -> dict[str, Any]:
    """Return who made a commit, when and why."""
    return {
        "commit": commit.commit,
        "time": commit.time,
        "author": commit.author,
        "email": commit.email,
        "subject": commit.subject,
        "body": commit.body,
        "event": commit.event,
        "agent": commit.agent,
        "claimed_by": commit.claimed_by or None,
        "session": commit.session,
        "intent": commit.intent,
        "confidence": read_confidence(commit),
        "tool_call": commit.tool_call,
    }


def log_json(found: Log) -> dict[str, Any]:
    """Return a vault's events, and whether a shallow clone may lack older ones."""
    return {"commits": list(map(commit_json, found.commits)), "shallow": found.is_cut}


def shown_json(shown: ShownCommit) -> dict[str, Any]:
    """Return a commit with what it changed."""
    return {
        **commit_json(shown.commit),
        "parents": shown.commit.parents,
        "operations": list(map(operation_json, shown.operations)),
        "shallow": shown.is_end,
    }


def diff_json(found: VaultDiff) -> list[dict[str, Any]]:
    """Return what differs between two moments, note by note."""
    return list(map(operation_json, found.operations))


def operation_json(operation: Operation) -> dict[str, Any]:
    """Return what changed in a file."""
    file, note = operation.file, operation.note
    return {
        "op": file.op,
        "path": file.path,
        "from": file.previous or None,
        "blob": file.blob or None,
        "old_blob": file.old_blob or None,
        "properties": [_property_json(change) for change in note.properties] if note else [],
        "body": {
            "added": note.added,
            "removed": note.removed,
            "diff": "\n".join(note.body),
        }
        if note
        else None,
        "frontmatter_diff": "\n".join(note.frontmatter_diff) if note else "",
        "remark": operation.remark or None,
    }


def trace_json(found: Trace) -> dict[str, Any]:
    """Return what each commit did to a note."""
    return {"path": found.path, "versions": list(map(_version_json, found.versions))}


def _version_json(version: Version) -> dict[str, Any]:
    from vaultmem.services.history.diff import summarise_operation

    return {
        "commit": commit_json(version.commit) if version.commit else None,
        "who": version.who,
        "agent": version.agent,
        "claimed_by": version.claimed_by or None,
        "session": version.session,
        "summary": summarise_operation(version.operation),
        **operation_json(version.operation),
    }


def blame_json(found: Blame) -> list[dict[str, Any]]:
    """Return each line of a note and where it comes from."""
    return [line_json(line, found.ends) for line in found.lines]


def line_json(line: BlamedLine, ends: frozenset[str]) -> dict[str, Any]:
    """Return a line of a note and where it comes from."""
    return {"line": line.number, "text": line.text, **origin_json(line, ends)}


def origin_json(line: BlamedLine | ChangeStep, ends: frozenset[str]) -> dict[str, Any]:
    """Return who wrote something, and the commit that brought it; all null but `who` if none."""
    commit = line.commit
    return {
        "commit": commit.commit if commit else None,
        "committed": commit is not None,
        "time": commit.time if commit else None,
        "who": line.who,
        "agent": line.agent,
        "claimed_by": line.claimed_by or None,
        "author": commit.author if commit else None,
        "email": commit.email if commit else None,
        "subject": commit.subject if commit else None,
        "event": commit.event if commit else None,
        "session": line.session,
        "intent": commit.intent if commit else None,
        "confidence": read_confidence(commit) if commit else None,
        "tool_call": commit.tool_call if commit else None,
        "shallow": commit is not None and commit.commit in ends,
    }


def explained_json(query: str, grounds: Sequence[Ground]) -> dict[str, Any]:
    """Return the facts and decisions that mention what was asked."""
    return {"query": query, "grounds": list(map(ground_json, grounds))}


def ground_json(ground: Ground) -> dict[str, Any]:
    """Return a fact or decision that mentions something, and its origins."""
    record, section = ground.hit.record, ground.hit.section
    return {
        "path": record.path,
        "heading": section.heading or None,
        "line": section.line,
        "blob": record.blob,
        "title": record.title,
        "kind": record.kind,
        "state": record.state,
        "text": ground.hit.text,
        "steps": [{**origin_json(step, ground.ends), "lines": step.lines} for step in ground.steps],
        "supersedes": [
            {"name": link.name, "path": link.path or None} for link in ground.supersedes
        ],
        "superseded_by": [{"name": link.name, "path": link.path} for link in ground.superseded_by],
    }


def read_confidence(commit: Commit) -> float | None:
    """Return the confidence that a commit names, None if that is no number from 0 to 1."""
    try:
        number = float(commit.confidence)
    except ValueError:
        return None
    return number if 0 <= number <= 1 else None


def _property_json(change: PropertyChange) -> dict[str, Any]:
    return {
        "op": change.op,
        "name": change.name,
        "old": None if change.op == "add" else change.old,
        "new": None if change.op == "remove" else change.new,
    }
