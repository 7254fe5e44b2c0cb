"""HTTP operations that write: decisions, assertions, notes and commits."""

from __future__ import annotations

from functools import partial
from pathlib import PurePosixPath
from typing import Any

from vaultmem.core.curation.proposal import ProposalChoice
from vaultmem.errors import RefusedError
from vaultmem.operations.branch_changes import MERGE, RESOLVE
from vaultmem.operations.declaration import Given, Moment, Operation
from vaultmem.operations.links import MV
from vaultmem.operations.note_changes import CHECKPOINT, STATE, SUPERSEDE, UNDO
from vaultmem.operations.note_data import (
    bisected_json,
    edited_json,
    forgotten_json,
    judged_json,
    promoted_json,
    receipt_json,
    receipts_json,
    replayed_json,
    restored_json,
)
from vaultmem.operations.notes import REMEMBER
from vaultmem.operations.schemas import (
    STRINGS,
    Schema,
    choice,
    flag,
    record,
    rows,
    text,
    texts,
    whole,
)
from vaultmem.operations.vault_data import decided_json
from vaultmem.services.views.read_notes import resolve_whole
from vaultmem.vault import Vault


def _decide(vault: Vault, given: Given) -> Any:
    from vaultmem.services.curation.decide import decide
    from vaultmem.services.curation.review import find_item

    proposal = find_item(vault, given["id"], looks=False)
    return decided_json(
        [decide(vault, proposal, ProposalChoice(given["choice"]), given.get("reason", ""))]
    )


_COMMITS = rows(commit="string", subject="string")

_write = partial(Operation, writes=True)

DECIDING = (
    CHECKPOINT,
    MERGE,
    UNDO,
    _write(
        "decide",
        "POST /review/{id}",
        "Decide what waits, as `GET /review` listed it; one decision is one commit.",
        _decide,
        fields={
            "choice": choice("What to do.", [each.value for each in ProposalChoice]),
            "reason": text("Why, for the record.", 1_000),
        },
        required=("choice",),
        gives=record(decided=rows(id="string", path="string", choice="string", told="string")),
    ),
    RESOLVE,
)


# Operations that judge what a vault knows and an agent saw: receipts, replay, assert, bisect.


def _list_receipts(vault: Vault, given: Given) -> Any:
    from itertools import islice

    from vaultmem.services.packs.receipts import list_receipts

    found = list_receipts(vault, given.get("agent", ""), given.get("session", ""))
    return receipts_json(islice(found, given.get("limit", 20)))


def _get_receipt(vault: Vault, given: Given) -> Any:
    from vaultmem.services.packs.receipts import find_receipt

    return receipt_json(find_receipt(vault, given["receipt"]))


def _replay(vault: Vault, given: Given) -> Any:
    from vaultmem.services.packs.receipts import find_receipt, render_again

    return replayed_json(render_again(vault, find_receipt(vault, given["receipt"])))


def _assert(vault: Vault, given: Given) -> Any:
    from vaultmem.services.packs.evaluate import judge_vault

    return judged_json(judge_vault(vault, _expect(given)))


def _bisect(vault: Vault, given: Given) -> Any:
    from vaultmem.services.history.diff import show_commit
    from vaultmem.services.packs.evaluate import bisect_history

    last = given.get("bad") or vault.ref or "HEAD"
    done = bisect_history(vault, given["good"], last, _expect(given))
    return bisected_json(done, [show_commit(vault, commit) for commit in done.first_bad])


def _expect(given: Given) -> Any:
    from vaultmem.core.packs.receipt import expect

    finds, says = given.get("finds", ()), given.get("says", ())
    return expect(given["query"], finds, says, given.get("not", False), given.get("budget", 0))


_EXPECTED = {
    "query": text("What the pack is for.", 1_000_000, 1),
    "finds": texts("The pack shows these notes (path, or path#Heading)."),
    "says": texts("The pack contains these texts."),
    "not": flag("Expect that it shows none of them."),
    "budget": whole("Tokens at most; else 2000.", 1, 1_000_000),
}

_RECEIPT = {
    "id": "string",
    "time": "string",
    "agent": "string",
    "session": "string",
    "query": "string",
    "digest": "string",
}

JUDGING = (
    Operation(
        "list_receipts",
        "GET /receipts",
        "List the packs that have a receipt, newest first.",
        _list_receipts,
        {
            "limit": whole("Receipts at most; else 20.", 1, 1_000),
            "agent": text("Only those of this agent.", 200),
            "session": text("Only those of this session.", 200),
        },
        gives=record(receipts=rows(**_RECEIPT)),
    ),
    Operation(
        "get_receipt",
        "GET /receipts/{receipt}",
        "Read a receipt: who was shown what, for which question, and what it cost.",
        _get_receipt,
        gives=record(**_RECEIPT),
    ),
    Operation(
        "replay_receipt",
        "GET /receipts/{receipt}/replay",
        "Render the pack of a receipt again; `gone` lists what git has lost of it.",
        _replay,
        gives=record(**_RECEIPT, text="string", gone=rows(path="string", blob="string")),
    ),
    Operation(
        "assert",
        "GET /assert",
        "Return whether the pack for a question is as expected, and if not why.",
        _assert,
        _EXPECTED,
        required=("query",),
        gives=record(as_expected="boolean", reasons=STRINGS),
        moment=Moment.SEEN,
    ),
    Operation(
        "bisect",
        "GET /bisect",
        "Find the first commit at which the pack for a question is not as expected.",
        _bisect,
        {
            **_EXPECTED,
            "good": text("A commit, tag or date with a good pack.", 200),
            "bad": text("A later one, where it is bad; else what is looked at.", 200),
        },
        required=("query", "good"),
        gives=record(first_bad=rows(commit="string"), steps=rows(commit="string")),
        moment=Moment.BRANCH,
        long=True,
    ),
)


# Operations that write one note, each in a transaction of its own.

#: What an operation that changes a note returns: its JSON, and where the note is then, if it is.
Changed = tuple[Any, PurePosixPath | None]


def _rewrite(vault: Vault, given: Given) -> Changed:
    from vaultmem.services.memory.new_note import NoteUpdate, update_note

    path = resolve_whole(vault, given["path"])
    return edited_json(path, update_note(vault, path, NoteUpdate(text=given["text"]))), path


def _update(vault: Vault, given: Given) -> Changed:
    from vaultmem.services.memory.new_note import NoteUpdate, update_note

    properties, old, new = given.get("properties", {}), given.get("old_text"), given.get("new_text")
    if (old is None) != (new is None) or not (properties or old):
        raise RefusedError("give properties, or old_text and new_text, or all of them")
    path = resolve_whole(vault, given["path"])
    done = update_note(vault, path, NoteUpdate(properties, None, old or "", new))
    return edited_json(path, done), path


def _forget(vault: Vault, given: Given) -> Changed:
    from vaultmem.services.memory.forget import forget_notes, select_notes

    chosen = select_notes(vault, [given["path"]])
    reason = given.get("reason", "")
    done = forget_notes(vault, chosen.notes, reason)
    commits = done.report.commits if reason else None
    return forgotten_json(done.paths, chosen.kept, commits, is_dry=False), None


def _promote(vault: Vault, given: Given) -> Changed:
    from vaultmem.services.lifecycle.transition import promote_notes

    path = resolve_whole(vault, given["path"])
    return promoted_json(promote_notes(vault, [str(path)])), path


def _restore(vault: Vault, given: Given) -> Changed:
    from vaultmem.services.history.restore_note import restore_note

    done = restore_note(vault, given["path"], given["at"])
    return restored_json(done), PurePosixPath(done.path)


_TEXT = text("Its whole text in markdown, properties too.", 1_000_000)
_EDITED = record(path="string", blob="string")
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
        {"reason": text("Why; committed at once, so that blame shows it.", 1_000)},
        gives=record(forgotten=STRINGS, kept_pinned=STRINGS),
    ),
    MV,
    STATE,
    _change(
        "promote_note",
        "POST /promote/{path}",
        "Make a candidate active, and commit that; whether it may instruct is its owner's word.",
        _promote,
        gives=record(promoted=rows(path="string"), trusted=STRINGS, commits=_COMMITS),
    ),
    SUPERSEDE,
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
