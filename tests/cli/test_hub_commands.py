"""A hub from the command line: made, given a vault, its tokens, its record, and what mends it."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest
from conftest import Make
from in_process import run_here
from support import git


@pytest.mark.campaign
def test_a_hub_is_made_shared_looked_at_and_mended(make_vault: Make, tmp_path: Path) -> None:
    vault, hub = make_vault({"notes/pier.md": "# Pier\n"}), tmp_path / "hub"
    assert run_here("hub", "grants", cwd=tmp_path).code == 3
    assert "hub.yaml" in run_here("hub", "init", hub).out
    assert run_here("hub", "init", hub).code == 5
    added = run_here("hub", "add", "payments", "--from", vault, cwd=hub)
    assert "added   payments, 2 commits on main" in added.out
    assert run_here("hub", "add", "Payments", cwd=hub).code == 5
    assert run_here("hub", "add", "..", cwd=hub).code == 5
    assert "cannot be read by git" in run_here("hub", "add", "x", "--from", "/no", cwd=hub).err
    bare = hub / "repositories/payments.git"
    assert git(bare, "rev-parse", "main") == git(vault, "rev-parse", "main")
    warned = run_here("hub", "check", cwd=hub)
    assert "vaults without an owner" in warned.out

    made = run_here("hub", "grant", "ada", "--person", "--email", "Ada <ada@x.org>", "--admin", "*",
                    "--expires", "2099-01-31", "--json", cwd=hub).json  # fmt: skip
    for words in (["ada", "--read", "*"], ["b", "--person", "--agent", "--read", "*"],
                  ["b", "--person", "--write", "*"], ["b", "--agent"],
                  ["b", "--person", "--read", "payments:notes"], ["ada", "--agent", "--read", "*"],
                  ["b/c", "--agent", "--read", "*"],
                  ["b", "--agent", "--admin", "p:../x"]):  # fmt: skip
        assert run_here("hub", "grant", *words, cwd=hub).code == 5, words
    assert made["token"].startswith("vmhub_")
    assert made["token"] not in (hub / "grants.json").read_text()
    assert (hub / "grants.json").stat().st_mode & 0o777 == 0o600
    shown = run_here("hub", "grants", cwd=hub).out
    assert "never used, until 2099-01-31" in shown
    assert made["token"] not in shown

    subprocess.run(["git", "--git-dir", bare, "config", "core.hooksPath", "/none"], check=True)
    (hub / "hooks/pre-receive").unlink()
    hub.chmod(0o755)
    broken = run_here("hub", "check", cwd=hub)
    assert broken.code == 1
    assert "the hook is missing" in broken.out
    assert "git's settings are not the hub's: core.hooksPath" in broken.out
    assert "others on this machine can look into it" in broken.out
    assert run_here("hub", "check", "--fix", cwd=hub).code == 0
    assert run_here("hub", "check", cwd=hub).out.count("ok  ") == 5

    assert "revoked ada" in run_here("hub", "revoke", "ada", cwd=hub).out
    assert run_here("hub", "revoke", "ada", cwd=hub).code == 4
    removed = run_here("hub", "remove", "payments", "--json", cwd=hub).json
    assert not bare.exists()
    assert git(Path(removed["kept"]), "rev-parse", "main") == git(vault, "rev-parse", "main")
    told = run_here("hub", "log", cwd=hub).out
    assert [line.split()[3] for line in told.splitlines() if "terminal" in line] == [
        *("remove", "revoke", "grant", "add")
    ]


def test_check_drops_what_a_removed_proposal_leaves_in_the_repository(
    make_vault: Make, tmp_path: Path
) -> None:
    vault, hub = make_vault({"notes/pier.md": "# Pier\n"}), tmp_path / "hub"
    run_here("hub", "init", hub)
    run_here("hub", "add", "payments", "--from", vault, cwd=hub)
    bare = hub / "repositories/payments.git"
    blob = git(bare, "hash-object", "-w", "--stdin", stdin="What was proposed.\n").strip()
    file = bare / "objects" / blob[:2] / blob[2:]
    run_here("hub", "check", "--fix", cwd=hub)
    assert file.exists()  # It may be a push's.
    hours = time.time() - 7200
    os.utime(file, (hours, hours))
    assert "objects without a ref" in run_here("hub", "check", "--fix", cwd=hub).out
    assert not git(bare, "cat-file", "--batch-check", stdin=blob).startswith(f"{blob} blob")


def test_grants_and_log_use_the_words_of_the_options(tmp_path: Path) -> None:
    hub = tmp_path / "hub"
    run_here("hub", "init", hub)
    assert run_here("hub", "log", cwd=hub).out == "The log is empty.\n"
    words = ("ada", "--person", "--email", "ada@x.org", "--admin", "*")
    assert "admin   *\n" in run_here("hub", "grant", *words, cwd=hub).out
    assert "admin   *\n" in run_here("hub", "grants", cwd=hub).out
    assert "ada  admin *\n" in run_here("hub", "log", cwd=hub).out
    assert run_here("hub", "log", "--user", "eve", cwd=hub).out == "No entry matches.\n"
    assert run_here("hub", "log", "--limit", "0", cwd=hub).code == 2
    wrong_age = run_here("hub", "grant", "ada", "--rotate", "--grace", "12x", cwd=hub)
    assert "write it like 12h, 90d" in wrong_age.err


def test_grant_warns_of_a_vault_that_the_hub_does_not_have(tmp_path: Path) -> None:
    hub = tmp_path / "hub"
    run_here("hub", "init", hub, cwd=tmp_path)
    words = ("hub", "grant", "scout", "--agent", "--write")
    of_a_fleet = run_here(*words, "elsewhere", cwd=hub)
    run_here("hub", "add", "team", cwd=hub)

    wrong = run_here(*words, "teem:notes", "--json", cwd=hub)
    other = run_here(*words, "payments", cwd=hub)
    right = run_here(*words, "team:notes", "--read", "pay*", cwd=hub)

    assert (wrong.code, wrong.json["id"] in other.out) == (0, True)
    assert "teem: the hub has no such vault; did you mean " in wrong.err
    assert "payments: the hub has no such vault; `vaultmem hub add payments` adds one" in other.err
    assert (of_a_fleet.err, right.err) == ("", "")
