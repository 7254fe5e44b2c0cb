"""The costs of memory: pinned notes, and the tokens that recalls and packs cost and saved."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from vaultmem.core.notes.record import NoteRecord
from vaultmem.core.packs.pack_item import PackItem, PackStyle, parse_labels
from vaultmem.core.packs.pack_text import choose_form, count_items
from vaultmem.errors import LockTimeoutError
from vaultmem.services.packs.build import pack_source, pinned_sections
from vaultmem.services.search.trusted import trusted_documents
from vaultmem.services.usage import read_usage
from vaultmem.services.views.resolve_names import choose_note_paths
from vaultmem.storage.query_log import LoggedQuery, NoteUsage, SignalStore, UsageTotals
from vaultmem.vault import Vault


class PinnedNote(NamedTuple):
    """A pinned note, its number of sections with text, and their tokens in a pack."""

    record: NoteRecord
    sections: int
    tokens: int


def list_pinned(vault: Vault) -> list[PinnedNote]:
    """Return the pinned notes in the order of a pack; the vault must be in sync.

    Hidden notes (archived, deprecated, quarantined) are in no pack and left out.
    """
    trusted = trusted_documents(vault)
    hits = pinned_sections(vault, trusted)
    handles = choose_note_paths(vault, hits)
    form = choose_form(
        pack_source(vault), PackStyle.MARKDOWN, parse_labels(vault.config.pack_labels)
    )
    items_by_note: dict[int, list[PackItem]] = {}
    for hit in hits:
        number = hit.record.document
        item = PackItem(hit, hit.text, True, number in trusted, False, handle=handles[hit.note])
        items_by_note.setdefault(number, []).append(item)
    notes = []
    for items in items_by_note.values():
        sections = [item for item in items if item.text]
        tokens = count_items(sections, form) if sections else 0
        notes.append(PinnedNote(items[0].hit.record, len(sections), tokens))
    return notes


#: Most names in a list of notes or queries.
_MAX_LISTED_NAMES = 10


class Sums(NamedTuple):
    """Calls of a kind, tokens sent, tokens of flat memory for as many, and empty results."""

    calls: int = 0
    sent: int = 0
    flat: int = 0
    empty: int = 0

    @property
    def saved(self) -> int:
        """Tokens that were not sent; negative if the whole vault is smaller."""
        return self.flat - self.sent


class SessionSums(NamedTuple):
    """One agent's session (both "" for the person): packs, recalls, and the time of the last."""

    agent: str
    session: str
    packs: Sums
    recalls: Sums
    last: float


class Stats(NamedTuple):
    """The vault's usage on this machine.

    `failed` are queries without hits and their counts, the most frequent first. `most` are the
    notes shown most often here, `never` those shown on no machine.
    """

    notes: int
    flat: int
    packs: Sums
    recalls: Sums
    sessions: tuple[SessionSums, ...]
    failed: tuple[tuple[str, int], ...]
    most: tuple[NoteUsage, ...]
    never: tuple[str, ...]


def read_stats(vault: Vault, session: str = "") -> Stats:
    """Return the usage of all sessions, or of one; the vault must be in sync.

    Savings are against flat memory: the whole vault in the prompt, once per pack. In a project's
    view, failed queries are only those of the caller's own session: the project of others is
    unknown.
    """
    notes, flat = vault.view.totals()
    store = _open_signals(vault)
    accounts = [each for each in store.accounts() if session in {"", each.session}]
    calls = [each for each in store.calls() if session in {"", each.session}]
    usage = read_usage(vault)
    others = "d.state NOT IN ('archived', 'deprecated', 'quarantined')"
    paths = set(vault.view.paths(f"d.pinned = 0 AND {others}").values())
    most = sorted(usage.values(), key=lambda each: (-each.times, -each.last, each.path))
    return Stats(
        notes,
        flat,
        _sum(accounts, "pack"),
        _sum(accounts, "recall"),
        _by_session(accounts),
        _failed(vault, calls),
        tuple(each for each in most if each.times and each.path in paths)[:_MAX_LISTED_NAMES],
        tuple(sorted(paths - usage.keys())),
    )


def _is_own(vault: Vault, call: LoggedQuery) -> bool:
    return bool(vault.author.session) and call.session == vault.author.session


def _sum(accounts: Iterable[UsageTotals], kind: str) -> Sums:
    totals = [each for each in accounts if each.kind == kind]
    return Sums(
        sum(each.calls for each in totals),
        sum(each.sent for each in totals),
        sum(each.flat for each in totals),
        sum(each.empty for each in totals),
    )


def _by_session(accounts: list[UsageTotals]) -> tuple[SessionSums, ...]:
    keys = dict.fromkeys((each.agent, each.session) for each in accounts)
    sums = []
    for agent, session in keys:
        own = [each for each in accounts if (each.agent, each.session) == (agent, session)]
        last = max(each.last for each in own)
        sums.append(SessionSums(agent, session, _sum(own, "pack"), _sum(own, "recall"), last))
    return tuple(sums)


def list_failed(vault: Vault, agent: str = "") -> tuple[tuple[str, int], ...]:
    """Return the queries without hits and their counts, as in `read_stats`.

    With an agent, return only its queries.
    """
    calls = _open_signals(vault).calls()
    return _failed(vault, (each for each in calls if agent in ("", each.agent)))


def _open_signals(vault: Vault) -> SignalStore:
    """Return the query log, without new entries if another process is writing it."""
    store = SignalStore(vault.state, vault.state_folder)
    with contextlib.suppress(LockTimeoutError):  # The newest entries are left out.
        store.fold(vault.view.totals()[1], vault.wait)
    return store


def _failed(vault: Vault, calls: Iterable[LoggedQuery]) -> tuple[tuple[str, int], ...]:
    """Return the queries without hits in their latest wording, most frequent, then newest first."""
    counts: Counter[str] = Counter()
    wordings: dict[str, str] = {}
    for call in calls:
        is_shown = vault.view.project is None or _is_own(vault, call)
        if is_shown and call.query.strip() and not call.found:
            name = " ".join(call.query.split()).casefold()
            counts[name] += 1
            wordings.setdefault(name, call.query)
    return tuple((wordings[name], count) for name, count in counts.most_common())


def read_pack_sizes(
    vault: Vault, session: str = ""
) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """Return for each pack (tokens of the vault, tokens sent), and the same for flat memory."""
    store = SignalStore(vault.state, vault.state_folder)
    packs = {
        (float(call.flat), float(call.sent))
        for call in store.calls()
        if call.kind == "pack" and call.flat > 0 < call.sent and session in {"", call.session}
    }
    return sorted(packs), sorted((flat, flat) for flat, _ in packs)
