"""Notes, hits, commits and sessions as JSON data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from vaultmem.core.text.json_values import pick

if TYPE_CHECKING:
    from vaultmem.core.notes.changes import PropertyChange
    from vaultmem.core.packs.receipt import Receipt
    from vaultmem.services.changes.commit import CommitReport
    from vaultmem.services.history.blame import Blame, BlamedLine, NoteCommit, Trace
    from vaultmem.services.history.commits import Log
    from vaultmem.services.history.diff import FileOperation, ShownCommit, VaultDiff
    from vaultmem.services.history.explain import ChangeStep, ExplainedSection
    from vaultmem.services.lifecycle.transition import TransitionResult
    from vaultmem.services.memory.purge import Purge
    from vaultmem.services.packs.evaluate import BisectResult
    from vaultmem.services.packs.receipts import Replay
    from vaultmem.storage.git.log import Commit


def counts_json(key: str, counts: Iterable[tuple[str, int]]) -> dict[str, Any]:
    """Return each name with its number of notes."""
    return {key: [{"name": name, "notes": notes} for name, notes in counts]}


def format_seconds(at: float) -> str:
    """Return seconds since the epoch as ISO 8601 with the local offset."""
    return datetime.fromtimestamp(at).astimezone().isoformat(timespec="seconds")


def report_json(report: CommitReport) -> dict[str, Any]:
    """Return the commits of an event."""
    data = pick(report, "commit? paths skipped")
    return {**data, "commits": commits_json(report.commits)}


def commits_json(commits: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    """Return commits given as id and subject."""
    return [{"commit": commit, "subject": subject} for commit, subject in commits]


def moved_json(result: TransitionResult) -> dict[str, Any]:
    """Return the notes whose state changed, and the commit."""
    moves = [{"path": m.path, "from": m.before, "to": m.after} for m in result.moves]
    return {"moved": moves, "commit": result.report.commit or None}


def purge_json(purge: Purge) -> dict[str, Any]:
    """Return the steps by which git forgets notes as well."""
    steps = [pick(each, "why=reason commands") for each in purge.steps]
    return {**pick(purge, "paths commits others"), "steps": steps}


# Commits, changes and the origin of lines as JSON.


def commit_json(commit: Commit) -> dict[str, Any]:
    """Return a commit's author, time and reason."""
    names = "commit time author email subject body event agent claimed_by? session intent tool_call"
    return {**pick(commit, names), "confidence": _read_confidence(commit.confidence)}


def log_json(log: Log) -> dict[str, Any]:
    """Return a vault's events, and whether older ones are missing (shallow clone)."""
    return {"commits": list(map(commit_json, log.commits)), "shallow": log.is_cut}


def shown_json(shown_commit: ShownCommit) -> dict[str, Any]:
    """Return a commit with its changes."""
    return {
        **commit_json(shown_commit.commit),
        "parents": shown_commit.commit.parents,
        "shown_notes": [
            {"path": each.path, "time": format_seconds(each.at)}
            for each in shown_commit.commit.shown_notes
        ],
        "operations": list(map(operation_json, shown_commit.operations)),
        "shallow": shown_commit.is_end,
    }


def _shown_notes_json(commit: Commit) -> list[dict[str, Any]]:
    """Return the notes that were shown in a commit's session before it."""
    return [{"path": each.path, "time": format_seconds(each.at)} for each in commit.shown_notes]


def diff_json(diff: VaultDiff) -> list[dict[str, Any]]:
    """Return the differences between two commits or dates, note by note."""
    return list(map(operation_json, diff.operations))


def operation_json(operation: FileOperation) -> dict[str, Any]:
    """Return the changes of a file."""
    file, note = operation.file, operation.note
    return {
        **pick(file, "operation=op path from?=previous blob? old_blob?"),
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


def trace_json(trace: Trace) -> dict[str, Any]:
    """Return each commit's changes to a note."""
    return {"path": trace.path, "versions": list(map(_version_json, trace.versions))}


def _version_json(version: NoteCommit) -> dict[str, Any]:
    from vaultmem.services.history.diff import summarise_operation

    return {
        "commit": commit_json(version.commit) if version.commit else None,
        **pick(version, "who=author agent claimed_by? session"),
        "shown_notes": _shown_notes_json(version.commit) if version.commit else [],
        "summary": summarise_operation(version.operation),
        **operation_json(version.operation),
    }


def blame_json(blame: Blame) -> list[dict[str, Any]]:
    """Return each line of a note with its origin."""
    return [line_json(line, blame.ends) for line in blame.lines]


def line_json(line: BlamedLine, ends: frozenset[str]) -> dict[str, Any]:
    """Return a line of a note with its origin."""
    data = {"line": line.number, "text": line.text, **_origin_json(line, ends)}
    if data["confidence"] is not None:
        return data
    return {**data, "confidence": _read_confidence(line.confidence)}


def _origin_json(line: BlamedLine | ChangeStep, ends: frozenset[str]) -> dict[str, Any]:
    commit = line.commit
    names = "commit time author email subject event intent tool_call"
    return {
        **(pick(commit, names) if commit else dict.fromkeys(names.split())),
        **pick(line, "who=author agent claimed_by? session"),
        "committed": commit is not None,
        "confidence": _read_confidence(commit.confidence) if commit else None,
        "shallow": commit is not None and commit.commit in ends,
    }


def ground_json(ground: ExplainedSection) -> dict[str, Any]:
    """Return a fact or decision that mentions a query, with its origins."""
    record, section = ground.hit.record, ground.hit.section
    return {
        **pick(record, "path blob title kind state"),
        **pick(section, "heading? line"),
        "text": ground.hit.text,
        "steps": [
            {**_origin_json(step, ground.ends), "lines": step.lines} for step in ground.steps
        ],
        "supersedes": [
            {"name": link.name, "path": link.path or None} for link in ground.supersedes
        ],
        "superseded_by": [{"name": link.name, "path": link.path} for link in ground.superseded_by],
    }


def _read_confidence(text: str) -> float | None:
    """Return a confidence as a number from 0 to 1, None if the text has another value."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number <= 1 else None


def _property_json(change: PropertyChange) -> dict[str, Any]:
    return {
        "operation": change.op,
        "name": change.name,
        "old": None if change.op == "add" else change.old,
        "new": None if change.op == "remove" else change.new,
    }


# Evaluated packs and receipts as JSON.


def bisected_json(result: BisectResult, first_bad: Iterable[ShownCommit]) -> dict[str, Any]:
    """Return the steps of a bisection, and the changes of the commits that it found."""
    commits = [
        {**commit_json(each.commit), "operations": list(map(operation_json, each.operations))}
        for each in first_bad
    ]
    return {"first_bad": commits, "untested": result.untested, "steps": result.steps}


def judged_json(reasons: Sequence[str]) -> dict[str, Any]:
    """Return whether a pack is as expected, and the reasons if not."""
    return {"as_expected": not reasons, "reasons": reasons}


def receipts_json(receipts: Iterable[Receipt]) -> dict[str, Any]:
    """Return a list of receipts."""
    return {"receipts": list(map(receipt_json, receipts))}


def replayed_json(replay: Replay) -> dict[str, Any]:
    """Return a receipt, the text of its pack, and the sections that git no longer has."""
    missing_sections = [pick(each, "path heading? blob") for each in replay.missing_sections]
    return {**receipt_json(replay.receipt), "text": replay.text, "gone": missing_sections}


def receipt_json(receipt: Receipt) -> dict[str, Any]:
    """Return a receipt without its texts."""
    from vaultmem.core.packs.receipt import list_values

    content = list_values(receipt)
    del content["texts"]
    return content
