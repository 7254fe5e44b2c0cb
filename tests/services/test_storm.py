"""Whatever events are lost in a storm, soon the index is what a fresh one would be."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import Make, RunCli
from support import git, wait_until, write_notes
from watchers import found, held_by_fresh_index, held_now, watch_process, watched

#: In so many seconds everything has to be healed.
HEALED = 60

SIZES = [
    pytest.param(1_000, marks=pytest.mark.campaign),
    pytest.param(20_000, marks=pytest.mark.long),
]


def expect_fresh(root: Path, state: Path) -> None:
    """Wait until the index is what one made from nothing would be; the folder must be at rest."""
    fresh = held_by_fresh_index(root, state)
    started = time.monotonic()
    wait_until(lambda: held_now(root) == fresh, HEALED)
    print(f"{len(fresh)} notes, healed {time.monotonic() - started:.1f} s after a fresh index")


@pytest.mark.usefixtures("emitter")
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # watchdog warns of its own races.
@pytest.mark.parametrize("size", SIZES)
def test_a_checkout_of_many_files(make_vault: Make, tmp_path: Path, size: int) -> None:
    chance = random.Random(5)
    folders = [f"notes/{chance.randrange(40)}/{chance.randrange(4)}" for _ in range(size)]
    notes = {f"{folder}/n{n}.md": f"# N{n}\n\nword{n}\n" for n, folder in enumerate(folders)}
    root = make_vault(notes)
    git(root, "checkout", "-q", "-b", "other")
    git(root, "rm", "-q", "-r", "notes")
    write_notes(root, {"notes/only.md": "# Only\n\nokapi\n"})
    git(root, "add", "-A")
    git(root, "commit", "-qm", "other")
    with watched(root):
        for branch in ("main", "other", "main"):
            git(root, "checkout", "-q", branch)
        expect_fresh(root, tmp_path / "fresh")
        assert found(root, "okapi") == []


def overflow(root: Path) -> None:
    """Make more events than the kernel queues; it leaves out only what repeats the last one."""
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    files = [os.open(root / f"notes/storm{n}.md", os.O_WRONLY | os.O_CREAT) for n in range(2)]
    for number in range(limit):
        os.pwrite(files[number % 2], b"%08d" % number, 0)
    for file in files:
        os.close(file)


@pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")
@pytest.mark.parametrize(
    "size",
    [pytest.param(50, marks=pytest.mark.campaign), pytest.param(20_000, marks=pytest.mark.long)],
)
def test_an_overflow_of_the_kernels_queue(
    make_vault: Make, tmp_path: Path, run_cli: RunCli, size: int
) -> None:
    root = make_vault({"notes/old.md": "# Old\n\ngangway\n", "gone/n.md": "# Gone\n"})
    with watch_process(root) as process:
        process.send_signal(signal.SIGSTOP)
        overflow(root)
        shutil.rmtree(root / "gone")  # None of this is told any more.
        places = [f"new/{n % 30}/n{n}.md" for n in range(size)]
        write_notes(root, {place: f"# N\n\nword{n}\n" for n, place in enumerate(places)})
        process.send_signal(signal.SIGCONT)
        expect_fresh(root, tmp_path / "fresh")
        write_notes(root, {"new/7/late.md": "# Late\n\nquagga\n"})  # Are its folders watched?
        wait_until(lambda: found(root, "quagga"))
        assert run_cli("recall", "quagga", cwd=root).out.startswith(" 1. Late")


@pytest.mark.campaign
@pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")
def test_a_thread_that_died_and_a_folder_that_was_replaced(
    make_vault: Make, tmp_path: Path, run_cli: RunCli
) -> None:
    root = make_vault({"notes/old.md": "# Old\n\ngangway\n"})
    with watched(root) as (loop, told):
        loop._watcher._events._emitter.stop()
        wait_until(lambda: not loop._watcher._events.is_alive())
        write_notes(root, {"notes/a.md": "# A\n\nquagga\n"})
        wait_until(lambda: found(root, "quagga"))
        assert [each.text for each in told if each.kind == "problem"] == [
            "watching broke off; beginning again"
        ]
        aside = root.with_name("aside")
        os.rename(root, aside)
        write_notes(aside, {"notes/b.md": "# B\n\nokapi\n"})
        shutil.copytree(aside, root, ignore=shutil.ignore_patterns(".vaultmem-*.tmp"))
        write_notes(root, {"notes/c.md": "# C\n\nzebra\n"})
        wait_until(lambda: found(root, "zebra"))
        expect_fresh(root, tmp_path / "fresh")
        write_notes(root, {"notes/d.md": "# D\n\nkudu\n"})
        wait_until(lambda: found(root, "kudu"))
        assert loop.settle(20)


@pytest.mark.campaign
def test_a_folder_that_was_replaced_is_what_answers_are_about(
    make_vault: Make, run_cli: RunCli
) -> None:
    root = make_vault({"notes/old.md": "# Old\n\ngangway\n"})
    other = make_vault({"notes/new.md": "# New\n\nquagga\n"}, "other")
    with watch_process(root) as process:
        assert "Old" in run_cli("recall", "gangway", cwd=root).out
        os.rename(root, root.with_name("aside"))
        os.rename(other, root)
        cold = {"VAULTMEM_NO_WATCHER": "1"}
        for line in (["recall", "quagga"], ["recall", "gangway"], ["list", "--at", "main"]):
            warm, alone = run_cli(*line, cwd=root), run_cli(*line, cwd=root, env=cold)
            assert (warm.out, warm.err, warm.code) == (alone.out, alone.err, alone.code)
        assert process.wait(20) == 1  # Its data went with the vault that was moved.


@pytest.mark.campaign
def test_a_state_folder_that_was_removed_ends_the_watcher(make_vault: Make, home: Path) -> None:
    root = make_vault({"notes/old.md": "# Old\n"})
    with watch_process(root) as process:
        shutil.rmtree(home / "state")
        assert process.wait(30) == 1
        assert "start the watcher again" in process.stderr.read()  # type: ignore[union-attr]


@pytest.mark.campaign
@pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")
def test_folders_beyond_the_systems_limit_are_polled(make_vault: Make) -> None:
    root = make_vault({f"notes/f{n:02}/n.md": f"# N{n}\n" for n in range(20)})
    limit = "echo 12 > /proc/sys/user/max_inotify_watches"
    inside = ["unshare", "--user", "--map-root-user", "sh", "-c"]
    if subprocess.run([*inside, limit], capture_output=True, check=False).returncode:
        pytest.skip("limits cannot be lowered here")
    command = f"{limit}; exec '{sys.executable}' -m vaultmem watch --json --vault '{root}'"
    with subprocess.Popen([*inside, command], stdout=subprocess.PIPE, text=True) as process:
        try:
            for line in process.stdout:  # type: ignore[union-attr]
                told = json.loads(line)
                if told["what"] == "problem":
                    break
            assert told["text"].startswith("the system watches no more folders")
            assert "11 folders are polled every 5 s" in told["text"]  # Of 23, templates too.
            for number in range(20):
                write_notes(root, {f"notes/f{number:02}/late.md": f"# L\n\nquagga{number}\n"})
            for number in range(20):
                wait_until(lambda n=number: found(root, f"quagga{n}"))
        finally:
            process.terminate()
