"""Which agent wrote what plain git committed is known on other machines, and after a purge."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import Make
from in_process import run_here
from machines import Machine, Machines, MakeMachines
from support import git, write_notes

from vaultmem.storage.git.machine_refs import REFS

NOTES = {"notes/pier.md": "# Pier\n\nThe pier is of oak.\n"}
SAID = "The crane of the pier lifts four tonnes."


def commit_by_git(machine: Machine, said: str = SAID) -> tuple[str, str]:
    """Have an agent write a note that plain git commits; return its path and the commit."""
    told = machine.run("--agent", "codex", "remember", said, "--session", "s-1", "--json").json
    machine.git("add", "-A")
    machine.git("commit", "-q", "-m", "vault backup")
    return told["path"], machine.git("rev-parse", "HEAD")


def blame(machine: Machine, path: str, said: str = SAID) -> dict[str, Any]:
    """Return the origin of a line."""
    lines = machine.run("blame", path, "--json").json
    return next(each for each in lines if each["text"] == said)


def claim(machines: Machines, who: str, commit: str, path: str, agent: str, email: str = "") -> str:
    """Push a machine's ref of somebody, which claims that an agent wrote a file of a commit."""
    folder = machines.remote.parent / f"made-by-{who}"
    row = {"path": path, "lines": "", "agent": agent, "session": "", "tool_call": ""}
    write_notes(folder, {
        "machine.json": json.dumps({"vault": "", "host": "annas-laptop", "words": False}),
        f"attribution/{commit[:2]}.json": json.dumps({commit: [json.dumps(row)]}),
    })  # fmt: skip
    git(folder, "init", "-q")
    git(folder, "add", "--all")
    git(folder, "-c", f"user.name={who}", "-c", f"user.email={email or f'{who}@example.org'}",
        "commit", "-q", "-m", "x")  # fmt: skip
    ref = f"{REFS}{'c' * 16}.1"
    git(folder, "push", "-q", str(machines.remote), f"HEAD:{ref}")
    return ref


@pytest.mark.campaign
@pytest.mark.parametrize("is_own", [False, True])
def test_what_plain_git_committed_is_the_agents_on_every_machine_that_syncs(
    make_machines: MakeMachines, is_own: bool
) -> None:
    machines = make_machines(NOTES, count=3)
    if is_own:
        machines.make_own()
    anna, ben, cleo = machines.all
    path, commit = commit_by_git(anna)
    for machine in machines.all:
        assert machine.run("sync", "--json").json["outcome"] == "synced"
    (ref,) = anna.git("for-each-ref", "--format=%(refname)", REFS).split()
    host = subprocess.run(["uname", "-n"], capture_output=True, text=True).stdout.strip()
    named = f"{host if is_own else 'anna'} ({ref[len(REFS) :][:6]})"

    here = blame(anna, path)
    assert (here["who"], here["session"], here["claimed_by"]) == ("codex", "s-1", None)
    for machine in (ben, cleo):
        line = blame(machine, path)
        assert (line["commit"], line["author"], line["who"]) == (commit, "anna", "codex")
        assert (line["agent"], line["session"]) == ("codex", "s-1")
        assert line["claimed_by"] == named
        assert f"codex, claimed by {named}" in machine.run("blame", path).out
        (step,) = machine.run("trace", SAID, "--json").json["grounds"][0]["steps"]
        assert (step["who"], step["claimed_by"]) == ("codex", named)
        assert f"codex, claimed by {named}" in machine.run("trace", SAID).out
        (version,) = machine.run("history", path, "--json").json["versions"]
        assert (version["who"], version["claimed_by"]) == ("codex", named)
        assert f"codex, claimed by {named}" in machine.run("history", path).out
        assert f"claimed by  {named}" in machine.run("show", commit).out
    assert ben.run("blame", "notes/pier.md", "--json").json[2]["claimed_by"] is None


@pytest.mark.campaign
def test_lines_that_a_person_changed_stay_the_persons_on_other_machines(
    make_machines: MakeMachines,
) -> None:
    anna, ben = make_machines(NOTES).all
    path = anna.run("--agent", "codex", "remember", SAID, "--json").json["path"]
    anna.write(path, f"{anna.read(path)}It was tested.\n")
    anna.git("add", "-A")
    anna.git("commit", "-q", "-m", "vault backup")
    for machine in (anna, ben):
        machine.run("sync")

    assert blame(ben, path)["who"] == "codex"
    theirs = blame(ben, path, "It was tested.")
    assert (theirs["who"], theirs["claimed_by"]) == ("anna", None)


@pytest.mark.campaign
@pytest.mark.parametrize("who", ["ben", "anna"])
def test_only_a_commits_own_author_says_which_agent_wrote_it(
    make_machines: MakeMachines, who: str
) -> None:
    machines = make_machines(NOTES)
    anna, cleo = machines.all
    anna.write("notes/pier.md", f"# Pier\n\n{SAID}\n")
    anna.git("commit", "-q", "-am", "by hand")
    anna.git("push", "-q")
    commit = anna.git("rev-parse", "HEAD")
    ref = claim(machines, who, commit, "notes/pier.md", "codex")
    assert cleo.run("sync").code == 0

    line = blame(cleo, "notes/pier.md")
    claimed = f"anna ({'c' * 6})"
    assert (line["who"], line["claimed_by"]) == {"ben": ("anna", None), "anna": ("codex", claimed)}[
        who
    ]
    assert "annas-laptop" not in cleo.run("blame", "notes/pier.md").out
    for remove in (machines.git, cleo.git):
        remove("update-ref", "-d", ref)
    assert cleo.run("sync").code == 0
    assert blame(cleo, "notes/pier.md")["who"] == "anna"  # It is no claim any more.


@pytest.mark.campaign
def test_what_a_machine_knows_itself_counts_before_what_others_claim(
    make_machines: MakeMachines,
) -> None:
    machines = make_machines(NOTES)
    anna, _ = machines.all
    path, commit = commit_by_git(anna)
    assert anna.run("sync").code == 0
    claim(machines, "anna", commit, path, "claude")
    assert anna.run("sync").code == 0

    line = blame(anna, path)
    assert (line["who"], line["claimed_by"]) == ("codex", None)


@pytest.mark.campaign
def test_a_claim_makes_no_agents_commit_a_persons(make_machines: MakeMachines) -> None:
    machines = make_machines(NOTES)
    anna, ben = machines.all
    path = anna.run("--agent", "codex", "remember", SAID, "--json").json["path"]
    anna.run("--agent", "codex", "checkpoint", "said")
    anna.run("sync")
    commit = blame(anna, path)["commit"]
    # An agent's commit names it; a claim about another file of it would leave this one unnamed.
    claim(machines, "codex", commit, "notes/pier.md", "claude", "codex@agents.localhost")
    assert ben.run("sync").code == 0

    assert blame(ben, path)["who"] == "codex"


@pytest.mark.campaign
def test_claims_that_are_none_stop_nothing(make_machines: MakeMachines) -> None:
    machines = make_machines(NOTES)
    anna, ben = machines.all
    path, commit = commit_by_git(anna)
    anna.run("sync")
    folder = machines.remote.parent / "odd"
    blob = anna.git("rev-parse", "HEAD:notes/pier.md")
    rows = {commit: ["[", 1, None, "{}", '{"path": 1}'], blob: ["x"], "1" * 40: [], "HEAD": ["x"]}
    write_notes(folder, {
        "machine.json": '{"vault": ""}',
        "attribution/00.json": json.dumps(rows),
        "attribution/01.json": "[" * 100_000,
        "attribution/02.json": "[1]",
        "attribution/03.json": '{"a": 1}',
    })  # fmt: skip
    git(folder, "init", "-q")
    git(folder, "add", "--all")
    git(folder, "commit", "-q", "-m", "x")
    git(folder, "push", "-q", str(machines.remote), f"HEAD:{REFS}{'d' * 16}.1")

    assert ben.run("sync").code == 0
    assert blame(ben, path)["who"] == "codex"


def filter_repo(root: Path, *words: str) -> None:
    """Rewrite history as the steps of a purge say it."""
    command = [sys.executable, "-m", "git_filter_repo", "--force", *words]
    subprocess.run(command, cwd=root, check=True, capture_output=True)


def _blame(root: Path, path: str, said: str) -> str:
    lines = run_here("blame", path, "--json", cwd=root).json
    return str(next(each["who"] for each in lines if each["text"] == said))


@pytest.mark.campaign
@pytest.mark.parametrize("is_watched", [False, True])
def test_a_purge_keeps_who_wrote_what_plain_git_committed(
    make_vault: Make, tmp_path: Path, is_watched: bool
) -> None:
    root = make_vault(NOTES)
    said = [f"Crane {n} of the pier lifts {n} tonnes." for n in (1, 2, 3)]
    paths = []
    for text in said:
        told = run_here("--agent", "codex", "remember", text, "--force", "--json", cwd=root).json
        paths.append(told["path"])
        if text != said[1]:  # The second and the third are of one commit.
            git(root, "add", "-A")
            git(root, "commit", "-q", "-m", "vault backup")
            run_here("index", cwd=root)
    old = git(root, "notes", "--ref=vaultmem", "list")
    assert old.count("\n") == 1
    (tmp_path / "words.txt").write_text("vault backup==>backup\n")

    filter_repo(root, "--invert-paths", f"--path={paths[1]}", "--path=notes/pier.md")
    if is_watched:  # Somebody asks in between.
        assert _blame(root, paths[2], said[2]) == "codex"
    filter_repo(root, "--replace-message", str(tmp_path / "words.txt"))

    assert _blame(root, paths[0], said[0]) == "codex"
    assert _blame(root, paths[2], said[2]) == "codex"
    notes = git(root, "notes", "--ref=vaultmem", "list").split()
    assert set(notes[1::2]) == set(git(root, "rev-list", "HEAD", f"^{_first(root)}").split())
    held = git(root, "log", "--format=", "-p", "refs/notes/vaultmem")
    assert paths[2] in held
    assert paths[1] not in held  # Not even its name is left here.
    written = git(root, "rev-parse", "refs/notes/vaultmem")
    git(root, "commit", "-q", "--allow-empty", "-m", "more")
    run_here("recall", "crane", cwd=root)
    assert git(root, "rev-parse", "refs/notes/vaultmem") == written


def _first(root: Path) -> str:
    return git(root, "rev-list", "--max-parents=0", "HEAD")


def test_a_map_of_another_repository_or_no_map_moves_nothing(make_vault: Make) -> None:
    root = make_vault(NOTES)
    told = run_here("--agent", "codex", "remember", SAID, "--json", cwd=root).json
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "vault backup")
    run_here("index", cwd=root)
    before = git(root, "rev-parse", "refs/notes/vaultmem")
    file = root / ".git/filter-repo/commit-map"
    file.parent.mkdir()
    for text in ("", "old new\n", f"{'a' * 40} {'b' * 40}\nx\n\xff", f"{'a' * 40}\n"):
        file.write_text(text)
        git(root, "commit", "-q", "--allow-empty", "-m", "more")
        assert _blame(root, told["path"], SAID) == "codex"
    assert git(root, "rev-parse", "refs/notes/vaultmem") == before
