"""A watched vault keeps itself: whatever is saved, however, is found; moments become commits."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support import git, wait_until, write_notes

from vaultmem.core.finding.query import parse_query
from vaultmem.services.committing.promote import promote_notes
from vaultmem.services.finding.recall import recall
from vaultmem.services.notes.remember import Memory, remember
from vaultmem.services.sync import sync_vault
from vaultmem.services.watching.watch import Happened, WatchLoop
from vaultmem.storage import watcher as watcher_module
from vaultmem.vault import Vault, open_vault

Open = Callable[..., Vault]
Make = Callable[..., Path]
Watch = Callable[[Path], tuple[WatchLoop, list[Happened]]]

CANDIDATE = "---\nkind: policy_rule\nstate: candidate\n---\n# Rule {n}\n\nRing the bell {n}.\n"


@pytest.fixture
def watch(home: Path) -> Iterator[Watch]:
    """Return a function that watches a vault in a thread until the test ends."""
    running: list[tuple[WatchLoop, threading.Thread]] = []

    def begin(root: Path) -> tuple[WatchLoop, list[Happened]]:
        told: list[Happened] = []
        ready = threading.Event()
        loops: list[WatchLoop] = []

        def run() -> None:
            vault = open_vault(root)
            loops.append(WatchLoop(vault, told.append))
            ready.set()
            loops[0].run()
            vault.close()

        thread = threading.Thread(target=run)
        thread.start()
        assert ready.wait(20)
        running.append((loops[0], thread))
        wait_until(lambda: loops[0].is_watching)
        return loops[0], told

    yield begin
    for loop, thread in running:
        loop.stop()
        thread.join(20)
        assert not thread.is_alive()


def found(root: Path, query: str) -> list[str]:
    """Return what the index holds by now, without looking at the folder."""
    vault = open_vault(root)
    try:
        return [hit.record.path for hit in recall(vault, parse_query(query))]
    finally:
        vault.close()


def shell(root: Path, script: str) -> None:
    subprocess.run(["sh", "-ec", script], cwd=root, check=True, capture_output=True)


SAVES = {
    "a plain write": "printf '# N\\n\\nquagga\\n' > notes/n.md",
    "sed -i": "sed -i 's/gangway/quagga/' notes/old.md",
    "vim": (
        "cp notes/old.md notes/.old.md.swp; mv notes/old.md notes/old.md~; "
        "printf '# N\\n\\nquagga\\n' > notes/old.md; rm notes/old.md~ notes/.old.md.swp"
    ),
    "an atomic rename": "printf '# N\\n\\nquagga\\n' > notes/.t.tmp; mv notes/.t.tmp notes/old.md",
    "a cloud client": "printf '# N\\n\\nquagga\\n' > notes/~x.tmp; mv notes/~x.tmp notes/n.md",
    "a folder moved in": "mkdir -p ../in/deep; printf 'quagga\\n' > ../in/deep/n.md; mv ../in .",
    "a folder renamed": "mkdir a; printf 'quagga\\n' > a/n.md; sleep 0.05; mv a b",
    "deleted and made again": "rm notes/old.md; sleep 0.05; printf 'quagga\\n' > notes/old.md",
    "in a new folder": "mkdir -p x/y/z; printf '# N\\n\\nquagga\\n' > x/y/z/n.md",
}


@pytest.mark.parametrize("how", SAVES)
def test_what_is_saved_is_found(make_vault: Make, watch: Watch, how: str) -> None:
    root = make_vault({"notes/old.md": "# Old\n\ngangway\n"})
    watch(root)
    shell(root, SAVES[how])
    assert wait_until(lambda: found(root, "quagga"))
    assert len(found(root, "quagga")) == 1


def test_what_is_removed_is_not_found(make_vault: Make, watch: Watch) -> None:
    root = make_vault({"notes/old.md": "# Old\n\nquagga\n", "deep/er/n.md": "# N\n\nquagga\n"})
    watch(root)
    shutil.rmtree(root / "deep")
    (root / "notes/old.md").unlink()
    wait_until(lambda: not found(root, "quagga"))


def test_a_state_ticked_by_hand_is_one_promote(
    make_vault: Make, watch: Watch, opened: Open
) -> None:
    root = make_vault({"notes/rule.md": CANDIDATE.format(n=1)})
    watch(root)
    shell(root, "sed -i 's/state: candidate/state: active/' notes/rule.md")
    wait_until(lambda: git(root, "log", "-1", "--format=%s") == "promote")
    shown = git(root, "log", "-1", "--format=%an|%b")
    assert shown.startswith("Maren Person|notes/rule.md: candidate to active")
    assert "Vault-Event: promote" in shown
    assert "Agent-Id" not in shown
    assert git(root, "status", "--porcelain") == ""
    vault = opened(root)
    assert vault.trust.notes() == {}
    assert git(root, "log", "--format=%s", "--grep=Vault-Event: promote") == "promote"


def test_a_promote_by_command_is_not_done_twice(
    make_vault: Make, watch: Watch, opened: Open
) -> None:
    root = make_vault({f"notes/rule{n}.md": CANDIDATE.format(n=n) for n in range(6)})
    loop, _ = watch(root)
    for number in range(6):
        vault = opened(root, agent="claude")
        sync_vault(vault)
        promote_notes(vault, [f"notes/rule{number}.md"])
        assert loop.settle(20)
    subjects = git(root, "log", "--format=%s|%an", "--grep=Vault-Event").splitlines()
    assert subjects.count("promote|claude") == 6
    assert all(not line.startswith("promote|Maren") for line in subjects)


def test_a_session_note_that_is_closed_is_one_commit_of_its_agent(
    make_vault: Make, watch: Watch, opened: Open
) -> None:
    note = "---\nagent: claude\nstatus: open\n---\n# S\n\n## Summary\n\nGot it done.\n"
    root = make_vault({"sessions/s-7.md": note})
    loop, _ = watch(root)
    done = remember(opened(root, agent="claude", session="s-7"), Memory("The mast is tall."))
    write_notes(root, {"notes/mine.md": "# Mine\n\nnot the session's\n"})
    shell(root, "sed -i 's/status: open/status: ok/' sessions/s-7.md")
    wait_until(lambda: git(root, "log", "-1", "--format=%s") == "session-close")
    assert loop.settle(20)
    body = git(root, "log", "-1", "--format=%an%n%b")
    for line in ("claude", "session s-7", "status ok", "Got it done.", "Session-Id: s-7"):
        assert line in body.splitlines()
    changed = git(root, "show", "--name-only", "--format=", "HEAD").splitlines()
    assert sorted(changed) == sorted(["sessions/s-7.md", done.path])


def test_a_checkpoint_file_is_one_checkpoint(make_vault: Make, watch: Watch) -> None:
    root = make_vault({"notes/a.md": "# A\n"})
    loop, _ = watch(root)
    write_notes(root, {"notes/b.md": "# B\n"})
    shell(root, "touch .checkpoint; sleep 0.4; printf 'before the refactor\\n' > .checkpoint")
    wait_until(lambda: git(root, "log", "-1", "--format=%s") == "checkpoint: before the refactor")
    assert loop.settle(20)
    assert not (root / ".checkpoint").exists()
    assert git(root, "status", "--porcelain") == ""
    assert git(root, "log", "--format=%s", "--grep=refactor").count("checkpoint") == 1


def test_transitions_wait_while_a_person_is_in_the_middle_of_something(
    make_vault: Make, watch: Watch
) -> None:
    root = make_vault({"notes/rule.md": CANDIDATE.format(n=1)})
    head = git(root, "rev-parse", "HEAD")
    git(root, "bisect", "start")
    loop, told = watch(root)
    shell(root, "sed -i 's/state: candidate/state: active/' notes/rule.md")
    wait_until(lambda: any("a bisect is under way" in each.text for each in told))
    for number in range(3):
        write_notes(root, {f"notes/n{number}.md": "# N\n"})
        assert loop.settle(20)
    assert git(root, "rev-parse", "HEAD") == head
    git(root, "bisect", "reset")
    write_notes(root, {"notes/later.md": "# Later\n"})
    wait_until(lambda: git(root, "log", "--format=%s", "-3").count("promote") == 1)
    assert loop.settle(20)
    assert git(root, "log", "--format=%s").splitlines().count("promote") == 1


def test_lost_events_dead_threads_and_a_replaced_folder_are_healed(
    make_vault: Make, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_vault({"notes/old.md": "# Old\n\ngangway\n"})
    made: list[watcher_module.FolderWatcher] = []
    begin = watcher_module.FolderWatcher.start

    def start(self: watcher_module.FolderWatcher) -> str:
        made.append(self)
        return begin(self)

    monkeypatch.setattr(watcher_module.FolderWatcher, "start", start)
    loop, told = watch(root)
    for emitter in made[-1]._observer.emitters:
        emitter.stop()
    wait_until(lambda: len(made) == 2)
    write_notes(root, {"notes/a.md": "# A\n\nquagga\n"})
    wait_until(lambda: found(root, "quagga"))
    os.rename(root, root.with_name("aside"))
    shutil.copytree(root.with_name("aside"), root)
    write_notes(root, {"notes/b.md": "# B\n\nokapi\n"})
    wait_until(lambda: found(root, "okapi"))
    assert any("watching broke off" in each.text for each in told)
    assert loop.settle(20)


def test_a_checkout_of_many_files_is_taken_in_whole(make_vault: Make, watch: Watch) -> None:
    chance = random.Random(5)
    notes = {f"notes/n{n}.md": f"# N{n}\n\n{chance.random()}\n" for n in range(1500)}
    root = make_vault(notes)
    git(root, "checkout", "-q", "-b", "other")
    git(root, "rm", "-q", "-r", "notes")
    write_notes(root, {"notes/only.md": "# Only\n\nokapi\n"})
    git(root, "add", "-A")
    git(root, "commit", "-qm", "other")
    loop, _ = watch(root)
    git(root, "checkout", "-q", "main")
    wait_until(lambda: not found(root, "okapi"), 40)
    wait_until(lambda: len(documents(root)) == 1500 + 2, 40)
    assert loop.settle(20)


def documents(root: Path) -> list[int]:
    vault = open_vault(root)
    try:
        return vault.view.documents()
    finally:
        vault.close()
