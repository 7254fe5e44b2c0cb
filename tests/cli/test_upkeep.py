"""The commands curate, dream and compact, as processes."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
from clocks import DAY, Clock, tell
from conftest import Make, Open, RunCli
from support import git, wait_until

from vaultmem.core.lifecycle import NoteState
from vaultmem.services.memory.remember import Memory

LONG = " ".join(
    f"Sentence {n} says that the bell of hall {n} rings at {n} past." for n in range(12)
)


@pytest.mark.campaign
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
    unasked = run_cli("curate", report, "--apply", "--vault", root, stdin="\n")
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


@pytest.mark.campaign
def test_dream_and_compact_show_first_and_then_do(
    make_vault: Make, opened: Open, run_cli: RunCli
) -> None:
    root = make_vault({"vaultmem.yaml": "archive_after_days: 40000\n"})
    clock = Clock()
    vault = opened(root, agent="claude", now=clock)
    bell = Memory("The bell rings at seven.", title="Bell", state=NoteState.CANDIDATE)
    path, long = tell(vault, bell, Memory(LONG, title="Halls"))
    for question in ("does the bell ring at seven", "seven bell", "what rings at seven"):
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
    unasked = run_cli("compact", "--apply", "--vault", root, stdin="\n")
    assert (unasked.code, unasked.err.endswith("add --yes to make 1 step\n")) == (5, True)
    steps = run_cli("compact", "--apply", "--yes", "--json", "--vault", root).json
    assert [(each["path"], each["step"]) for each in steps["steps"]] == [(long, "keywords")]
    assert steps["commits"] == [git(root, "rev-parse", "HEAD")]
    back = git(root, "log", "-1", "--format=%b").splitlines()[0].split()[-1]
    label = f"shortened; full text at {back[:7]}"
    assert label in run_cli("recall", "halls", "--vault", root).out
    assert label in run_cli("show", long, "--vault", root).err
    assert LONG in run_cli("show", long, "--full", "--vault", root).out
    assert run_cli("restore", long, "--at", back, "--vault", root).code == 0
    assert LONG in (root / long).read_text()


def prepare_review(make_vault: Make, opened: Open) -> tuple[Path, list[str]]:
    """Make a vault with a contradiction and a candidate; return what they are about."""
    root = make_vault()
    vault = opened(root, agent="claude", now=Clock(time.time() - 5 * DAY))
    few = Memory("Holmpay answers 429 above 120 refunds a minute.", context="pay")
    many = Memory("Holmpay answers 429 above 240 refunds a minute.", context="pay")
    bell = Memory("The bell rings at seven.", state=NoteState.CANDIDATE)
    return root, tell(vault, few, many, bell)


@pytest.mark.campaign
def test_a_queue_is_reviewed_by_flags(
    make_vault: Make, opened: Open, run_cli: RunCli, tmp_path: Path
) -> None:
    root, (few, many, _) = prepare_review(make_vault, opened)
    shown = run_cli("review", "--vault", root)
    assert shown.out.startswith("2 to decide: 1 contradiction, 1 candidate\n")
    assert "  > Holmpay answers 429 above 120 refunds a " in shown.out
    assert shown.out.endswith("--accept ID`, --other ID or --reject ID.\n")
    queue = run_cli("review", "--json", "--vault", root).json
    contradiction, candidate = queue["items"]
    assert (queue["waiting"], contradiction["action"]) == (2, "contradiction")
    assert [note["path"] for note in contradiction["notes"]] == [few, many]
    assert contradiction["id"][:6] in shown.out
    only = run_cli("review", "--only", "candidate", "--json", "--vault", root).json
    assert (only["waiting"], only["items"]) == (2, [candidate])
    assert run_cli("review", "--only", "nonsense", "--vault", root).code == 5
    assert run_cli("review", "--accept", "ffff", "--vault", root).code == 4
    twice = run_cli(
        "review", "--accept", candidate["id"], "--reject", candidate["id"][:6], "--vault", root
    )
    assert (twice.code, "named twice" in twice.err) == (5, True)

    words = {"COMP_WORDS": "vaultmem review --accept ", "COMP_CWORD": "3"}
    env = {**words, "_VAULTMEM_COMPLETE": "complete_bash", "VAULTMEM_VAULT": str(root)}
    begin = "import sys; sys.argv = ['vaultmem']; from vaultmem.cli.start import main; main()"
    listed = subprocess.run(
        [sys.executable, "-c", begin], env={**os.environ, **env}, capture_output=True, check=True
    )
    assert listed.stdout.decode().split() == [contradiction["id"][:6], candidate["id"][:6]]

    done = run_cli(
        "review",
        "--accept",
        candidate["id"][:6],
        "--reject",
        contradiction["id"],
        "--reason",
        "by region",
        "--json",
        "--vault",
        root,
    ).json["decided"]
    assert [each["choice"] for each in done] == ["accept", "reject"]
    log = git(root, "log", "-2", "--format=%s").splitlines()
    assert [each.partition(": ")[0] for each in log] == ["review", "promote"]
    assert done[1]["commit"] == git(root, "rev-parse", "HEAD")
    assert git(root, "log", "-1", "--format=%b").startswith("by region")
    assert run_cli("review", "--vault", root).out == "Nothing waits for a decision.\n"
    assert run_cli("review", "--accept", candidate["id"], "--vault", root).code == 4


@pytest.mark.campaign
def test_all_candidates_are_decided_by_a_person_in_one_commit(
    make_vault: Make, run_cli: RunCli
) -> None:
    root = make_vault(
        {
            f"notes/{folder}/{name}.md": f"---\nstate: candidate\n---\nThe {name} is painted.\n"
            for folder in ("imported/chatgpt", "own")
            for name in (f"{folder[:3]}-{number}" for number in range(3))
        }
    )
    head = git(root, "rev-parse", "HEAD")
    all_of_them = ("review", "--only", "candidate", "--vault", root)

    wrong = run_cli("review", "--accept-all", "--vault", root)
    agent = run_cli(*all_of_them, "--accept-all", "--agent", "x")
    assert (wrong.code, "--only candidate" in wrong.err) == (2, True)
    assert (agent.code, "only a person" in agent.err) == (5, True)
    assert git(root, "rev-parse", "HEAD") == head

    some = run_cli("promote", "notes/imported/chatgpt/", "--vault", root)
    assert some.out.count("promoted  ") == 3
    assert git(root, "log", "--format=%s", f"{head}..").splitlines() == [
        "promote: imp-0, imp-1 and imp-2"
    ]
    none = run_cli("promote", "notes/imported/chatgpt", "--vault", root)
    assert (none.code, "no note" in none.err) == (4, True)

    done = run_cli(*all_of_them, "--reject-all", "--reason", "no")
    assert done.out.startswith("deprecated  3 candidates\n")
    assert git(root, "rev-list", "--count", f"{head}..") == "2"
    assert run_cli(*all_of_them, "--accept-all").out == "promoted  0 candidates\n"


@pytest.mark.campaign
def test_a_thousand_candidates_are_promoted_in_one_commit(
    make_vault: Make, run_cli: RunCli
) -> None:
    begin = "---\nstate: candidate\n---\n"
    texts = (f"{begin}Ferry {number} berths at pier {number}.\n" for number in range(1_000))
    root = make_vault({f"notes/{number}.md": text for number, text in enumerate(texts)})
    head = git(root, "rev-parse", "HEAD")
    run_cli("index", "--vault", root, timeout=120)

    done = run_cli("review", "--only", "candidate", "--accept-all", "--vault", root, timeout=120)

    assert done.out.startswith("promoted  1,000 candidates\n")
    assert git(root, "rev-list", "--count", f"{head}..") == "1"
    assert run_cli("list", "--state", "candidate", "--json", "--vault", root).json["notes"] == []


@pytest.mark.campaign
def test_status_and_review_count_the_same(make_vault: Make, opened: Open, run_cli: RunCli) -> None:
    root, _ = prepare_review(make_vault, opened)
    (root / "notes/x.md").write_text("---\na: [\n---\nX.\n")
    before = run_cli("status", "--vault", root).out
    shown = run_cli("review", "--vault", root).out
    after = run_cli("status", "--json", "--vault", root).json["to_decide"]

    assert "to decide   2: 1 unreadable, 1 candidate; `vaultmem review`\n" in before
    assert shown.startswith("3 to decide: 1 contradiction, 1 unreadable, 1 candidate\n")
    assert after == {"contradiction": 1, "unreadable": 1, "candidate": 1}
    run_cli("review", "--only", "candidate", "--accept-all", "--vault", root)
    assert run_cli("status", "--json", "--vault", root).json["to_decide"] == {
        "contradiction": 1,
        "unreadable": 1,
    }


@pytest.mark.campaign
def test_what_a_pull_brought_takes_the_place_of_the_old_value_by_one_flag(
    make_vault: Make, run_cli: RunCli, tmp_path: Path
) -> None:
    dated = "---\ncreated: 2020-01-01T09:00:00\n---\n\n"
    old = {"maria.md": "Maria lives in Boston.\n", "tom.md": "Tom's desk is in room 4.\n"}
    root = make_vault({f"notes/{name}": dated + text for name, text in old.items()})
    git(root, "clone", "-q", "--bare", ".", str(tmp_path / "there"))
    git(root, "remote", "add", "origin", str(tmp_path / "there"))
    git(root, "clone", "-q", str(tmp_path / "there"), str(tmp_path / "other"))
    new = {"denver.md": "Maria moved to Denver.\n", "desk.md": "Tom's desk is in room 7 now.\n"}
    for name, text in new.items():  # Written by hand, so that only git says when.
        (tmp_path / "other/notes" / name).write_text(text)
    git(tmp_path / "other", "add", "notes")
    git(tmp_path / "other", "commit", "-qm", "theirs")
    git(tmp_path / "other", "push", "-q")
    git(root, "pull", "-q", "--no-rebase", "origin", "main")

    items = run_cli("review", "--json", "--vault", root).json["items"]
    ids = [word for each in items for word in ("--accept", each["id"])]
    decided = run_cli("review", *ids, "--json", "--vault", root).json["decided"]

    shown = [(each["action"], *(note["path"] for note in each["notes"])) for each in items]
    assert shown == [
        ("update", "notes/maria.md", "notes/denver.md"),
        ("update", "notes/tom.md", "notes/desk.md"),
    ]
    assert len(decided) == 2
    assert all("state: deprecated" in (root / "notes" / name).read_text() for name in old)
    assert "supersedes:" in (root / "notes/desk.md").read_text()
    assert run_cli("review", "--vault", root).out == "Nothing waits for a decision.\n"


@pytest.mark.campaign
@pytest.mark.parametrize(
    ("keys", "code", "commits"),
    [("oy", 0, ["promote: ", "supersede: "]), ("s?q", 0, []), ("y\x03", 130, ["supersede: "])],
)
def test_a_queue_is_reviewed_by_keys(
    make_vault: Make, opened: Open, keys: str, code: int, commits: list[str]
) -> None:
    root, _ = prepare_review(make_vault, opened)
    before = git(root, "rev-parse", "HEAD")
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "vaultmem", "review", "--vault", str(root)]
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    told = ""
    for number, key in enumerate(keys, 1):
        while told.count("\r\n? ") < number:
            told += os.read(ours, 4096).decode()
        wait_until(lambda: not termios.tcgetattr(ours)[3] & termios.ICANON)
        os.write(ours, key.encode())
    with contextlib.suppress(OSError):  # Where it has ended.
        while data := os.read(ours, 4096):
            told += data.decode()
    os.close(ours)
    assert process.wait(30) == code, told
    log = git(root, "log", "--format=%s", f"{before}..").splitlines()
    assert [each.partition(": ")[0] + ": " for each in log] == commits
    assert git(root, "status", "--porcelain") == ""
    assert "1 of 2" in told
    assert "s skips, q ends, ? explains the keys" in told
    assert told.count("y: it is promoted\r\n") == keys.count("?")


@pytest.mark.campaign
def test_readings_are_kept_apart_and_several_values_are_one_item(
    make_vault: Make, run_cli: RunCli
) -> None:
    root = make_vault()
    for day in (1, 2, 8):
        reading = f"On day {day} the boiler pressure was 1.{day} bar."
        told = run_cli("remember", reading, "--agent", "claude", "--vault", root)
        assert "supersede" not in told.out
        assert "contradicts" not in told.out
    assert run_cli("review", "--vault", root).out == "Nothing waits for a decision.\n"
    for value in (900, 920, 940):
        rent = f"The rent of the flat is {value} euros."
        told = run_cli("remember", rent, "--agent", "claude", "--vault", root)
    assert told.out.endswith("If it replaces them: vaultmem review\n")
    shown = run_cli("review", "--vault", root)
    assert shown.out.startswith("1 to decide: 1 value group\n")
    assert shown.out.count("> The rent of the flat is ") == 3
    assert "--other   " not in shown.out
    (item,) = run_cli("review", "--only", "value_group", "--json", "--vault", root).json["items"]
    (report,) = run_cli("curate", "--json", "--vault", root).json["proposals"]
    assert [report["path"], *(path for path, _ in report["more"]), report["into"]] == [
        note["path"] for note in item["notes"]
    ]
    refused = run_cli("review", "--other", item["id"], "--vault", root)
    assert refused.code == 5
    assert run_cli("review", "--reject", item["id"], "--vault", root).code == 0
    assert run_cli("review", "--vault", root).out == "Nothing waits for a decision.\n"
