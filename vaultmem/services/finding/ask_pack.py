"""Ask a vault for a context pack: made, counted, and kept as a receipt, for every front end."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from vaultmem.core.packs.pack import Pack
from vaultmem.core.packs.pack_text import PackStyle, warn_of_pinned
from vaultmem.services.finding.ask import (
    ByMeaning,
    TellProgress,
    describe_scorer,
    look,
    open_scorer,
)
from vaultmem.services.finding.count import count_pack
from vaultmem.services.finding.pack import make_pack
from vaultmem.services.finding.receipts import keep_receipt
from vaultmem.services.reading.heal import heals
from vaultmem.vault import Vault

if TYPE_CHECKING:
    from vaultmem.services.embedding.score import DenseScorer


class AskPack(NamedTuple):
    """What a pack is for, and how it is made; what is left out is as vaultmem.yaml has it.

    Without a question: what is pinned and most recent. `budget` is in tokens. `receipt` says
    whether one is kept, None for those of agents. The others are as in `Ask`.
    """

    question: str = ""
    budget: int | None = None
    style: PackStyle = PackStyle.MARKDOWN
    at: str = ""
    refs: tuple[str, ...] = ()
    semantic: bool | None = None
    expand_links: bool = False
    waits: bool = True
    receipt: bool | None = None
    counts: bool = True


class PackAnswer(NamedTuple):
    """A pack, and the id of its receipt, "" if it has none; what scored is as in `Answer`.

    `warning` is what the vault's owner should know of what is pinned.
    """

    question: str
    pack: Pack
    receipt: str
    meaning: ByMeaning | None
    words_alone: str
    warning: str


def ask_pack(vault: Vault, asked: AskPack, progress: TellProgress | None = None) -> PackAnswer:
    """Return the pack for a question, as it is shown.

    Raises:
        NoteNotFoundError: a ref does not exist.
        RefusedError: the budget is under 100 tokens, the question too long, or a ref's name unsafe.
    """
    seen, made, scorer, problem = _make(vault, asked, progress)
    text = asked.question
    meaning, words_alone = describe_scorer(scorer, problem)
    if asked.counts:
        count_pack(seen, text, made)
    keeps = seen.keeps_receipts if asked.receipt is None else asked.receipt
    receipt = keep_receipt(seen, made, text).id if keeps else ""
    warning = warn_of_pinned(made.pinned_tokens, seen.config.budget)
    return PackAnswer(text, made, receipt, meaning, words_alone, warning)


@heals
def _make(
    vault: Vault, asked: AskPack, progress: TellProgress | None
) -> tuple[Vault, Pack, DenseScorer | None, str]:
    """Return what was looked at, the pack, what scored by meaning, and why it could not be had."""
    seen = look(vault, asked.at, asked.refs, progress)
    text = asked.question
    scorer, problem = None, ""
    if text.strip():
        scorer, problem = open_scorer(seen, asked.semantic, asked.waits, progress)
    made = make_pack(
        seen,
        text,
        asked.budget,
        style=asked.style,
        expand_links=asked.expand_links,
        dense=scorer,
    )
    return seen, made, scorer, problem


def make_unseen(vault: Vault, question: str = "", budget: int | None = None) -> Pack:
    """Return a pack that nobody is shown now: it is not counted, and has no receipt."""
    return ask_pack(vault, AskPack(question, budget, receipt=False, counts=False)).pack
