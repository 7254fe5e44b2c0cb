"""Trace a line of code: the memories that cite it, and the decisions of sessions behind it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import Make, RunCli
from projects_world import make_code, play_in, run_git

CODE = """\
LIMIT = 3


def refund_limit(amount):
    return min(amount, LIMIT)


def pay(amount):
    return amount - refund_limit(amount)
"""


@pytest.fixture
def code(tmp_path: Path, home: Path) -> Path:
    return make_code(tmp_path / "code/shop", CODE)


@pytest.fixture
def root(make_vault: Make, run_cli: RunCli, code: Path) -> Path:
    """Return a vault with two memories on the code, and a session that wrote a commit of it."""
    root = make_vault()
    env = {"VAULTMEM_VAULT": str(root), "VAULTMEM_AGENT": "claude"}

    def run(*words: str) -> None:
        done = run_cli(*words, cwd=code, env=env)
        assert done.code == 0, done

    run("remember", "Refunds end at the limit.", "--cite", "src/limit.py:refund_limit")
    run("remember", "A payment is what the refund leaves.", "--cite", "src/limit.py#L8-9")
    run("session", "start", "--id", "s-1", "--goal", "Raise the limit")
    env["VAULTMEM_SESSION"] = "s-1"
    (code / "src/limit.py").write_text(f"# Refunds.\n{CODE}".replace("LIMIT = 3", "LIMIT = 5"))
    run("session", "add", "decision", "The limit is five, since carts have five rows.")
    run("session", "add", "file", "src/limit.py")
    run_git(code, "commit", "-qam", "Raise the limit to five")
    run("session", "close")
    return root


def trace(run_cli: RunCli, root: Path, code: Path, place: str) -> str:
    done = run_cli("trace", place, "--vault", str(root), cwd=code)
    assert done.code == 0, done
    return done.out


def test_a_line_has_the_decision_of_the_session_that_wrote_it(
    run_cli: RunCli, root: Path, code: Path
) -> None:
    told = trace(run_cli, root, code, "src/limit.py:2")
    assert "no memory cites src/limit.py#L2\n" in told
    assert "Raise the limit to five" in told
    assert "    session s-1: Raise the limit\n" in told
    assert "      decided: [[limit-is-five" in told
    assert ": The limit is five, since carts have five rows" in told
    assert "no session is known for its 1 commit" in trace(run_cli, root, code, "src/limit.py:6")


def test_a_line_has_the_memories_whose_anchors_cover_it_now(
    run_cli: RunCli, root: Path, code: Path
) -> None:
    for place in ("limit.py:6", "limit.py:refund_limit", "limit.py#L5-6"):
        told = trace(run_cli, root, code / "src", place)
        assert "Refunds end at the limit" in told, place
        assert "    src/limit.py:refund_limit holds\n" in told, place
        assert "payment" not in told, place


def test_a_file_has_all_of_its_memories_and_commits(
    run_cli: RunCli, root: Path, code: Path
) -> None:
    done = run_cli("trace", "src/limit.py", "--vault", str(root), "--json", cwd=code)
    found = json.loads(done.out)
    assert (found["place"], found["project"]) == ("src/limit.py", "shop")
    assert [note["anchors"][0]["status"] for note in found["notes"]] == ["holds", "holds"]
    assert [each["subject"] for each in found["commits"]] == ["Raise the limit to five", "Begin"]
    newest, first = found["commits"]
    assert [each["id"] for each in newest["sessions"]] == ["s-1"]
    assert first["sessions"] == []


def test_a_line_that_is_not_there_is_an_error(run_cli: RunCli, root: Path, code: Path) -> None:
    for place in ("src/limit.py:99", "src/limit.py:nothing"):
        done = run_cli("trace", place, "--vault", str(root), cwd=code)
        assert done.code != 0, place
        assert "the file has no such line or symbol" in done.err, place


def test_what_names_no_file_is_a_text(
    run_cli: RunCli, root: Path, code: Path, tmp_path: Path
) -> None:
    for words, folder in (
        (["carts", "have", "five", "rows"], code),
        (["src/limit.py"], tmp_path),
        (["src/gone.py:2"], code),
        (["src/limit.py", "--at", "HEAD"], code),
    ):
        done = run_cli("trace", *words, "--json", "--vault", str(root), cwd=folder)
        assert done.json["query"] == " ".join(words).removesuffix(" --at HEAD")
        assert done.json["grounds"] or words[0] != "carts"


def test_an_agent_is_refused_what_names_no_file(root: Path, code: Path) -> None:
    problems = {
        "src/gone.py": "has no such file",
        "https://example.org": "not a file; give FILE, FILE:LINE or FILE:SYMBOL",
    }

    async def scene(client: object) -> list[object]:
        given = [{"action": "trace", "path": place} for place in problems]
        return [await client.call_tool("history", each) for each in given]  # type: ignore[attr-defined]

    answers = play_in(root, code, scene, roots=[code])
    for answer, problem in zip(answers, problems.values(), strict=True):
        assert answer.is_error
        assert problem in answer.content[0].text


def test_an_agent_traces_by_the_tool_history(root: Path, code: Path) -> None:
    async def scene(client: object) -> object:
        given = {"action": "trace", "path": "src/limit.py:2"}
        return await client.call_tool("history", given)  # type: ignore[attr-defined]

    answer = play_in(root, code, scene, roots=[code])
    assert ": The limit is five, since carts have five rows" in answer.content[0].text
