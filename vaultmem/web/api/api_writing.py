"""HTTP operations that write: decisions, assertions, notes and commits."""

from __future__ import annotations

from functools import partial
from typing import Any

from vaultmem.errors import RefusedError
from vaultmem.operations.branch_changes import MERGE, RESOLVE
from vaultmem.operations.curation import COMPACT, DREAM
from vaultmem.operations.declaration import Given, Operation, VersionScope
from vaultmem.operations.links import MV
from vaultmem.operations.note_changes import CHECKPOINT, NOTE_CHANGES, UNDO
from vaultmem.operations.note_data import (
    bisected_json,
    judged_json,
    receipt_json,
    receipts_json,
    replayed_json,
)
from vaultmem.operations.note_edits import NOTE_EDITS
from vaultmem.operations.notes import REMEMBER
from vaultmem.operations.review_queue import DECIDE
from vaultmem.operations.schemas import (
    STRINGS,
    flag,
    record,
    rows,
    text,
    texts,
    whole,
)
from vaultmem.vault import Vault

_write = partial(Operation, writes=True)

DECIDING = (
    CHECKPOINT,
    MERGE,
    UNDO,
    DECIDE,
    RESOLVE,
    DREAM,
    COMPACT,
)


# Operations that check packs: receipts, replay, assert, bisect.


def _list_receipts(vault: Vault, arguments: Given) -> Any:
    from itertools import islice

    from vaultmem.services.packs.receipts import list_receipts

    receipts = list_receipts(vault, arguments.get("agent", ""), arguments.get("session", ""))
    return receipts_json(islice(receipts, arguments.get("limit", 20)))


def _get_receipt(vault: Vault, arguments: Given) -> Any:
    from vaultmem.services.packs.receipts import find_receipt

    return receipt_json(find_receipt(vault, arguments["receipt"]))


def _replay(vault: Vault, arguments: Given) -> Any:
    from vaultmem.services.packs.receipts import find_receipt, render_again

    return replayed_json(render_again(vault, find_receipt(vault, arguments["receipt"])))


def _assert(vault: Vault, arguments: Given) -> Any:
    from vaultmem.services.packs.evaluate import judge_vault

    return judged_json(judge_vault(vault, _expect(arguments)))


def _bisect(vault: Vault, arguments: Given) -> Any:
    from vaultmem.services.history.diff import show_commit
    from vaultmem.services.packs.evaluate import bisect_history

    last = arguments.get("bad") or vault.ref or "HEAD"
    result = bisect_history(vault, arguments["good"], last, _expect(arguments))
    return bisected_json(result, [show_commit(vault, commit) for commit in result.first_bad])


def _expect(arguments: Given) -> Any:
    from vaultmem.core.packs.receipt import expect

    addresses, phrases = arguments.get("finds", ()), arguments.get("says", ())
    if not any(map(str.strip, (*addresses, *phrases))):
        raise RefusedError("`finds` and `says` are missing: give a note or a text to expect")
    return expect(
        arguments["query"],
        addresses,
        phrases,
        arguments.get("not", False),
        arguments.get("budget", 0),
    )


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
        output_schema=record(receipts=rows(**_RECEIPT)),
    ),
    Operation(
        "get_receipt",
        "GET /receipts/{receipt}",
        "Read a receipt: who was shown what, for which question, and what it cost.",
        _get_receipt,
        output_schema=record(**_RECEIPT),
    ),
    Operation(
        "replay_receipt",
        "GET /receipts/{receipt}/replay",
        "Render the pack of a receipt again; `gone` lists what git has lost of it.",
        _replay,
        output_schema=record(**_RECEIPT, text="string", gone=rows(path="string", blob="string")),
    ),
    Operation(
        "assert",
        "GET /assert",
        "Return whether the pack for a question is as expected, and if not why.",
        _assert,
        _EXPECTED,
        required=("query",),
        output_schema=record(as_expected="boolean", reasons=STRINGS),
        versions=VersionScope.SEEN,
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
        output_schema=record(first_bad=rows(commit="string"), steps=rows(commit="string")),
        versions=VersionScope.BRANCH,
        long=True,
    ),
)


# Operations that write one note, each in its own transaction.

WRITING = (REMEMBER, *NOTE_EDITS, MV, *NOTE_CHANGES)
