"""Answers of tools stay within their budgets, and their data has what a caller needs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from conftest import Make, Open, RunCli
from jsonschema import Draft202012Validator
from mcp.client.client import Client
from serving import play, refused, told
from support import git, write_notes

from vaultmem.core.text.token_count import bound_tokens, count_tokens
from vaultmem.storage.query_log import SignalStore

pytestmark = pytest.mark.campaign


#: Notes of which a question finds more than any budget holds: prose, tables and code.
NOTES = {
    f"notes/tide-{n:02}.md": f"# Tide gauge {n}\n\n"
    + "".join(
        f"The tide gauge {n} at `pier_{k}` read {k * 7} cm \\*above\\* it.\n" for k in range(40)
    )
    + "\n| gauge | cm |\n|-|-|\n"
    + "".join(f"| `tide_gauge[{k}]` | {k} |\n" for k in range(20))
    for n in range(12)
}


def as_shown(done: Any) -> tuple[str, str]:
    """Return what a client shows its model: some the text, some the data as JSON."""
    data = json.dumps(done.structured_content, ensure_ascii=False, separators=(",", ":"))
    return told(done), data


@pytest.mark.parametrize("most", [200, 500, 2_000])
def test_a_budget_holds_for_the_text_and_for_the_data(most: int, make_vault: Make) -> None:
    root = make_vault(NOTES)
    for n in range(40):
        write_notes(root, {"notes/log.md": f"Read {n} times.\n"})
        git(root, "add", ".")
        subject = f"checkpoint: the tide gauge {n} was read once more, and the pier swept"
        git(root, "commit", "-qm", f"{subject}\n\nVault-Event: checkpoint")
    asked: list[tuple[str, dict[str, Any]]] = [
        ("recall", {"query": "tide gauge pier", "limit": 50}),
        ("context_pack", {"query": "tide gauge pier"}),
        ("read_note", {"path": "notes/tide-03.md"}),
        ("history", {"action": "log", "limit": 100}),
        ("history", {"action": "blame", "path": "notes/tide-03.md"}),
        ("history", {"action": "belief", "query": "tide gauge pier", "at": "HEAD"}),
        ("history", {"action": "why", "query": "tide gauge"}),
        ("session", {"action": "restore"}),
    ]

    async def scene(client: Client) -> None:
        goal = "Read the gauges. " * 40
        await client.call_tool("session", {"action": "start", "goal": goal})
        await client.call_tool(
            "session", {"action": "note", "text": "The `gauge_3` is \\*off\\*. " * 90}
        )
        for name, given in asked:
            budget = max(most, 300) if name == "session" else most
            done = await client.call_tool(name, {**given, "budget": budget})
            text, data = as_shown(done)
            assert count_tokens(text) <= budget, (name, given)
            assert bound_tokens(data) <= budget, (name, given)
            # Nothing is left away that there was room for: each has more than fits here.
            least = budget // 3 if name != "session" else 0
            assert count_tokens(text) >= least, (name, given)

    play(root, scene)


def test_without_a_budget_an_answer_has_one_and_says_what_it_left_out(make_vault: Make) -> None:
    root = make_vault(NOTES)

    async def scene(client: Client) -> None:
        done = await client.call_tool("recall", {"query": "tide gauge pier", "limit": 12})
        text, data = as_shown(done)
        assert bound_tokens(data) <= 2_000
        found = done.structured_content
        assert found["next_offset"] is None  # All of them, by the passages that answer best.
        assert text.count(" | shortened]") == len(found["hits"]) == 12
        few = await client.call_tool(
            "recall", {"query": "tide gauge pier", "limit": 12, "budget": 600}
        )
        shown = few.structured_content
        assert shown["next_offset"] == len(shown["hits"]) < 12
        assert f"ask again with offset {shown['next_offset']}" in told(few)
        short = {"path": "notes/tide-03.md", "budget": 200}
        part = await client.call_tool("read_note", short)
        assert "read again with offset" in told(part)
        blame = {"action": "blame", "path": "notes/tide-03.md", "budget": 200}
        assert "give a larger budget" in told(await client.call_tool("history", blame))
        assert "at least 200" in await refused(client, "context_pack", budget=100)

    play(root, scene)


def test_the_data_says_the_text_and_no_more_than_a_caller_needs_to_go_on(make_vault: Make) -> None:
    root = make_vault(NOTES)
    asked: list[tuple[str, dict[str, Any], set[str]]] = [
        ("recall", {"query": "tide"}, {"hits", "next_offset"}),
        ("context_pack", {"query": "tide"}, {"receipt"}),
        ("remember", {"text": "Gulls steal tickets."}, {"path"}),
        ("session", {"action": "start"}, {"session", "status"}),
        ("checkpoint", {"note": "x"}, set()),
        ("history", {"action": "log"}, {"cut"}),
        ("history", {"action": "review"}, {"cut"}),
    ]

    async def scene(client: Client) -> None:
        schemas = {each.name: each.output_schema for each in (await client.list_tools()).tools}
        for name, given, beside in asked:
            done = await client.call_tool(name, given)
            data = done.structured_content
            assert set(data) == {"message", *beside}, name
            assert data["message"] == told(done)
            Draft202012Validator(schemas[name]).validate(data)
            full = (await client.call_tool(name, {**given, "detail": True})).structured_content
            assert set(full) > set(data), name
        hits = (await client.call_tool("recall", {"query": "tide"})).structured_content["hits"]
        assert all(set(hit) == {"path"} for hit in hits)
        note = (await client.call_tool("read_note", {"path": "tide-03"})).structured_content
        assert set(note) == {"message", "path", "blob", "text", "next_offset"}

    play(root, scene)


def test_only_what_was_shown_counts_as_shown(
    make_vault: Make, opened: Open, run_cli: RunCli
) -> None:
    root = make_vault(NOTES)

    async def scene(client: Client) -> tuple[int, str]:
        given = {"query": "tide gauge pier", "limit": 12, "budget": 400}
        shown = (await client.call_tool("recall", given)).structured_content["hits"]
        packed = await client.call_tool("context_pack", {"query": "tide gauge", "budget": 300})
        return len(shown), str(packed.structured_content["receipt"])

    count, receipt = play(root, scene)
    assert count < 12
    vault = opened(root)
    store = SignalStore(vault.state, vault.state_folder)
    store.fold()
    packed, recalled = store.showings(2)
    assert len(recalled.sections) == recalled.call.found == count
    replayed = run_cli("receipt", receipt, "--json", "--vault", root).json
    assert len(replayed["shown"]) == len(packed.sections)
