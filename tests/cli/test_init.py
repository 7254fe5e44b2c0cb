"""`init` for people and programs: what it asks, keeps out of git, and puts on the list."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Make, Result, RunCli
from core.credentials import CREDENTIALS
from in_process import run_here
from support import git, hash_tree, wait_until, write_notes
from terminal import answer_at_terminal
from watchers import watch_process

from vaultmem.config import read_config

KEY = dict(CREDENTIALS)["AWS access key"]
PWD = "aZ7bY6cX5dW4" + "eV3fU2gT09"

NOTES = {
    "Home.md": "# Home\n\nThe harbour is at Husum.\n",
    "Crew call.md": f"[call](https://zoom.us/j/91655551234?pwd={PWD}) and the\n",
    "Teams.md": f"https://teams.microsoft.com/l/meetup-join/1?passcode={PWD}\n",
}
LEAKY = {"Keys/Old [1] #2.md": f"# Lanterns\n\nThe lantern's key: {KEY}\n"}


@pytest.fixture
def folder(home: Path, tmp_path: Path) -> Path:
    write_notes(tmp_path / "v", NOTES | LEAKY)
    return tmp_path / "v"


def type_here(cwd: Path, *words: str, answers: str = "") -> Result:
    """Run `vaultmem` where a person types these lines, and its output goes into a pipe."""
    done = answer_at_terminal(["vaultmem", *words], answers, cwd)
    return Result(done.returncode, done.stdout, done.stderr)


def list_committed(root: Path) -> set[str]:
    return set(git(root, "-c", "core.quotePath=false", "ls-files").splitlines())


def test_meeting_links_are_no_reason_to_ask_and_no_note_is_changed(
    home: Path, tmp_path: Path
) -> None:
    write_notes(tmp_path / "v", NOTES)
    before = hash_tree(tmp_path / "v")
    done = run_here("init", "v", "--yes", cwd=tmp_path)
    after = hash_tree(tmp_path / "v", skip=(".git",))
    assert done.code == 0
    assert "credential" not in done.out + done.err
    assert {path: after[path] for path in before} == before
    assert set(NOTES) <= list_committed(tmp_path / "v")


def test_without_a_terminal_notes_with_credentials_stay_out_of_git_and_are_found(
    folder: Path,
) -> None:
    before = hash_tree(folder)
    done = run_here("init", cwd=folder)
    (path,) = LEAKY

    assert done.code == 0
    assert f"{path}:3: aws-access-token" in " ".join(done.out.split())
    assert f"Kept out of git, and indexed: {path}" in done.out
    assert "`vaultmem init --allow-secrets`" in done.out
    assert KEY not in done.out + done.err
    assert list_committed(folder) >= set(NOTES)
    assert path not in list_committed(folder)
    hits = run_here("recall", "lanterns", "--json", cwd=folder).json["hits"]
    assert [hit["path"] for hit in hits] == [path]
    after = hash_tree(folder, skip=(".git",))
    assert {each: after[each] for each in before} == before


@pytest.mark.campaign
def test_what_is_kept_out_of_git_is_in_nobodys_way(folder: Path) -> None:
    run_here("init", cwd=folder)
    (path,) = LEAKY
    write_notes(folder, {"Home.md": "# Home\n\nThe harbour is at Büsum.\n"})
    with open(folder / path, "a") as file:
        file.write("It is rusty.\n")

    status = run_here("status", cwd=folder)
    assert f"kept out    {path}: lines look like credentials" in status.out
    assert "commits wait" not in status.out
    assert run_here("status", "--json", cwd=folder).json["git"]["kept_out"] == [path]
    done = run_here("checkpoint", "moved", cwd=folder)
    assert done.code == 0
    assert path not in done.out
    git(folder.parent, "init", "-q", "--bare", "remote.git")
    synced = run_here("sync", str(folder.parent / "remote.git"), cwd=folder)
    assert synced.code == 0, synced.err
    assert git(folder, "status", "--porcelain") == ""
    git(folder, "add", "-A")
    assert path not in list_committed(folder)
    assert run_here("doctor", cwd=folder).code == 0


@pytest.mark.campaign
def test_a_watcher_commits_the_rest(folder: Path) -> None:
    run_here("init", cwd=folder)
    with watch_process(folder):
        (folder / ".checkpoint").write_text("the harbour moved\n")
        write_notes(folder, {"Home.md": "# Home\n\nThe harbour is at Büsum.\n"})
        wait_until(lambda: git(folder, "status", "--porcelain") == "")
    assert not set(LEAKY) & list_committed(folder)


def test_the_owner_lets_git_have_them_later(folder: Path) -> None:
    run_here("init", cwd=folder)
    (path,) = LEAKY
    exclude = folder / ".git/info/exclude"
    exclude.write_text(f"# mine\n/own\n{exclude.read_text()}/more\n")

    done = run_here("init", "--allow-secrets", cwd=folder)

    assert done.code == 0
    assert f"No longer kept out of git: {path}" in done.out
    assert "vaultmem checkpoint" in done.out
    lines = exclude.read_text().splitlines()
    assert not [line for line in lines if "vaultmem" in line or "Keys" in line]
    assert {"/own", "/more"} <= set(lines)
    assert run_here("checkpoint", "the keys", cwd=folder).code == 0
    assert path in list_committed(folder)
    assert git(folder, "status", "--porcelain") == ""


def test_what_holds_a_credential_no_more_comes_back_by_a_second_init(folder: Path) -> None:
    run_here("init", cwd=folder)
    (path,) = LEAKY
    assert "No longer" not in run_here("init", cwd=folder).out
    write_notes(folder, {path: "# Lanterns\n\nThe key hangs at the door.\n"})

    assert f"No longer kept out of git: {path}" in run_here("init", cwd=folder).out
    run_here("checkpoint", "the keys", cwd=folder)
    assert path in list_committed(folder)


def test_allow_secrets_commits_them_at_once(folder: Path) -> None:
    done = run_here("init", "--allow-secrets", "--json", cwd=folder)
    assert done.code == 0
    assert done.json["kept_out"] == []
    assert set(NOTES | LEAKY) <= list_committed(folder)
    (path,) = LEAKY
    write_notes(folder, {path: f"# Lanterns\n\nThe lantern's key: {KEY}\n\nIt is rusty.\n"})
    assert run_here("checkpoint", "rust", cwd=folder).code == 0
    assert git(folder, "status", "--porcelain") == ""


def test_json_without_a_terminal_names_what_is_kept_out(folder: Path) -> None:
    planned = run_here("init", "--dry-run", "--json", cwd=folder).json
    made = run_here("init", "--json", cwd=folder).json
    assert planned["kept_out"] == made["kept_out"] == [*LEAKY]
    assert planned["credentials"] == [f"{next(iter(LEAKY))}:3: aws-access-token"]
    assert (planned["listed_as"], made["listed_as"]) == (None, "v")


@pytest.mark.campaign
def test_a_person_is_shown_the_lines_and_keeps_the_notes_out_of_git(folder: Path) -> None:
    done = type_here(folder, "init", answers="k\ny\nn\n")
    assert done.code == 0, done.err
    assert "Old [1] #2.md:3: aws-access-token  The lantern's key: ***" in done.err
    assert KEY not in done.err + done.out
    assert "[k]eep these files out of git, [c]ommit them anyway, or [s]top?" in done.err
    assert "Commit 3 files of" in done.err
    assert not set(LEAKY) & list_committed(folder)


@pytest.mark.campaign
def test_a_person_commits_them_anyway_or_stops(folder: Path) -> None:
    stopped = type_here(folder, "init", answers="what\ns\n")
    assert stopped.code == 1
    assert not (folder / ".git").exists()
    refused = type_here(folder, "init", answers="c\nn\n")
    assert refused.code == 1
    assert not (folder / ".git").exists()
    done = type_here(folder, "init", answers="c\ny\nn\n")
    assert done.code == 0, done.err
    assert "Commit 4 files of" in done.err
    assert set(NOTES | LEAKY) <= list_committed(folder)


@pytest.mark.campaign
def test_a_person_is_asked_before_the_first_commit_though_the_output_is_a_pipe(
    home: Path, tmp_path: Path
) -> None:
    write_notes(tmp_path / "v", {"Diary.md": "Mine.\n"})
    refused = type_here(tmp_path, "init", "v", answers="n\n")
    assert (refused.code, "Commit 1 file of" in refused.err) == (1, True)
    assert "These look private: Diary.md" in refused.err
    assert [each.name for each in (tmp_path / "v").iterdir()] == ["Diary.md"]
    assert type_here(tmp_path, "init", "v", "--yes").code == 0
    assert type_here(tmp_path, "init", "empty").code == 0


@pytest.mark.campaign
def test_commits_of_edits_are_offered_and_suggested_for_obsidian(
    home: Path, tmp_path: Path
) -> None:
    def read(name: str) -> int:
        return read_config(tmp_path / name).commit_edits_after_seconds

    for name in ("plain", "other", "piped", "late"):
        write_notes(tmp_path / name, {"a.md": "Mine.\n"})
    for name in ("obsidian", "no", "yes"):
        write_notes(tmp_path / name, {"a.md": "Mine.\n", ".obsidian/app.json": "{}\n"})
    assert type_here(tmp_path, "init", "plain", answers="y\n\n").code == 0
    asked = type_here(tmp_path, "init", "obsidian", answers="y\n\n")
    assert "after ten minutes without a save, while `vaultmem watch` runs? [Y/n]" in asked.err
    assert (read("plain"), read("obsidian")) == (0, 600)
    assert "hint" not in asked.out
    assert type_here(tmp_path, "init", "no", "--no-commit-edits", answers="y\n").code == 0
    assert "commit_edits" not in (tmp_path / "no/vaultmem.yaml").read_text()
    assert run_here("init", "other", "--commit-edits", cwd=tmp_path).code == 0
    assert "commit_edits_after_seconds: 600\n" in (tmp_path / "other/vaultmem.yaml").read_text()
    hinted = run_here("init", "yes", "--yes", cwd=tmp_path)
    assert "`vaultmem init --commit-edits`" in hinted.out
    assert read("yes") == 0

    assert run_here("init", "late", cwd=tmp_path).code == 0
    (tmp_path / "late/vaultmem.yaml").write_text("recall_limit: 3 # few\nagent: x")
    assert run_here("init", "late", "--commit-edits", cwd=tmp_path).code == 0
    text = (tmp_path / "late/vaultmem.yaml").read_text()
    assert text == "recall_limit: 3 # few\nagent: x\ncommit_edits_after_seconds: 600\n"
    assert run_here("init", "late", "--no-commit-edits", cwd=tmp_path).code == 0
    assert read("late") == 0


@pytest.mark.campaign
def test_the_only_vault_on_the_list_is_used_outside_of_any(
    run_cli: RunCli, home: Path, tmp_path: Path
) -> None:
    none = run_cli("remember", "The tide turns at noon.", cwd=tmp_path)
    assert (none.code, "vaultmem init" in none.err) == (3, True)
    assert ", listed as memory." in run_cli("init", "memory", cwd=tmp_path).out
    run_cli("init", "memory", cwd=tmp_path)
    assert [each["name"] for each in run_cli("vault", "list", "--json").json["vaults"]] == [
        "memory"
    ]

    assert run_cli("remember", "The tide turns at noon.", cwd=home).code == 0
    assert "noon" in run_cli("recall", "tide", cwd=home).out
    with watch_process(tmp_path / "memory"):
        assert "noon" in run_cli("recall", "tide", cwd=home).out

    run_cli("init", "deep/Memory", cwd=tmp_path)
    several = run_cli("recall", "tide", cwd=home)
    assert several.code == 3
    for told in (f"memory ({tmp_path}/memory)", f"Memory-2 ({tmp_path}/deep/Memory)", "--vault"):
        assert told in several.err
    assert "noon" in run_cli("recall", "tide", "--vault", "memory", cwd=home).out
    named = {"VAULTMEM_VAULT": "memory"}
    assert "noon" in run_cli("recall", "tide", cwd=home, env=named).out
    assert run_cli("recall", "tide", cwd=tmp_path / "deep/Memory").code == 0


@pytest.mark.campaign
def test_a_listed_vault_that_is_gone_is_not_used(
    run_cli: RunCli, home: Path, tmp_path: Path
) -> None:
    for name in ("a", "b"):
        run_cli("init", name, cwd=tmp_path)
    (tmp_path / "b").rename(tmp_path / "moved")
    two = run_cli("remember", "x", cwd=home)
    assert (two.code, f"b ({tmp_path}/b, not there)" in two.err) == (3, True)
    run_cli("vault", "remove", "a")
    alone = run_cli("remember", "x", cwd=home)
    assert alone.code == 3
    assert "`vaultmem vault remove b`" in alone.err
    assert "not there" in alone.err


def test_connect_lists_the_vault_too_and_a_hook_asks_none_by_itself(
    run_cli: RunCli, make_vault: Make, home: Path, tmp_path: Path
) -> None:
    root = make_vault({"notes/tide.md": "# Tide\n\nThe tide turns at noon.\n"})
    run_cli("connect", "claude-code", "--dry-run", cwd=root)
    assert run_cli("vault", "list", "--json").json["vaults"] == []
    assert run_cli("connect", "claude-code", cwd=root).code == 0
    (listed,) = run_cli("vault", "list", "--json").json["vaults"]
    assert (listed["name"], listed["path"]) == ("vault", str(root))
    event = {"hook_event_name": "UserPromptSubmit", "prompt": "tide", "cwd": str(tmp_path)}
    asked = run_cli("hook", "prompt", cwd=tmp_path, stdin=json.dumps(event))
    assert (asked.code, asked.out, asked.err) == (0, "", "")


@pytest.mark.campaign
def test_vaultmem_alone_shows_status_and_the_next_step_in_a_vault(
    run_cli: RunCli, home: Path, tmp_path: Path
) -> None:
    outside = run_cli(cwd=tmp_path)
    assert outside.out == run_cli("--help", cwd=tmp_path).out
    run_cli("init", "v", cwd=tmp_path)
    assert run_cli(cwd=tmp_path).out == outside.out

    def find_next() -> str:
        done = run_cli(cwd=tmp_path / "v/templates")
        assert done.code == 0
        *status, line = done.out.splitlines()
        assert f"vault       {tmp_path / 'v'}" in status
        assert line.startswith("next        ")
        return line

    assert "`vaultmem remember" in find_next()
    run_cli("remember", "The tide turns at noon.", cwd=tmp_path / "v")
    assert "`vaultmem checkpoint" in find_next()
    run_cli("checkpoint", "tide", cwd=tmp_path / "v")
    assert "`vaultmem recall" in find_next()
    run_cli("remember", "The ebb is at six.", "--state", "candidate", cwd=tmp_path / "v")
    assert "`vaultmem review`" in find_next()
    assert "next " not in run_cli("status", cwd=tmp_path / "v").out


def test_templates_are_made_again_where_a_killed_init_left_a_temporary_file(
    home: Path, tmp_path: Path
) -> None:
    """A kill between the link of a template and the removal of its temporary file."""
    script = (
        "import os, sys; import vaultmem.storage.files as files\n"
        "drop = files.drop_file\n"
        "files.drop_file = lambda f: os._exit(9) if f.parent.name == 'templates' else drop(f)\n"
        "from vaultmem.services.memory.create_vault import create_vault\n"
        "create_vault(sys.argv[1])\n"
    )
    killed = subprocess.run([sys.executable, "-c", script, str(tmp_path / "v")], timeout=60)
    assert killed.returncode == 9
    assert run_here("init", "v", "--yes", cwd=tmp_path).code == 0
    assert len(list((tmp_path / "v/templates").glob("*.md"))) == 6
    assert git(tmp_path / "v", "status", "--porcelain") == ""
