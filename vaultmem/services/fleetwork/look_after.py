"""What is tested of all vaults, and what would be done to look after them; nothing is changed.

What these say hangs on the day too, so it is kept for that alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from functools import partial
from typing import Any

from vaultmem.core.packs.expectation import Expectation
from vaultmem.services.finding.judge import judge_vault
from vaultmem.services.fleetwork.over_all import Gathered, Terms, do_same, over_all
from vaultmem.services.pools.pool import Pool
from vaultmem.services.upkeep.compact import plan_compaction
from vaultmem.services.upkeep.curate import curate
from vaultmem.vault import Vault


def judge_all(pool: Pool, names: Iterable[str], terms: Terms, expected: Expectation) -> Gathered:
    """Return of each vault why its pack is not as expected, nothing if it is."""
    run = partial(judge_vault, expected=expected)
    work = do_same("testing packs", run, list_given(expected), find_day(terms))
    return over_all(pool, names, terms, work)


def curate_all(pool: Pool, names: Iterable[str], terms: Terms) -> Gathered:
    """Return of each vault what `curate` proposes: the fields of each proposal."""
    return over_all(pool, names, terms, do_same("curating", _propose, find_day(terms)))


def compact_all(pool: Pool, names: Iterable[str], terms: Terms) -> Gathered:
    """Return of each vault the `steps` of notes that are due, and how many are `exempt` and why."""
    return over_all(pool, names, terms, do_same("planning", _plan, find_day(terms)))


def list_given(expected: Expectation) -> list[object]:
    """Return an expectation as what JSON has."""
    return [expected.query, expected.finds, expected.says, expected.negated, expected.budget]


def find_day(terms: Terms) -> str:
    """Return the day of a work, on which it hangs what is old and what holds."""
    return datetime.fromtimestamp(terms.kept.now).date().isoformat()


def _propose(vault: Vault) -> list[Any]:
    return list(curate(vault).proposals)


def _plan(vault: Vault) -> dict[str, Any]:
    done = plan_compaction(vault)
    return {"steps": [each._replace(text="") for each in done.steps], "exempt": done.exempt}
