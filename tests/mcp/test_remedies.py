"""What an error recommends to an agent is what that agent can do."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Make
from mcp.client.client import Client
from serving import call, play, refused
from support import git

import vaultmem
from vaultmem.mcp_server.tool_server import TOOLS
from vaultmem.mcp_server.tool_text import STEPS, describe_error
from vaultmem.operations.schemas import find_problem

BY_NAME = {tool.name: tool for tool in TOOLS}

SHELL = "(in a shell; no tool does it)"


def list_commands() -> Iterator[str]:
    """Yield each command that a message below the front ends names, its values as X."""
    modules = ("workers.py", "config.py", "vault.py")
    for room in ("core", "services", "storage", "mcp_server", *modules):
        place = Path(vaultmem.__file__).parent / room
        for file in place.rglob("*.py") if place.is_dir() else [place]:
            text = file.read_text()
            for node in ast.walk(ast.parse(text)) if "`vaultmem " in text else ():
                if isinstance(node, ast.JoinedStr | ast.Constant):
                    parts = getattr(node, "values", [node])
                    text = "".join(
                        str(getattr(each, "value", "")) if isinstance(each, ast.Constant) else "X"
                        for each in parts
                    )
                    yield from re.findall("`vaultmem [^`]+`", text)


def test_each_command_that_is_recommended_is_a_call_or_said_to_be_a_command() -> None:
    found = set(list_commands())
    assert "`vaultmem session resume X`" in found
    told = {each: describe_error(each, BY_NAME) for each in found}
    for command, step in told.items():
        if step != f"{command} {SHELL}":
            name, _, words = step.strip("`").partition(" ")
            given = json.loads(words or "{}")
            problem = find_problem({**BY_NAME[name].input_schema, "required": []}, given)
            assert not problem, (command, step)
    assert {step.strip("`").split(" ")[0] for step in told.values() if SHELL not in step} == {
        step.tool for step in STEPS.values()
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("see `vaultmem list`", "see `recall`"),
        ("`vaultmem log my a.md` has", '`history {"action": "log", "path": "my a.md"}` has'),
        ("`vaultmem branch A --from B`", '`checkpoint {"action": "branch", "ref": "A", "from": "B"}`'),  # noqa: E501
        ("`vaultmem promote`", "`promote`"),
        ("`vaultmem promote a.md`", '`promote {"paths": ["a.md"]}`'),
        ("run `vaultmem trust`", f"run `vaultmem trust` {SHELL}"),
        ("by `vaultmem branch --reset`", f"by `vaultmem branch --reset` {SHELL}"),
        ("`vaultmem resolve --all` does", f"`vaultmem resolve --all` {SHELL} does"),
        ("name it with --ref; use --hooks", 'name it with "ref"; use --hooks'),
        ("`git fetch --unshallow` gets it", "`git fetch --unshallow` gets it"),
    ],
)  # fmt: skip
def test_a_command_is_told_as_the_call_that_does_it(text: str, said: str) -> None:
    assert describe_error(text, BY_NAME, "session") == said


def test_what_is_not_offered_is_not_recommended() -> None:
    reading = {name: tool for name, tool in BY_NAME.items() if not tool.writes}
    told = describe_error("run `vaultmem checkpoint NOTE`, or `vaultmem branch`", reading)
    assert told == f'run `vaultmem checkpoint NOTE` {SHELL}, or `history {{"action": "branches"}}`'


def test_an_agent_that_does_what_it_is_told_gets_on(make_vault: Make) -> None:
    root = make_vault({"notes/pier.md": "The pier is of oak.\n"})
    git(root, "branch", "draft")

    async def follow(client: Client, told: str) -> dict[str, object]:
        """Do what an error recommends."""
        (tool, words), *_ = re.findall(r"`(\w+) ?(\{[^`]*\})?`", told)
        return await call(client, tool, **json.loads(words or "{}"))

    async def scene(client: Client) -> None:
        note = {"action": "note", "text": "East end."}
        assert (await follow(client, await refused(client, "session", **note)))["session"]
        begun = await call(client, "session", **note)
        await call(client, "session", action="close")
        told = await refused(client, "session", **note, session=begun["session"])
        assert (await follow(client, told))["status"] == "open"
        told = await refused(client, "recall", query="pier", ref="nowhere")
        rows = (await follow(client, told))["rows"]
        assert {"draft", "main"} <= {row["name"] for row in rows}
        assert "`recall`" in await refused(client, "read_note", path="nothing")
        assert '"session"' in await refused(client, "session", **note, ref="draft")

    play(root, scene)
