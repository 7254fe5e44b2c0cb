"""Proposals of the curator, and the user's choices."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from vaultmem.core.lifecycle import NoteState
from vaultmem.core.text.json_values import as_json_object, as_typed
from vaultmem.core.text.paths import parse_note_path
from vaultmem.errors import RefusedError

#: The version of the report format.
_VERSION = 1

#: Most characters of a report.
MAX_REPORT = 32 * 1024 * 1024

#: Digits of an id.
_ID = 12

_BLOB = re.compile(r"[0-9a-f]{40}")


class Action(StrEnum):
    """An action that `curate` proposes for a note; the first four are applied by `--apply`."""

    MERGE_DUPLICATES = "merge_duplicates"
    DEPRECATE = "deprecate"
    ARCHIVE = "archive"
    DEMOTE_STALE = "demote_stale"
    UPDATE = "update"
    CONTRADICTION = "contradiction"
    VALUE_GROUP = "value_group"
    NEAR_DUPLICATE = "near_duplicate"
    REVALIDATE = "revalidate"
    REVIEW_QUARANTINED = "review_quarantined"
    SUSPICIOUS = "suspicious"
    BROKEN_LINKS = "broken_links"
    SKIP_PINNED = "skip_pinned"
    CANDIDATE = "candidate"
    WISH = "wish"
    UNREADABLE = "unreadable"
    PROPOSAL = "proposal"


#: The state that an action sets; other actions change nothing.
NEW_STATES = {
    Action.MERGE_DUPLICATES: NoteState.DEPRECATED,
    Action.DEPRECATE: NoteState.DEPRECATED,
    Action.ARCHIVE: NoteState.ARCHIVED,
    Action.DEMOTE_STALE: NoteState.STALE,
}


class Proposal(NamedTuple):
    """A proposal for the note `path` with the blob `blob`, with reason and evidence.

    `into` is the other note of a pair, which absorbs, replaces or contradicts the first, with its
    blob; else "". For a proposed branch, `path` is its name and `blob` its commit. For a group,
    `path` is the oldest note, `into` the newest, and `more` the others, each with its blob.
    """

    action: Action
    path: str
    blob: str
    reason: str
    evidence: tuple[str, ...] = ()
    into: str = ""
    into_blob: str = ""
    more: tuple[tuple[str, str], ...] = ()

    @property
    def places(self) -> tuple[tuple[str, str], ...]:
        """The notes with their blobs; those of a group in order of time."""
        last = ((self.into, self.into_blob),) if self.into else ()
        return ((self.path, self.blob), *self.more, *last)

    @property
    def id(self) -> str:
        """An id that is stable while the notes are unchanged; a unique prefix is enough."""
        more = (part for place in self.more for part in place)
        parts = (self.action, self.path, self.blob, self.into, self.into_blob, *more)
        return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:_ID]

    @property
    def is_change(self) -> bool:
        """Return whether `--apply` applies it; others are for the owner."""
        return self.action in NEW_STATES


class Report(NamedTuple):
    """The proposals for a vault: `made` is ISO 8601, `commit` was checked out ("" without one)."""

    made: str
    commit: str
    proposals: tuple[Proposal, ...]

    @property
    def changes(self) -> tuple[Proposal, ...]:
        """The proposals that `--apply` applies."""
        return tuple(each for each in self.proposals if each.is_change)


def format_report(report: Report) -> str:
    """Return a report as JSON."""
    return (
        json.dumps({"version": _VERSION, **as_json_object(report)}, indent=2, ensure_ascii=False)
        + "\n"
    )


def parse_report(text: str) -> Report:
    """Return the report in a JSON text.

    Raises:
        RefusedError: the text is not a report of this version, or a path or blob is invalid.
    """
    try:
        data = json.loads(text)
        if data["version"] != _VERSION:
            raise RefusedError(f"the report is of version {data['version']!r}; make a new one")
        report: Report = as_typed(data, Report)
        for each in report.proposals:
            _check_proposal(each)
        return report
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise RefusedError(
            "not a report of `vaultmem curate`; make one with `vaultmem curate --save FILE`"
        ) from None


def _check_proposal(each: Proposal) -> None:
    """Check the path and blob of a proposal; for a merge, of both notes."""
    notes = each.places if each.action is Action.MERGE_DUPLICATES else each.places[:1]
    for path, blob in notes:
        parse_note_path(path)
        if not _BLOB.fullmatch(blob):
            raise ValueError


# The possible decisions for each proposal.


class ProposalChoice(StrEnum):
    """A decision: accept the proposal, accept its reverse, or reject it."""

    ACCEPT = "accept"
    OTHER = "other"
    REJECT = "reject"


class Choices(NamedTuple):
    """The question for a proposal, and the result of each choice; "" if not available."""

    question: str
    accept: str
    reject: str
    other: str = ""


_NEWER_WINS_TEXT = "the newer one replaces the older"
_OLDER_WINS_TEXT = "the older one replaces the newer"

#: The result if the replaced note contains more than the contradiction.
PART = "it is right where they differ; the other has more, and stays"

_RETENTION_TEXT = "it is kept, and counts as used now"

#: The questions for pending proposals, in queue order: misleading notes first, unused ones last.
CHOICES: Mapping[Action, Choices] = {
    Action.PROPOSAL: Choices("Merge this proposal?", "it is merged", "it is rejected"),
    Action.UPDATE: Choices(
        "Does the newer note replace the older?", _NEWER_WINS_TEXT, "both hold", _OLDER_WINS_TEXT
    ),
    Action.CONTRADICTION: Choices(
        "Is the newer note right?", _NEWER_WINS_TEXT, "both hold", _OLDER_WINS_TEXT
    ),
    Action.VALUE_GROUP: Choices(
        "Is the newest note right?", "the newest one replaces the others", "all hold"
    ),
    Action.REVIEW_QUARANTINED: Choices(
        "Release it from quarantine?", "it is active", "it stays in quarantine"
    ),
    Action.SUSPICIOUS: Choices("Did you write this?", "it stays as it is", "it is quarantined"),
    Action.UNREADABLE: Choices("Quarantine this unreadable note?", "it is quarantined", ""),
    Action.MERGE_DUPLICATES: Choices(
        "Do they state the same?", "the first is merged into the second", "they stay apart"
    ),
    Action.NEAR_DUPLICATE: Choices(
        "Does the longer note contain the shorter?",
        "the longer one replaces the shorter",
        "they stay apart",
        "the shorter one replaces the longer",
    ),
    Action.REVALIDATE: Choices("Is it still true?", "it is confirmed", "it is deprecated"),
    Action.CANDIDATE: Choices("Promote it?", "it is promoted", "it is deprecated"),
    Action.WISH: Choices(
        "Is this your preference?", "it counts as your preference", "it does not count"
    ),
    Action.DEPRECATE: Choices("Is it outdated?", "it is deprecated", _RETENTION_TEXT),
    Action.DEMOTE_STALE: Choices("Is it no longer used?", "it is stale", _RETENTION_TEXT),
    Action.ARCHIVE: Choices("Is it no longer used?", "it is archived", _RETENTION_TEXT),
}

#: The queue's order.
ORDER = tuple(CHOICES)


def format_action(action: str) -> str:
    """Return the display name of an action: contradiction, near duplicate, quarantined."""
    return action.removeprefix("review_").replace("_", " ")
