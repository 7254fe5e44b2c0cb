"""How a pool is, as Prometheus reads it (its text format, version 0.0.4)."""

from __future__ import annotations

from collections.abc import Iterator

from vaultmem.services.pools.status import PoolStatus, ShardStatus

#: Of each shard: a field of its status, its name, its kind, and what it says.
_OF_SHARDS = (
    ("vaults", "vaults", "gauge", "Vaults that the shard has."),
    ("ready", "ready_vaults", "gauge", "Vaults that it answers for at once."),
    ("backlog", "backlog_calls", "gauge", "Calls that wait or run."),
    ("stale", "stale_seconds", "gauge", "For how long a remote was not heard of, at most."),
    ("restarts", "restarts_total", "counter", "How often its process was started again."),
    ("memory", "memory_bytes", "gauge", "Memory of its process."),
    ("disk", "disk_bytes", "gauge", "What its folder takes on the disk."),
    ("free", "disk_free_bytes", "gauge", "What is left on that disk."),
)


def write_metrics(status: PoolStatus) -> str:
    """Return the figures of a pool and of its shards."""
    return "".join(f"{line}\n" for line in _write_lines(status))


def _write_lines(status: PoolStatus) -> Iterator[str]:
    own = (
        ("vaults", "gauge", "Vaults of the pool.", status.vaults),
        ("ready_vaults", "gauge", "Vaults that are answered for at once.", status.ready),
        ("problem_vaults", "gauge", "Vaults with a problem.", len(status.problems)),
        ("copied_vaults", "gauge", "Vaults that two shards have.", len(status.copied)),
        ("shards", "gauge", "Shards.", len(status.shards)),
        ("lost_shards_total", "counter", "Shards that went for good.", status.lost),
    )
    for name, kind, told, value in own:
        yield from _begin(f"vaultmem_pool_{name}", kind, told)
        yield f"vaultmem_pool_{name} {value}"
    for field, name, kind, told in _OF_SHARDS:
        yield from _begin(f"vaultmem_shard_{name}", kind, told)
        for each in status.shards:
            yield f"vaultmem_shard_{name}{_name_shard(each)} {getattr(each, field)}"


def _begin(name: str, kind: str, told: str) -> Iterator[str]:
    yield f"# HELP {name} {told}"
    yield f"# TYPE {name} {kind}"


def _name_shard(shard: ShardStatus) -> str:
    quoted = shard.name.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return f'{{shard="{quoted}"}}'
