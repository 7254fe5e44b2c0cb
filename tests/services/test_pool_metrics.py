"""What Prometheus reads of a pool."""

from __future__ import annotations

import re

from vaultmem.services.pools.metrics import write_metrics
from vaultmem.services.pools.status import PoolStatus, ShardStatus


def test_each_figure_has_a_name_a_kind_and_its_shard() -> None:
    shards = (
        ShardStatus("a-0", "a", "ready", vaults=2, ready=2, memory=5),
        ShardStatus('odd"one', "b", "filling", vaults=1, stale=2.5),
    )
    text = write_metrics(PoolStatus("1", 3, 2, shards, {"x": "gone"}, ("y",), 4))
    kinds = dict(re.findall(r"^# TYPE (\S+) (gauge|counter)$", text, re.M))
    rows = re.findall(r'^([a-z_]+)(?:\{shard="((?:[^"\\]|\\.)*)"\})? (\S+)$', text, re.M)
    assert len(rows) + 2 * len(kinds) == len(text.splitlines())
    assert {name for name, _, _ in rows} == kinds.keys()
    assert all(name.endswith("_total") == (kind == "counter") for name, kind in kinds.items())
    found = {(name, shard): float(value) for name, shard, value in rows}
    assert found["vaultmem_pool_problem_vaults", ""] == 1
    assert found["vaultmem_pool_lost_shards_total", ""] == 4
    assert found["vaultmem_shard_ready_vaults", "a-0"] == 2
    assert found["vaultmem_shard_stale_seconds", r"odd\"one"] == 2.5
