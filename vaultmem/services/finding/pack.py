"""Make a context pack, log it, and keep it as a receipt, for every front end."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from vaultmem.config import Config
from vaultmem.core.finding.hit import Hit, NoteKey, Sureness, judge_hits
from vaultmem.core.finding.query import parse_query
from vaultmem.core.notes.record import NoteRecord
from vaultmem.core.packs.caution import written_at
from vaultmem.core.packs.conflicts import Remarks
from vaultmem.core.packs.division import MANY, divide_pack, group_by_vault, name_vaults, settle_part
from vaultmem.core.packs.order import order_by_worth
from vaultmem.core.packs.pack import MIN_BUDGET, build_pack
from vaultmem.core.packs.pack_item import (
    PackLabels,
    PackSource,
    PackStyle,
    parse_labels,
)
from vaultmem.core.packs.pack_text import Pack, tell_budget, warn_of_pinned
from vaultmem.core.preferences.concern import Wishes
from vaultmem.core.token_count import fit_budget
from vaultmem.services.finding.annotations import add_cautions, add_remarks
from vaultmem.services.finding.ask import count_pack
from vaultmem.services.finding.pack_parts import (
    CANDIDATES,
    VaultPart,
    add_next,
    find_wishes,
    list_own,
    look_over,
    pack_source,
)
from vaultmem.services.finding.recall import find_hits, tell_doubts
from vaultmem.services.finding.receipts import keep_receipt, name_receipt
from vaultmem.services.finding.rerank import Reranked, Reranker
from vaultmem.services.finding.score import Scorer
from vaultmem.services.finding.search import list_sections
from vaultmem.services.finding.vault_set import (
    ByMeaning,
    Models,
    TellProgress,
    VaultSet,
    name_vault,
    open_set,
)
from vaultmem.services.reading.handles import name_notes
from vaultmem.services.reading.heal import heals
from vaultmem.vault import Vault

#: How many sections are shown where probably nothing answers.
_NEAREST = 5


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


class PackMaterial(NamedTuple):
    """What a pack is made of, whatever its budget; `flat_tokens` are those of all notes."""

    asked: AskPack
    config: Config
    pinned: Sequence[Hit]
    relevant: Sequence[Hit]
    trusted: frozenset[NoteKey]
    source: PackSource
    remarks: Remarks
    wishes: Wishes
    replaced: tuple[tuple[str, str], ...]
    sureness: Sureness | None
    flat_tokens: int

    def fit(self, budget: int) -> Pack:
        """Return the pack of so many tokens.

        Raises:
            RefusedError: the budget is under 100 tokens.
        """
        return build_pack(
            self.pinned,
            self.relevant,
            self.trusted,
            self.source,
            budget,
            self.config.pinned_share,
            self.flat_tokens,
            self.remarks,
            self.asked.style,
            self.wishes,
            self.asked.labels or parse_labels(self.config.labels),
        )._replace(replaced=self.replaced, sureness=self.sureness)


@heals
def make_pack(
    vault: Vault,
    text: str = "",
    budget: int | None = None,
    *,
    style: PackStyle = PackStyle.MARKDOWN,
    labels: PackLabels | None = None,
    expand_links: bool = False,
    dense: Scorer | None = None,
    reranker: Reranker | None = None,
    looks_elsewhere: bool = False,
    has_sessions: bool = True,
) -> Pack:
    """Return the pack for a question; for an empty one, pinned and most recent notes.

    With `expand_links`, what the best sections link to is found as well; with `dense`, what means
    the same; `reranker` puts the best in its order. With `looks_elsewhere`, an answer that is not
    sure names who has one. Without `has_sessions`, sessions are not among the recent notes. What
    is on disk is taken in first, once for each `open_vault`. The same notes, commit, question and
    budget give the same bytes.

    Raises:
        RefusedError: the budget is under 100 tokens, or the question too long.
    """
    asked = AskPack(
        text,
        style=style,
        labels=labels,
        expand_links=expand_links,
        waits=looks_elsewhere,
        has_sessions=has_sessions,
    )
    found = gather(VaultSet([vault]), asked, dense, reranker)
    return found.fit(vault.config.budget if budget is None else budget)


def gather(
    vaults: VaultSet,
    asked: AskPack,
    dense: Scorer | None = None,
    reranker: Reranker | None = None,
) -> PackMaterial:
    """Return what a pack over some vaults is made of; other branches are looked at if it waits.

    Raises:
        RefusedError: the question is too long.
    """
    query = parse_query(asked.question, limit=CANDIDATES)
    is_asked = bool(asked.question.strip())
    given = {
        name: (nth == 0, is_asked, asked.has_sessions) for nth, name in enumerate(vaults.names)
    }
    own = vaults.run(look_over, given)
    if is_asked:
        query, relevant = find_hits(vaults, query, query.limit, dense=dense, reranker=reranker)
    else:
        relevant = _choose_recent(vaults, own)
    if asked.expand_links:
        from vaultmem.services.finding.links import expand_hits

        relevant = vaults.change(relevant, expand_hits, query)
    sureness = judge_hits(relevant) if is_asked else None
    told = (*_tell_others(vaults), *asked.told)
    if sureness is not None:
        told += tell_doubts(vaults, query, relevant, sureness, asked.waits)
    if sureness is Sureness.NONE:
        relevant = relevant[:_NEAREST]
    relevant = order_by_worth(vaults.change(relevant, add_next, query.filter))
    pinned, trusted = _list_pinned(vaults, relevant)
    keys = frozenset((name, r.path, r.blob) for name, own in trusted.items() for r in own)
    source = _date(own[vaults.names[0]].source, [*pinned, *relevant])
    relevant, remarks = add_remarks(vaults, pinned, relevant, keys)
    moment = source.at or max((hit.record.changed for hit in [*pinned, *relevant]), default=0)
    said = _say_of_each(vaults, asked.question, pinned, relevant, trusted, moment)
    return PackMaterial(
        asked,
        vaults.config,
        said.pinned,
        said.relevant,
        keys,
        source,
        remarks._replace(handles=said.handles, told=told),
        Wishes(said.wishes, vaults.config.preference_share) if said.wishes else Wishes(),
        query.replaced,
        sureness,
        sum(each.tokens for each in own.values()),
    )


def _list_pinned(
    vaults: VaultSet, relevant: Sequence[Hit]
) -> tuple[list[Hit], dict[str, list[NoteRecord]]]:
    """Return the pinned sections, and the trusted notes that count for a pack by vault.

    Of many vaults they are those of the first, and of the vaults that answer best: in all they
    would leave no room for an answer.
    """
    names = [*dict.fromkeys([vaults.names[0], *(hit.vault for hit in relevant)])]
    if len(vaults.names) > MANY:
        given = {name: (nth < MANY,) for nth, name in enumerate(names)}
    else:
        given = dict.fromkeys(vaults.names, (True,))
    own = vaults.run(list_own, given)
    pinned = [hit for name, (_, hits) in own.items() for hit in name_vault(name, hits)]
    return pinned, {name: records for name, (records, _) in own.items()}


class _Said(NamedTuple):
    """Sections with what is to be said of each, the owner's wishes, and handles by note."""

    pinned: Sequence[Hit]
    relevant: Sequence[Hit]
    wishes: Sequence[Hit]
    handles: dict[NoteKey, str]


def _say_of_each(
    vaults: VaultSet,
    text: str,
    pinned: Sequence[Hit],
    relevant: Sequence[Hit],
    trusted: Mapping[str, Sequence[NoteRecord]],
    moment: float,
) -> _Said:
    """Return what each vault says of its sections, and its owner's wishes that concern a text."""
    of_pinned, of_relevant = group_by_vault(pinned), group_by_vault(relevant)
    given = {
        name: (
            name,
            of_pinned.get(name, []),
            of_relevant.get(name, []),
            [record.document for record in trusted.get(name, ())],
            text,
            moment,
        )
        for name in vaults.names
        if name in of_pinned or name in of_relevant or trusted.get(name)
    }
    said = vaults.run(_say_of_own, given)
    return _Said(
        _put_back(pinned, {name: each.pinned for name, each in said.items()}),
        _put_back(relevant, {name: each.relevant for name, each in said.items()}),
        [hit for each in said.values() for hit in each.wishes],
        {note: handle for each in said.values() for note, handle in each.handles.items()},
    )


def _put_back(hits: Sequence[Hit], changed: Mapping[str, Sequence[Hit]]) -> list[Hit]:
    """Return what became of each hit, in their order."""
    left = {name: iter(own) for name, own in changed.items()}
    return [next(left[hit.vault]) for hit in hits]


def _say_of_own(
    vault: Vault,
    name: str,
    pinned: Sequence[Hit],
    relevant: Sequence[Hit],
    trusted: Collection[int],
    text: str,
    moment: float,
) -> _Said:
    pinned, relevant = (add_cautions(vault, hits, moment) for hits in (pinned, relevant))
    wishes = name_vault(name, find_wishes(vault, text, relevant, trusted))
    return _Said(pinned, relevant, wishes, name_notes(vault, [*pinned, *relevant, *wishes]))


def _tell_others(vaults: VaultSet) -> tuple[str, ...]:
    """Return the line that names the other vaults of a pack, if there are any."""
    names = name_vaults(vaults.names[1:])
    return (f"Also of {names}: what is theirs has its vault's name before it.",) if names else ()


def _date(source: PackSource, hits: Sequence[Hit]) -> PackSource:
    """Return the source with the time of the newest note where there is no commit."""
    if source.commit:
        return source
    return source._replace(at=int(max(map(written_at, hits), default=0)))


def _choose_recent(vaults: VaultSet, own: Mapping[str, VaultPart]) -> list[Hit]:
    """Return the most recent sections of all vaults; each note has one at least."""
    notes = [(name, record) for name, each in own.items() for record in each.recent]
    if len(own) > 1:
        notes.sort(key=lambda each: (_written(each[1]), each[1].changed), reverse=True)
    notes = notes[:CANDIDATES]
    given: dict[str, list[NoteRecord]] = {}
    for name, record in notes:
        given.setdefault(name, []).append(record)
    found = vaults.run(list_sections, {name: (records,) for name, records in given.items()})
    sections: dict[NoteKey, list[Hit]] = {}
    for name, hits in found.items():
        for hit in name_vault(name, hits):
            sections.setdefault(hit.note, []).append(hit)
    keys = [(name, record.path, record.blob) for name, record in notes]
    return [hit for key in keys for hit in sections.get(key, ())][:CANDIDATES]


def _written(record: NoteRecord) -> str:
    return max(record.updated, record.created)


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
    return seen, models, gather(seen, asked, models.dense, models.reranker)


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
