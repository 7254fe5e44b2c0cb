"""What Prometheus reads of a pool."""

from __future__ import annotations

import re

from vaultmem.services.fleet.clone import NodeStatus, PoolStatus, write_metrics


def test_each_figure_has_a_name_a_kind_and_its_node() -> None:
    nodes = (NodeStatus("a-0", "a", ready=2, memory=5), NodeStatus('odd"one', "b", stale=2.5))
    text = write_metrics(PoolStatus("1", 3, 2, nodes, {"x": "gone"}))
    kinds = dict(re.findall(r"^# TYPE (\S+) (gauge|counter)$", text, re.M))
    rows = re.findall(r'^([a-z_]+)(?:\{node="((?:[^"\\]|\\.)*)"\})? (\S+)$', text, re.M)
    assert len(rows) + 2 * len(kinds) == len(text.splitlines())
    assert {name for name, _, _ in rows} == kinds.keys()
    assert all(name.endswith("_total") == (kind == "counter") for name, kind in kinds.items())
    found = {(name, node): float(value) for name, node, value in rows}
    assert found["vaultmem_pool_problem_vaults", ""] == 1
    assert found["vaultmem_node_ready_vaults", "a-0"] == 2
    assert found["vaultmem_node_stale_seconds", r"odd\"one"] == 2.5
