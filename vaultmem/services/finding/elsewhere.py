"""Where the folder's active notes are not sure of an answer: whether others have one."""

from __future__ import annotations

from collections.abc import Sequence

from vaultmem.core.finding.hit import Hit
from vaultmem.core.finding.query import RecallQuery
from vaultmem.core.finding.sureness import Sureness, judge_hits, tell_replaced, tell_sureness
from vaultmem.core.lifecycle import State
from vaultmem.core.packs.pack_item import plain_label
from vaultmem.errors import VaultError
from vaultmem.services.finding.recall import find_sections, recall
from vaultmem.services.finding.vault_set import VaultSet, name_vault
from vaultmem.storage.git.refs import Branch
from vaultmem.vault import Vault

#: Branches that are looked at, those of the newest commits.
_BRANCHES = 5

#: Archived notes answer by themselves where nothing else does.
_LAID_ASIDE = frozenset({State.DEPRECATED})


def tell_doubts(
    vaults: VaultSet,
    query: RecallQuery,
    hits: Sequence[Hit],
    sureness: Sureness,
    looks_elsewhere: bool,
) -> tuple[str, ...]:
    """Return what a pack says of its answer: words searched instead, and how sure it is not."""
    elsewhere = find_elsewhere(vaults, query, sureness) if looks_elsewhere else ""
    # A pack that shows nothing says so by itself.
    told = tell_sureness(sureness if hits else Sureness.STRONG, elsewhere)
    return (*tell_replaced(dict(query.replaced)), *told)


def find_elsewhere(vaults: VaultSet, query: RecallQuery, sureness: Sureness) -> str:
    """Tell in a line which replaced note or which other branch answers; "" if none surely does.

    Who has a strong answer already asks nobody else, and who has none is told of a weak one.
    Quarantined notes are never named. Nobody waits for another process here. The branches are
    those of the first vault.
    """
    first = vaults.names[0]
    if query.filter.states or query.is_of_stop_words or sureness is Sureness.STRONG:
        return ""
    if vaults.run(_is_narrow, {first: ()})[first]:
        return ""
    hit = _find_laid_aside(vaults, query, sureness)
    if hit is not None:
        why = f"it is {hit.record.state}: ask recall with --include-archived"
        return plain_label(f"{hit.address} may answer that; {why}")
    found = vaults.run(_find_on_branches, {first: (query,)})[first]
    hit = next(iter(name_vault(first, found)), None)
    if hit is None:
        return ""
    return plain_label(f"{hit.address} on branch {hit.refs[0]} may answer that")


def _is_narrow(vault: Vault) -> bool:
    """Tell whether a vault is looked at as something else than its folder is."""
    return bool(vault.view.sources or vault.ref)


def _find_laid_aside(vaults: VaultSet, query: RecallQuery, sureness: Sureness) -> Hit | None:
    states = query.filter.wanted_states | _LAID_ASIDE
    query = query._replace(limit=3, filter=query.filter._replace(states=states))
    found = find_sections(vaults, query, vaults.count(query), query.limit)
    aside = [hit for hit in found if hit.record.state in _LAID_ASIDE]
    sure = _choose_sure(aside)
    if sure is None and sureness is Sureness.NONE:
        sure = next((hit for hit in aside if judge_hits([hit]) is Sureness.WEAK), None)
    return sure


def _find_on_branches(vault: Vault, query: RecallQuery) -> list[Hit]:
    """Return what surely answers on another branch of this vault alone, if anything does."""
    try:
        names = [branch.name for branch in _list_others(vault)]
        if not names:
            return []
        from vaultmem.services.reading.look import look_at

        seen = look_at(vault, include=names, patience=0)
        own = seen.view.sources[0].name
        found = recall(seen, query._replace(limit=3))
    except VaultError:
        return []
    sure = _choose_sure([hit for hit in found if own not in hit.refs])
    return [sure] if sure else []


def _list_others(vault: Vault) -> list[Branch]:
    """Return the branches that are not checked out, those of the newest commits first."""
    head = vault.head()
    if head is None:
        return []
    others = [b for b in vault.history.refs.branches() if b.commit != head.commit]
    return sorted(others, key=lambda branch: (-branch.at, branch.name))[:_BRANCHES]


def _choose_sure(hits: list[Hit]) -> Hit | None:
    return next((hit for hit in hits if judge_hits([hit]) is Sureness.STRONG), None)
