"""How the vaults of a pool are, and the nodes that have clones of them; also as metrics."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from vaultmem import __version__
from vaultmem.core.finding.query import NoteFilter
from vaultmem.errors import VaultError, name_failure
from vaultmem.services.finding.score import choose_sections
from vaultmem.services.pools.clone import Clone
from vaultmem.vault import Vault


class VaultStats(NamedTuple):
    """How a vault of a pool is: what it holds, bytes on disk, and how far its remote was followed.

    `age` is in seconds since its remote was last heard of, -1 if never. `problem` says why it was
    not since, or why there is no clone.
    """

    notes: int = 0
    sections: int = 0
    tokens: int = 0
    clone_bytes: int = 0
    index_bytes: int = 0
    commit: str = ""
    age: float = -1.0
    problem: str = ""


class NodeStatus(NamedTuple):
    """How a node is: `ready` vaults have a clone there.

    `stale` is for how many seconds the remote was not heard of that was not for longest. `memory`
    is its process's, `disk` what its folder takes, `free` what is left beside it, all in bytes.
    """

    name: str
    host: str = ""
    ready: int = 0
    stale: float = 0.0
    memory: int = 0
    disk: int = 0
    free: int = 0
    problem: str = ""


class NodeVaults(NamedTuple):
    """A node, its vaults with what is wrong with each ("" if nothing), and why others failed."""

    status: NodeStatus
    ready: dict[str, str]
    missing: dict[str, str]


class PoolStatus(NamedTuple):
    """How a pool is; `problems` says of vaults why they are not there or were not followed."""

    version: str
    vaults: int
    ready: int
    nodes: tuple[NodeStatus, ...]
    problems: Mapping[str, str]


def describe_pool(names: Sequence[str], nodes: Sequence[NodeVaults]) -> PoolStatus:
    """Return how a pool is, of what its nodes say."""
    there = {name: why for each in nodes for name, why in each.ready.items()}
    missing = {name: why for each in nodes for name, why in each.missing.items()}
    problems = {
        name: why
        for name in names
        if (why := there[name] if name in there else missing.get(name, "not cloned yet"))
    }
    ready = sum(name in there for name in names)
    status = tuple(each.status for each in nodes)
    return PoolStatus(__version__, len(names), ready, status, problems)


def count_vault(clone: Clone, open_vault: Callable[[], Vault]) -> VaultStats:
    """Return how a vault is that has been cloned; it is opened for that, and not followed."""
    record = clone.record
    if record is None:
        return VaultStats(problem="not cloned yet")
    problem, notes, tokens, sections = record.problem, 0, 0, 0
    try:
        vault = open_vault()
        notes, tokens = vault.view.totals()
        sections = choose_sections(vault, vault.index.snapshot(), NoteFilter()).size
    except (VaultError, OSError) as error:
        problem = problem or str(name_failure(error))
    return VaultStats(
        notes=notes,
        sections=sections,
        tokens=tokens,
        clone_bytes=measure_folder(clone.root),
        index_bytes=measure_folder(clone.state),
        commit=record.commit,
        age=max(0.0, time.time() - record.contacted),
        problem=problem,
    )


def measure_node(folder: Path, ready: int, stale: float) -> NodeStatus:
    """Return how this process is as a node that has so many vaults."""
    return NodeStatus(
        "here",
        platform.node(),
        ready,
        stale,
        memory=_read_memory(),
        disk=measure_folder(folder),
        free=shutil.disk_usage(folder).free if folder.exists() else 0,
    )


def measure_folder(folder: Path) -> int:
    """Return the bytes that a folder takes on the disk."""
    size = 0
    for place, _, files in os.walk(folder):
        for file in files:
            with contextlib.suppress(OSError):
                size += os.lstat(os.path.join(place, file)).st_blocks * 512
    return size


def _read_memory() -> int:
    """Return the bytes of this process's memory; 0 where the system does not say."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0


#: Of each node: a field of its status, its name, its kind, and what it says.
_OF_NODES = (
    ("ready", "ready_vaults", "gauge", "Vaults of which the node has a clone."),
    ("stale", "stale_seconds", "gauge", "For how long a remote was not heard of, at most."),
    ("memory", "memory_bytes", "gauge", "Memory of its process."),
    ("disk", "disk_bytes", "gauge", "What its folder takes on the disk."),
    ("free", "disk_free_bytes", "gauge", "What is left on that disk."),
)


def write_metrics(status: PoolStatus) -> str:
    """Return the figures of a pool and its nodes as Prometheus reads them (text format 0.0.4)."""
    return "".join(f"{line}\n" for line in _write_lines(status))


def _write_lines(status: PoolStatus) -> Iterator[str]:
    own = (
        ("vaults", "Vaults of the pool.", status.vaults),
        ("ready_vaults", "Vaults that have a clone.", status.ready),
        ("problem_vaults", "Vaults with a problem.", len(status.problems)),
        ("nodes", "Nodes.", len(status.nodes)),
    )
    for name, told, value in own:
        yield from _begin(f"vaultmem_pool_{name}", "gauge", told)
        yield f"vaultmem_pool_{name} {value}"
    for field, name, kind, told in _OF_NODES:
        yield from _begin(f"vaultmem_node_{name}", kind, told)
        for each in status.nodes:
            yield f"vaultmem_node_{name}{_name_node(each)} {getattr(each, field)}"


def _begin(name: str, kind: str, told: str) -> Iterator[str]:
    yield f"# HELP {name} {told}"
    yield f"# TYPE {name} {kind}"


def _name_node(node: NodeStatus) -> str:
    quoted = node.name.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return f'{{node="{quoted}"}}'
