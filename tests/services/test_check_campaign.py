"""Faults that are planted in changes are found, and innocent changes raise no alarm."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from planted_changes import FAULTS, INNOCENT, Change, World

from vaultmem.services.health.check_changes import ChangeFinding, check_changes
from vaultmem.services.views.update_index import sync_vault


@pytest.fixture
def world(home: Path, tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path / "ferries")
    yield made
    made.vault.close()


def try_change(world: World, change: Change, number: int) -> list[ChangeFinding]:
    """Return what is found in a change; every second one is committed first."""
    world.reset()
    change(world, random.Random(f"{change.__name__} {number}"))
    if number % 2:
        world.commit("Change it")
    sync_vault(world.vault)
    found = check_changes(world.vault, world.base)
    return [each for each in found.findings if each.is_problem]


def plan(each: int) -> list[tuple[str, Change, int]]:
    """Return changes with a fault, so many of each kind."""
    return [
        (kind, changes[number % len(changes)], number)
        for kind, changes in FAULTS.items()
        for number in range(each)
    ]


@pytest.mark.parametrize(
    "each",
    [
        3,
        pytest.param(25, marks=pytest.mark.campaign),
    ],
)
def test_planted_faults_of_each_kind_are_found(world: World, each: int) -> None:
    missed = []
    for kind, change, number in plan(each):
        found = try_change(world, change, number)
        if kind not in {finding.kind.value for finding in found}:
            missed.append((kind, change.__name__, number))
    assert len(missed) <= 0.05 * each * len(FAULTS), missed


@pytest.mark.parametrize(
    ("count", "most"),
    [
        (len(INNOCENT), 0),
        pytest.param(200, 2, marks=pytest.mark.campaign),
    ],
)
def test_innocent_changes_raise_no_alarm(world: World, count: int, most: int) -> None:
    alarms = []
    for number in range(count):
        change = INNOCENT[number % len(INNOCENT)]

        def make(world: World, chance: random.Random, change: Change = change) -> None:
            change(world, chance)
            world.render()

        make.__name__ = change.__name__
        if found := try_change(world, make, number):
            alarms.append((change.__name__, number, found))
    assert len(alarms) <= most, alarms
