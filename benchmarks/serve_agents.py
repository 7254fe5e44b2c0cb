"""Rows on sessions of agents: their start, and the memory of five that are open at once."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from mcp_calls import EMPTY, OURS, Command, call_tool, connected, measure_starts
from measure import Row
from memory import list_children, read_resident, read_shares
from serve_pages import serving

#: Sessions at once.
_MANY = 5


async def measure_starts_beside(
    vault: Path, servers: Mapping[str, Command], question: str, times: int
) -> list[Row]:
    """Time sessions that begin while the resident process is alive, and the first of all."""
    first = []
    for _ in range(times):
        with serving(vault) as served:
            served.browser.get("/")
            time.sleep(6)  # Somebody looks at a page before their agent begins.
            started = time.perf_counter()
            async with connected(servers[OURS]) as (client, _):
                await call_tool(client, "recall", query=question)
                first.append(time.perf_counter() - started)
    with serving(vault) as served:
        served.browser.get("/")
        rows = await measure_starts(dict(servers), question, times * 3)
    named = [replace(row, what=f"session, {row.what}") for row in rows]
    return [Row("session, the first since `serve` began", "s", min(first)), *named]


async def measure_sessions(
    vault: Path, servers: Mapping[str, Command], questions: Sequence[str]
) -> list[Row]:
    """Look at the memory of five sessions that each recalled and remembered."""
    with serving(vault) as served:
        served.browser.get("/")
        relays, process, git = await _open_sessions(servers[OURS], questions, served.process)
    alone, *_ = await _open_sessions([*servers[OURS], "--alone"], questions)
    empty, *_ = await _open_sessions(servers[EMPTY], questions)
    parts = {
        f"{_MANY} sessions, the process that serves them": process,
        "... and git's processes that it keeps": git,
        f"... and their {_MANY} relays": relays,
        "... all together": process + git + relays,
        f"{_MANY} sessions, each with --alone": alone,
    }
    other = f"{_MANY} empty SDK servers"
    return [
        Row(f"{what}, {kind}", "MB", of[place], other, empty[place])
        for place, kind in enumerate(("shares", "resident"))
        for what, of in parts.items()
    ]


class Memory(NamedTuple):
    """MB, where what processes share is divided among them, and where it counts in each."""

    shares: float = 0.0
    resident: float = 0.0

    def __add__(self, other: tuple[Any, ...]) -> Memory:
        """Return both together."""
        return Memory(self.shares + other[0], self.resident + other[1])

    def __sub__(self, other: Memory) -> Memory:
        """Return what is left without the other."""
        return Memory(self.shares - other.shares, self.resident - other.resident)


def _read_memory(process: int) -> Memory:
    return Memory(read_shares(process), read_resident(process))


async def _open_sessions(
    command: Command, questions: Sequence[str], resident: int = 0
) -> tuple[Memory, Memory, Memory]:
    """Return the memory of five sessions' processes, of what serves them, and of its git's."""
    sessions = Memory()
    async with AsyncExitStack() as stack:
        processes = []
        for number in range(_MANY):
            client, process = await stack.enter_async_context(connected(command))
            processes.append(process)
            for question in questions[number::_MANY]:
                await call_tool(client, "recall", query=question)
                await call_tool(client, "context_pack", query=question)
            text = f"Berth {number} of the measured harbour is kept free for ferry {number + 40}."
            await call_tool(client, "remember", text=text)
        for process in processes:
            sessions += _read_memory(process)
        git = Memory()
        for process in list_children(resident):
            git += _read_memory(process)
        return sessions, _read_memory(resident) - git, git
