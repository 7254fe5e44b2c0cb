"""Ten projects share one memory, and none is shown what another one learned unless it asks.

Each of them goes on where it stopped: after `mv`, in a work tree, in a clone, on another machine.
The full form has 200 prompts for each project, `make test-campaigns` has fewer.

Everything goes through the hooks and the MCP server as agents start them. Each fact has a code that
no question has, so that a code in an answer is a text of the project that has it.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from conftest import Make, RunCli
from machines import MakeMachines
from projects_world import make_repository, play_in, run_git, run_hook, work_in
from support import wait_until
from watchers import ask, watch_process

import vaultmem

if TYPE_CHECKING:
    from mcp.client.client import Client

NAMES = ["harbour", "ferry", "pier", "depot", "tariff", "signal", "crane", "ledger", "buoy", "lock"]
THINGS = ["deploy key", "retry limit", "staging database", "cache folder", "release branch"]
VERBS = ["is called", "is kept under", "was changed to"]

#: A code begins with its project: `q3` is the fourth one's, `qg` is global.
CODE = re.compile(r"\bq(\d|g)[a-z]{6}\b")

GLOBAL = {
    "Write British English in every commit message": "qgaaaaaa",
    "The company proxy for downloads is called": "qgbbbbbb",
}

#: Prompts for each project through the hook, and questions through MCP: the short form, the full.
SHORT, FULL = (12, 3), (200, 40)


@dataclass(frozen=True)
class Fact:
    """What one project knows: the question that it answers, and its code."""

    project: str
    question: str
    text: str
    code: str


def make_facts(chance: random.Random) -> list[Fact]:
    """Return facts of each project; projects share all words but the codes."""
    found = []
    for number, name in enumerate(NAMES):
        for thing in THINGS:
            code = f"q{number}{''.join(chance.choices('bcdfghjk', k=6))}"
            service = chance.choice(["billing", "booking", "login", "search"])
            text = f"The {thing} of the {service} service {chance.choice(VERBS)} {code}."
            question = f"what is the {thing} of the {service} service"
            found.append(Fact(name, question, text, code))
    return found


class World:
    """A vault with a watcher, the repositories of ten projects, and what each one knows."""

    def __init__(self, root: Path, code: Path, run_cli: RunCli, seed: int) -> None:
        self.root, self.run = root, run_cli
        self.chance = random.Random(seed)
        self.folders = {name: make_repository(code / name) for name in NAMES}
        self.facts = make_facts(self.chance)

    def teach(self) -> None:
        """Have each project learn its facts as an agent does: by remember and in a session."""
        for text, code in GLOBAL.items():
            self._remember(f"{text} {code}.", self.folders["ledger"], "--global")
        for name, folder in self.folders.items():
            run_hook(self.run, self.root, "session-start", folder, f"s-{name}", source="startup")
            own = [fact for fact in self.facts if fact.project == name]
            for number, fact in enumerate(own):
                options = ["--pin"] if number == 0 else ["--kind", "decision"] * (number == 1)
                self._remember(fact.text, folder, *options)
            play_in(self.root, folder, partial(work, own))
            run_hook(self.run, self.root, "session-end", folder, f"s-{name}")

    def _remember(self, text: str, folder: Path, *options: str) -> None:
        given = ("remember", text, "--vault", self.root, "--force", *options)
        done = self.run(*given, cwd=folder, env={"VAULTMEM_AGENT": "claude"})
        assert done.code == 0, done.err

    def choose_questions(self, count: int) -> list[str]:
        """Return questions about the facts of any project."""
        return [fact.question for fact in self.chance.choices(self.facts, k=count)]


async def work(own: list[Fact], client: Client) -> None:
    """Do what an agent does in a session: a goal, a decision, a task, something learned."""
    session = {"session": f"mcp-{own[0].project}"}
    await tell(client, "session", action="start", goal=f"Look at {own[2].text}", **session)
    await tell(client, "session", action="decide", text=f"Keep it: {own[3].text}", **session)
    await tell(client, "task", action="add", title=f"Move away from {own[4].code}")
    learned = [f"Remember that {own[0].text}"]
    given = {"summary": f"Done with {own[1].code}.", "learned": learned, **session}
    await tell(client, "session", action="close", **given)


async def tell(client: Client, tool: str, **given: Any) -> str:
    """Call a tool, and return all that the agent gets."""
    done = await client.call_tool(tool, given)
    text = "\n".join(part.text for part in done.content if hasattr(part, "text"))
    assert not done.is_error, text
    return text + json.dumps(done.structured_content)


async def read_all(questions: list[str], client: Client) -> list[tuple[str, str]]:
    """Return all that an agent in a project can be shown without asking for another one."""
    found = [("resources", str(await client.list_resources()))]
    found.append(("pack", await tell(client, "context_pack", detail=True)))
    for question in questions:
        for tool in ("recall", "context_pack"):
            found.append((question, await tell(client, tool, query=question, detail=True)))
        for action in ("why", "belief"):
            given = {"action": action, "query": question, "at": "HEAD", "detail": True}
            found.append((action, await tell(client, "history", **given)))
        asked = {"action": "search", "query": question, "detail": True}
        found.append(("session search", await tell(client, "session", **asked)))
    found.append(("sessions", await tell(client, "session", action="list", detail=True)))
    found.append(("tasks", await tell(client, "task", action="list", detail=True)))
    for action in ("log", "review", "conflicts"):
        found.append((action, await tell(client, "history", action=action, limit=100)))
    found.append(("resume", str(await client.get_prompt("resume", {}))))
    return found


def find_foreign(name: str, text: str) -> list[str]:
    """Return the codes in a text that belong to another project."""
    own = {str(NAMES.index(name)), "g"}
    return [match[0] for match in CODE.finditer(text) if match[1] not in own]


@pytest.fixture
def world(make_vault: Make, tmp_path: Path, run_cli: RunCli) -> Iterator[World]:
    root = make_vault()
    with watch_process(root):
        wait_until(lambda: ask(root, vaultmem.__version__, ["settle"]))
        made = World(root, tmp_path / "code", run_cli, seed=7)
        made.teach()
        yield made


@pytest.mark.guarantee
@pytest.mark.parametrize(
    ("prompts", "questions"),
    [
        pytest.param(*SHORT, marks=pytest.mark.campaign),
        pytest.param(*FULL, marks=pytest.mark.long),
    ],
)
def test_no_project_is_shown_what_another_one_learned(
    world: World, prompts: int, questions: int
) -> None:
    leaks, answered, shown, texts = [], 0, set(), 0
    for name, folder in world.folders.items():
        told = [("start", start_session(world, folder, f"new-{name}"))]
        for question in world.choose_questions(prompts - len(THINGS)) + own_questions(world, name):
            given = {"prompt": question}
            told.append((question, run_hook(world.run, world.root, "prompt", folder, "", **given)))
        asked = world.choose_questions(questions)
        told += play_in(world.root, folder, partial(read_all, asked))
        texts += len(told)
        leaks += [(name, what, code) for what, text in told for code in find_foreign(name, text)]
        answered += sum(fact.code in str(told) for fact in world.facts if fact.project == name)
        shown |= {(name, code) for code in GLOBAL.values() if code in str(told)}
    print(f"{texts} texts, {len(leaks)} leaks, {answered} answers, {len(shown)} global facts")
    assert leaks == []
    assert answered == len(world.facts)
    assert shown == {(name, code) for name in NAMES for code in GLOBAL.values()}
    check_named_projects(world)


def own_questions(world: World, name: str) -> list[str]:
    return [fact.question for fact in world.facts if fact.project == name]


def start_session(world: World, folder: Path, session: str) -> str:
    return run_hook(world.run, world.root, "session-start", folder, session, source="startup")


def check_named_projects(world: World) -> None:
    """Other projects answer who names them, and all answer `all`."""
    for fact in world.facts[::5]:
        folder = world.folders["lock" if fact.project != "lock" else "buoy"]
        given = ("recall", fact.question, "--vault", world.root, "--project")
        assert fact.code in world.run(*given, fact.project, cwd=folder).out
        assert fact.code in world.run(*given, "all", "-n", "30", cwd=folder).out
        assert fact.code not in world.run(*given[:-1], cwd=folder).out


def add_tree(folder: Path) -> Path:
    run_git(folder, "worktree", "add", "-q", f"../{folder.name}-tree", "-b", "side")
    return folder.parent / f"{folder.name}-tree"


def clone(folder: Path) -> Path:
    run_git(folder.parent, "clone", "-q", folder.name, f"{folder.name}-clone")
    return folder.parent / f"{folder.name}-clone"


def make_goal(name: str, number: int) -> tuple[str, str]:
    """Return the goal of a session of a project, and the code in it."""
    code = f"q{NAMES.index(name)}{'bcdfgh'[number] * 6}"
    return f"Repair the {THINGS[number]} as {code} describes it", code


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(NAMES[:2], marks=pytest.mark.campaign, id="short"),
        pytest.param(NAMES, marks=pytest.mark.long, id="full"),
    ],
)
def test_each_project_goes_on_where_it_stopped(
    make_machines: MakeMachines, tmp_path: Path, run_cli: RunCli, names: list[str]
) -> None:
    anna, ben = make_machines().all
    seen: dict[tuple[str, str], tuple[bool, list[str]]] = {}

    def work_on(name: str, way: str, folder: Path, number: int, there: Any = anna) -> None:
        """Have the next session of a project, and note down whether it was shown the last one."""
        goal = make_goal(name, number)[0]
        told = work_in(run_cli, there.root, folder, f"{name}-{number}", goal, env=there.env)
        if number:
            shown = "Last time here" in told and make_goal(name, number - 1)[1] in told
            seen[name, way] = shown, find_foreign(name, told)

    folders = {name: make_repository(tmp_path / "code" / name) for name in names}
    for name, folder in folders.items():
        work_on(name, "", folder, 0)
    for name, folder in folders.items():
        moved = folder.rename(folder.parent / f"{name}-moved")
        work_on(name, "mv", moved, 1)
        work_on(name, "worktree add", add_tree(moved), 2)
        folders[name] = clone(moved)
        work_on(name, "clone", folders[name], 3)
    for machine in (anna, ben):
        assert machine.run("sync").code == 0
    (tmp_path / "ben").mkdir()
    for name, folder in folders.items():
        run_git(tmp_path / "ben", "clone", "-q", str(folder), name)
        work_on(name, "sync", tmp_path / "ben" / name, 4, ben)
    print(f"{sum(shown for shown, _ in seen.values())} of {len(seen)} went on")
    assert len(seen) == 4 * len(names)
    assert {key: value for key, value in seen.items() if value != (True, [])} == {}
