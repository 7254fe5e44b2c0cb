"""Work over all vaults on several machines finds what it finds in one process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from remote_vaults import Remotes, Told

from vaultmem.core.packs.receipt import expect
from vaultmem.services.fleet.jobs import (
    JobOptions,
    compact_all,
    compare_all,
    curate_all,
    find_believers,
    judge_all,
)
from vaultmem.services.fleet.pool import LocalPool, Pool
from vaultmem.storage.value_store import JobResultCache

pytestmark = [pytest.mark.fleet, pytest.mark.filterwarnings("default")]

NOW = 1_790_000_000


def _work(pool: Pool, folder: Path) -> list[Any]:
    """Return what all works find, and how many vaults the second run of one asks."""
    asked = expect("refunds", [], ["approval of two"], negated=False, budget=0)
    kept = JobResultCache(folder, NOW + 90 * 86_400)
    options = JobOptions(kept)
    found = [find_believers(pool, [], options, asked), compare_all(pool, [], options)]
    done = [curate_all(pool, [], options), compact_all(pool, [], options)]
    done.append(judge_all(pool, [], options, asked))
    values = [(dict(each.items()), each.missing) for each in done]
    again = compare_all(pool, [], options).run_count
    return [*found, again, values]


def test_works_find_what_they_find_in_one_process(cluster: Any, tmp_path: Path) -> None:
    from vaultmem.ray_fleet.ray_pool import start_fleet

    made = Remotes(tmp_path / "remotes")
    for number, euros in enumerate((50, 80, 50, 50)):
        text = f"Refunds over {euros} euros need the approval of two people.\n"
        made.make(f"v{number}", Told(f"bot-{number}", {"notes/refunds.md": text}, NOW + number))
    local = LocalPool(made.sources, tmp_path / "local")
    expected = _work(local, tmp_path / "local")
    local.close()
    fleet = start_fleet(cluster.address, made.sources, str(tmp_path / "ray/{node}"))
    found = _work(fleet, tmp_path / "work")
    fleet.stop()
    fleet.close()
    assert found == expected
    assert found[1].same
    assert found[1].contradicting
    assert found[2] == 0
