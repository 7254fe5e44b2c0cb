"""Ask a vault for a context pack: made, counted, and kept as a receipt, for every front end."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from vaultmem.core.finding.reranking import Reranked
from vaultmem.core.packs.pack import MIN_BUDGET
from vaultmem.core.packs.pack_item import PackLabels, PackStyle
from vaultmem.core.packs.pack_text import Pack, tell_budget, warn_of_pinned
from vaultmem.core.token_count import fit_budget
from vaultmem.services.finding.ask import ByMeaning, Models, TellProgress, look, open_models
from vaultmem.services.finding.count import count_pack
from vaultmem.services.finding.pack import make_pack
from vaultmem.services.finding.receipts import divide_pack, keep_receipt
from vaultmem.services.reading.heal import heals
from vaultmem.vault import Vault


class AskPack(NamedTuple):
    """What a pack is for, and how it is made; what is left out is as vaultmem.yaml has it.

    Without a question: what is pinned and most recent. `budget` is in tokens. `receipt` says
    whether one is kept, None for those of agents. `has_sessions` is as in `make_pack`; `price` is
    what a pack costs as it is shown, which the budget then holds for. The others are as in `Ask`.
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


def ask_pack(vault: Vault, asked: AskPack, progress: TellProgress | None = None) -> PackAnswer:
    """Return the pack for a question, as it is shown.

    Raises:
        NoteNotFoundError: a ref does not exist.
        RefusedError: the budget is under 100 tokens, the question too long, or a ref's name unsafe.
    """
    seen, made, models = _make(vault, asked, progress)
    text = asked.question
    meaning, words_alone, reranked = models.describe()
    wanted = seen.keeps_receipts if asked.receipt is None else asked.receipt
    lack = vault.state_place.lack if wanted else ""
    keeps = wanted and not lack
    receipt = ""
    for each, part in divide_pack(seen, made) if keeps or asked.counts else ():
        if asked.counts:
            count_pack(each, text, part)
        if keeps:  # Each has what is its own: a receipt may go where its vault goes.
            receipt = keep_receipt(each, part, text, receipt).id
    told = (warn_of_pinned(made.pinned_tokens, seen.config.budget), lack and f"no receipt: {lack}")
    warning = "; ".join(filter(None, told))
    return PackAnswer(text, made, receipt, meaning, words_alone, reranked, warning)


@heals
def _make(
    vault: Vault, asked: AskPack, progress: TellProgress | None
) -> tuple[Vault, Pack, Models]:
    """Return what was looked at, the pack, and what scored besides the words."""
    seen = look(vault, asked.at, asked.refs, progress)
    text = asked.question
    models = Models()
    if text.strip():
        models = open_models(seen, asked.semantic, asked.waits, progress)

    def make(budget: int) -> Pack:
        return make_pack(
            seen,
            text,
            budget,
            style=asked.style,
            labels=asked.labels,
            expand_links=asked.expand_links,
            dense=models.dense,
            reranker=models.reranker,
            looks_elsewhere=asked.waits,
            has_sessions=asked.has_sessions,
        )

    budget = seen.config.budget if asked.budget is None else asked.budget
    if asked.price is None:
        return seen, make(budget), models
    made = fit_budget(make, asked.price, budget, MIN_BUDGET)
    return seen, tell_budget(made, budget), models


def make_unseen(
    vault: Vault, question: str = "", budget: int | None = None, *, waits: bool = True
) -> Pack:
    """Return a pack that nobody is shown now: it is not counted, and has no receipt."""
    asked = AskPack(question, budget, waits=waits, receipt=False, counts=False)
    return ask_pack(vault, asked).pack
