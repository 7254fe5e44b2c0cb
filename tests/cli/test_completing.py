"""What a shell is offered for a word, by the protocol that the shells' scripts use."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Make
from in_process import run_here
from support import git, hash_tree

from vaultmem.storage.user_files import find_user_folder

NOTES = {
    "notes/auth/crew.md": "---\ntags: [deck/aft]\n---\n# Crew\n\n## Why not\n\nGloves.\n",
    "notes/pay/counter refunds.md": "# At the counter\n\nIn cash.\n",
    "notes/pay/refunds.md": "# Refunds\n\nHalf cents round up.\n",
    "sessions/s-0412.md": "# A session\n",
}


@pytest.fixture
def root(make_vault: Make) -> Path:
    made = make_vault(NOTES)
    run_here("index", cwd=made)
    git(made, "branch", "side/one")
    git(made, "pack-refs", "--all")
    git(made, "tag", "v1")
    return made


def offer(folder: Path, line: str, shell: str = "bash") -> list[str]:
    """Return what is offered for the last word of a line."""
    env = {
        "_VAULTMEM_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": f"vaultmem {line}",
        "COMP_CWORD": str(len(line.replace("\\ ", "_").split(" "))),
        "_TYPER_COMPLETE_ARGS": f"vaultmem {line}",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    return run_here(cwd=folder, env=env).out.split("\n")[:-1]


def test_the_values_of_the_vault_are_offered(root: Path) -> None:
    offered = {
        "show cou": ["counter\\ refunds"],
        "show counter\\ re": ["counter\\ refunds"],
        "show notes/p": ["notes/pay/counter\\ refunds.md", "notes/pay/refunds.md"],
        "mv no": ["notes/auth/", "notes/pay/"],
        "show crew#": ["crew#Crew", "crew#Why\\ not"],
        "show notes/auth/crew.md#W": ["notes/auth/crew.md#Why\\ not"],
        "show ../": [""],
        "list --kind dec": ["decision"],
        "list --state st": ["stale"],
        "list --tag de": ["deck/aft"],
        "recall x --context a": ["auth"],
        "show crew --at ": ["HEAD", "main", "side/one", "v1"],
        "switch s": ["side/one"],
        "diff main..v": ["main..v1"],
        "session show s": ["s-0412"],
        "import mem": ["mem0"],
        "connect claude-c": ["claude-code"],
        "eval q.md --set rec": ["recall_limit=", "recency_weight="],
    }
    for line, words in offered.items():
        assert offer(root, line) == words, line
    below = root / "notes/pay"
    assert offer(below, "show re") == ["refunds.md", "refunds"]
    assert offer(below, "show ../au") == ["../auth/crew.md"]
    assert offer(below, "show notes/au") == ["notes/auth/crew.md"]
    assert offer(below, "show count", "fish") == ["counter refunds.md", "counter refunds"]
    assert offer(root.parent, "show re") == [""]


def test_it_is_silent_and_writes_nothing(root: Path, home: Path) -> None:
    state = Path(find_user_folder("state", os.environ))
    before = hash_tree(root), hash_tree(home)
    (database,) = state.rglob("state-*.sqlite3")
    writer = sqlite3.connect(database, isolation_level=None)
    writer.execute("BEGIN EXCLUSIVE")
    assert offer(root, "show notes/auth/cr") == ["notes/auth/crew.md"]
    assert offer(root, "show cou") == ["counter\\ refunds"]
    assert offer(root, "show nope#x") == [""]
    writer.close()
    shutil.rmtree(state)
    assert offer(root, "show cou") == [""]
    assert not state.exists()
    assert hash_tree(root) == before[0]


@pytest.mark.long
@pytest.mark.skipif(shutil.which("fish") is None, reason="there is no fish")
def test_a_real_shell_completes(root: Path, tmp_path: Path, home: Path) -> None:
    script = tmp_path / "bin/vaultmem"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec {Path(sys.executable).with_name("vaultmem")} "$@"\n')
    script.chmod(0o755)
    line = f"set -x PATH {script.parent} $PATH; _VAULTMEM_COMPLETE=source_fish vaultmem | source; "
    done = subprocess.run(
        ["fish", "-c", line + 'complete -C "vaultmem show cou"'],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout.strip(), done.stderr) == ("counter refunds", "")


def test_kinds_and_states_are_offered_outside_of_a_vault(home: Path, tmp_path: Path) -> None:
    assert offer(tmp_path, "recall x --kind pol") == ["policy_rule"]
    assert offer(tmp_path, "list --state st") == ["stale"]
    assert offer(tmp_path, "list --tag de") in ([], [""])
