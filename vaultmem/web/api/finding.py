"""Operations that find: recall, pack."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vaultmem.core.packs.pack_item import PackLabels, PackStyle
from vaultmem.operations.finding import RECALL, by_body, pack_answer_data
from vaultmem.operations.operation import Given, Moment, Operation
from vaultmem.operations.schemas import STRINGS, choice, flag, record, rows, text, texts, whole
from vaultmem.vault import Vault

if TYPE_CHECKING:
    from vaultmem.services.finding.pack import AskPack


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


def _pack(vault: Vault, given: Given) -> Any:
    from vaultmem.services.finding.pack import ask_pack

    asked = read_ask_pack(given)
    vaults, told = _add_others(vault, given)
    return {**pack_answer_data(ask_pack(vaults, asked)), **told}


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

_PACK = {
    "query": text("What the pack is for; without it, what is pinned and most recent.", 1_000_000),
    "budget": BUDGET,
    "format": choice("How it is written.", list(PackStyle)),
    "labels": choice("What stands above a section.", list(PackLabels)),
    "receipt": flag("Whether a receipt is kept; an agent's packs have one if not given."),
    **_SEEN_TOO,
}

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

_PACKS = Operation(
    "pack",
    "GET /pack",
    "Make the context pack: what is pinned and what is relevant, within a token budget.",
    _pack,
    _PACK,
    gives=_PACK_ANSWER,
    moment=Moment.ASKED,
)


FINDING = (RECALL, by_body(RECALL), _PACKS, by_body(_PACKS))
