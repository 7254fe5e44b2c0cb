"""What happens in each round, drawn ahead: the same seed gives every way the same edits."""

from __future__ import annotations

import random
from typing import NamedTuple

NAMES = ("anna", "ben", "cleo", "dora", "emil")

#: What people and agents do, and how often one of these is done.
EDITS = {
    "change line": 14,
    "add line": 12,
    "remove line": 3,
    "add item": 8,
    "change item": 4,
    "owner": 8,
    "title": 3,
    "confidence": 4,
    "tags by hand": 5,
    "alias": 3,
    "tag": 5,
    "shared fact": 14,
    "own fact": 4,
    "new note": 3,
    "mv": 5,
    "rename": 5,
    "forget": 2,
    "rm": 3,
    "promote": 4,
    "state": 6,
    "settle": 3,
}

#: What goes wrong while a machine and the remote talk, and how often of a hundred times.
TROUBLES = {"": 67, "kill": 15, "moved": 5, "refused": 4, "down": 3, "out": 3, "in": 3}


class Intent(NamedTuple):
    """One edit: its kind, chances in [0, 1) that choose note and place, a word of its own."""

    kind: str
    note: float
    place: float
    word: str
    killed: bool


class Turn(NamedTuple):
    """What one machine does: edits, and then, if it `carries`, what meets it on the way."""

    machine: int
    intents: tuple[Intent, ...]
    carries: bool
    trouble: str
    moment: float


class Round(NamedTuple):
    """A turn of each machine, in this order; `together`, all talk with the remote at once."""

    turns: tuple[Turn, ...]
    together: bool


def plan_rounds(seed: str, rounds: int, machines: int) -> list[Round]:
    """Return all rounds of a run."""
    chance = random.Random(seed)
    return [_plan_round(chance, number, machines) for number in range(rounds)]


def _plan_round(chance: random.Random, number: int, machines: int) -> Round:
    order = chance.sample(range(machines), machines)
    return Round(
        tuple(_plan_turn(chance, number, machine) for machine in order), chance.random() < 0.3
    )


def _plan_turn(chance: random.Random, number: int, machine: int) -> Turn:
    intents = tuple(
        Intent(
            chance.choices([*EDITS], [*EDITS.values()])[0],
            chance.random(),
            chance.random(),
            f"k{number:02}{nth}{NAMES[machine][0]}",
            chance.random() < 0.06,
        )
        for nth in range(chance.choice((1, 2, 3, 4)))
    )
    trouble = chance.choices([*TROUBLES], [*TROUBLES.values()])[0]
    return Turn(machine, intents, chance.random() < 0.7, trouble, chance.random())
