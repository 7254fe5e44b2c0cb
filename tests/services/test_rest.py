"""What a watcher does while nothing happens: it dreams when that is due, and embeds."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from clocks import DAY, Clock, ask, tell
from conftest import Make, Open
from embedding_service import EmbeddingService
from support import git, wait_until
from watchers import watched

from vaultmem.core.lifecycle import NoteState
from vaultmem.core.text.timestamps import Verdict
from vaultmem.services.health.doctor import examine_vault
from vaultmem.services.memory.remember import Memory
from vaultmem.services.watching.idle import IdleTasks
from vaultmem.services.watching.watch import WatchLoop
from vaultmem.storage.git.maintenance import MAX_LOOSE_OBJECTS

BELL = Memory("The bell rings at seven in the morning.", title="Bell", state=NoteState.CANDIDATE)
LONG = " ".join(
    f"Sentence {n} says that the bell of hall {n} rings at {n} past." for n in range(12)
)
QUESTIONS = ("when does the bell ring", "bell in the morning", "what rings at seven")


@pytest.fixture
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a watcher come to rest soon."""
    monkeypatch.setattr("vaultmem.services.watching.watch._CHECK_INTERVAL_SECONDS", 0.05)


def take_turns(loop: WatchLoop, count: int = 5) -> None:
    """Wait until the loop has looked what there is to do so often."""
    turns: list[set[str]] = []
    collect = loop._collect
    loop._collect = lambda: turns.append(collect()) or turns[-1]  # type: ignore[func-returns-value,method-assign]
    wait_until(lambda: len(turns) > count)


def recall_for_days(root: Path, opened: Open) -> None:
    clock = Clock(time.time() - 5 * DAY)
    vault = opened(root, agent="claude", now=clock)
    tell(vault, BELL)
    for question in QUESTIONS:
        assert ask(vault, question)
        clock.pass_days(1)


@pytest.mark.campaign
def test_a_watcher_dreams_once_when_the_settings_want_it(make_vault: Make, opened: Open) -> None:
    root = make_vault()
    recall_for_days(root, opened)
    (root / "vaultmem.yaml").write_text("dream_every: day\n")
    with watched(root) as (_, told):
        wait_until(lambda: any("by dream" in each.text for each in told), 30)
        wait_until(lambda: "[[bell]]" in (root / "MEMORY.md").read_text(), 30)
    assert [each.kind for each in told if "by dream" in each.text] == ["committed"]
    subjects = git(root, "log", "--format=%s").splitlines()
    assert subjects.count("promote: bell, by dream") == 1
    assert not [each for each in told if each.kind == "problem"]


@pytest.mark.campaign
def test_a_watcher_compacts_once_a_night_behind_the_dream(make_vault: Make, opened: Open) -> None:
    root = make_vault({"vaultmem.yaml": "dream_every: day\ncompact_every: week\n"})
    clock = Clock(time.time() - 5 * DAY)
    vault = opened(root, agent="claude", now=clock)
    tell(vault, BELL, Memory(LONG, title="Halls"))
    for question in QUESTIONS:
        assert ask(vault, question)
        clock.pass_days(1)
    done = []
    for _ in range(40):
        resting = IdleTasks(vault)
        for report in resting.run_idle_tasks():
            done.extend(subject for _, subject in report.commits)
        assert not list(resting.run_idle_tasks())
        clock.pass_days(1)
    assert [each for each in done if not each.startswith("promote: ")] == [
        "compact: halls to a summary"
    ]
    assert len(done) == 2
    assert vault.state.get("compacted") < vault.state.get("dreamt")


@pytest.mark.campaign
def test_a_watcher_has_git_pack_what_it_keeps_one_by_one(
    make_vault: Make, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_vault({"notes/bell.md": "# Bell\n"})
    for number in range(MAX_LOOSE_OBJECTS):
        (root / f"unseen-{number}.txt").write_text(f"{number}\n")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "many")
    monkeypatch.setattr("vaultmem.services.watching.idle._UPKEEP_SECONDS", 0.0)
    resting = IdleTasks(opened(root))
    git(root, "config", "gc.auto", "0")
    assert resting.tidy() == ""
    git(root, "config", "--unset", "gc.auto")
    (kept,) = [check for check in examine_vault(opened(root)) if check.name == "git's upkeep"]
    assert kept.verdict is Verdict.WARNING
    assert "objects are in no pack" in kept.message
    assert re.fullmatch(
        r"1,\d\d\d objects of git are packed: \d.\d MB became 0.\d MB", resting.tidy()
    )
    assert git(root, "count-objects").startswith("0 objects")
    assert git(root, "fsck", "--strict") == ""
    assert resting.tidy() == ""
    (kept,) = [check for check in examine_vault(opened(root)) if check.name == "git's upkeep"]
    assert kept.verdict is Verdict.OK


@pytest.mark.usefixtures("_quick")
def test_a_watcher_does_not_dream_unasked(make_vault: Make, opened: Open) -> None:
    root = make_vault()
    recall_for_days(root, opened)
    with watched(root) as (loop, told):
        take_turns(loop)
    assert not [each for each in told if "by dream" in each.text]


@pytest.mark.usefixtures("_quick")
def test_what_cannot_be_is_told_once(make_vault: Make) -> None:
    root = make_vault()
    with watched(root) as (loop, told):
        (root / "vaultmem.yaml").write_text("dream_every: hour\n")
        wait_until(lambda: any(each.kind == "problem" for each in told), 30)
        take_turns(loop)
    assert [each.kind for each in told].count("problem") == 1


@pytest.mark.campaign
@pytest.mark.usefixtures("_quick")
def test_a_watcher_embeds_what_has_no_vectors(
    make_vault: Make, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_vault({"notes/a.md": "# A\n\nThe gangway is steep.\n"})
    (root / "vaultmem.yaml").write_text("semantic: endpoint\n")
    with EmbeddingService() as service:
        for name, value in service.environment().items():
            monkeypatch.setenv(name, value)
        with watched(root) as (loop, told):
            wait_until(lambda: any(each.kind == "embedded" for each in told), 30)
            asked = len(service.requests)
            take_turns(loop)
        assert len(service.requests) == asked
    assert [each.kind for each in told].count("embedded") == 1
