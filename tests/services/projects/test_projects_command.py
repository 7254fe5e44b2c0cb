"""`vaultmem projects`: list, rename, move and infer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import Make, RunCli
from projects_world import make_repository, read_project, run_git, work_in, write_transcript

NOTES = {
    "notes/berths.md": "---\nproject: harbour\nkind: decision\n---\nBerths are booked.\n",
    "notes/ebb.md": "The ebb takes six hours.\n",
    "notes/odd.md": "---\nproject: kitchen\n---\nPaint it blue.\n",
    "MEMORY.md": "# Memory\n",
}


@pytest.fixture
def code(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "code/harbour", remote="git@github.com:holm/harbour.git")


def commits(root: Path) -> list[str]:
    return run_git(root, "log", "--format=%s").splitlines()


def test_projects_are_listed_with_counts(make_vault: Make, code: Path, run_cli: RunCli) -> None:
    root = make_vault(NOTES)
    empty = run_cli("projects", "--vault", root, cwd=root.parent)
    assert "kitchen" in empty.out
    work_in(run_cli, root, code, "s-1", "Book the berths by the hour")
    listed = run_cli("projects", "--vault", root, "--json", cwd=code).json
    assert listed["global_notes"] == 3  # With MEMORY.md and USER.md
    found = {each["name"]: each for each in listed["projects"]}
    assert found["harbour"] == {
        "name": "harbour",
        "root": run_git(code, "rev-parse", "HEAD"),
        "remotes": ["github.com/holm/harbour"],
        "paths": [],
        "notes": 1,
        "sessions": 1,
        "here": True,
        "listed": True,
    }
    assert not found["kitchen"]["listed"]
    shown = run_cli("projects", "--vault", root, cwd=code).out
    assert "harbour  1 note, 1 session  (here)\n" in shown
    assert "github.com/holm/harbour" in shown
    assert "global: 3 notes" in shown


def test_a_project_is_renamed_in_one_commit(make_vault: Make, code: Path, run_cli: RunCli) -> None:
    root = make_vault(NOTES)
    work_in(run_cli, root, code, "s-1", "Book the berths by the hour")
    before = commits(root)
    done = run_cli("projects", "rename", "harbour", "port", "--vault", root, "--json")
    assert done.code == 0, done.err
    assert sorted(done.json["notes"]) == ["notes/berths.md", "sessions/s-1.md"]
    assert commits(root)[1:] == before
    assert run_git(root, "status", "--porcelain") == ""
    assert read_project(root / "sessions/s-1.md") == "port"
    assert (root / "notes/berths.md").read_text() == NOTES["notes/berths.md"].replace(
        "harbour", "port"
    )
    told = run_cli("remember", "x y z", "--vault", root, "--json", cwd=code)
    assert told.json["project"] == "port"
    for words, problem in (
        (("nowhere", "x"), "no such project"),
        (("port", "all"), "cannot be a project's name"),
    ):
        refused = run_cli("projects", "rename", *words, "--vault", root)
        assert refused.code in {4, 5}
        assert problem in refused.err


def test_a_name_that_is_taken_joins_two_projects(
    make_vault: Make, code: Path, run_cli: RunCli, tmp_path: Path
) -> None:
    root = make_vault()
    moved = tmp_path / "code/moved"
    run_git(code.parent, "clone", "-q", "harbour", "moved")
    run_git(moved, "remote", "set-url", "origin", "git@gitlab.com:new/harbour.git")
    other = make_repository(tmp_path / "code/tides")
    for place in (code, moved, other):
        run_cli("remember", f"A fact of {place.name} alone.", "--vault", root, cwd=place)
    run_cli("checkpoint", "Facts", "--vault", root)
    refused = run_cli("projects", "rename", "tides", "harbour", "--vault", root)
    assert (refused.code, "two repositories" in refused.err) == (5, True)
    done = run_cli("projects", "rename", "new-harbour", "harbour", "--vault", root)
    assert done.code == 0, done.err
    table = (root / "projects.yaml").read_text()
    assert table.count("- name") == 2
    for place in (code, moved):
        found = run_cli("projects", "--vault", root, "--json", cwd=place).json["projects"]
        assert [each["notes"] for each in found if each["here"]] == [2]


def test_notes_are_moved_in_bulk(make_vault: Make, code: Path, run_cli: RunCli) -> None:
    root = make_vault(NOTES)
    run_cli("remember", "Cranes lift nine tonnes.", "--vault", root, cwd=code)
    run_cli("checkpoint", "Cranes", "--vault", root)
    before = commits(root)
    words = ["projects", "move", "ebb", "notes/odd.md", "MEMORY.md", "--vault", root]
    assert run_cli(*words, "--to", "harbour").code == 0
    for path in ("notes/ebb.md", "notes/odd.md", "MEMORY.md"):
        assert read_project(root / path) == "harbour"
    assert commits(root)[1:] == before
    assert run_cli(*words, "--to", "global").code == 0
    assert (root / "notes/odd.md").read_text() == "---\n---\nPaint it blue.\n"
    again = run_cli(*words, "--to", "global")
    assert again.out == "nothing to change\n"
    assert len(commits(root)) == len(before) + 2
    refused = run_cli(*words, "--to", "harbor")
    assert (refused.code, "did you mean harbour" in refused.err) == (4, True)


def test_projects_of_old_notes_are_inferred_from_their_sessions(
    make_vault: Make, code: Path, run_cli: RunCli, tmp_path: Path
) -> None:
    old = "---\nkind: episodic_trace\nstatus: ok\nstarted: 2026-11-01\n"
    other = make_repository(tmp_path / "code/tides")
    root = make_vault(
        {
            "sessions/known.md": f"{old}project: harbour\n---\n# Known\n",
            "sessions/here.md": f"{old}workspace: tides\n---\n# Here\n",
            "sessions/away.md": f"{old}workspace: harbour\n---\n# Away\n",
            "notes/a.md": "---\nsession: known\n---\nCranes lift.\n",
            "notes/b.md": "---\nsession: here\nkind: decision\n---\nEbb is six.\n",
            "notes/c.md": "---\nsession: away\n---\nSilent.\n",
            "notes/d.md": "---\nsession: known\nkind: preference\n---\nShort answers.\n",
            "notes/e.md": "---\nsession: known\nproject: shop\n---\nSold out.\n",
            "notes/f.md": "No session.\n",
            "tasks/t.md": '---\nstatus: open\nsessions:\n  - "[[sessions/here]]"\n---\n# Draw\n',
        }
    )
    transcript = write_transcript(tmp_path / "here.jsonl", other, "here", ("user", "Hello there"))
    payload = {"session_id": "here", "cwd": str(other), "source": "resume"}
    payload["transcript_path"] = str(transcript)
    words = ["hook", "session-start", "--vault", root, "--wait"]
    assert run_cli(*words, stdin=json.dumps(payload), cwd=other).code == 0
    run_cli("session", "close", "here", "--vault", root, "--agent", "claude-code")
    before = commits(root)
    dry = run_cli("projects", "--infer", "--vault", root, "--json").json
    assert [(each["path"], each["project"]) for each in dry["proposals"]] == [
        ("notes/a.md", "harbour"),
        ("notes/b.md", "tides"),
        ("sessions/here.md", "tides"),
        ("tasks/t.md", "tides"),
    ]
    assert (dry["new_projects"], dry["commit"]) == (["tides"], None)
    assert not (root / "projects.yaml").exists()
    done = run_cli("projects", "--infer", "--apply", "--vault", root)
    assert done.code == 0, done.err
    assert read_project(root / "notes/b.md") == "tides"
    assert read_project(root / "notes/c.md") == ""
    assert commits(root)[1:] == before
    assert run_git(root, "status", "--porcelain") == ""
    assert "no session knows" in run_cli("projects", "--infer", "--vault", root).out
    assert run_cli("projects", "--apply", "--vault", root).code == 2
