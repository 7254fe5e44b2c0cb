"""What is learned in a project has its name: by the shell, MCP, sessions and transcripts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conftest import RunCli
from mcp.shared.exceptions import MCPDeprecationWarning
from projects_world import make_repository, play_in, read_project, run_git, write_transcript
from serving import call


@pytest.fixture
def code(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "code/harbour")


def test_a_memory_has_the_project_of_the_folder(root: Path, code: Path, run_cli: RunCli) -> None:
    def remember(text: str, *options: str, folder: Path = code) -> str:
        done = run_cli(
            "remember", text, "--json", "--vault", root, *options, cwd=folder, env={"AI_AGENT": "x"}
        )
        assert done.code == 0, done.err
        assert read_project(root / done.json["path"]) == done.json["project"]
        return str(done.json["project"])

    assert remember("Berths are booked by the hour.") == "harbour"
    assert remember("The crane lifts nine tonnes.", folder=code / ".git/..") == "harbour"
    assert remember("Maren writes British English.", "--global") == ""
    assert remember("Tides come from a table.", "--project", "tides") == "tides"
    assert remember("Pilots are on call.", "--project", "global") == ""
    assert remember("Never push to main.", "--kind", "policy_rule") == ""
    assert remember("I like short answers.", "--kind", "preference") == ""
    assert remember("Lint first.", "--kind", "policy_rule", "--project", "harbour") == "harbour"
    assert remember("The vault is on a stick.", folder=root) == ""
    names = [line for line in (root / "projects.yaml").read_text().splitlines() if line[0] == "-"]
    assert names == ["- name: harbour", "- name: tides"]
    done = run_cli("remember", "x", "--project", "a", "--global", "--vault", root, cwd=code)
    assert (done.code, "give only one" in done.err) == (5, True)


def test_the_table_is_committed_with_the_memory(root: Path, code: Path, run_cli: RunCli) -> None:
    run_cli("remember", "Berths are booked by the hour.", "--vault", root, cwd=code)
    assert run_cli("checkpoint", "Berths", "--vault", root, cwd=code).code == 0
    assert run_git(root, "status", "--porcelain") == ""
    shown = run_git(root, "show", "--stat=200", "--format=", "HEAD")
    assert "projects.yaml" in shown
    assert shown.count("|") == 2


def test_a_folder_without_git_becomes_a_project_by_its_name(
    root: Path, tmp_path: Path, run_cli: RunCli
) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    words = ["remember", "--json", "--vault", root]
    assert run_cli(*words, "Chairs are blue.", cwd=plain).json["project"] == ""
    named = run_cli(*words, "Tables are red.", "--project", "rooms", cwd=plain)
    assert named.json["project"] == "rooms"
    assert run_cli(*words, "Lamps are green.", cwd=plain).json["project"] == "rooms"


def test_the_same_fact_is_a_note_of_each_project(
    root: Path, code: Path, tmp_path: Path, run_cli: RunCli
) -> None:
    other = make_repository(tmp_path / "code/tides")

    def remember(text: str, folder: Path, *options: str) -> dict[str, Any]:
        done = run_cli("remember", text, "--json", "--vault", root, *options, cwd=folder)
        answer: dict[str, Any] = done.json
        return answer

    text = "Releases are tagged with the day and signed by two people."
    first = remember(text, code)
    second = remember(text, other)
    assert (second["outcome"], second["similar"], second["project"]) == ("created", [], "tides")
    assert remember(text, code)["path"] == first["path"]
    shared = remember(f"{text} Everywhere.", tmp_path, "--global")
    assert shared["outcome"] == "created"
    assert remember(f"{text} Everywhere.", other)["path"] == shared["path"]


def test_a_table_that_cannot_be_read_stops_the_write(
    root: Path, code: Path, run_cli: RunCli
) -> None:
    (root / "projects.yaml").write_text("harbour: x\n")
    done = run_cli("remember", "Berths.", "--vault", root, cwd=code)
    assert (done.code, done.out) == (1, "")
    assert "projects.yaml, line 1" in done.err
    assert (root / "projects.yaml").read_text() == "harbour: x\n"
    assert run_cli("remember", "Berths.", "--global", "--vault", root, cwd=code).code == 0


def test_a_task_and_a_decision_have_the_project(root: Path, code: Path, run_cli: RunCli) -> None:
    assert run_cli("task", "add", "Paint the pier", "--vault", root, cwd=code).code == 0
    assert read_project(next((root / "tasks").iterdir())) == "harbour"
    agent = ["--vault", root, "--agent", "ada"]
    handed = run_cli("task", "handoff", "--note", "The paint is in shed 3.", *agent, cwd=code)
    assert handed.code == 0
    assert read_project(next((root / "handoffs").iterdir())) == "harbour"
    other = make_repository(code.parent / "tides")
    assert run_cli("recall", "paint in the shed", "--json", *agent, cwd=other).json["hits"] == []
    assert run_cli("session", "start", "--id", "s-1", *agent, cwd=code).code == 0
    done = run_cli(
        "session", "add", "decision", "Berths are free.", "--session", "s-1", *agent, cwd=code
    )
    assert done.code == 0
    assert {read_project(each) for each in (root / "notes").rglob("*.md")} == {"harbour"}
    shown = run_cli("session", "show", "s-1", "--json", *agent, cwd=code)
    assert shown.json["project"] == "harbour"
    closed = run_cli("session", "close", "s-1", "--learn", "Oak is hard.", *agent, cwd=code)
    assert "learned  notes/inbox/oak-is-hard.md" in closed.out.splitlines()


def test_a_transcript_has_the_project_of_its_folder(
    root: Path, code: Path, tmp_path: Path, run_cli: RunCli
) -> None:
    folder = tmp_path / "transcripts"
    said = (("user", "How are berths booked here?"), ("assistant", "By the hour."))
    write_transcript(folder / "a.jsonl", code, "t-1", *said)
    write_transcript(folder / "b.jsonl", tmp_path / "gone", "t-2", *said)
    done = run_cli("import", "transcripts", folder, "--vault", root, cwd=tmp_path)
    assert done.code == 0, done.err
    assert read_project(root / "sessions/t-1.md") == "harbour"
    assert read_project(root / "sessions/t-2.md") == ""
    assert run_git(root, "status", "--porcelain") == ""


def test_a_client_of_mcp_works_in_its_first_root(root: Path, code: Path, tmp_path: Path) -> None:
    other = make_repository(tmp_path / "code/tides")
    listed = [Path("/no/such/folder"), other]

    async def scene(client: Any) -> None:
        await call(client, "remember", text="The ebb takes six hours.", tags=["ebb"])
        await call(client, "session", action="start", goal="Count the tides")
        await call(client, "task", action="add", title="Draw the curve")
        listed[:] = [code]
        await client.send_roots_list_changed()
        written = await call(client, "remember", text="Berths are booked by the hour.")
        assert written["message"].endswith(" (active, project harbour).")
        written = await call(client, "remember", text="Maren likes tea.", project="global")
        assert written["message"].endswith(" (active).")

    with pytest.warns(MCPDeprecationWarning, match="roots"):
        play_in(root, tmp_path, scene, listed)
    found = {each.name: read_project(each) for each in (root / "notes").rglob("*.md")}
    assert sorted(found.values()) == ["", "harbour", "tides"]
    for folder in ("sessions", "tasks"):
        assert read_project(next((root / folder).iterdir())) == "tides"


def test_a_client_of_mcp_without_roots_works_in_its_folder(root: Path, code: Path) -> None:
    async def scene(client: Any) -> None:
        await call(client, "remember", text="The ebb takes six hours.")

    play_in(root, code, scene)
    assert read_project(next((root / "notes").rglob("*.md"))) == "harbour"
