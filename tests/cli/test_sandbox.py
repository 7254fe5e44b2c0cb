"""A sandbox: the state folder, the notes or the whole home cannot be written."""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import Make, Open, RunCli
from support import hash_tree

from vaultmem.core.text.blob import blob_id
from vaultmem.services.views.update_index import sync_vault
from vaultmem.storage import state
from vaultmem.storage.git.commit_draft import TreeEntry
from vaultmem.storage.journal import FileChanges
from vaultmem.storage.state import claim_state_folder
from vaultmem.storage.user_files import find_user_folder

NOTES = {"notes/ferry.md": "# Ferry\n\nThe ferry leaves pier 4 at nine.\n"}


@pytest.fixture
def lock_folder() -> Iterator[Callable[[Path], None]]:
    """Return a function after which nobody can write below a folder."""
    locked: list[Path] = []

    def lock(folder: Path) -> None:
        if os.geteuid() != 0:
            for each in (folder, *filter(Path.is_dir, folder.rglob("*"))):
                each.chmod(0o500)
        else:
            mount = ["mount", "--bind", "-o", "ro", folder, folder]
            if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
                pytest.skip("nothing can be mounted here")
        locked.append(folder)

    yield lock
    for folder in locked:
        if os.geteuid() == 0:
            subprocess.run(["umount", "-l", folder], check=True)
        else:
            for each in (folder, *filter(Path.is_dir, folder.rglob("*"))):
                each.chmod(0o700)


@pytest.mark.parametrize(
    "kind", ["read-only", pytest.param("never made", marks=pytest.mark.campaign)]
)
def test_without_a_state_folder_memory_answers_and_nothing_is_written(
    make_vault: Make,
    start_cli: RunCli,
    home: Path,
    tmp_path: Path,
    lock_folder: Callable[[Path], None],
    kind: str,
) -> None:
    root = make_vault(NOTES)
    env = {"TMPDIR": str(tmp_path)}
    if kind == "read-only":
        assert start_cli("recall", "ferry", cwd=root).code == 0
        lock_folder(home / "state")
    else:
        (home / "file").touch()
        env["XDG_STATE_HOME"] = str(home / "file")

    first = start_cli("recall", "ferry", cwd=root, env=env)
    pack = start_cli("--agent", "codex", "pack", "ferry", cwd=root, env=env)

    assert (first.code, "pier 4 at nine" in first.out) == (0, True), first.err
    assert "answers come from" in first.err
    assert f"{home}/" in first.err
    assert (pack.code, "pier 4 at nine" in pack.out) == (0, True), pack.err
    assert "no receipt: " in pack.err
    assert "answers come from" not in pack.err  # It was said.

    before = hash_tree(root)
    for words in (["remember", "The ferry is late."], ["session", "start"], ["pin", "ferry"]):
        done = start_cli(*words, cwd=root, env=env)
        assert done.code == 1, words
        assert "outside of its sandbox" in done.err
    assert hash_tree(root) == before
    told = start_cli("doctor", cwd=root, env=env)
    assert "let this process write to that folder" in told.out


@pytest.mark.campaign
def test_a_read_only_vault_answers_and_says_what_it_cannot_write(
    make_vault: Make, start_cli: RunCli, lock_folder: Callable[[Path], None]
) -> None:
    root = make_vault(NOTES)
    lock_folder(root)

    found = start_cli("recall", "ferry", cwd=root)
    done = start_cli("remember", "The ferry is late.", cwd=root)

    assert (found.code, "pier 4 at nine" in found.out) == (0, True), found.err
    assert done.code == 1
    assert "nothing was written" in done.err
    assert "Read-only file system" in done.err or "Permission denied" in done.err


def test_a_spare_folder_is_in_memory_where_nothing_else_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    memory = tmp_path / "memory"
    memory.mkdir()
    monkeypatch.chdir(tmp_path)
    # What tempfile answers where no folder for temporary files can be written.
    monkeypatch.setattr(state.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(state, "_IN_MEMORY", memory)

    found = claim_state_folder(tmp_path / "file" / "key")

    assert found.path.is_relative_to(memory)
    assert found.path.name == "key"
    assert found.path.stat().st_mode & 0o077 == 0
    assert "Not a directory" in found.lack
    assert claim_state_folder(tmp_path / "file" / "key").is_new is False


def test_a_change_that_is_half_done_outside_is_not_undone_from_a_sandbox(
    make_vault: Make,
    home: Path,
    tmp_path: Path,
    opened: Open,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    vault = opened(make_vault(NOTES))
    sync_vault(vault)
    file = vault.root / "notes/ferry.md"
    old, new = file.read_bytes(), b"# Ferry\n\nHalf of a change.\n"
    before, after = (TreeEntry("100644", blob_id(data)) for data in (old, new))
    moves = {"notes/ferry.md": (before, after)}
    head = vault.head()
    assert head is not None
    vault.operations.write_files(FileChanges(head.commit, True, moves, {before.blob: old}))
    file.write_bytes(new)
    (home / "file").touch()
    monkeypatch.setattr(state.tempfile, "gettempdir", lambda: str(tmp_path))
    with pytest.MonkeyPatch.context() as inside:
        inside.setenv("XDG_STATE_HOME", str(home / "file"))

        sync_vault(opened(vault.root))

    assert file.read_bytes() == new
    sync_vault(vault)
    assert file.read_bytes() == old


def test_who_has_no_home_has_no_folder_in_the_current_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def find(_: object) -> object:
        raise KeyError("no such user")

    for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", find)

    for kind in ("state", "config", "data"):
        assert find_user_folder(kind, {}).startswith("/nonexistent/")
