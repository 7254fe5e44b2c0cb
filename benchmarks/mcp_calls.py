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
from memory import list_children, read_cpu, read_resident
from queries import make_queries
from report import describe_machine, format_table
from watching import watched

_EMPTY_SERVER = """\
import anyio
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server


async def list_tools(context, asked):
    names = ("recall", "context_pack", "remember")
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
OURS, EMPTY = "vaultmem", "empty SDK server"

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
        run_command([*find_command(), "index", "--vault", vault])
        servers: dict[str, Command] = {
            OURS: [*find_command(), "mcp", "--vault", vault],
            EMPTY: write_empty_server(scratch),
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


def write_empty_server(folder: Path) -> Command:
    """Write a server of the SDK that only answers "ok", and return how it is started."""
    script = folder / "empty_server.py"
    script.write_text(_EMPTY_SERVER, encoding="utf-8")
    return [sys.executable, "-P", script]


async def _measure(
    servers: dict[str, Command], questions: Sequence[str], starts: int, resident: int
) -> list[Row]:
    half = len(questions) // 2
    rows = await measure_starts(servers, questions[0], starts)
    async with connected(servers[OURS]) as (ours, _), connected(servers[EMPTY]) as (empty, _):
        pid = resident
        at_first = read_resident(pid)
        for tool, asked in (("recall", questions[:half]), ("context_pack", questions[half:])):
            rows += await _measure_calls(tool, asked, ours, empty, pid)
        rows.append(Row("memory, after all calls", "MB", read_resident(pid), "at first", at_first))
    return rows


async def measure_starts(servers: dict[str, Command], question: str, times: int) -> list[Row]:
    """Time from the start of a process to the answer of its first call, in turns."""
    wall: dict[str, list[float]] = {name: [] for name in servers}
    spent: dict[str, list[float]] = {name: [] for name in servers}
    for _ in range(times):
        for name, command in servers.items():
            started = time.perf_counter()
            async with connected(command) as (client, pid):
                await call_tool(client, "recall", query=question)
                wall[name].append(time.perf_counter() - started)
                spent[name].append(read_cpu(pid))
    return [
        _row("start to first answer, median", "s", median, wall),
        _row("start to first answer, quickest", "s", min, wall),
        _row("start to first answer, CPU", "s", median, spent),
    ]


async def _measure_calls(
    tool: str, questions: Sequence[str], ours: Client, empty: Client, pid: int
) -> list[Row]:
    """Time whole round trips, each question once, in turns."""
    await call_tool(ours, tool, query="what is not asked again")
    await call_tool(empty, tool, query="")
    wall: dict[str, list[float]] = {OURS: [], EMPTY: []}
    before = read_cpu(pid)
    for question in questions:
        for name, client in ((OURS, ours), (EMPTY, empty)):
            started = time.perf_counter()
            await call_tool(client, tool, query=question)
            wall[name].append((time.perf_counter() - started) * 1_000)
    spent = (read_cpu(pid) - before) * 1_000 / len(questions)
    return [
        _row(f"{tool}, 10 of 100", "ms", lambda all_: percentile(all_, 0.1), wall),
        _row(f"{tool}, median", "ms", median, wall),
        _row(f"{tool}, 95 of 100", "ms", lambda all_: percentile(all_, 0.95), wall),
        Row(f"{tool}, CPU of the server", "ms", spent),
    ]


def _row(
    what: str, unit: str, sum_up: Callable[[Sequence[float]], float], of: dict[str, list[float]]
) -> Row:
    return Row(what, unit, sum_up(of[OURS]), EMPTY, sum_up(of[EMPTY]), of)


async def call_tool(client: Client, tool: str, **given: str) -> None:
    """Call a tool to its answer.

    Raises:
        SystemExit: that says what was wrong.
    """
    done: Any = await client.call_tool(tool, given)
    if done.is_error:
        raise SystemExit(f"{tool}: {done.content}")


@asynccontextmanager
async def connected(command: Command) -> AsyncIterator[tuple[Client, int]]:
    """Start a server, and give its client and its process id (0 where the system tells none)."""
    before = set(list_children(os.getpid()))
    words = list(map(str, command))
    server = StdioServerParameters(command=words[0], args=words[1:], env=dict(os.environ))
    async with Client(stdio_client(server)) as client:
        yield client, max(set(list_children(os.getpid())) - before, default=0)


if __name__ == "__main__":
    main()
