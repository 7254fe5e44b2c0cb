"""Operations that find, and that tell what was found and shown: recall, pack, receipts, assert."""

from __future__ import annotations

from typing import Any

from vaultmem.answers.finding import (
    answer_json,
    bisected_json,
    judged_json,
    pack_answer_json,
    receipt_json,
    receipts_json,
    replayed_json,
)
from vaultmem.answers.schemas import STRINGS, choice, flag, record, rows, text, texts, whole
from vaultmem.core.packs.pack_item import PackLabels, PackStyle
from vaultmem.core.paths import parse_note_path
from vaultmem.vault import Vault
from vaultmem.web.api.filters import FILTERS, make_filter
from vaultmem.web.api.operation import Given, Moment, Operation


def _recall(vault: Vault, given: Given) -> Any:
    from vaultmem.services.finding.ask import MOST_FITTING, Ask, ask, fit_texts, show_texts

    budget = given.get("budget", 0)
    asked = Ask(
        given["query"],
        given.get("limit", MOST_FITTING if budget else 0),
        given.get("offset", 0),
        make_filter(given),
        given.get("at", ""),
        tuple(given.get("include_refs", ())),
        given.get("semantic"),
        given.get("expand_links", False),
        suggests=True,
    )
    told = _add_others(vault, given)
    answer = ask(vault, asked, fit_texts(budget) if budget else show_texts)
    return {**answer_json(answer), **told}


def _pack(vault: Vault, given: Given) -> Any:
    from vaultmem.services.finding.ask_pack import AskPack, ask_pack

    asked = AskPack(
        given.get("query", ""),
        given.get("budget"),
        PackStyle(given.get("format", PackStyle.MARKDOWN)),
        PackLabels(given["labels"]) if "labels" in given else None,
        given.get("at", ""),
        tuple(given.get("include_refs", ())),
        given.get("semantic"),
        given.get("expand_links", False),
        receipt=given.get("receipt"),
    )
    told = _add_others(vault, given)
    return {**pack_answer_json(ask_pack(vault, asked)), **told}


def _add_others(vault: Vault, given: Given) -> dict[str, list[str]]:
    """Have the question asked of other vaults too; return which are `passed_over`, if any."""
    from vaultmem.services.vaults.beside import add_others

    is_alone = bool(given.get("at") or given.get("include_refs") or vault.ref)
    told = add_others(vault, given.get("vaults", ()), is_alone)
    return {"passed_over": told} if told else {}


def _list_receipts(vault: Vault, given: Given) -> Any:
    from itertools import islice

    from vaultmem.services.finding.receipts import list_receipts

    found = list_receipts(vault, given.get("agent", ""), given.get("session", ""))
    return receipts_json(islice(found, given.get("limit", 20)))


def _get_receipt(vault: Vault, given: Given) -> Any:
    from vaultmem.services.finding.receipts import find_receipt

    return receipt_json(find_receipt(vault, given["receipt"]))


def _replay(vault: Vault, given: Given) -> Any:
    from vaultmem.services.finding.receipts import find_receipt, render_again

    return replayed_json(render_again(vault, find_receipt(vault, given["receipt"])))


def _assert(vault: Vault, given: Given) -> Any:
    from vaultmem.services.finding.judge import judge_vault

    return judged_json(judge_vault(vault, _expect(given)))


def _bisect(vault: Vault, given: Given) -> Any:
    from vaultmem.services.finding.judge import bisect_history
    from vaultmem.services.history.diff import show_commit

    last = given.get("bad") or vault.ref or "HEAD"
    done = bisect_history(vault, given["good"], last, _expect(given))
    return bisected_json(done, [show_commit(vault, commit) for commit in done.first_bad])


def _expect(given: Given) -> Any:
    from vaultmem.core.packs.expectation import Expectation

    finds = given.get("finds", ())
    for address in finds:
        parse_note_path(address.partition("#")[0])
    says, is_not = given.get("says", ()), given.get("not", False)
    return Expectation(given["query"], tuple(finds), tuple(says), is_not, given.get("budget", 0))


_QUERY = text("What to look for, in plain words.", 1_000_000, 1)
_BUDGET = whole("Tokens at most; what vaultmem.yaml says if not given.", 1, 1_000_000)
_SEEN_TOO = {
    "include_refs": texts("Look at these refs too; each hit names the refs that hold it."),
    "semantic": flag("By meaning too, or by words alone; else as vaultmem.yaml says."),
    "expand_links": flag("Also what the best sections link to."),
    "vaults": texts("Ask these vaults of the user's too, by name; `all` for each of the list."),
}

_RECALL = {
    "query": _QUERY,
    "limit": whole("Notes at most; the vault's own number if not given.", 1, 1_000),
    "offset": whole("How many of the best to pass over.", 0, 1_000),
    "budget": whole("As many of the best as fit into so many tokens.", 1, 1_000_000),
    **FILTERS,
    **_SEEN_TOO,
}

_PACK = {
    "query": text("What the pack is for; without it, what is pinned and most recent.", 1_000_000),
    "budget": _BUDGET,
    "format": choice("How it is written.", list(PackStyle)),
    "labels": choice("What stands above a section.", list(PackLabels)),
    "receipt": flag("Whether a receipt is kept; an agent's packs have one if not given."),
    **_SEEN_TOO,
}

_EXPECTED = {
    "query": text("What the pack is for.", 1_000_000, 1),
    "finds": texts("The pack shows these notes (path, or path#Heading)."),
    "says": texts("The pack says these texts."),
    "not": flag("Expect that it shows and says none."),
    "budget": _BUDGET,
}

_ANSWER = record(
    query="string",
    terms=STRINGS,
    searched_instead="object",
    sureness="string",
    elsewhere="string?",
    hits=rows(
        path="string",
        heading="string?",
        line="integer",
        blob="string",
        title="string",
        kind="string",
        state="string",
        score="number",
        text="string",
        why="object",
    ),
    left_out="integer",
)

PACK_ANSWER = record(
    text="string",
    sureness="string?",
    items=rows(
        handle="string",
        path="string",
        heading="string?",
        blob="string",
        group="string",
        pinned="boolean",
        shortened="boolean",
        tokens="integer",
        score="number",
        why="object",
        text="string",
    ),
    left_out=rows(path="string", heading="string?", reason="string", instead="string?"),
    unshown=STRINGS,
    unnamed="integer",
    tokens=record(sent="integer", budget="integer", flat="integer", ratio="number"),
    receipt="string?",
)

_RECEIPT = {
    "id": "string",
    "time": "string",
    "agent": "string",
    "session": "string",
    "query": "string",
    "digest": "string",
}

_LATER = "for questions that are too long for an address"

FINDING = (
    Operation(
        "recall",
        "GET",
        "/recall",
        "Find the notes that answer a question, best first, each by its best section and why.",
        _recall,
        _RECALL,
        required=("query",),
        gives=_ANSWER,
        moment=Moment.ASKED,
    ),
    Operation(
        "recall_by_body",
        "POST",
        "/recall",
        f"The same as GET, {_LATER}.",
        _recall,
        body=_RECALL,
        required=("query",),
        gives=_ANSWER,
        moment=Moment.ASKED,
    ),
    Operation(
        "pack",
        "GET",
        "/pack",
        "Make the context pack: what is pinned and what is relevant, within a token budget.",
        _pack,
        _PACK,
        gives=PACK_ANSWER,
        moment=Moment.ASKED,
    ),
    Operation(
        "pack_by_body",
        "POST",
        "/pack",
        f"The same as GET, {_LATER}.",
        _pack,
        body=_PACK,
        gives=PACK_ANSWER,
        moment=Moment.ASKED,
    ),
    Operation(
        "list_receipts",
        "GET",
        "/receipts",
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
        "GET",
        "/receipts/{receipt}",
        "Read a receipt: who was shown what, for which question, and what it cost.",
        _get_receipt,
        gives=record(**_RECEIPT),
    ),
    Operation(
        "replay_receipt",
        "GET",
        "/receipts/{receipt}/replay",
        "Render the very pack that a receipt stands for again; `gone` is what git has lost of it.",
        _replay,
        gives=record(**_RECEIPT, text="string", gone=rows(path="string", blob="string")),
    ),
    Operation(
        "assert",
        "GET",
        "/assert",
        "Tell whether the pack for a question is as expected, and if not why.",
        _assert,
        _EXPECTED,
        required=("query",),
        gives=record(as_expected="boolean", reasons=STRINGS),
        moment=Moment.SEEN,
    ),
    Operation(
        "bisect",
        "GET",
        "/bisect",
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
