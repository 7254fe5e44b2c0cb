"""Operations that find: recall, pack."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vaultmem.answers.finding import answer_json, pack_answer_json
from vaultmem.core.packs.pack_item import PackLabels, PackStyle
from vaultmem.operations.operation import Given, Moment, Operation
from vaultmem.operations.schemas import STRINGS, choice, flag, record, rows, text, texts, whole
from vaultmem.vault import Vault
from vaultmem.web.api.filters import FILTERS, make_filter

if TYPE_CHECKING:
    from vaultmem.services.finding.ask import Ask
    from vaultmem.services.finding.pack import AskPack


def read_ask(given: Given) -> Ask:
    """Return the question that an operation was given."""
    from vaultmem.services.finding.ask import MOST_FITTING, Ask

    return Ask(
        given["query"],
        given.get("limit", MOST_FITTING if given.get("budget", 0) else 0),
        given.get("offset", 0),
        make_filter(given),
        given.get("at", ""),
        tuple(given.get("include_refs", ())),
        given.get("semantic"),
        given.get("expand_links", False),
        suggests=True,
    )


def read_ask_pack(given: Given) -> AskPack:
    """Return what the pack is for that an operation was asked for."""
    from vaultmem.services.finding.pack import AskPack

    return AskPack(
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


def _recall(vault: Vault, given: Given) -> Any:
    from vaultmem.services.finding.ask import fit_texts, run_query, show_texts

    asked, budget = read_ask(given), given.get("budget", 0)
    vaults, told = _add_others(vault, given)
    answer = run_query(vaults, asked, fit_texts(budget) if budget else show_texts)
    return {**answer_json(answer), **told}


def _pack(vault: Vault, given: Given) -> Any:
    from vaultmem.services.finding.pack import ask_pack

    asked = read_ask_pack(given)
    vaults, told = _add_others(vault, given)
    return {**pack_answer_json(ask_pack(vaults, asked)), **told}


def _add_others(vault: Vault, given: Given) -> tuple[list[Vault], dict[str, list[str]]]:
    """Return the vaults to search, and those that were `passed_over`, if any."""
    from vaultmem.services.vaults.beside import add_others

    is_alone = bool(given.get("at") or given.get("include_refs") or vault.ref)
    vaults, told = add_others(vault, given.get("vaults", ()), is_alone)
    return vaults, {"passed_over": told} if told else {}


BUDGET = whole("Tokens at most; what vaultmem.yaml says if not given.", 1, 1_000_000)
_SEEN_TOO = {
    "include_refs": texts("Look at these refs too; each hit names the refs that hold it."),
    "semantic": flag("By meaning too, or by words alone; else as vaultmem.yaml says."),
    "expand_links": flag("Also what the best sections link to."),
    "vaults": texts("Ask these vaults of the user's too, by name; `all` for each of the list."),
}

_RECALL = {
    "query": text("What to look for, in plain words.", 1_000_000, 1),
    "limit": whole("Notes at most; the vault's own number if not given.", 1, 1_000),
    "offset": whole("How many of the best to pass over.", 0, 1_000),
    "budget": whole("As many of the best as fit into so many tokens.", 1, 1_000_000),
    **FILTERS,
    **_SEEN_TOO,
}

_PACK = {
    "query": text("What the pack is for; without it, what is pinned and most recent.", 1_000_000),
    "budget": BUDGET,
    "format": choice("How it is written.", list(PackStyle)),
    "labels": choice("What stands above a section.", list(PackLabels)),
    "receipt": flag("Whether a receipt is kept; an agent's packs have one if not given."),
    **_SEEN_TOO,
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

_PACK_ANSWER = record(
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

_RECALLS = Operation(
    "recall",
    "GET /recall",
    "Find the notes that answer a question, best first, each by its best section and why.",
    _recall,
    _RECALL,
    required=("query",),
    gives=_ANSWER,
    moment=Moment.ASKED,
)

_PACKS = Operation(
    "pack",
    "GET /pack",
    "Make the context pack: what is pinned and what is relevant, within a token budget.",
    _pack,
    _PACK,
    gives=_PACK_ANSWER,
    moment=Moment.ASKED,
)


def _by_body(asked: Operation) -> Operation:
    return asked._replace(
        name=f"{asked.name}_by_body",
        address=f"POST {asked.path}",
        summary="The same as GET, for questions that are too long for an address.",
        query={},
        body=asked.query,
    )


FINDING = (_RECALLS, _by_body(_RECALLS), _PACKS, _by_body(_PACKS))
