"""Who gives a command: a person at a terminal, an agent by its marks, or nobody that is known."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Make, Open, RunCli
from in_process import run_here
from support import git, wait_until, write_notes
from terminal import having_no_terminal
from watchers import watch_process

from vaultmem.core.clients.agents import AGENTS, UNNAMED, VARIABLES, find_agent

#: What Claude Code 2.1.197 and Codex 0.169.0 set for their shells, which have no terminal.
CLAUDE = {
    "CLAUDECODE": "1",
    "CLAUDE_CODE_SESSION_ID": "88b5086f-ab71-499c-99b4-0cacaf5b9c55",
    "AI_AGENT": "claude-code_2-1-197_agent",
}
CODEX = {"CODEX_CI": "1", "CODEX_THREAD_ID": "01a207dd-2dac-7f13-af3b-43d98be7d869"}

POLICY = ("--kind", "policy_rule", "--title", "Deploys")


def say(root: Path, *words: str, code: int = 0, **env: str) -> str:
    """Give a command as an agent's shell does: without a terminal; return all that it prints."""
    with having_no_terminal():
        done = run_here(*words, "--vault", str(root), env=env)
    assert done.code == code, done
    return done.out + done.err


def read(root: Path, path: str = "notes/inbox/deploys.md") -> str:
    return (root / path).read_text()


@pytest.mark.guarantee
@pytest.mark.campaign
@pytest.mark.parametrize(("marks", "name"), [(CLAUDE, "claude-code"), (CODEX, "codex")])
def test_an_agent_that_does_as_our_skill_says_promotes_no_policy_of_its_own(
    make_vault: Make, marks: dict[str, str], name: str
) -> None:
    root = make_vault()
    command = [sys.executable, "-m", "vaultmem", "remember", "Agents deploy at will.", *POLICY]
    shell = {"stdin": subprocess.DEVNULL, "capture_output": True, "env": {**os.environ, **marks}}

    subprocess.run([*command, "--vault", str(root)], check=True, **shell)  # type: ignore[call-overload]

    session = marks.get("CLAUDE_CODE_SESSION_ID") or marks["CODEX_THREAD_ID"]
    text = read(root)
    assert f'agent: {name}\nsession: "{session}"\n' in text
    assert "state: candidate\n" in text
    told = say(root, "promote", "deploys", **marks)
    assert "trusted" not in told
    unsaid = "notes/inbox/deploys.md: evidence, no instruction, until a person promotes it in a "
    assert unsaid in told
    told = say(root, "promote", "deploys", **marks)
    assert told.startswith(f"active already  notes/inbox/deploys.md\n{unsaid}")
    assert git(
        root, "log", "-1", "--format=%an|%(trailers:key=Agent-Id,valueonly,separator=%x2C)"
    ) == (f"{name}|{name}")
    pack = say(root, "pack", "deploy", **marks)
    assert "Agents deploy at will." in pack
    assert "## Instructions" not in pack


def test_a_promotion_in_a_vault_that_is_not_trusted_names_the_remedy(
    home: Path, tmp_path: Path
) -> None:
    write_notes(tmp_path, {"notes/a.md": "Candidates wait.\n"})
    with having_no_terminal():
        run_here("init", "--yes", cwd=tmp_path)
    say(tmp_path, "remember", "Nobody deploys on a Friday.", *POLICY)
    unsaid = (
        "notes/inbox/deploys.md: evidence, no instruction, because the vault is not trusted; if the"
    )
    promoted = run_here("promote", "deploys", cwd=tmp_path).out
    assert "candidate to active)" in promoted
    assert f"{unsaid} vault is yours, run `vaultmem trust`" in promoted
    assert unsaid in run_here("promote", "deploys", cwd=tmp_path).out
    run_here("trust", cwd=tmp_path)
    assert "not trusted" not in run_here("promote", "deploys", cwd=tmp_path).out
    assert "## Instructions" in run_here("pack", "deploy", cwd=tmp_path).out


def test_a_person_at_a_terminal_promotes_it(make_vault: Make) -> None:
    root = make_vault()
    say(root, "remember", "Nobody deploys on a Friday.", *POLICY)
    assert "trusted" in run_here("promote", "deploys", "--vault", str(root)).out
    assert "## Instructions" in say(root, "pack", "deploy")


@pytest.mark.campaign
def test_who_has_no_terminal_and_no_marks_is_nobody_that_is_known(make_vault: Make) -> None:
    root = make_vault({"notes/pin.md": "---\npinned: true\n---\n# Pin\n\nThe pin stays.\n"})

    say(root, "remember", "Agents deploy at will.", *POLICY)

    assert f"agent: {UNNAMED}\n" in read(root)
    assert "trusted" not in say(root, "promote", "deploys")
    for words in (
        ("trust",),
        ("trust", "--sign"),
        ("trust", "--allow-signer", "anna ssh-ed25519 AAAA"),
        ("pin", "--remove", "pin"),
        ("forget", "pin", "--yes"),
        ("mv", "pin", "notes/other.md"),
        ("branch", "--reset", "main", "HEAD~1"),
    ):
        assert "in a terminal, or on the page" in say(root, *words, code=5), words
    assert "pinned: true" in read(root, "notes/pin.md")


@pytest.mark.campaign
def test_what_the_owner_pinned_or_quarantined_no_agent_brings_back(make_vault: Make) -> None:
    root = make_vault({"notes/a.md": "# A\n\nThe bell.\n", "notes/b.md": "# B\n\nThe rope.\n"})
    for words in (
        ("pin", "a"),
        ("state", "b", "quarantined", "--reason", "made up"),
        ("checkpoint", "x"),
    ):
        assert run_here(*words, "--vault", str(root)).code == 0
    pinned, held = (git(root, "log", "-1", "--format=%H", f"notes/{name}.md") for name in "ab")
    for words in (
        ("restore", "a", "--at", f"{pinned}~"),
        ("restore", "b", "--at", f"{held}~"),
        ("undo", pinned),
        ("undo", held),
    ):
        assert "only a person" in say(root, *words, code=5, **CLAUDE), words
    assert run_here("undo", held, "--vault", str(root)).code == 0


@pytest.mark.campaign
def test_an_agent_that_makes_a_vault_of_what_was_there_trusts_none_of_it(
    tmp_path: Path, home: Path
) -> None:
    for name, notes in (
        ("empty", {}),
        ("found", {"vaultmem.yaml": "promoting_agents: [claude-code]\n"}),
    ):
        (tmp_path / name).mkdir()
        write_notes(tmp_path / name, notes)
        with having_no_terminal():
            assert run_here("init", str(tmp_path / name), env=CLAUDE).code == 0
        say(tmp_path / name, "remember", "Agents deploy at will.", *POLICY, **CLAUDE)
        assert "trusted" not in say(tmp_path / name, "promote", "deploys", **CLAUDE)
    person = run_here("promote", "deploys", "--vault", str(tmp_path / "empty"))
    assert "trusted" in person.out


def test_marks_count_at_a_terminal_too_and_a_name_that_is_given_goes_before(
    make_vault: Make,
) -> None:
    root = make_vault()
    for number, (words, env, expected) in enumerate(
        (
            ((), {"QWEN_CODE": "1"}, "agent: qwen\n"),
            ((), {"AGENT": "amp"}, "agent: amp\n"),
            ((), {"AGENT": "1"}, ""),
            (("--agent", "eve"), CLAUDE, 'agent: eve\nsession: "88b5086f'),
            ((), {"VAULTMEM_AGENT": "eve", "VAULTMEM_SESSION_ID": "s-1", **CLAUDE}, "session: s-1"),
            ((), {}, ""),
        )
    ):
        text = f"Statement number {number} of this test."
        done = run_here("remember", text, "--force", *words, "--vault", str(root), env=env)
        assert done.code == 0, done
        path = done.out.split()[1]
        told = read(root, path)
        assert expected in told if expected else "agent:" not in told, (env, told)


def test_the_agent_of_the_settings_is_who_has_no_terminal(make_vault: Make) -> None:
    root = make_vault()
    with open(root / "vaultmem.yaml", "a") as file:
        file.write("agent: keeper\n")
    say(root, "remember", "The bell is brass.", "--title", "Bell")
    assert "agent: keeper\n" in read(root, "notes/inbox/bell.md")
    done = run_here("remember", "The rope is hemp.", "--title", "Rope", "--vault", str(root))
    assert done.code == 0
    assert "agent:" not in read(root, "notes/inbox/rope.md")


@pytest.mark.parametrize(
    ("environment", "name"),
    [
        *(({sign: "1"}, row[0]) for row in AGENTS for sign in row[1]),
        ({"AI_AGENT": "devin@1"}, "devin"),
        ({"AI_AGENT": "1"}, UNNAMED),
        ({"AI_AGENT": "\x1b[31m"}, UNNAMED),
        ({"AI_AGENT": " "}, ""),
        ({"CLAUDECODE": ""}, ""),
        ({"CURSOR_TRACE_ID": "x", "TERM_PROGRAM": "vscode", "AGENT": "/usr/bin/agent"}, ""),
    ],
)
def test_an_agent_is_known_by_what_it_sets(environment: dict[str, str], name: str) -> None:
    assert find_agent(environment) == name
    assert {each for row in AGENTS for each in row[1]} <= set(VARIABLES)


@pytest.mark.campaign
def test_a_watchers_answer_is_for_who_asks_and_its_commits_are_the_owners(
    make_vault: Make, opened: Open, run_cli: RunCli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The watcher is started by an agent; what is saved and asked beside it is not the agent's."""
    root = make_vault({"notes/bell.md": "---\nstate: candidate\n---\n# Bell\n\nOf brass.\n"})
    for name, value in CLAUDE.items():
        monkeypatch.setenv(name, value)
    with watch_process(root):
        for name in CLAUDE:
            monkeypatch.delenv(name)
        monkeypatch.delenv("VAULTMEM_RECEIPTS")
        pack = ("pack", "bell", "--json", "--vault", root)
        assert run_cli(*pack).json["receipt"] is None
        assert run_cli(*pack, env=CODEX).json["receipt"]
        with having_no_terminal():
            assert run_cli(*pack).json["receipt"]
        write_notes(root, {"notes/bell.md": "---\nstate: active\n---\n# Bell\n\nOf brass.\n"})
        last = ("log", "-1", "--format=%an %s")
        wait_until(lambda: git(root, *last) == "Maren Person promote: bell")
