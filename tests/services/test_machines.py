"""Machines of tests: clones as git makes them, each with a home and a person of its own."""

from __future__ import annotations

import pytest
from machines import MakeMachines, assert_equal


@pytest.mark.campaign
def test_machines_are_clones_that_push_and_pull(make_machines: MakeMachines) -> None:
    machines = make_machines({"notes/quay.md": "# Quay\n\nOf stone.\n"}, count=3)
    anna, ben, cleo = machines.all
    assert_equal(machines)
    anna.write("notes/pier.md", "# Pier\n\nOf wood.\n")
    assert anna.run("checkpoint", "a pier").code == 0
    anna.git("push", "-q")
    for other in (ben, cleo):
        other.git("pull", "-q")
        assert other.read("notes/pier.md") == "# Pier\n\nOf wood.\n"
        assert other.run("recall", "pier").code == 0
    assert_equal(machines)
    assert ben.git("log", "-1", "--format=%an") == "anna"
