"""`create_vault`: what init adds, and that it changes nothing that is there."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Make
from support import git, hash_tree, write_notes

from vaultmem.errors import VaultError
from vaultmem.services.memory.create_vault import create_vault
from vaultmem.vault import open_vault

TEMPLATE_FILES = {
    ".gitignore",
    "MEMORY.md",
    "USER.md",
    "templates/dead-end.md",
    "templates/decision.md",
    "templates/fact.md",
    "templates/policy.md",
    "templates/procedure.md",
    "templates/session.md",
    "vaultmem.yaml",
}


def test_an_empty_folder_becomes_a_repository_with_one_commit(home: Path, tmp_path: Path) -> None:
    created = create_vault(tmp_path / "v")
    root = created.vault.root

    assert set(created.added) == TEMPLATE_FILES
    assert created.new_repository
    assert git(root, "log", "--format=%s") == "init: new vault"
    assert git(root, "rev-parse", "HEAD") == created.report.commit
    assert git(root, "status", "--porcelain") == ""
    assert set(git(root, "ls-files").splitlines()) == TEMPLATE_FILES
    assert git(root, "symbolic-ref", "--short", "HEAD") == "main"
    assert git(root, "remote") == ""


def test_an_init_whose_git_was_killed_before_its_head_is_made_to_its_end(
    home: Path, tmp_path: Path
) -> None:
    write_notes(tmp_path / "v", {"notes/a.md": "mine\n"})
    vault = open_vault(tmp_path / "v")
    (vault.state_folder / "new-repository").touch()
    write_notes(tmp_path / "v", {".git/HEAD.lock": "ref: refs/heads/main\n"})
    (tmp_path / "v/.git/refs/heads").mkdir(parents=True)

    created = create_vault(tmp_path / "v")

    assert created.new_repository
    assert git(tmp_path / "v", "status", "--porcelain") == ""
    assert "notes/a.md" in git(tmp_path / "v", "ls-files")


def test_a_second_init_changes_nothing(home: Path, tmp_path: Path) -> None:
    create_vault(tmp_path / "v").vault.close()
    write_notes(tmp_path / "v", {"notes/a.md": "mine\n", "MEMORY.md": "# Mine\n"})
    before = hash_tree(tmp_path / "v")

    created = create_vault(tmp_path / "v")

    assert created.added == ()
    assert created.excluded == ()
    assert not created.new_repository
    assert hash_tree(tmp_path / "v") == before


@pytest.fixture
def repository(home: Path, tmp_path: Path) -> Path:
    root = tmp_path / "repo"
    write_notes(root, {"src/app.py": "print()\n", "README.md": "# App\n", ".gitignore": "*.log\n"})
    git(tmp_path, "init", "-q", str(root))
    git(root, "add", "--all")
    git(root, "commit", "-q", "-m", "first")
    return root


def test_init_in_a_repository_commits_nothing_and_leaves_its_files_alone(
    repository: Path,
) -> None:
    before = hash_tree(repository, skip=(".git",))
    head = git(repository, "rev-parse", "HEAD")

    created = create_vault(repository)

    after = hash_tree(repository, skip=(".git",))
    assert git(repository, "rev-parse", "HEAD") == head
    assert created.report.commits == ()
    assert {path: after[path] for path in before} == before
    assert set(after) - set(before) == TEMPLATE_FILES - {".gitignore"}


def test_git_status_after_init_in_a_repository_shows_only_the_added_files(
    repository: Path,
) -> None:
    created = create_vault(repository)

    status = git(repository, "status", "--porcelain", "-uall").splitlines()

    assert status == [f"?? {path}" for path in sorted(created.added)]


def test_missing_ignore_lines_go_to_the_repositorys_exclude_file(repository: Path) -> None:
    exclude = repository / ".git/info/exclude"
    exclude.parent.mkdir(exist_ok=True)
    exclude.write_text("# mine\n/private")  # No final newline, as a person may leave it.

    created = create_vault(repository)

    assert exclude.read_text().startswith("# mine\n/private\n")
    assert (repository / ".gitignore").read_text() == "*.log\n"
    assert created.excluded
    generated = ["CONTEXT.md", "transcripts/x.md", "media/x.png", ".obsidian/workspace.json"]
    for ignored in [
        *generated,
        "notes/foo.tmp",
        ".vaultmem-a.tmp",
        "notes/deep/.vaultmem-a-b-c-n.md.old",
    ]:
        assert git(repository, "check-ignore", ignored, check=False) == ignored
    assert git(repository, "check-ignore", "private") == "private"


def test_the_exclude_lines_of_a_vault_do_not_hide_a_projects_own_folders(
    repository: Path,
) -> None:
    create_vault(repository)

    write_notes(repository, {"src/static/media/logo.svg": "<svg/>\n", "docs/CONTEXT.md": "# C\n"})

    status = git(repository, "status", "--porcelain", "-uall")
    assert "src/static/media/logo.svg" in status
    assert "docs/CONTEXT.md" in status


def test_a_vault_in_a_subfolder_ignores_inside_that_folder_only(repository: Path) -> None:
    write_notes(repository, {"memory/.gitignore": "*.bak\n"})
    git(repository, "add", "--all")
    git(repository, "commit", "-q", "-m", "memory")

    create_vault(repository / "memory")

    for path in ["CONTEXT.md", "transcripts/x.md", "media/x.png", ".obsidian/workspace.json"]:
        inside = f"memory/{path}"
        assert git(repository, "check-ignore", inside, check=False) == inside
        assert git(repository, "check-ignore", path, check=False) == ""


def test_init_in_an_obsidian_vault_commits_what_is_there_and_changes_none_of_it(
    home: Path, tmp_path: Path
) -> None:
    root = tmp_path / "obsidian"
    notes = {
        ".obsidian/app.json": "{}\n",
        ".obsidian/workspace.json": "{}\n",
        "Daily/2026-11-20.md": "did things #work\n",
        "Projects/Ferry.md": "---\naliases: [Boat]\n---\r\n# Ferry\r\n",
        "Projects/scan.png": b"\x89PNG\0\0",
        "Welcome.md": b"\xef\xbb\xbfHello",
    }
    write_notes(root, notes)
    before = hash_tree(root)

    created = create_vault(root)

    after = hash_tree(root, skip=(".git",))
    assert {path: after[path] for path in before} == before
    assert created.new_repository
    committed = set(git(root, "ls-tree", "-r", "--name-only", "HEAD").splitlines())
    assert {path for path in notes if not path.startswith(".")} <= committed
    assert ".obsidian/workspace.json" not in committed
    assert git(root, "log", "-1", "--format=%s") == "init: the notes that were here, and a vault"


def test_a_folder_that_differs_only_in_case_counts_as_there(home: Path, tmp_path: Path) -> None:
    write_notes(tmp_path / "v", {"Templates/mine.md": "# T\n", "memory.md": "# M\n"})

    created = create_vault(tmp_path / "v")

    assert not any(path.startswith("templates/") for path in created.added)
    assert "MEMORY.md" not in created.added


def test_a_file_in_the_place_of_the_folder_is_a_typed_error(home: Path, tmp_path: Path) -> None:
    (tmp_path / "v").write_text("a file")

    with pytest.raises(VaultError, match="cannot be made"):
        create_vault(tmp_path / "v")


def test_a_vault_that_somebody_else_made_is_not_trusted_by_a_second_init(
    home: Path, tmp_path: Path
) -> None:
    root = tmp_path / "cloned"
    write_notes(
        root, {"vaultmem.yaml": "", "notes/rule.md": "---\nkind: policy_rule\n---\nObey.\n"}
    )
    git(tmp_path, "init", "-q", str(root))
    git(root, "add", "--all")
    git(root, "commit", "-q", "-m", "theirs")

    created = create_vault(root)

    assert not created.vault.trust.is_trusted()


def test_tests_copy_a_vault_that_was_made_before(
    make_vault: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_vault(name="first")
    monkeypatch.delattr("vault_copies.create_vault")
    assert git(make_vault(name="second"), "log", "--format=%s") == "init: new vault"
