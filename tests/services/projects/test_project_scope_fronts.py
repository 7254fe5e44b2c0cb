"""Which notes each front end shows inside a project, outside of any, and on demand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from clocks import Clock, ask
from conftest import Make, Open, RunCli
from projects_world import make_repository, play_in, run_git, run_hook
from support import write_notes

from vaultmem.core.lifecycle import NoteState
from vaultmem.core.packs.context_file import BEGIN, END
from vaultmem.services.curation.dream import dream
from vaultmem.services.health.economics import read_stats
from vaultmem.services.memory.remember import Memory, remember
from vaultmem.services.packs.receipts import list_recent
from vaultmem.services.projects.scope import view_project
from vaultmem.services.search.run_query import Query, run_query
from vaultmem.services.views.update_index import sync_vault
from vaultmem.services.watching.generated_context import render_contexts

NOTES = {
    "notes/winch.md": "---\nkind: semantic_fact\nproject: alpha\n---\nThe winch takes zebrafat.\n",
    "notes/ticket.md": "---\nkind: semantic_fact\nproject: beta\n---\nA ticket costs nine yak.\n",
    "notes/rule.md": "Write British English in every text.\n",
}
QUESTION = "what does the winch take"
NAMED = "project alpha has a better answer; run: vaultmem recall --project alpha"


@pytest.fixture
def root(make_vault: Make) -> Path:
    return make_vault()


@pytest.fixture
def alpha(root: Path, tmp_path: Path) -> Path:
    return add_project(root, tmp_path / "code/alpha")


@pytest.fixture
def beta(root: Path, tmp_path: Path) -> Path:
    return add_project(root, tmp_path / "code/beta")


def add_project(root: Path, folder: Path) -> Path:
    """Make a repository that the vault's table lists, and the notes of all projects."""
    make_repository(folder)
    with open(root / "projects.yaml", "a") as table:
        table.write(f"- name: {folder.name}\n  root: {run_git(folder, 'rev-parse', 'HEAD')}\n")
    write_notes(root, NOTES)
    return folder


def test_another_project_is_named_without_its_text(
    root: Path, alpha: Path, beta: Path, run_cli: RunCli
) -> None:
    asked = ("recall", QUESTION, "--vault", root)
    told = run_cli(*asked, cwd=beta).out
    assert f"{NAMED} '{QUESTION}'\n" in told
    assert "zebrafat" not in told
    assert "zebrafat" in run_cli(*asked, cwd=alpha).out
    assert NAMED not in run_cli(*asked, cwd=alpha).out
    found = run_cli(*asked, "--json", cwd=beta).json
    assert (found["hits"], found["other_project"]) == ([], "alpha")
    assert NAMED in run_cli("pack", QUESTION, "--vault", root, cwd=beta).out
    prompt = run_hook(run_cli, root, "prompt", beta, "", prompt=QUESTION)
    assert prompt.startswith(NAMED)
    assert "zebrafat" not in prompt


def test_a_tool_is_named_to_an_agent_without_a_shell(root: Path, alpha: Path, beta: Path) -> None:
    async def scene(client: object) -> list[str]:
        found = []
        for given in ({}, {"project": "alpha"}, {"project": "all"}, {"project": "nowhere"}):
            done = await client.call_tool("recall", {"query": QUESTION, **given})  # type: ignore[attr-defined]
            found.append(done.content[0].text)
        return found

    here, alone, everywhere, nowhere = play_in(root, beta, scene)
    assert 'project alpha has a better answer; call recall with project "alpha"' in here
    assert "zebrafat" not in here
    assert "zebrafat" in alone
    assert "zebrafat" in everywhere
    assert "no such project" in nowhere


def test_an_agent_reads_no_queries_of_another_project(
    root: Path, alpha: Path, beta: Path, run_cli: RunCli
) -> None:
    for folder, question in ((alpha, QUESTION), (beta, "what does a ticket cost")):
        run_cli("recall", question, "--vault", root, cwd=folder)

    async def scene(client: object) -> str:
        found = []
        for action in ("queries", "stats"):
            done = await client.call_tool("history", {"action": action})  # type: ignore[attr-defined]
            found.append(done.content[0].text)
        return "\n".join(found)

    told = play_in(root, beta, scene)
    assert "what does a ticket cost" in told
    assert "ticket.md" in told
    assert "winch" not in told


def test_a_caller_that_names_a_session_of_another_project_reads_no_queries_of_it(
    root: Path, alpha: Path, beta: Path, opened: Open
) -> None:
    questions = {"alpha": (QUESTION, "zulu"), "beta": ("what does a ticket cost", "xray")}
    for folder in (alpha, beta):
        name = folder.name
        vault = opened(root, agent="claude", session=f"s-{name}", here=folder)
        sync_vault(vault)
        for question in questions[name]:
            run_query(vault, Query(question))
    views = {
        name: view_project(opened(root, agent="claude", session=f"s-{name}", here=folder))
        for name, folder in (("beta", beta), ("new", beta))
    }
    asked = {
        (viewer, name): [each.showing.call.query for each in list_recent(view, 9, session=name)]
        for viewer, view in views.items()
        for name in ("s-alpha", "s-beta", "")
    }
    found, missed = questions["beta"]
    assert asked == {
        ("beta", "s-alpha"): [],
        ("beta", "s-beta"): [missed, found],
        ("beta", ""): [missed, found],
        ("new", "s-alpha"): [],
        ("new", "s-beta"): [found],
        ("new", ""): [found],
    }
    failed = {
        (viewer, name): [query for query, _ in read_stats(view, name).failed]
        for viewer, view in views.items()
        for name in ("s-alpha", "")
    }
    assert failed == {
        ("beta", "s-alpha"): [],
        ("beta", ""): [missed],
        ("new", "s-alpha"): [],
        ("new", ""): [],
    }


def test_an_unknown_name_suggests_no_note_of_another_project(
    root: Path, alpha: Path, beta: Path, run_cli: RunCli
) -> None:
    asked = [
        "show",
        "blame",
        "history",
        "links",
        "forget",
        "promote",
        "supersede rule",
        "edit",
        "pin",
    ]
    for words in map(str.split, asked):
        for folder, is_shown in ((alpha, True), (beta, False), (root, True)):
            done = run_cli(*words, "wimch", "--vault", root, cwd=folder)
            assert done.code != 0, words
            assert ("winch" in done.err) is is_shown, (words, done.err)
    assert "ticket" in run_cli("show", "tickte", "--vault", root, cwd=beta).err

    async def scene(client: object) -> str:
        done = await client.call_tool("read_note", {"path": "wimch"})  # type: ignore[attr-defined]
        return str(done.content[0].text)

    assert "winch" not in play_in(root, beta, scene)


def test_a_name_of_several_notes_names_none_of_another_project(
    root: Path, alpha: Path, beta: Path, run_cli: RunCli
) -> None:
    for name in ("alpha", "beta"):
        head = f"---\nproject: {name}\nkind: semantic_fact\n---\n"
        write_notes(root, {f"notes/{name}/lamp.md": f"{head}The lamp is green.\n"})
    told = {
        folder: run_cli("show", "lamp", "--vault", root, cwd=folder).err
        for folder in (alpha, beta, root)
    }
    several = 'vaultmem: error: "lamp" could be '
    assert told[beta] == f"{several}notes/beta/lamp.md, 1 note of other projects; name one\n"
    assert told[root] == f"{several}notes/alpha/lamp.md, notes/beta/lamp.md; name one\n"


def test_unknown_sessions_tasks_and_tags_suggest_none_of_another_project(
    root: Path, alpha: Path, beta: Path, run_cli: RunCli
) -> None:
    agent = {"VAULTMEM_AGENT": "claude"}
    for words in (
        ["session", "start", "--id", "s-winch"],
        ["task", "add", "winch"],
        ["remember", "Ropes are tarred.", "--tag", "winches", "--force"],
    ):
        done = run_cli(*words, "--vault", root, cwd=alpha, env=agent)
        assert done.code == 0, done.err
    asked = (
        ["session", "show", "s-wimch"],
        ["task", "show", "wimch"],
        ["list", "--tag", "wimches"],
    )
    for words in asked:
        for folder, is_shown in ((alpha, True), (beta, False), (root, True)):
            done = run_cli(*words, "--vault", root, cwd=folder)
            assert ("winch" in done.err) is is_shown, (words, folder.name, done.err)


def test_a_review_shows_and_promotes_no_notes_of_another_project(
    root: Path, alpha: Path, beta: Path, run_cli: RunCli
) -> None:
    for name in ("alpha", "beta"):
        head = f"---\nkind: semantic_fact\nstate: candidate\nproject: {name}\n---\n"
        write_notes(root, {f"notes/of-{name}.md": f"{head}The lamp of {name} is green.\n"})
    asked = ("review", "--only", "candidate", "--vault", root)
    shown = run_cli(*asked, cwd=beta).out
    assert "of-beta" in shown
    assert "of-alpha" not in shown
    outside = run_cli(*asked, cwd=root).out
    assert "of-beta" in outside
    assert "of-alpha" in outside
    for folder, count in ((beta, 1), (root, 2)):
        status = run_cli("status", "--json", "--vault", root, cwd=folder).json
        assert status["to_decide"] == {"candidate": count}
    assert run_cli(*asked, "--accept-all", cwd=beta).code == 0
    left = run_cli(*asked, cwd=root).out
    assert "of-alpha" in left
    assert "of-beta" not in left


def test_a_project_that_only_notes_name_is_not_global(
    root: Path, alpha: Path, beta: Path, run_cli: RunCli
) -> None:
    """A table that lost an entry does not show its notes in other projects."""
    write_notes(
        root,
        {
            "notes/paint.md": "---\nproject: Kitchen\n---\nThe walls become quokkablue.\n",
        },
    )
    asked = ("recall", "which colour do the walls become", "--vault", root)
    inside = run_cli(*asked, cwd=beta).out
    assert "quokkablue" not in inside
    assert "quokkablue" in run_cli(*asked, "--project", "kitchen", cwd=beta).out
    assert "quokkablue" in run_cli(*asked, cwd=root).out


def test_outside_a_project_nothing_is_left_out(
    root: Path, alpha: Path, beta: Path, run_cli: RunCli, tmp_path: Path
) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    for folder in (root, plain):
        assert "zebrafat" in run_cli("recall", QUESTION, "--vault", root, cwd=folder).out
        listed = run_cli("list", "--vault", root, "--json", cwd=folder).json["notes"]
        assert {each["path"] for each in listed} >= set(NOTES)


def test_a_new_repository_shows_global_notes_only(
    root: Path, alpha: Path, run_cli: RunCli, tmp_path: Path
) -> None:
    folder = make_repository(tmp_path / "new")
    told = run_cli("recall", QUESTION, "--vault", root, cwd=folder).out
    assert NAMED in told
    assert "zebrafat" not in told
    assert "British" in run_cli("recall", "British English", "--vault", root, cwd=folder).out
    assert "zebrafat" not in run_hook(run_cli, root, "prompt", folder, "", prompt=QUESTION)
    (root / "projects.yaml").unlink()
    assert "zebrafat" in run_cli("recall", QUESTION, "--vault", root, cwd=folder).out


def test_lists_show_the_project_unless_told_otherwise(
    root: Path, alpha: Path, beta: Path, run_cli: RunCli
) -> None:
    for folder, project in ((alpha, "alpha"), (beta, "beta")):
        given = ("--vault", root)
        assert run_cli("task", "add", f"Oil {project}", *given, cwd=folder).code == 0
        goal = ("session", "start", "--goal", f"Look at {project}")
        assert run_cli(*goal, *given, cwd=folder).code == 0
    for words in (["list"], ["task", "list"], ["session", "list"]):
        given = ("--vault", root, "--json")
        own = run_cli(*words, *given, cwd=beta).out
        everything = run_cli(*words, *given, "--project", "all", cwd=beta).out
        named = run_cli(*words, *given, "--project", "alpha", cwd=beta).out
        assert [find_projects(text) for text in (own, everything, named)] == [
            {"beta"},
            {"alpha", "beta"},
            {"alpha"},
        ]
    assert "Oil beta" in run_cli("task", "show", "--vault", root, cwd=beta).out
    assert "Oil alpha" in run_cli("task", "show", "--vault", root, cwd=alpha).out


def find_projects(text: str) -> set[str]:
    """Return the projects whose tasks, goals or notes are in a text."""
    signs = {"alpha": ("oil-alpha", "Look at alpha"), "beta": ("oil-beta", "Look at beta")}
    return {name for name, own in signs.items() if any(sign in text for sign in own)}


def test_generated_files_show_the_project_of_their_folder(
    root: Path, alpha: Path, beta: Path, opened: Open, home: Path
) -> None:
    files = [alpha / "AGENTS.md", beta / "AGENTS.md", home / "AGENTS.md"]
    for file in files:
        file.write_text(f"{BEGIN}\n{END}\n")
    with open(root / "vaultmem.yaml", "a") as settings:
        settings.write(f"inject_context_into: {json.dumps([str(file) for file in files])}\n")
    vault = opened(root)
    sync_vault(vault)
    assert [each.problem for each in render_contexts(vault)] == [""] * 4
    shown = [file.read_text() for file in [*files, root / "CONTEXT.md"]]
    assert ["zebrafat" in text for text in shown] == [True, False, False, False]
    assert ["nine yak" in text for text in shown] == [False, True, False, False]
    assert all("British English" in text for text in shown)


def test_a_dream_does_not_copy_a_project_into_memory_md(make_vault: Make, opened: Open) -> None:
    clock = Clock()
    vault = opened(make_vault(), agent="claude", now=clock)
    for project, word in (("alpha", "bell"), ("", "gong")):
        text = f"The {word} rings at seven in the morning."
        remember(vault, Memory(text, title=word, state=NoteState.CANDIDATE, project=project))
        for question in (f"when does the {word} ring", f"{word} in the morning", f"what {word}"):
            assert ask(vault, question)
            clock.pass_days(1)
    done = dream(vault)
    assert {each.title for each in done.promoted} == {"bell", "gong"}
    memory = (vault.root / "MEMORY.md").read_text()
    assert "[[gong]]" in memory
    assert "bell" not in memory


def test_an_empty_vault_adds_nothing_to_a_prompt(
    make_vault: Make, run_cli: RunCli, tmp_path: Path
) -> None:
    root, folder = make_vault(), make_repository(tmp_path / "code")
    assert run_hook(run_cli, root, "prompt", folder, "", prompt=QUESTION) == ""


def test_a_companion_that_does_not_know_the_project_shows_global_notes(
    root: Path, beta: Path, make_vault: Make, opened: Open
) -> None:
    from vaultmem.services.projects.scope import view_projects

    other = opened(make_vault(NOTES, "other"))
    own = opened(root, here=beta)
    found = view_projects([own, replace(other, name="other")])
    assert [each.view.project for each in found] == ["beta", ""]
    assert [each.view.project for each in view_projects([own, other], "all")] == [None, None]
