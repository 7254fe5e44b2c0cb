"""`context`, `status` and `doctor` as processes: what they print, leave, and end with."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Make, RunCli
from support import git, hash_tree, wait_until, write_notes

from vaultmem.core.packs.context_file import BEGIN, END

NOTES = {
    "MEMORY.md": "# Memory\n\nThe ferry leaves at noon.\n",
    "notes/tide.md": "# Tide\n\nThe ferry waits for the tide.\n",
}


def read_pack(run_cli: RunCli, root: Path, *arguments: str) -> bytes:
    return run_cli("pack", *arguments, cwd=root, env={"VAULTMEM_NO_WATCHER": "1"}).out.encode()


@pytest.mark.campaign
def test_context_is_what_pack_prints_at_the_same_moment(
    make_vault: Make, run_cli: RunCli, home: Path
) -> None:
    root = make_vault(NOTES)
    with open(root / "vaultmem.yaml", "a") as file:
        file.write('budget: 900\nextra_packs: "notes/TIDE.md: --budget 300 tide"\n')
        file.write("inject_context_into: ~/code/AGENTS.md\n")
    kept = home / "code/AGENTS.md"
    write_notes(home / "code", {"AGENTS.md": f"# Rules\r\n{BEGIN}\r\n{END}\r\nend"})

    done = run_cli("context", "--json", cwd=root)
    names = ["CONTEXT.md", "notes/TIDE.md", "~/code/AGENTS.md"]
    assert done.json == {
        "contexts": [{"path": name, "changed": True, "problem": None} for name in names]
    }
    pack = (root / "CONTEXT.md").read_bytes()
    assert pack == read_pack(run_cli, root)
    assert (root / "notes/TIDE.md").read_bytes() == read_pack(
        run_cli, root, "tide", "--budget", "300"
    )
    inside = pack.replace(b"\n", b"\r\n")
    start, end = f"# Rules\r\n{BEGIN}\r\n".encode(), f"{END}\r\nend".encode()
    assert kept.read_bytes() == start + inside + end
    commit = git(root, "rev-parse", "--short=7", "HEAD")
    assert pack.decode().startswith(f"# Context  (vault main@{commit}, ")
    assert " of 900 tokens" in pack.decode().splitlines()[-1]

    kept.write_text("no markers\n")
    again = run_cli("context", cwd=root)
    assert again.code == 1
    assert again.out.splitlines()[:2] == ["same     CONTEXT.md", "same     notes/TIDE.md"]
    assert "error: ~/code/AGENTS.md was not written: it has no line" in again.err
    assert kept.read_text() == "no markers\n"

    write_notes(root, {"MEMORY.md": "# Memory\n\nThe ferry leaves at one.\n"})
    git(root, "commit", "-q", "-am", "one")
    assert run_cli("context", cwd=root).out.split()[:2] == ["wrote", "CONTEXT.md"]
    assert (root / "CONTEXT.md").read_bytes() == read_pack(run_cli, root)
    assert not {"CONTEXT.md", "notes/TIDE.md"} & set(git(root, "ls-files").splitlines())


@pytest.fixture
def watched(make_vault: Make, run_cli: RunCli) -> Iterator[Path]:
    root = make_vault(NOTES)
    pid = run_cli("watch", "--daemon", "--json", cwd=root).json["watcher"]["pid"]
    yield root
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


@pytest.mark.campaign
def test_a_watcher_keeps_context_equal_to_pack_and_whole(watched: Path, run_cli: RunCli) -> None:
    file = watched / "CONTEXT.md"
    wait_until(file.exists)
    seen: set[bytes] = set()
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            seen.add(file.read_bytes())

    reader = threading.Thread(target=read)
    reader.start()
    packs = {file.read_bytes()}
    try:
        for number in range(2):
            text = f"The ferry leaves at {number}.\n\n{'Tide. ' * 200 * (1 - number)}\n"
            write_notes(watched, {"MEMORY.md": f"# Memory\n\n{text}"})
            mark = f"leaves at {number}.".encode()
            wait_until(lambda mark=mark: mark in file.read_bytes())  # type: ignore[misc]
            packs.add(read_pack(run_cli, watched))
            assert file.read_bytes() in packs
    finally:
        stop.set()
        reader.join()
    assert seen <= packs
    assert len(packs) == 3

    pid = run_cli("status", "--json", cwd=watched).json["watcher"]["pid"]
    os.kill(pid, signal.SIGKILL)
    told = "problem  watcher             a watcher was killed\n"
    wait_until(lambda: told in run_cli("doctor", cwd=watched).out)
    mended = run_cli("doctor", "--fix", cwd=watched)
    assert mended.code == 0
    assert "watch.json is removed\n" in mended.out


def test_status_is_aligned_and_its_json_complete(make_vault: Make, run_cli: RunCli) -> None:
    root = make_vault({**NOTES, "notes/binary.md": b"\0"})
    write_notes(root, {"notes/tide.md": "# Tide\n\nLow.\n", "a\x1b[31m.txt": "x\n"})
    before = hash_tree(root)
    done = run_cli("--agent", "claude", "status", "--session", "s1", cwd=root)
    assert (done.code, done.err) == (0, "")
    assert "\x1b" not in done.out
    facts = {line[:12].strip(): line[12:] for line in done.out.partition("\n\n")[0].splitlines()}
    commit = git(root, "rev-parse", "HEAD")
    assert facts["vault"] == str(root)
    assert facts["branch"] == f"main at {commit[:7]}"
    assert facts["author"] == "agent claude (s1)"
    assert facts["states"] == "3 active"
    assert facts["uncommitted"] == "people: 1 note and 1 other file"
    assert facts["problems"] == "1; run `vaultmem doctor` to see what to do"

    found = run_cli("status", "--json", cwd=root).json
    assert set(found) == {
        *("vault", "settings_problem", "git", "agent", "session", "ref", "watcher", "notes"),
        *("tokens", "kinds", "states", "to_decide", "index", "waiting", "problems", "skipped"),
        *("trust_problem", "in_doubt", "proposed"),
    }
    assert found["git"]["commit"] == commit
    assert found["git"]["uncommitted"][0]["notes"] == ["notes/tide.md"]
    assert found["git"]["events"][0]["event"] == "init"
    assert found["index"]["in_sync"] is True
    assert hash_tree(root) == before


def test_broken_settings_are_told_with_their_remedy(
    make_vault: Make, run_cli: RunCli, tmp_path: Path
) -> None:
    root = make_vault(NOTES)
    (root / "vaultmem.yaml").write_text('ignor: "x"\n')
    before = hash_tree(root)

    done = run_cli("--vault", root, "status", cwd=tmp_path)
    assert done.code == 0
    told = 'vaultmem.yaml: unknown key "ignor"; did you mean ignore?'
    assert f"settings    {told}\n" in done.out
    assert "branch      main at " in done.out
    (root / "vaultmem.yaml").write_bytes(b"\xff")
    assert "cannot be read" in run_cli("status", "--json", cwd=root).json["settings_problem"]
    (root / "vaultmem.yaml").write_text("summary_after_days: 90\n")
    told = run_cli("doctor", cwd=root).out
    assert told.startswith('problem  settings            vaultmem.yaml: "summary_after_days" is 90')
    assert 'remedy: set "summary_after_days" to 60 or less' in told
    (root / "vaultmem.yaml").write_text('ignor: "x"\n')
    done = run_cli("doctor", "--fix", cwd=root)
    assert done.code == 1
    assert done.out.startswith("problem  settings            vaultmem.yaml: ")
    assert hash_tree(root) == before


def test_doctor_mends_and_says_what_it_did(make_vault: Make, run_cli: RunCli) -> None:
    root = make_vault(NOTES)
    (root / ".gitignore").write_text("/transcripts/\n/media/\n/.obsidian/workspace*.json\n")
    git(root, "commit", "-q", "-am", "ignore less")
    git(root, "config", "--unset", "merge.vaultmem.driver")
    before = hash_tree(root)

    found = run_cli("doctor", cwd=root)
    assert found.code == 1
    assert hash_tree(root) == before
    lines = found.out.splitlines()
    at = lines.index("problem  ignored files       generated or local, and not ignored by git: 4")
    assert lines[at + 1 : at + 6] == [
        "         /CONTEXT.md",
        "         /.trash/",
        "         **/*.tmp",
        "         **/.vaultmem-*",
        "         remedy: add these lines to .gitignore, or run `vaultmem doctor --fix`",
    ]
    assert "problem  merge driver        git is set to merge notes with vaultmem, but not how" in (
        lines
    )

    mended = run_cli("doctor", "--fix", cwd=root)
    assert mended.code == 0
    assert "         fixed: /CONTEXT.md is in the repository's exclude file\n" in mended.out
    assert "         fixed: merge.vaultmem.driver is set\n" in mended.out
    changed = {path for path, _ in hash_tree(root).items() ^ before.items()}
    assert changed == {".git/config", ".git/info/exclude"}
    again = run_cli("doctor", "--json", cwd=root)
    assert (again.code, again.json["ok"]) == (0, True)
    fields = {"name", "verdict", "message", "paths", "remedy", "fixed"}
    assert all(set(each) == fields for each in again.json["checks"])


@pytest.mark.campaign
def test_doctor_needs_no_git_to_be_installed(
    make_vault: Make, start_cli: RunCli, tmp_path: Path
) -> None:
    root = make_vault(NOTES)
    (tmp_path / "bin").mkdir()
    alone = {"PATH": str(tmp_path / "bin")}
    found = start_cli("doctor", cwd=root, env=alone)
    assert found.code == 1
    assert "problem  git                 it is not installed" in found.out
