"""One cluster of three machines, all of them here, for all tests of fleets."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    """Start Ray as it is on three machines; they find what this process imports."""
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    here = Path(__file__).parent
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(map(str, (here.parents[1], here.parent, here)))
    made = Cluster(True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    for _ in range(2):
        made.add_node(num_cpus=1)
    yield made
    made.shutdown()
    os.environ.pop("PYTHONPATH")
    if before is not None:
        os.environ["PYTHONPATH"] = before
