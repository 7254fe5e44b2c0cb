"""Count what the MCP server costs a session, in tokens: its list of tools, and its answers.

    python benchmarks/mcp_costs.py VAULT                  # a copy of these notes, 40 questions
    python benchmarks/mcp_costs.py VAULT --questions 100

Some clients show their model the text of an answer, others its data as JSON: both are counted, by
o200k. Needs `bpe-openai`, whose wheel has the vocabulary.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from baselines import init_repository
from generate import SEED
from mcp.client.client import Client
from mcp_calls import connected
from measure import find_command, isolate, run_command
from queries import make_queries

#: A call of a tool about a question.
Call = tuple[str, dict[str, Any]]


def main() -> None:
    """Print what the list costs, and the answers to each kind of call."""
    parser = argparse.ArgumentParser(description="Count what the MCP server costs a session.")
    parser.add_argument("vault", type=Path, help="a folder of notes; it is copied")
    parser.add_argument("--questions", type=int, default=40, metavar="N")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="vaultmem-bench-") as name:
        scratch = Path(name).resolve()
        isolate(scratch)
        vault = scratch / "vault"
        shutil.copytree(given.vault, vault, ignore=shutil.ignore_patterns(".git"))
        init_repository(vault)
        run_command([*find_command(), "index", "--vault", vault])
        asyncio.run(_measure(vault, make_queries(vault, given.questions, SEED)))


async def _measure(vault: Path, questions: Sequence[str]) -> None:
    count = load_tokenizer()
    async with connected([*find_command(), "mcp", "--alone", "--vault", vault]) as (client, _):
        tools = [each.model_dump(by_alias=True) for each in (await client.list_tools()).tools]
        for names in (("name", "description", "inputSchema"), ("outputSchema",)):
            cost = sum(count(_as_json({name: each[name] for name in names})) for each in tools)
            print(f"{len(tools)} tools, {', '.join(names)}: {cost:,}")
        print(f"\n{'':34}{'text: median':>14}{'most':>8}{'data: median':>14}{'most':>8}{'over':>6}")
        for what, calls in list_calls(vault, questions):
            shown = [await _ask(client, count, call) for call in calls]
            _print_row(what, shown, calls[0][1].get("budget", 0))


def list_calls(vault: Path, questions: Sequence[str]) -> Iterator[tuple[str, list[Call]]]:
    """Yield kinds of calls, each by its name in the table."""
    notes = [str(each.relative_to(vault)) for each in sorted(vault.rglob("*.md"))]
    some = notes[:: max(1, len(notes) // len(questions))]
    yield "recall", [("recall", {"query": each}) for each in questions]
    yield "recall, limit 3", [("recall", {"query": each, "limit": 3}) for each in questions]
    for budget in (500, 2_000):
        calls = [("context_pack", {"query": each, "budget": budget}) for each in questions]
        yield f"context_pack, budget {budget:,}", calls
    yield "read_note", [("read_note", {"path": each}) for each in some]
    kinds = (("why", {}), ("belief", {"at": "HEAD"}))
    for action, more in kinds:
        asked = [{"action": action, "query": each, **more} for each in questions]
        yield f"history {action}", [("history", each) for each in asked]
    yield "history blame", [("history", {"action": "blame", "path": each}) for each in some[:10]]
    facts = [f"Fact {number} of {question}." for number, question in enumerate(questions)]
    yield "remember", [("remember", {"text": each, "force": True}) for each in facts]
    yield "checkpoint", [("checkpoint", {"note": "facts"})]
    yield "history log", [("history", {"action": "log"})]
    yield "history show", [("history", {"action": "show", "commit": "HEAD"})]


async def _ask(client: Client, count: Callable[[str], int], call: Call) -> tuple[int, int]:
    """Return what the answer costs as text, and as data."""
    done: Any = await client.call_tool(*call)
    if done.is_error:
        raise SystemExit(f"{call}: {done.content}")
    text = "\n".join(each.text for each in done.content)
    return count(text), count(_as_json(done.structured_content))


def _print_row(what: str, shown: Sequence[tuple[int, int]], budget: int) -> None:
    texts, data = zip(*shown, strict=True)
    over = sum(each > budget for each in data) if budget else ""
    print(
        f"{what:34}{median(texts):14,.0f}{max(texts):8,}{median(data):14,.0f}{max(data):8,}{over:>6}"
    )


def load_tokenizer() -> Callable[[str], int]:
    """Return what counts the tokens of a text by o200k."""
    import bpe_openai

    encoding = bpe_openai.get_encoding("o200k_base")
    return lambda text: len(encoding.encode_ordinary(text))


def _as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


if __name__ == "__main__":
    main()
