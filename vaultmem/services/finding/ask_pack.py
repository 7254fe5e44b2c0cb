"""Ask a vault for a context pack: made, counted, and kept as a receipt, for every front end."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from vaultmem.core.finding.reranking import Reranked
from vaultmem.core.packs.division import divide_pack, settle_part
from vaultmem.core.packs.pack import MIN_BUDGET
from vaultmem.core.packs.pack_item import PackLabels, PackStyle
from vaultmem.core.packs.pack_text import Pack, tell_budget, warn_of_pinned
from vaultmem.core.token_count import fit_budget
from vaultmem.services.finding.count import count_pack
from vaultmem.services.finding.own_part import pack_source
from vaultmem.services.finding.pack import PackMaterial, PackPlan, gather
from vaultmem.services.finding.receipts import keep_receipt, name_receipt
from vaultmem.services.finding.vault_set import (
    ByMeaning,
    Models,
    TellProgress,
    VaultSet,
    open_set,
)
from vaultmem.vault import Vault


class AskPack(NamedTuple):
    """What a pack is for, and how it is made; what is left out is as vaultmem.yaml has it.

    Without a question: what is pinned and most recent. `budget` is in tokens. `receipt` says
    whether one is kept, None for those of agents. `has_sessions` is as in `make_pack`; `price` is
    what a pack costs as it is shown, which the budget then holds for. `told` are lines that it says
    of what was asked. The others are as in `Ask`.
    """

    question: str = ""
    budget: int | None = None
    style: PackStyle = PackStyle.MARKDOWN
    labels: PackLabels | None = None
    at: str = ""
    refs: tuple[str, ...] = ()
    semantic: bool | None = None
    expand_links: bool = False
    waits: bool = True
    receipt: bool | None = None
    counts: bool = True
    has_sessions: bool = True
    price: Callable[[Pack], int] | None = None
    told: tuple[str, ...] = ()


class PackAnswer(NamedTuple):
    """A pack, and the id of its receipt, "" if it has none; what scored is as in `Answer`.

    `warning` is what the vault's owner should know of what is pinned.
    """

    question: str
    pack: Pack
    receipt: str
    meaning: ByMeaning | None
    words_alone: str
    reranked: Reranked | None
    warning: str


def ask_pack(
    vaults: Vault | Iterable[Vault] | VaultSet, asked: AskPack, progress: TellProgress | None = None
) -> PackAnswer:
    """Return the pack for a question, as it is shown; it is counted, and has a receipt, in each.

    Raises:
        NoteNotFoundError: a ref does not exist.
        RefusedError: the budget is under 100 tokens, the question too long, or a ref's name unsafe.
    """
    opened = open_set(vaults)
    seen, models, found = opened.heal(lambda: _find(opened, asked, progress))
    made = _fit(asked, found)
    meaning, words_alone, reranked = models.describe()
    first = seen.names[0]
    wanted, lack = False, ""
    if asked.receipt is not False:
        wanted, lack = seen.run(_may_keep, {first: (asked.receipt,)})[first]
    receipt = name_receipt(seen.now()) if wanted and not lack else ""
    if receipt or asked.counts:
        parts = divide_pack(made, seen.names)
        how = (len(seen.names), asked.question, asked.counts, receipt)
        kept = seen.keep(_record, {name: (part, *how) for name, part in parts.items()})
        if receipt and first not in kept:
            receipt, lack = "", "its vault does not answer any more"
    told = (warn_of_pinned(made.pinned_tokens, found.config.budget), lack and f"no receipt: {lack}")
    warning = "; ".join(filter(None, told))
    return PackAnswer(asked.question, made, receipt, meaning, words_alone, reranked, warning)


def _find(
    vaults: VaultSet, asked: AskPack, progress: TellProgress | None
) -> tuple[VaultSet, Models, PackMaterial]:
    """Return what was looked at, what scored besides the words, and what the pack is made of."""
    seen = vaults.view(asked.at, asked.refs, progress)
    models = Models()
    if asked.question.strip():
        models = seen.open_models(asked.semantic, asked.waits, progress)
    plan = PackPlan(
        asked.question,
        asked.style,
        asked.labels,
        asked.expand_links,
        models.dense,
        models.reranker,
        looks_elsewhere=asked.waits,
        has_sessions=asked.has_sessions,
        told=asked.told,
    )
    return seen, models, gather(seen, plan)


def _fit(asked: AskPack, found: PackMaterial) -> Pack:
    budget = found.config.budget if asked.budget is None else asked.budget
    if asked.price is None:
        return found.fit(budget)
    return tell_budget(fit_budget(found.fit, asked.price, budget, MIN_BUDGET), budget)


def _may_keep(vault: Vault, wanted: bool | None) -> tuple[bool, str]:
    """Return whether a vault's pack is to have a receipt, and why it cannot."""
    wanted = vault.keeps_receipts if wanted is None else wanted
    return wanted, vault.state_place.lack if wanted else ""


def _record(vault: Vault, part: Pack, many: int, question: str, counts: bool, receipt: str) -> None:
    """Count what a pack has of a vault, and keep its receipt: that may go where its vault goes."""
    part = settle_part(part, many, pack_source(vault), vault.view.totals()[1])
    if counts:
        count_pack(vault, question, part)
    if receipt:
        keep_receipt(vault, part, question, receipt)


def make_unseen(
    vault: Vault, question: str = "", budget: int | None = None, *, waits: bool = True
) -> Pack:
    """Return a pack that nobody is shown now: it is not counted, and has no receipt."""
    asked = AskPack(question, budget, waits=waits, receipt=False, counts=False)
    return ask_pack(vault, asked).pack
