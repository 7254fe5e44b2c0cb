"""Git alone tells the truth about a vault to somebody who has never heard of vaultmem."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from in_process import run_here
from support import git, write_notes

_TRAILERS = ("Agent-Id", "Session-Id", "Intent", "Confidence", "Tool-Call", "Vault-Event")
AGENT = {"VAULTMEM_AGENT": "claude", "VAULTMEM_SESSION_ID": "s-1"}


def vaultmem(root: Path, *arguments: str, agent: bool = False) -> str:
    """Run the command in the vault, for the person or for the agent, and return its output."""
    done = run_here(*arguments, cwd=root, env=AGENT if agent else {})
    assert done.code == 0, done.err
    return done.out


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a vault in which a person and an agent did what they do all day."""
    root = tmp_path_factory.mktemp("vault")
    write_notes(root, {"notes/tides.md": "# Tides\n\nHigh water is at six.\n"})
    vaultmem(root, "init")
    memory = ["The gangway opens at five.", "--title", "Gangway", "--context", "quay"]
    vaultmem(root, "remember", *memory, "--state", "candidate", "--confidence", "0.9", agent=True)
    text = "# Tides\n\nHigh water is at six.\nLow water is at noon.\n"
    write_notes(root, {"notes/tides.md": text})
    vaultmem(root, "checkpoint", "what the crew said", agent=True)
    vaultmem(root, "promote", "gangway")
    vaultmem(root, "tag", "gangway", "quay", agent=True)
    vaultmem(root, "checkpoint", "tagged", agent=True)
    write_notes(root, {"notes/tides.md": text.replace("noon", "one")})
    vaultmem(root, "checkpoint", "corrected")
    return root


def test_git_log_reads_each_event_and_its_trailers(root: Path) -> None:
    keys = ("Vault-Event", "Agent-Id", "Session-Id", "Intent")
    trailers = "|".join(f"%(trailers:key={key},valueonly,separator=%x2C)" for key in keys)

    rows = git(root, "log", "-5", f"--format=%an|%s|{trailers}").splitlines()

    assert rows == [
        "Maren Person|checkpoint: corrected|checkpoint|||checkpoint",
        "claude|checkpoint: tagged|checkpoint|claude|s-1|checkpoint",
        "Maren Person|promote: gangway|promote|||refine",
        "claude|checkpoint: what the crew said|checkpoint|claude|s-1|checkpoint",
        "Maren Person|edit: tides|edit|||observe",
    ]


def test_git_blame_tells_the_agents_lines_from_the_persons(root: Path) -> None:
    def authors(path: str) -> dict[str, str]:
        found, author = {}, ""
        for line in git(root, "blame", "--line-porcelain", path).splitlines():
            if line.startswith("author "):
                author = line.removeprefix("author ")
            elif line.startswith("\t"):
                found[line[1:]] = author
        return found

    gangway = authors("notes/quay/gangway.md")
    assert gangway["The gangway opens at five."] == "claude"
    assert gangway["confidence: 0.9"] == "claude"
    assert gangway["state: active"] == "Maren Person"
    assert gangway["  - quay"] == "claude"
    assert set(authors("notes/tides.md").values()) == {"Maren Person"}


def test_git_interpret_trailers_parses_every_message(root: Path) -> None:
    for commit in git(root, "rev-list", "-5", "HEAD").split():
        message = git(root, "log", "-1", "--format=%B", commit)

        parsed = git(root, "interpret-trailers", "--parse", stdin=message).splitlines()

        names = [line.partition(": ")[0] for line in parsed]
        assert "Vault-Event" in names
        assert names == [name for name in _TRAILERS if name in names]
        author = git(root, "log", "-1", "--format=%an", commit)
        assert ("Agent-Id: claude" in parsed) == (author == "claude")


def test_vaultmem_tells_what_git_tells(root: Path) -> None:
    told = json.loads(vaultmem(root, "log", "--all", "--json", "-n", "50"))["commits"]

    rows = [(each["commit"], each["author"], each["subject"], each["time"]) for each in told]
    by_git = git(root, "log", "--format=%H|%an|%s|%cI").splitlines()
    assert ["|".join(row) for row in rows] == by_git
    for path in ("notes/tides.md", "notes/quay/gangway.md"):
        lines = json.loads(vaultmem(root, "blame", path, "--json"))
        plain = git(root, "blame", "-l", "-s", "--root", path).splitlines()
        assert [line["commit"] for line in lines] == [row.split()[0] for row in plain]
