"""The commands curate, dream and compact, as processes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from clocks import Clock, tell
from conftest import RunCli
from support import git

from vaultmem.core.lifecycle import State
from vaultmem.services.notes.remember import Memory
from vaultmem.vault import Vault

Open = Callable[..., Vault]
Make = Callable[..., Path]

LONG = " ".join(
    f"Sentence {n} says that the bell of hall {n} rings at {n} past." for n in range(12)
)


def test_a_report_is_saved_reviewed_and_applied_once(
    make_vault: Make, opened: Open, run_cli: RunCli, tmp_path: Path
) -> None:
    root = make_vault()
    vault = opened(root, agent="claude", now=Clock())
    (path,) = tell(vault, Memory("The bell rings at seven."))
    report = tmp_path / "report.json"

    shown = run_cli("curate", "--save", report, "--vault", root)

    assert shown.code == 0
    assert shown.out.startswith("demote stale\n  notes/inbox/the-bell-rings-at-seven.md\n    not ")
    assert shown.out.endswith("Nothing was changed; --apply makes 1 change.\n")
    saved = json.loads(report.read_text())
    assert [each["path"] for each in saved["proposals"]] == [path]
    assert run_cli("curate", "--save", report, "--vault", root).code == 5
    unasked = run_cli("curate", report, "--apply", "--vault", root)
    assert (unasked.code, "add --yes" in unasked.err) == (5, True)
    done = run_cli("curate", report, "--apply", "--yes", "--json", "--vault", root).json
    assert (done["applied"], done["already"]) == (1, 0)
    assert done["commit"] == git(root, "rev-parse", "HEAD")
    again = run_cli("curate", report, "--apply", "--yes", "--json", "--vault", root).json
    assert (again["applied"], again["already"], again["commit"]) == (0, 1, None)
    later = run_cli("curate", "--json", "--vault", root).json["proposals"]
    assert [each["action"] for each in later] == ["archive"]


def test_an_outdated_report_ends_with_a_conflict(
    make_vault: Make, opened: Open, run_cli: RunCli, tmp_path: Path
) -> None:
    root = make_vault()
    (path,) = tell(opened(root, agent="claude", now=Clock()), Memory("The bell rings at seven."))
    report = tmp_path / "report.json"
    run_cli("curate", "--save", report, "--vault", root)
    with open(root / path, "a") as file:
        file.write("Or eight.\n")
    head = git(root, "rev-parse", "HEAD")
    done = run_cli("curate", report, "--apply", "--yes", "--vault", root)
    assert (done.code, "changed since the report was made" in done.err) == (6, True)
    assert git(root, "rev-parse", "HEAD") == head
    report.write_text("{}")
    assert run_cli("curate", report, "--vault", root).code == 5
    assert run_cli("curate", tmp_path / "none.json", "--vault", root).code == 4


def test_dream_and_compact_show_first_and_then_do(
    make_vault: Make, opened: Open, run_cli: RunCli
) -> None:
    root = make_vault({"vaultmem.yaml": "archive_after: 40000\n"})
    clock = Clock()
    vault = opened(root, agent="claude", now=clock)
    bell = Memory("The bell rings at seven.", title="Bell", state=State.CANDIDATE)
    path, long = tell(vault, bell, Memory(LONG, title="Halls"))
    for question in ("when does the bell ring", "seven bell", "what rings at seven"):
        assert run_cli("recall", question, "-n", "1", "--vault", root).code == 0
    shown = run_cli("dream", "--dry-run", "--vault", root).out
    assert path in shown
    assert shown.splitlines()[0].split()[0] == "score"
    assert "  promote\n" in shown
    done = run_cli("dream", "--json", "--vault", root).json
    assert done["promoted"] == [path]
    assert done["commit"] == git(root, "rev-parse", "HEAD")
    assert run_cli("dream", "--vault", root).out.endswith("Nothing to promote.\n")

    due = run_cli("compact", "--vault", root)

    assert due.out.startswith(f"keywords  {long}  ")
    assert due.out.endswith("Nothing was changed; --apply makes 1 step.\n")
    steps = run_cli("compact", "--apply", "--json", "--vault", root).json
    assert [(each["path"], each["step"]) for each in steps["steps"]] == [(long, "keywords")]
    assert steps["commits"] == [git(root, "rev-parse", "HEAD")]
    back = git(root, "log", "-1", "--format=%b").splitlines()[0].split()[-1]
    assert run_cli("restore", long, "--at", back, "--vault", root).code == 0
    assert LONG in (root / long).read_text()
