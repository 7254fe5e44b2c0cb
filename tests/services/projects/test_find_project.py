"""The project of a real folder: repositories that are moved, cloned, forked, or are none."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import Make, Open

from vaultmem.core.project import TABLE_NAME
from vaultmem.errors import VaultError
from vaultmem.services.projects.project_table import ensure_project, find_project, read_projects
from vaultmem.storage.git import repository
from vaultmem.vault import Vault


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def make_repository(folder: Path, text: str = "print()\n") -> Path:
    folder.mkdir(parents=True)
    git(folder, "init", "-q")
    (folder / "main.py").write_text(f"# {folder.name}\n{text}")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", f"Begin {folder.name}")
    return folder


@pytest.fixture
def vault(make_vault: Make, opened: Open) -> Vault:
    return opened(make_vault())


@pytest.fixture
def code(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "code/harbour")


def name_of(vault: Vault, folder: Path) -> str | None:
    found = find_project(vault, folder)
    return found.name if found else None


def test_a_repository_is_added_once_and_found_after_a_move(vault: Vault, code: Path) -> None:
    assert find_project(vault, code) is None
    made = ensure_project(vault, code)
    assert made is not None
    assert (made.name, made.root) == ("harbour", git(code, "rev-parse", "HEAD"))
    text = (vault.root / TABLE_NAME).read_text()
    assert ensure_project(vault, code / "..") is None
    (code / "deep").mkdir()
    assert ensure_project(vault, code / "deep") == made
    moved = code.rename(code.parent / "renamed")
    assert ensure_project(vault, moved) == made
    assert (vault.root / TABLE_NAME).read_text() == text


def test_work_trees_and_clones_are_the_same_project(vault: Vault, code: Path) -> None:
    ensure_project(vault, code)
    git(code, "worktree", "add", "-q", "../tree", "-b", "side")
    git(code.parent, "clone", "-q", "harbour", "second")
    git(code, "checkout", "-q", "--orphan", "pages")
    (code / "page").touch()
    git(code, "add", ".")
    git(code, "commit", "-qm", "Pages")
    names = [name_of(vault, code.parent / each) for each in ("tree", "second", "harbour")]
    assert names == ["harbour"] * 3


def test_a_fork_is_another_project_and_so_is_what_a_template_became(
    vault: Vault, code: Path
) -> None:
    git(code, "remote", "add", "origin", "git@github.com:holm/harbour.git")
    ensure_project(vault, code)
    for place, url in (("fork", "tuuli/harbour"), ("shop", "holm/shop")):
        git(code.parent, "clone", "-q", "harbour", place)
        git(code.parent / place, "remote", "set-url", "origin", f"https://github.com/{url}")
    assert name_of(vault, code.parent / "fork") is None
    made = [ensure_project(vault, code.parent / place) for place in ("fork", "shop")]
    assert [each and each.name for each in made] == ["tuuli-harbour", "shop"]
    git(code.parent, "clone", "-q", "fork", "mine")
    git(
        code.parent / "mine",
        "remote",
        "set-url",
        "origin",
        "https://x@github.com/tuuli/harbour.git",
    )
    assert name_of(vault, code.parent / "mine") == "tuuli-harbour"


def test_a_shallow_clone_is_known_by_its_remote(vault: Vault, code: Path) -> None:
    git(code, "remote", "add", "origin", "git@github.com:holm/harbour.git")
    git(code, "commit", "-q", "--allow-empty", "-m", "More")
    url = f"file://{code}"
    git(code.parent, "clone", "-q", "--depth=1", url, "shallow")
    shallow = code.parent / "shallow"
    git(shallow, "remote", "set-url", "origin", "https://github.com/holm/harbour")
    made = ensure_project(vault, shallow)
    assert made is not None
    assert (made.root, made.remotes) == ("", ("github.com/holm/harbour",))
    git(shallow, "fetch", "-q", "--unshallow", url)
    learned = ensure_project(vault, code)
    assert learned is not None
    assert (learned.name, learned.root) == (made.name, git(code, "rev-parse", "HEAD~1"))
    assert name_of(vault, shallow) == made.name
    assert read_projects(vault).projects == (learned,)


def test_a_repository_without_a_commit_gets_its_root_later(vault: Vault, tmp_path: Path) -> None:
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    git(fresh, "init", "-q")
    made = ensure_project(vault, fresh)
    assert made is not None
    assert (made.root, made.paths) == ("", (str(fresh),))
    git(fresh, "commit", "-q", "--allow-empty", "-m", "Begin")
    learned = ensure_project(vault, fresh)
    assert learned is not None
    assert (learned.name, learned.root, learned.paths) == (
        "fresh",
        git(fresh, "rev-parse", "HEAD"),
        (),
    )


def test_a_submodule_is_a_project_of_its_own(vault: Vault, code: Path, tmp_path: Path) -> None:
    library = make_repository(tmp_path / "library", "pass\n")
    ensure_project(vault, code)
    git(code, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library), "lib")
    assert name_of(vault, code / "lib") is None
    made = ensure_project(vault, code / "lib")
    assert made is not None
    assert made.root == git(library, "rev-parse", "HEAD")
    assert name_of(vault, library) == made.name
    assert name_of(vault, code) == "harbour"


def test_a_folder_without_git_is_added_where_a_session_is_opened(
    vault: Vault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = tmp_path / "plain/deep"
    plain.mkdir(parents=True)
    assert ensure_project(vault, plain.parent) is None
    made = ensure_project(vault, plain.parent, opened=True)
    assert made is not None
    assert made.paths == (str(plain.parent),)
    assert ensure_project(vault, plain) == made
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert ensure_project(vault, plain.parent / "other", opened=True) is None


def test_what_is_never_a_project(vault: Vault, home: Path) -> None:
    for folder in (home, Path("/"), vault.root, vault.root / "notes", Path("/no/such"), None):
        assert ensure_project(vault, folder, opened=folder != Path("/no/such")) is None
    git(home, "init", "-q")
    (home / "deep").mkdir()
    assert ensure_project(vault, home / "deep", opened=True) is None
    other = home / "private"
    git(home, "init", "-q", str(other))
    (other / "vaultmem.yaml").write_text("")
    assert ensure_project(vault, other, opened=True) is None
    assert not (vault.root / TABLE_NAME).exists()


def test_a_vault_inside_a_repository_belongs_to_it(code: Path, opened: Open) -> None:
    memory = code / ".memory"
    memory.mkdir()
    (memory / "vaultmem.yaml").write_text("")
    vault = opened(memory)
    made = ensure_project(vault, code)
    assert made is not None
    assert made.name == "harbour"


def test_another_repository_in_the_same_place_is_another_project(vault: Vault, code: Path) -> None:
    ensure_project(vault, code)
    shutil.rmtree(code)
    make_repository(code, "raise\n")
    assert name_of(vault, code) is None


def test_git_is_asked_once_until_remotes_change(
    vault: Vault, code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ensure_project(vault, code)
    git(code, "commit", "-q", "--allow-empty", "-m", "More")
    with monkeypatch.context() as patch:
        patch.setattr(repository.GitRunner, "run", None)
        assert name_of(vault, code) == "harbour"
    git(code, "remote", "add", "origin", "git@github.com:holm/harbour.git")
    learned = ensure_project(vault, code)
    assert learned is not None
    assert learned.remotes == ("github.com/holm/harbour",)


def test_a_table_that_cannot_be_read_is_never_overwritten(vault: Vault, code: Path) -> None:
    file = vault.root / TABLE_NAME
    file.write_text("projects: mine\n")
    for ask in (find_project, ensure_project):
        with pytest.raises(VaultError, match=r"projects\.yaml, line 1"):
            ask(vault, code)
    assert file.read_text() == "projects: mine\n"


def test_a_hand_written_table_keeps_its_lines(vault: Vault, code: Path) -> None:
    file = vault.root / TABLE_NAME
    text = f"# Mine.\n- name: port  # renamed\n  root: {git(code, 'rev-parse', 'HEAD')}\n"
    file.write_text(text)
    assert name_of(vault, code) == "port"
    git(code, "remote", "add", "origin", "git@github.com:holm/harbour.git")
    ensure_project(vault, code)
    assert file.read_text() == text + "  remotes:\n    - github.com/holm/harbour\n"


def test_a_branch_has_a_table_of_its_own(make_vault: Make, opened: Open, code: Path) -> None:
    root = make_vault({"notes/a.md": "A.\n"})
    git(root, "branch", "side")
    vault = opened(root, ref="side")
    made = ensure_project(vault, code)
    assert made == find_project(vault, code)
    assert "name: harbour" in git(root, "show", f"side:{TABLE_NAME}")
    assert not (root / TABLE_NAME).exists()
    assert find_project(opened(root), code) is None


def test_nothing_of_the_repository_is_run(vault: Vault, code: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {run}\n")
    trap.chmod(0o755)
    git(code, "config", "core.fsmonitor", str(trap))
    git(code, "config", "core.hooksPath", str(tmp_path))
    git(code, "config", "core.sshCommand", str(trap))
    git(code, "config", "remote.origin.url", f"ext::{trap}")
    made = ensure_project(vault, code)
    assert made is not None
    assert made.name == "harbour"
    assert not run.exists()
