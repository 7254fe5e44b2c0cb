"""Time calls of the MCP server as a client waits for them: the SDK's client, over standard input.

    python benchmarks/mcp_calls.py                    # 10,000 made-up notes, 200 questions
    python benchmarks/mcp_calls.py --notes 1000 --questions 50 --starts 3

A watcher runs, as it does while a session is open; its time and memory are counted. Beside each
stands the same client with a server of the SDK that only answers "ok".
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from typing import Any

from baselines import init_repository
from generate import SEED, generate_vault
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from measure import Row, find_command, isolate, percentile, run_command
from queries import make_queries
from report import describe_machine, format_table
from watching import watched

_EMPTY_SERVER = """\
import anyio
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server


async def list_tools(context, asked):
    names = ("recall", "context_pack")
    tools = [types.Tool(name=name, input_schema={"type": "object"}) for name in names]
    return types.ListToolsResult(tools=tools)


async def call(context, asked):
    return types.CallToolResult(content=[types.TextContent(type="text", text="ok")])


async def run():
    server = Server("empty", on_list_tools=list_tools, on_call_tool=call)
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


anyio.run(run)
"""

#: Which servers are compared, as the table has them.
_OURS, _EMPTY = "vaultmem", "empty SDK server"

Command = list[str | Path]


def main() -> None:
    """Measure what the command line asks for and print a table."""
    parser = argparse.ArgumentParser(description="Time calls of the MCP server.")
    parser.add_argument("--notes", type=int, default=10_000, metavar="N")
    parser.add_argument("--questions", type=int, default=200, metavar="N")
    parser.add_argument("--starts", type=int, default=9, metavar="N")
    given = parser.parse_args()
    machine = describe_machine()
    print(f"Python {machine['python']}, {machine['cores']} cores, {machine['processor']}")
    with tempfile.TemporaryDirectory(prefix="vaultmem-bench-") as name:
        scratch = Path(name).resolve()
        isolate(scratch)
        vault = scratch / "vault"
        generate_vault(vault, given.notes)
        init_repository(vault)
        run_command([*find_command(), "sync", "--vault", vault])
        script = scratch / "empty_server.py"
        script.write_text(_EMPTY_SERVER, encoding="utf-8")
        servers: dict[str, Command] = {
            _OURS: [*find_command(), "mcp", "--vault", vault],
            _EMPTY: [sys.executable, "-P", script],
        }
        questions = make_queries(vault, given.questions * 2, SEED)
        with watched(vault) as resident:
            rows = asyncio.run(_measure(servers, questions, given.starts, resident))
        left, cores = os.getloadavg()[0], os.cpu_count()
        print(
            f"{given.notes:,} notes, {len(questions) // 2} questions a tool, {given.starts} starts"
        )
        print(f"load {left:.1f} on {cores} cores at the end\n")
        print(format_table(rows), flush=True)


async def _measure(
    servers: dict[str, Command], questions: Sequence[str], starts: int, resident: int
) -> list[Row]:
    half = len(questions) // 2
    rows = await _measure_starts(servers, questions[0], starts)
    async with _connected(servers[_OURS]) as (ours, _), _connected(servers[_EMPTY]) as (empty, _):
        pid = resident
        at_first = _read_memory(pid)
        for tool, asked in (("recall", questions[:half]), ("context_pack", questions[half:])):
            rows += await _measure_calls(tool, asked, ours, empty, pid)
        rows.append(Row("memory, after all calls", "MB", _read_memory(pid), "at first", at_first))
    return rows


async def _measure_starts(servers: dict[str, Command], question: str, times: int) -> list[Row]:
    """Time from the start of a process to the answer of its first call, in turns."""
    wall: dict[str, list[float]] = {name: [] for name in servers}
    spent: dict[str, list[float]] = {name: [] for name in servers}
    for _ in range(times):
        for name, command in servers.items():
            started = time.perf_counter()
            async with _connected(command) as (client, pid):
                await _call(client, "recall", question)
                wall[name].append(time.perf_counter() - started)
                spent[name].append(_read_cpu(pid))
    return [
        _row("start to first answer, median", "s", median, wall),
        _row("start to first answer, quickest", "s", min, wall),
        _row("start to first answer, CPU", "s", median, spent),
    ]


async def _measure_calls(
    tool: str, questions: Sequence[str], ours: Client, empty: Client, pid: int
) -> list[Row]:
    """Time whole round trips, each question once, in turns."""
    await _call(ours, tool, "what is not asked again")
    await _call(empty, tool, "")
    wall: dict[str, list[float]] = {_OURS: [], _EMPTY: []}
    before = _read_cpu(pid)
    for question in questions:
        for name, client in ((_OURS, ours), (_EMPTY, empty)):
            started = time.perf_counter()
            await _call(client, tool, question)
            wall[name].append((time.perf_counter() - started) * 1_000)
    spent = (_read_cpu(pid) - before) * 1_000 / len(questions)
    return [
        _row(f"{tool}, 10 of 100", "ms", lambda all_: percentile(all_, 0.1), wall),
        _row(f"{tool}, median", "ms", median, wall),
        _row(f"{tool}, 95 of 100", "ms", lambda all_: percentile(all_, 0.95), wall),
        Row(f"{tool}, CPU of the server", "ms", spent),
    ]


def _row(
    what: str, unit: str, sum_up: Callable[[Sequence[float]], float], of: dict[str, list[float]]
) -> Row:
    return Row(what, unit, sum_up(of[_OURS]), _EMPTY, sum_up(of[_EMPTY]), of)


async def _call(client: Client, tool: str, question: str) -> None:
    done: Any = await client.call_tool(tool, {"query": question})
    if done.is_error:
        raise SystemExit(f"{tool}: {done.content}")


@asynccontextmanager
async def _connected(command: Command) -> AsyncIterator[tuple[Client, int]]:
    """Start a server, and give its client and its process id (0 where the system tells none)."""
    before = set(_list_children(os.getpid()))
    words = list(map(str, command))
    server = StdioServerParameters(command=words[0], args=words[1:], env=dict(os.environ))
    async with Client(stdio_client(server)) as client:
        yield client, max(set(_list_children(os.getpid())) - before, default=0)


def _list_children(parent: int) -> list[int]:
    try:
        found = Path(f"/proc/{parent}/task").glob("*/children")
        return [int(pid) for file in found for pid in file.read_text().split()]
    except OSError:
        return []


def _read_cpu(pid: int) -> float:
    """Return the seconds that a process and its children have had of a core, on Linux."""
    if not pid:
        return 0.0
    spent = 0.0
    for each in [pid, *_list_children(pid)]:
        fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        spent += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return spent


def _read_memory(pid: int) -> float:
    """Return the resident memory of a process and its children in MB, on Linux.

    What they share is counted for each.
    """
    if not pid:
        return 0.0
    statuses = [Path(f"/proc/{each}/status").read_text() for each in [pid, *_list_children(pid)]]
    return sum(int(text.split("VmRSS:")[1].split()[0]) for text in statuses) / 1024


if __name__ == "__main__":
    main()
