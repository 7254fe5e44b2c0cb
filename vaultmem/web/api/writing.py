"""Operations that write one note, each in a transaction of its own."""

from __future__ import annotations

from functools import partial
from pathlib import PurePosixPath
from typing import Any

from vaultmem.answers.notes import (
    edited_json,
    forgotten_json,
    moved_json,
    promoted_json,
    restored_json,
    superseded_json,
)
from vaultmem.core.lifecycle import State
from vaultmem.errors import RefusedError
from vaultmem.operations.links import MV
from vaultmem.operations.notes import REMEMBER
from vaultmem.operations.operation import Given, Moment, Operation
from vaultmem.operations.schemas import (
    STRINGS,
    Schema,
    choice,
    record,
    rows,
    text,
)
from vaultmem.services.reading.read_notes import resolve_whole
from vaultmem.vault import Vault

#: What an operation that changes a note returns: its JSON, and where the note is then, if it is.
Changed = tuple[Any, PurePosixPath | None]


def _rewrite(vault: Vault, given: Given) -> Changed:
    from vaultmem.services.notes.update import Update, update_note

    path = resolve_whole(vault, given["path"])
    return edited_json(path, update_note(vault, path, Update(text=given["text"]))), path


def _update(vault: Vault, given: Given) -> Changed:
    from vaultmem.services.notes.update import Update, update_note

    properties, old, new = given.get("properties", {}), given.get("old_text"), given.get("new_text")
    if (old is None) != (new is None) or not (properties or old):
        raise RefusedError("give properties, or old_text and new_text, or all of them")
    path = resolve_whole(vault, given["path"])
    done = update_note(vault, path, Update(properties, None, old or "", new))
    return edited_json(path, done), path


def _forget(vault: Vault, given: Given) -> Changed:
    from vaultmem.services.notes.forget import forget_notes, select_notes

    chosen = select_notes(vault, [given["path"]])
    reason = given.get("reason", "")
    done = forget_notes(vault, chosen.notes, reason)
    commits = done.report.commits if reason else None
    return forgotten_json(done.paths, chosen.kept, commits, is_dry=False), None


def _move(vault: Vault, given: Given) -> Changed:
    from vaultmem.services.lifecycle.transition import change_state

    path = resolve_whole(vault, given["path"])
    state, reason = State(given["state"]), given.get("reason", "")
    return moved_json(change_state(vault, [str(path)], state, reason)), path


def _promote(vault: Vault, given: Given) -> Changed:
    from vaultmem.services.lifecycle.promote import promote_notes

    path = resolve_whole(vault, given["path"])
    return promoted_json(promote_notes(vault, [str(path)])), path


def _supersede(vault: Vault, given: Given) -> Changed:
    from vaultmem.services.lifecycle.supersede import supersede_note

    path = resolve_whole(vault, given["path"])
    done = supersede_note(vault, str(path), given["by"], given.get("reason", ""))
    return superseded_json(done), path


def _restore(vault: Vault, given: Given) -> Changed:
    from vaultmem.services.history.restore import restore_note

    done = restore_note(vault, given["path"], given["at"])
    return restored_json(done), PurePosixPath(done.path)


_STATES = [each.value for each in State if each is not State.UNREADABLE]
_REASON = text("Why, for the record.", 1_000)
_TEXT = text("Its whole text in markdown, properties too.", 1_000_000)
_EDITED = record(path="string", blob="string")
_COMMITS = rows(commit="string", subject="string")
_PROPERTIES: Schema = {
    "type": "object",
    "description": "Properties to set, by name; null removes one.",
    "additionalProperties": {
        "anyOf": [
            {"type": ["string", "number", "boolean", "null"]},
            {**STRINGS, "maxItems": 100},
        ]
    },
}

_change = partial(Operation, moment=Moment.BRANCH, writes=True, changes=True)

WRITING = (
    REMEMBER,
    _change(
        "rewrite_note",
        "PUT /notes/{path}",
        "Give a note another text.",
        _rewrite,
        fields={"text": _TEXT},
        required=("text",),
        gives=_EDITED,
    ),
    _change(
        "update_note",
        "PATCH /notes/{path}",
        "Set properties of a note, or replace one place of its text; every other byte stays.",
        _update,
        fields={
            "properties": _PROPERTIES,
            "old_text": text("The text to replace; it must be there exactly once.", 1_000_000, 1),
            "new_text": text("What to put there.", 1_000_000),
        },
        gives=_EDITED,
    ),
    _change(
        "forget_note",
        "DELETE /notes/{path}",
        "Remove a note; git still has what was committed.",
        _forget,
        {"reason": text("Why; committed at once, for blame to tell.", 1_000)},
        gives=record(forgotten=STRINGS, kept_pinned=STRINGS),
    ),
    MV,
    _change(
        "move_note",
        "POST /state/{path}",
        "Move a note to another state, and commit that.",
        _move,
        fields={"state": choice("The state that it goes to.", _STATES), "reason": _REASON},
        required=("state",),
        gives=record(moved=rows(path="string", to="string"), commit="string?"),
    ),
    _change(
        "promote_note",
        "POST /promote/{path}",
        "Make a candidate active, and commit that; whether it may instruct is its owner's word.",
        _promote,
        gives=record(promoted=rows(path="string"), trusted=STRINGS, commits=_COMMITS),
    ),
    _change(
        "supersede_note",
        "POST /supersede/{path}",
        "Replace a note by another: it is deprecated, and each names the other.",
        _supersede,
        fields={"by": text("The note that holds instead.", 1_000, 1), "reason": _REASON},
        required=("by",),
        gives=record(old="string", new="string", commit="string?"),
    ),
    _change(
        "restore_note",
        "POST /restore/{path}",
        "Write a note as it once was, removed or not since, as a new change.",
        _restore,
        fields={"at": text("A commit, branch, tag or date.", 200, 1)},
        required=("at",),
        gives=record(path="string", blob="string", changed="boolean", commits=_COMMITS),
    ),
)
