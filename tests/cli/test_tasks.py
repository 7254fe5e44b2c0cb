"""Tasks from their first line to whoever goes on with them."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from conftest import Make, RunCli
from jsonschema import Draft202012Validator
from support import git, write_notes

from vaultmem.core.sessions.task import find_ungrounded
from vaultmem.core.text.token_count import count_tokens

SCHEMA = Path(__file__).parents[2] / "docs/reference/task-history.schema.json"


@pytest.fixture
def root(make_vault: Make, tmp_path: Path) -> Path:
    code = tmp_path / "code"
    code.mkdir()
    git(code, "init", "-q")
    write_notes(code, {"pier.py": "planks = 12\n"})
    git(code, "add", ".")
    git(code, "commit", "-q", "-m", "Count the planks")
    return make_vault({"vaultmem.yaml": "code_repository: ../code\n"})


def play_story(root: Path, run_cli: RunCli) -> None:
    """Two sessions of two agents work on one task; the first hands over to the second."""

    def do(*words: str, agent: str = "claude") -> None:
        done = run_cli(*words, "--vault", root, "--agent", agent, cwd=root.parent / "code")
        assert done.code == 0, done.err

    do("task", "add", "Mend the pier", "--next", "Buy oak planks", "--text", "Before winter.")
    do("session", "start", "--id", "p-1", "--goal", "Find out what is broken")
    do("task", "update", "mend", "--status", "doing")
    do("session", "add", "decision", "Oak only, no pine.")
    do("session", "add", "note", "--question", "Who pays for the planks?")
    do("session", "add", "file", "pier.py")
    do("task", "handoff", "mend", "--note", "The west end is done; see [[mend-the-pier]].")
    do("session", "close", "--summary", "The west end is mended.")
    do("session", "start", "--id", "p-2", "--continues", "p-1", agent="codex")
    do("task", "update", "mend", "--status", "blocked", "--next", "Wait for planks", agent="codex")


def ask(run_cli: RunCli, root: Path, *words: str, **settings: Any) -> dict[str, Any]:
    """Ask for a view, and check it against the published schema and its own digest."""
    found: dict[str, Any] = run_cli(*words, "--vault", root, "--json", **settings).json
    Draft202012Validator(json.loads(SCHEMA.read_text())).validate(found)
    full = run_cli("task", "expand", found["artifact"], "--vault", root, "--json").json["text"]
    assert hashlib.sha256(full.encode()).hexdigest() == found["artifact"]
    assert found["tokens"]["sent"] == count_tokens(found["rendered"]) <= found["tokens"]["budget"]
    return found


@pytest.mark.campaign
def test_a_view_gathers_what_notes_and_git_know(root: Path, run_cli: RunCli) -> None:
    play_story(root, run_cli)
    found = ask(run_cli, root, "task", "history", "mend")
    assert (found["task_id"], found["task_title"]) == ("mend-the-pier", "Mend the pier")
    for words in (
        "> Mend the pier: blocked",
        "> Wait for planks",
        "> Before winter.",
        "The west end is done",
        "> Who pays for the planks?",
        "Oak only, no pine",
        "p-1 (claude, ok,",
        "The west end is mended.",
        "p-2 (codex, open,",
        "> pier.py",
        "Count the planks",
        "session-close: Find out what is broken (1 decision, 1 open question) (claude)",
    ):
        assert words in found["rendered"], words
    assert found["summary"].startswith("Mend the pier is blocked. Next: Wait for planks.")
    assert found["support"]["sources"] >= 5
    assert 0 <= found["support"]["newest"] <= found["support"]["oldest"]

    again = ask(run_cli, root, "task", "history", "mend")
    assert (again["rendered"], again["artifact"]) == (found["rendered"], found["artifact"])
    small = ask(run_cli, root, "task", "handoff", "--budget", "200")
    assert "> Wait for planks" in small["rendered"]
    assert "did not fit" in small["rendered"]
    assert small["artifact"] == found["artifact"]


def test_a_summary_of_paragraphs_is_one_line(root: Path, run_cli: RunCli) -> None:
    play_story(root, run_cli)
    for summary in ("The planks are late.", "They come on Monday."):
        run_cli("session", "add", "summary", summary, "--session", "p-2", "--vault", root)
    first = run_cli("task", "history", "mend", "--vault", root).out.splitlines()[0]
    assert "The planks are late. They come on Monday. 1 open question" in first


def test_each_item_of_a_view_has_its_source(root: Path, run_cli: RunCli) -> None:
    play_story(root, run_cli)
    for words in (("task", "history", "mend"), ("session", "report", "p-2")):
        found = ask(run_cli, root, *words)
        lines = found["rendered"].splitlines()
        items = found["support"]["items"]
        assert len(items) == found["support"]["shown"]
        told = {each["source"]: lines[each["line"] - 1] for each in items}
        assert told["sessions/p-2.md"].startswith("> p-2 (codex, open,")
        assert any("Count the planks" in line for line in told.values())
        assert all(line.startswith("> ") for line in told.values())


def test_tasks_of_a_folder_are_those_of_its_project_and_sessions(
    root: Path, run_cli: RunCli, tmp_path: Path
) -> None:
    play_story(root, run_cli)
    run_cli("task", "add", "Paint the hall", "--vault", root, cwd=root)
    other = tmp_path / "other"
    other.mkdir()

    def list_ids(folder: Path | str, cwd: Path) -> list[str]:
        words = ("task", "list", "--workspace", folder, "--json", "--vault", root)
        return [each["id"] for each in run_cli(*words, cwd=cwd).json["tasks"]]

    assert list_ids(root.parent / "code", root) == ["mend-the-pier"]
    assert list_ids("code", root.parent) == ["mend-the-pier"]
    assert list_ids(other, root) == []
    missing = run_cli("task", "list", "--workspace", "nowhere", cwd=root)
    assert (missing.code, "not a folder" in missing.err) == (2, True)


def test_commits_of_the_callers_code_are_in_the_history_of_a_task(
    make_vault: Make, run_cli: RunCli, root: Path
) -> None:
    own = make_vault(name="own")
    run_cli("task", "add", "Mend the pier", "--vault", own, cwd=root.parent / "code")
    words = ("task", "history", "mend", "--vault", own)
    assert "Count the planks" in run_cli(*words, cwd=root.parent / "code").out
    assert "Commits of the code" not in run_cli(*words, cwd=own).out


def test_commits_of_another_project_are_not_in_the_history_of_a_task(
    make_vault: Make, run_cli: RunCli, root: Path, tmp_path: Path
) -> None:
    own, code, other = make_vault(name="own"), root.parent / "code", tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q")
    git(other, "commit", "-q", "--allow-empty", "-m", "Paint the hall")
    run_cli("task", "add", "Mend the pier", "--vault", own, cwd=code)
    run_cli("session", "start", "--id", "s-1", "--goal", "Mend", "--vault", own, cwd=code)
    named = ("--session", "s-1", "--vault", own)
    assert run_cli("task", "update", "mend", "--next", "Count", *named, cwd=code).code == 0

    here, there = (
        run_cli("task", "history", "mend", "--vault", own, cwd=folder).out
        for folder in (code, other)
    )

    assert "Count the planks" in here
    assert "Commits of the code" not in there
    assert "## Next" in there


@pytest.mark.campaign
def test_a_family_is_what_follows_one_another(root: Path, run_cli: RunCli) -> None:
    play_story(root, run_cli)
    run_cli("session", "start", "--id", "other", "--goal", "Paint", "--vault", root, "--fresh")
    lane = ask(run_cli, root, "session", "report", "p-2")
    assert "p-1 (claude" in lane["rendered"]
    assert "other" not in lane["rendered"]
    assert lane["task_id"] is None
    everything = ask(run_cli, root, "session", "report")
    assert "other" in everything["rendered"]
    about = ask(run_cli, root, "session", "report", "--query", "west end mended")
    assert "p-1 (claude" in about["rendered"]
    assert "other" not in about["rendered"]
    nothing = ask(run_cli, root, "session", "report", "--to", "2020-01-01")
    assert nothing["support"]["entries"] == 0
    assert run_cli("session", "report", "--from", "01/02/2026", "--vault", root).code == 5
    assert run_cli("session", "report", "none", "--vault", root).code == 4


@pytest.mark.campaign
def test_a_person_edits_a_task_and_is_not_written_over(root: Path, run_cli: RunCli) -> None:
    run_cli("task", "add", "Mend the pier", "--vault", root)
    file = root / "tasks/mend-the-pier.md"
    text = file.read_text().replace("status: open", "status:   doing  # mine")
    file.write_text(text + "\nMy own line.\n")
    run_cli("task", "update", "mend", "--next", "Buy planks", "--vault", root)
    after = file.read_text()
    assert "status:   doing  # mine" in after
    assert after.endswith("\nMy own line.\n")
    assert "next: Buy planks" in after
    shown = run_cli("task", "show", "mend", "--vault", root, "--json").json
    assert (shown["status"], shown["next_step"]) == ("doing", "Buy planks")
    run_cli("task", "update", "mend", "--status", "done", "--vault", root)
    assert run_cli("task", "list", "--vault", root, "--json").json["tasks"] == []
    assert len(run_cli("task", "list", "--all", "--vault", root, "--json").json["tasks"]) == 1


@pytest.mark.campaign
def test_what_cannot_be_is_told(root: Path, run_cli: RunCli) -> None:
    assert run_cli("task", "show", "--vault", root).code == 4
    run_cli("task", "add", "Mend", "--vault", root)
    run_cli("task", "add", "Mend", "--vault", root)
    assert (root / "tasks/mend-2.md").is_file()
    assert run_cli("task", "update", "mend", "--status", "perhaps", "--vault", root).code == 5
    assert run_cli("task", "expand", "abc", "--vault", root).code == 5
    assert run_cli("task", "expand", "abcdef12", "--vault", root).code == 4
    assert run_cli("task", "history", "--budget", "10", "--vault", root).code == 5
    leak = "ghp_" + "a1B2" * 9
    done = run_cli("task", "add", "Leak", "--next", leak, "--vault", root)
    assert done.code == 5
    assert leak not in done.err
    assert run_cli("task", "handoff", "mend", "--note", f"use {leak}", "--vault", root).code == 5
    assert run_cli("task", "history", "--summarizer", "oracle", "--vault", root).code == 5


@contextmanager
def model(answer: str) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Serve one answer as an OpenAI-compatible service does."""
    asked: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            body = json.dumps({"choices": [{"message": {"content": answer}}]}).encode()
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.campaign
@pytest.mark.parametrize(
    ("answer", "is_taken"),
    [
        ("The pier waits: planks have to be bought first.", True),
        ("Bob mends the pier on 2027-03-04.", False),
        ("The pier costs 4000 more.", False),
        ("", False),
    ],
)
def test_a_model_may_word_a_summary_and_add_nothing(
    answer: str, is_taken: bool, root: Path, run_cli: RunCli
) -> None:
    run_cli("task", "add", "Mend the pier", "--next", "Buy planks", "--vault", root)
    plain = ask(run_cli, root, "task", "history")["summary"]
    with model(answer) as (base, asked):
        env = {"VAULTMEM_LLM_BASE_URL": base, "VAULTMEM_LLM_MODEL": "m"}
        told = ask(run_cli, root, "task", "history", "--summarizer", "llm", env=env)["summary"]
    assert asked[0]["model"] == "m"
    assert told == (answer if is_taken else plain)


def test_no_model_is_needed(root: Path, run_cli: RunCli) -> None:
    run_cli("task", "add", "Mend the pier", "--vault", root)
    for env in ({}, {"VAULTMEM_LLM_BASE_URL": "http://127.0.0.1:9/v1", "VAULTMEM_LLM_MODEL": "m"}):
        told = run_cli("task", "history", "--summarizer", "llm", "--json", "--vault", root, env=env)
        assert told.json["summary"] == "Mend the pier is open."


def test_what_counts_as_a_fact() -> None:
    sources = "Mend the pier with oak (a/b.py, v1.2) by Ann on 2026-01-02."
    assert find_ungrounded("Ann mends it with oak, as a/b.py has it.", sources) == []
    assert find_ungrounded("It was Bob, with c/d.py, in 2027.", sources) == [
        "Bob",
        "c/d.py",
        "2027",
    ]
