"""What was last done in a project is told wherever its folder is, by real hooks."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Make, RunCli
from machines import MakeMachines
from projects_world import make_repository, read_project, run_git, run_hook, work_in

GOAL = "Book the berths by the hour instead of by the day"


@pytest.fixture
def code(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "code/harbour", remote="git@github.com:holm/harbour.git")


def move(code: Path) -> Path:
    return code.rename(code.parent / "renamed")


def add_tree(code: Path) -> Path:
    run_git(code, "worktree", "add", "-q", "../tree", "-b", "side")
    return code.parent / "tree"


def clone(code: Path) -> Path:
    run_git(code.parent, "clone", "-q", "harbour", "second")
    return code.parent / "second"


def clone_from_host(code: Path) -> Path:
    made = clone(code)
    run_git(made, "remote", "set-url", "origin", "https://github.com/holm/harbour")
    return made


def clone_without_history(code: Path) -> Path:
    run_git(code, "commit", "-q", "--allow-empty", "-m", "More")
    run_git(code.parent, "clone", "-q", "--depth=1", f"file://{code}", "shallow")
    made = code.parent / "shallow"
    run_git(made, "remote", "set-url", "origin", "https://github.com/holm/harbour")
    return made


WAYS = [move, add_tree, clone, clone_from_host, clone_without_history]


@pytest.mark.parametrize("way", WAYS)
def test_last_time_is_told_wherever_the_project_is(
    root: Path, code: Path, run_cli: RunCli, way: object
) -> None:
    assert "Last time here" not in work_in(run_cli, root, code, "s-1", GOAL)
    assert read_project(root / "sessions/s-1.md") == "harbour"
    place = way(code)  # type: ignore[operator]
    told = run_hook(run_cli, root, "session-start", place, "s-2", source="startup")
    assert "# Last time here" in told
    assert GOAL in told
    assert read_project(root / "sessions/s-2.md") == "harbour"


def test_a_fork_and_another_project_are_told_nothing(
    root: Path, code: Path, run_cli: RunCli, tmp_path: Path
) -> None:
    work_in(run_cli, root, code, "s-1", GOAL)
    fork = clone(code)
    run_git(fork, "remote", "set-url", "origin", "https://github.com/tuuli/harbour")
    other = make_repository(tmp_path / "elsewhere/harbour", "raise\n")
    for number, place in enumerate((fork, other)):
        told = run_hook(run_cli, root, "session-start", place, f"o-{number}", source="startup")
        assert "Last time here" not in told
        assert GOAL not in told


def test_a_restore_goes_on_in_a_moved_folder(root: Path, code: Path, run_cli: RunCli) -> None:
    run_hook(run_cli, root, "session-start", code, "s-1", source="startup")
    agent = ["--vault", root, "--agent", "claude-code"]
    (code / "main.py").write_text("changed\n")
    for words in (("summarize", GOAL), ("touch", "main.py"), ("mark-restore",)):
        assert run_cli("session", *words, "--session", "s-1", *agent, cwd=code).code == 0
    moved = move(code)
    told = run_hook(run_cli, root, "session-start", moved, "s-2", source="startup")
    assert GOAL in told
    assert "continues:\n" in (root / "sessions/s-2.md").read_text()
    restored = run_cli("session", "restore", "s-1", *agent, cwd=moved)
    assert "main.py" in restored.out
    assert "not committed" in restored.out


def test_sessions_from_before_projects_are_matched_by_folder(
    make_vault: Make, code: Path, run_cli: RunCli
) -> None:
    old = f"---\nkind: episodic_trace\nstatus: ok\nstarted: 2026-11-01\ngoal: {GOAL}\n"
    root = make_vault({"sessions/old.md": f"{old}workspace: harbour\n---\n# {GOAL}\n"})
    told = run_hook(run_cli, root, "session-start", code, "s-1", source="startup")
    assert GOAL in told
    again = run_hook(run_cli, root, "session-start", move(code), "s-2", source="startup")
    assert GOAL not in again


def test_two_work_trees_have_two_sessions_and_both_are_shown(
    root: Path, code: Path, run_cli: RunCli
) -> None:
    goals = {"s-1": "Repair the crane of the east quay", "s-2": "Paint the signs of the west quay"}
    places = {"s-1": code, "s-2": add_tree(code)}
    for session, place in places.items():
        run_hook(run_cli, root, "session-start", place, session, source="startup")
        words = ["session", "add", "summary", goals[session], "--session", session]
        assert run_cli(*words, "--vault", root, "--agent", "claude-code", cwd=place).code == 0
    found = [
        run_cli("session", "show", "--json", "--vault", root, "--agent", "claude-code", cwd=place)
        for place in places.values()
    ]
    assert [each.json["session"] for each in found] == ["s-1", "s-2"]
    told = run_hook(run_cli, root, "session-start", clone(code), "s-3", source="startup")
    assert goals["s-2"] in told
    assert "Also open: " in told
    assert "(in harbour, s-1)" in told


def test_another_machine_is_told_through_sync(
    make_machines: MakeMachines, code: Path, tmp_path: Path, run_cli: RunCli
) -> None:
    anna, ben = make_machines().all
    own = make_repository(tmp_path / "ben/tides")
    work_in(run_cli, ben.root, own, "b-1", "Draw the curve of the tides", env=ben.env)
    work_in(run_cli, anna.root, code, "a-1", GOAL, env=anna.env)
    for machine in (anna, ben, anna):
        done = machine.run("sync")
        assert done.code == 0, done.err
        assert "conflict" not in done.out
    there = clone_from_host(code)
    told = run_hook(run_cli, ben.root, "session-start", there, "b-2", source="startup", env=ben.env)
    assert GOAL in told
    assert "Draw the curve" not in told
    for machine in (anna, ben):
        assert machine.read("projects.yaml").count("- name: ") == 2
