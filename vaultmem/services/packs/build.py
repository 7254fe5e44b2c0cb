"""Build a context pack, log it, and store its receipt."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from datetime import date
from functools import partial
from typing import NamedTuple

from vaultmem.core.lifecycle import NoteKind, NoteState
from vaultmem.core.notes.record import NoteRecord
from vaultmem.core.packs.pack_item import (
    PackLabels,
    PackSource,
    PackStyle,
    parse_labels,
)
from vaultmem.core.packs.pack_sections import MIN_BUDGET, build_pack, order_by_worth
from vaultmem.core.packs.pack_text import Pack, set_budget, warn_of_pinned
from vaultmem.core.packs.vault_parts import (
    MAX_NAMED_VAULTS,
    build_vault_part,
    group_by_vault,
    label_vaults,
    split_pack,
)
from vaultmem.core.packs.warnings import PackPreferences, Preference, choose_preferences, written_at
from vaultmem.core.search.query import (
    WEIGHTS,
    Hit,
    MatchStrength,
    NoteFilter,
    NoteKey,
    RecallQuery,
    judge_hits,
    parse_query,
)
from vaultmem.core.sessions.session import FOLDER
from vaultmem.core.text.display import escape_bytes
from vaultmem.core.text.paths import LEARNED, PINNED_FILES
from vaultmem.core.text.token_count import fit_budget
from vaultmem.services.packs.receipts import choose_receipt_id, store_receipt
from vaultmem.services.search.annotations import add_cautions, add_remarks
from vaultmem.services.search.recall import (
    describe_limits,
    describe_other_project,
    find_hits,
    find_other_project,
)
from vaultmem.services.search.rerank import Reranker, RerankInfo
from vaultmem.services.search.run_query import count_all_tokens, count_pack
from vaultmem.services.search.score import Scorer, choose_scope
from vaultmem.services.search.search import add_refs, find_places, list_sections
from vaultmem.services.search.trusted import trusted_documents
from vaultmem.services.search.valid_spans import find_span, order_valid, store_valid_relations
from vaultmem.services.search.vault_set import (
    ScoringModels,
    SemanticInfo,
    TellProgress,
    VaultSet,
    build_handles,
    label_vault,
    look,
    open_set,
)
from vaultmem.services.views.texts import read_section, read_text
from vaultmem.services.views.update_index import retries_after_rebuild
from vaultmem.vault import Vault

# Find the parts of a pack other than hits: pinned, recent and next notes, and preferences.

#: Maximum sections to consider for a pack.
CANDIDATES = 50


def list_own(vault: Vault, pins: bool) -> tuple[list[NoteRecord], list[Hit]]:
    """Return the trusted notes, and if `pins`, the pinned sections."""
    trusted = trusted_documents(vault)
    records = [*vault.view.records_of(trusted).values()] if trusted else []
    return records, pinned_sections(vault, trusted) if pins else []


def pack_source(vault: Vault) -> PackSource:
    """Return branch, commit and commit time for a pack's head."""
    if vault.view.sources:
        source, *others = vault.view.sources
        other_refs = tuple((each.name, each.commit) for each in others)
        name = source.name if others else source.branch
        return PackSource(name, source.commit, source.at, other_refs)
    head = vault.head()
    if head is None:
        return PackSource("", "", 0)
    at = vault.state.get("head_time") if vault.state.get("head") == head.commit else "0"
    return PackSource(escape_bytes(head.branch), head.commit, int(at or 0))


def pinned_sections(vault: Vault, trusted: frozenset[int]) -> list[Hit]:
    """Return all pinned sections: trusted policies first, then by name.

    Agents' sections come last, so they only get the tokens that the owner's sections leave.
    """
    records = [*filter(NoteFilter().admits, vault.view.pinned())]
    records.sort(key=lambda r: (r.document not in trusted, _pin_rank(r.path), r.path))
    return sorted(list_sections(vault, records), key=partial(_stands_behind, trusted))


def _stands_behind(trusted: Container[int], hit: Hit) -> bool:
    """Return whether a section is untrusted and by an agent: its note, or learned lines."""
    is_learned = hit.record.path == PINNED_FILES[0] and hit.section.heading == LEARNED
    is_agents = is_learned or hit.record.source == "agent"
    return is_agents and hit.record.document not in trusted


def _pin_rank(path: str) -> int:
    return PINNED_FILES.index(path) if path in PINNED_FILES else len(PINNED_FILES)


def list_recent(vault: Vault, has_sessions: bool) -> list[NoteRecord]:
    """Return the last written notes, newest first, with session notes if wanted."""
    return [
        record
        for record in filter(NoteFilter().admits, vault.view.recent(CANDIDATES * 4))
        if has_sessions or record.context != FOLDER
    ][:CANDIDATES]


#: Number of first hits whose next note is added, and its share of the hit's score.
_MAX_NEIGHBOURS, _NEIGHBOUR_SHARE = 5, 0.7


def add_next(vault: Vault, hits: Sequence[Hit], note_filter: NoteFilter) -> list[Hit]:
    """Return the hits, each of the first ones followed by the note written next to it.

    Neighbours are as in ranking: short notes of one session, or with a common tag. The next note
    needs no match, because it can answer a question in the hit. It gets a share of the hit's score.
    Notes that are hits themselves are not moved.
    """
    keys = {hit.local_key for hit in hits}
    neighbours = _find_next(vault, note_filter, hits[:_MAX_NEIGHBOURS])
    ordered: list[Hit] = []
    for hit in hits:
        ordered.append(hit)
        neighbour = neighbours.get(hit.local_key)
        if neighbour and neighbour.local_key not in keys:
            keys.add(neighbour.local_key)
            ordered.append(neighbour)
    return ordered


def _find_next(
    vault: Vault, note_filter: NoteFilter, hits: Sequence[Hit]
) -> dict[tuple[int, int], Hit]:
    """Return the section written next, by document and section, for hits that have one."""
    scope = choose_scope(vault, note_filter)
    if scope is None or scope.eligible.neighbours is None:
        return {}
    _, snapshot, eligible, _ = scope
    next_rows = scope.eligible.neighbours.table[len(WEIGHTS.neighbours)]
    documents = snapshot.column("document")
    next_hits = {}
    for hit in hits:
        rows = next_rows[(documents == hit.record.document) & eligible.mask]
        places = find_places(scope, rows[rows >= 0].tolist())
        for record, section in places.values():
            if (text := read_section(vault, record, section)) is not None:
                refs = add_refs(vault, record)
                score, path = _NEIGHBOUR_SHARE * hit.score, hit.record.path
                next_hit = Hit(record, section, text, score, (), 0.0, 1.0, refs, answered_note=path)
                next_hits[hit.local_key] = next_hit
    return next_hits


def find_wishes(
    vault: Vault, question: str, relevant: Sequence[Hit], trusted: Sequence[NoteRecord]
) -> list[Hit]:
    """Return the active trusted preferences that are relevant for a query, newest first if equal.

    `relevant` are the query's hits, `trusted` the notes in the trust record.
    """
    records = [
        record
        for record in trusted
        if record.kind == NoteKind.PREFERENCE and record.state == NoteState.ACTIVE
    ]
    if not records:
        return []
    records.sort(key=lambda record: (-record.changed, record.path))
    topics = {
        record.document: _read_topic(read_text(vault, record.path, record.blob) or "")
        for record in records
    }
    preferences = [
        Preference(hit, topics[hit.record.document]) for hit in list_sections(vault, records)
    ]
    return choose_preferences(preferences, question, relevant)


def _read_topic(text: str) -> str:
    """Return a preference's `about` property; "" means everything."""
    from vaultmem.core.notes.frontmatter import read_frontmatter

    prop = read_frontmatter(text).get("about")
    if prop is None or prop.kind == "null":
        return ""
    return prop.value if isinstance(prop.value, str) else " ".join(prop.value)


#: Maximum sections of a pack if probably nothing answers: as many as recall lists.
_MAX_WEAK_SECTIONS = 10


class AskPack(NamedTuple):
    """Options of a pack; those not given are as in vaultmem.yaml.

    Without a question, the pack has pinned and recent notes. `budget` is in tokens. `receipt` sets
    whether a receipt is stored, None for agents only. `has_sessions` is as in `make_pack`. `price`
    returns the tokens of a pack as it is shown; the budget then applies to them. `notices` are
    additional lines. `names_tool` is as in `describe_other_project`. Notes not valid on the day
    `as_of` come last. The other fields are as in `Query`.
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
    notices: tuple[str, ...] = ()
    names_tool: bool = False
    as_of: date | None = None


@retries_after_rebuild
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
    """Return the pack for a question; without one, pinned and most recent notes.

    `expand_links` adds notes that the best sections link to. `dense` adds semantic matches.
    `reranker` reorders the best hits. With `looks_elsewhere`, a weak match names another source.
    Without `has_sessions`, sessions are not among the recent notes. The index is updated first,
    once for each `open_vault`. The same notes, commit, question and budget give the same bytes.

    Raises:
        RefusedError: the budget is under 100 tokens, or the question is too long.
    """
    request = AskPack(
        text,
        style=style,
        labels=labels,
        expand_links=expand_links,
        waits=looks_elsewhere,
        has_sessions=has_sessions,
    )
    fit = prepare_pack(VaultSet([look(vault)]), request, dense, reranker)
    return fit(vault.config.budget if budget is None else budget)


def prepare_pack(
    vaults: VaultSet,
    request: AskPack,
    dense: Scorer | None = None,
    reranker: Reranker | None = None,
) -> Callable[[int], Pack]:
    """Return a function that builds the pack over some vaults for a budget in tokens.

    Other branches are searched too if `request.waits`. The indexes must be up to date.

    Raises:
        RefusedError: the question is too long.
    """
    query = parse_query(request.question, limit=CANDIDATES)
    query = query._replace(filter=query.filter._replace(as_of=request.as_of))
    is_asked = bool(request.question.strip())
    if is_asked:
        query, relevant = find_hits(vaults, query, query.limit, dense=dense, reranker=reranker)
    else:
        relevant = _choose_recent(vaults, request.has_sessions)
    if request.expand_links:
        from vaultmem.services.search.link_walk import expand_hits

        relevant = vaults.change(relevant, expand_hits, query)
    match_strength = judge_hits(relevant) if is_asked else None
    lines = (*_describe_others(vaults), *request.notices)
    if match_strength is not None:
        lines += describe_limits(vaults, query, relevant, match_strength, request.waits)
        lines += (
            _describe_other_project(vaults, query, match_strength, request) if request.waits else ()
        )
    if match_strength is MatchStrength.NONE:
        relevant = relevant[:_MAX_WEAK_SECTIONS]
    if is_asked:  # Recent notes are no matches, so none can answer them.
        relevant = vaults.change(relevant, add_next, query.filter)
    relevant = order_by_worth(relevant)
    pinned, trusted = _list_pinned(vaults, relevant)
    keys = frozenset((name, r.path, r.blob) for name, own in trusted.items() for r in own)
    first = vaults.names[0]
    source = _date(vaults.run(pack_source, {first: ()})[first], [*pinned, *relevant])
    relevant, remarks = add_remarks(vaults, pinned, relevant, keys)
    span = find_span(vaults, request.as_of)
    pinned, relevant = (order_valid(vaults, hits, span) for hits in (pinned, relevant))
    remarks = remarks._replace(relations=store_valid_relations(remarks, [*pinned, *relevant]))
    timestamp = source.at or max((hit.record.changed for hit in [*pinned, *relevant]), default=0)
    pinned, relevant = (vaults.change(hits, add_cautions, timestamp) for hits in (pinned, relevant))
    wishes = _find_wishes(vaults, request.question, relevant, trusted)
    remarks = remarks._replace(
        handles=build_handles(vaults, [*pinned, *relevant, *wishes]), notices=lines
    )
    flat_tokens = sum(vaults.run(count_all_tokens, dict.fromkeys(vaults.names, ())).values())
    config = vaults.config

    def fit(budget: int) -> Pack:
        return build_pack(
            pinned,
            relevant,
            keys,
            source,
            budget,
            config.pinned_share,
            flat_tokens,
            remarks,
            request.style,
            PackPreferences(wishes, config.preference_share) if wishes else PackPreferences(),
            request.labels or parse_labels(config.pack_labels),
        )._replace(replaced=query.replaced, match_strength=match_strength)

    return fit


def _describe_other_project(
    vaults: VaultSet, query: RecallQuery, match_strength: MatchStrength, request: AskPack
) -> tuple[str, ...]:
    """Return the line that names another project with a better answer, if there is one."""
    project = find_other_project(vaults, query, match_strength)
    line = describe_other_project(project, request.question, request.names_tool)
    return (line,) if line else ()


def _list_pinned(
    vaults: VaultSet, relevant: Sequence[Hit]
) -> tuple[list[Hit], dict[str, list[NoteRecord]]]:
    """Return the pinned sections, and the trusted notes by vault.

    Of many vaults, only the first and those with the best hits are used. All of them would leave no
    tokens for an answer.
    """
    names = [*dict.fromkeys([vaults.names[0], *(hit.vault for hit in relevant)])]
    if len(vaults.names) > MAX_NAMED_VAULTS:
        arguments = {name: (nth < MAX_NAMED_VAULTS,) for nth, name in enumerate(names)}
    else:
        arguments = dict.fromkeys(vaults.names, (True,))
    results = vaults.run(list_own, arguments)
    pinned = [hit for name, (_, hits) in results.items() for hit in label_vault(name, hits)]
    return pinned, {name: records for name, (records, _) in results.items()}


def _find_wishes(
    vaults: VaultSet,
    text: str,
    relevant: Sequence[Hit],
    trusted: Mapping[str, Sequence[NoteRecord]],
) -> list[Hit]:
    """Return the preferences of each vault's owner that are relevant for a text."""
    own = group_by_vault(relevant)
    arguments = {name: (text, own.get(name, []), records) for name, records in trusted.items()}
    hits_by_vault = vaults.run(find_wishes, arguments)
    return [hit for name, hits in hits_by_vault.items() for hit in label_vault(name, hits)]


def _describe_others(vaults: VaultSet) -> tuple[str, ...]:
    """Return the line that names the other vaults of a pack, if there are any."""
    names = label_vaults(vaults.names[1:])
    return (f"Also of {names}: what is theirs has its vault's name before it.",) if names else ()


def _date(source: PackSource, hits: Sequence[Hit]) -> PackSource:
    """Return the source, with the time of the newest note if there is no commit."""
    if source.commit:
        return source
    return source._replace(at=int(max(map(written_at, hits), default=0)))


def _choose_recent(vaults: VaultSet, has_sessions: bool) -> list[Hit]:
    """Return the most recent sections of all vaults, by note."""
    own = vaults.run(list_recent, dict.fromkeys(vaults.names, (has_sessions,)))
    notes = [(name, record) for name, records in own.items() for record in records]
    if len(own) > 1:
        notes.sort(key=lambda each: (_written(each[1]), each[1].changed), reverse=True)
    notes = notes[:CANDIDATES]
    records_by_vault: dict[str, list[NoteRecord]] = {}
    for name, record in notes:
        records_by_vault.setdefault(name, []).append(record)
    hits_by_vault = vaults.run(
        list_sections, {name: (records,) for name, records in records_by_vault.items()}
    )
    sections: dict[NoteKey, list[Hit]] = {}
    for name, hits in hits_by_vault.items():
        for hit in label_vault(name, hits):
            sections.setdefault(hit.note, []).append(hit)
    keys = [(name, record.path, record.blob) for name, record in notes]
    return [hit for key in keys for hit in sections.get(key, ())][:CANDIDATES]


def _written(record: NoteRecord) -> str:
    return max(record.updated, record.created)


class PackAnswer(NamedTuple):
    """A pack, and the id of its receipt, "" if it has none; scoring fields are as in `QueryResult`.

    `warning` is a message to the vault's owner about pinned notes or the receipt.
    """

    question: str
    pack: Pack
    receipt: str
    meaning: SemanticInfo | None
    words_alone: str
    reranked: RerankInfo | None
    warning: str


def ask_pack(
    vaults: Vault | Iterable[Vault] | VaultSet,
    request: AskPack,
    progress: TellProgress | None = None,
) -> PackAnswer:
    """Return the pack for a question as shown; log it, and store a receipt in each vault.

    Raises:
        NoteNotFoundError: a ref does not exist.
        RefusedError: the budget is under 100 tokens, the question is too long, or a ref is unsafe.
    """
    vault_set = open_set(vaults)
    viewed_vaults, models, fit = vault_set.read_with_rebuild(
        lambda: _find(vault_set, request, progress)
    )
    budget = viewed_vaults.config.budget if request.budget is None else request.budget
    if request.price is None:
        pack = fit(budget)
    else:
        pack = set_budget(fit_budget(fit, request.price, budget, MIN_BUDGET), budget)
    meaning, words_alone, reranked = models.describe()
    first = viewed_vaults.names[0]
    needs_receipt, problem = False, ""
    if request.receipt is not False:
        needs_receipt, problem = viewed_vaults.run(_may_keep, {first: (request.receipt,)})[first]
    receipt = choose_receipt_id(viewed_vaults.now()) if needs_receipt and not problem else ""
    if receipt or request.counts:
        parts = split_pack(pack, viewed_vaults.names)
        options = (len(viewed_vaults.names), request.question, request.counts, receipt)
        results = viewed_vaults.keep(
            _record, {name: (part, *options) for name, part in parts.items()}
        )
        if receipt and first not in results:
            receipt, problem = "", "its vault does not answer any more"
    warnings = (
        warn_of_pinned(pack.pinned_tokens, viewed_vaults.config.budget),
        problem and f"no receipt: {problem}",
    )
    warning = "; ".join(filter(None, warnings))
    return PackAnswer(request.question, pack, receipt, meaning, words_alone, reranked, warning)


def _find(
    vaults: VaultSet, request: AskPack, progress: TellProgress | None
) -> tuple[VaultSet, ScoringModels, Callable[[int], Pack]]:
    """Return the view, the scoring models, and the function that builds the pack."""
    viewed_vaults = vaults.view(request.at, request.refs, progress)
    models = ScoringModels()
    if request.question.strip():
        models = viewed_vaults.open_models(request.semantic, request.waits, progress)
    return (
        viewed_vaults,
        models,
        prepare_pack(viewed_vaults, request, models.dense, models.reranker),
    )


def _may_keep(vault: Vault, needs_receipt: bool | None) -> tuple[bool, str]:
    """Return whether a vault's pack should have a receipt, and why it cannot, or ""."""
    needs_receipt = vault.keeps_receipts if needs_receipt is None else needs_receipt
    return needs_receipt, vault.store.state_place.lack if needs_receipt else ""


def _record(
    vault: Vault, part: Pack, vault_count: int, question: str, counts: bool, receipt: str
) -> None:
    """Log a vault's part of a pack, and store its receipt in that vault."""
    part = build_vault_part(part, vault_count, pack_source(vault), count_all_tokens(vault))
    if counts:
        count_pack(vault, question, part)
    if receipt:
        store_receipt(vault, part, question, receipt)


def make_unseen(
    vault: Vault, question: str = "", budget: int | None = None, *, waits: bool = True
) -> Pack:
    """Return a pack that is not logged and has no receipt."""
    request = AskPack(question, budget, waits=waits, receipt=False, counts=False)
    return ask_pack(vault, request).pack
