"""What a fleet is to be, and how it is: values that its actors and those who ask them exchange."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from vaultmem import __version__
from vaultmem.services.pools.engine import Way
from vaultmem.services.pools.shard import FRESH_FOR, MOST_OPEN, Shard

#: What the actors of a fleet and its front doors have to agree on.
VERSION = f"{__version__}+1"

#: Where a fleet's actors are found in a cluster, and who keeps them.
NAMESPACE = "vaultmem"
KEEPER = "keeper"


#: What begins the name of a shard's actor.
PREFIX = "shard:"

#: What is said of a vault that no shard has cloned and indexed so far.
NOT_YET = "not there yet: it is being fetched from its remote"


class Plan(NamedTuple):
    """What a fleet is to be.

    `folder` is where each machine has its clones, of each shard in a folder of its own. A shard
    takes `amount` of a machine's `resource` (CPU, or what `ray start --resources` names), and one
    has as many as that allows, `most` of them, unless that is 0. So many vaults as `copies` that
    are asked most have a second copy. A remote is asked again after `fresh_for` seconds where its
    vault alone is asked, else after `follow_every`; so many `bringers` of a shard do that at once.
    """

    folder: str
    resource: str = "CPU"
    amount: float = 1.0
    most: int = 0
    copies: int = 16
    most_open: int = MOST_OPEN
    fresh_for: float = FRESH_FOR
    follow_every: float = 30.0
    bringers: int = 2


class Health(NamedTuple):
    """How a shard is, as it says, on the machine that Ray knows as `node`.

    `backlog` are calls that wait or run; `stale` is for how many seconds the remote was not heard
    of that was not for longest. `memory` is its process's, `disk` what its folder takes and `free`
    what is left there, all in bytes. `heat` has the vaults asked most, by how often lately. `held`
    is what tells apart lists of vaults that it was given; `ready` are those of them that answer at
    once, None where that is as it was when last asked.
    """

    version: str
    node: str
    began: float
    held: str
    vaults: int
    problems: Mapping[str, str] = MappingProxyType({})
    ready: frozenset[str] | None = None
    ready_mark: int = 0
    backlog: int = 0
    stale: float = 0.0
    memory: int = 0
    disk: int = 0
    free: int = 0
    heat: Mapping[str, float] = MappingProxyType({})


class Table(NamedTuple):
    """Where to ask: `serving` has the shards of each vault by name, best first; `epoch` counts."""

    epoch: int
    names: tuple[str, ...]
    homes: Mapping[str, tuple[str, ...]]
    serving: Mapping[str, tuple[str, ...]]


class News(NamedTuple):
    """What a front door hears: shards by how busy they are, those that fail, a new table."""

    load: Mapping[str, float]
    failing: frozenset[str]
    table: Table | None


def name_actor(shard: str) -> str:
    """Return the name by which a cluster knows a shard."""
    return f"{PREFIX}{shard}"


def find_alone(way: Way, work: object, args: Sequence[Any]) -> str:
    """Return the one vault that a call of a shard is about, which any shard can do that has it."""
    return str(args[0]) if way is Way.WRITE or work == Shard.read else ""


def find_names(way: Way, work: object, args: Sequence[Any]) -> list[str]:
    """Return the vaults that a call of a shard is about; none where it does not name them first."""
    if alone := find_alone(way, work, args):
        return [alone]
    listed = (each for each in args[:2] if isinstance(each, list | tuple))
    return [each for each in next(listed, ()) if isinstance(each, str)]
