"""What `init` says before it does it, and where it leaves somebody's own files alone."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from core.credentials import CREDENTIALS
from in_process import run_here
from support import git, hash_tree, write_notes

from vaultmem.core.notes.note import KNOWN_PROPERTIES
from vaultmem.services.memory.create_vault import create_vault, plan_vault
from vaultmem.storage.user_files import find_package_folder


@pytest.fixture
def notes(home: Path, tmp_path: Path) -> Path:
    root = tmp_path / "notes"
    write_notes(
        root,
        {
            ".obsidian/templates.json": '{"folder": "Meta/Forms"}\n',
            ".obsidian/app.json": '{"userIgnoreFilters": ["Taxes/"]}\n',
            "Taxes/2025.md": "Paid.\n",
            ".gitignore": "*.log\n",
            "Home.md": "# Home\n",
            "Private/Diary.md": "Dear diary.\n",
            "photos/cat.JPG": b"x" * 1_100_000,
            "photos/dog.png": b"x" * 1_100_000,
            "talk.mp4": b"x" * 1_100_000,
            "run.log": "x\n",
            "media/a.png": b"x",
        },
    )
    (root / "link.md").symlink_to("Home.md")
    return root


def test_what_is_said_is_what_is_done(notes: Path) -> None:
    before = hash_tree(notes)

    plan = plan_vault(notes)
    told = run_here("init", str(notes), "--dry-run", "--json")

    assert hash_tree(notes) == before
    assert (plan.is_vault, plan.repository) == (False, None)
    assert plan.files == (".gitignore", "Home.md", "Private/Diary.md", "Taxes/2025.md")
    assert plan.size == sum((notes / path).stat().st_size for path in plan.files)
    assert plan.private == ("Private/Diary.md", "Taxes/2025.md")
    assert plan.omitted_counts == {
        "pictures over 1 MiB": 2,
        "videos over 1 MiB": 1,
        "a symbolic link": 1,
        "ignored by git": 1,
        "hidden by name": 1,
        "in media and transcripts": 1,
    }
    assert json.loads(told.out)["added"] == list(plan.added)

    created = create_vault(notes)

    assert created.added == plan.added
    assert set(git(notes, "ls-files").splitlines()) == {*plan.files, *plan.added}
    assert plan_vault(notes).added == ()


def test_an_agent_does_not_commit_what_looks_private_unasked(notes: Path) -> None:
    refused = run_here("init", str(notes))

    assert refused.code == 5
    assert "look private: Private/Diary.md" in refused.err
    assert not (notes / ".git").exists()
    assert run_here("init", str(notes), "--yes").code == 0


def test_a_first_commit_holds_no_credential_and_the_rest(home: Path, tmp_path: Path) -> None:
    key = dict(CREDENTIALS)["AWS access key"]
    write_notes(tmp_path / "v", {"a.md": f"The key: {key}", "b.md": "The door.\n"})

    plan = plan_vault(tmp_path / "v")
    created = create_vault(tmp_path / "v")

    assert (plan.files, plan.kept_out) == (("b.md",), ("a.md",))
    assert plan.credentials == ("a.md:1: aws-access-token",)
    assert created.kept_out == plan.kept_out
    assert {"a.md", "b.md"} & set(git(tmp_path / "v", "ls-files").splitlines()) == {"b.md"}


def test_obsidians_folder_of_templates_is_used_and_a_full_one_left_alone(notes: Path) -> None:
    assert "Meta/Forms/fact.md" in plan_vault(notes).added
    write_notes(notes, {"Meta/Forms/mine.md": "# {{title}}\n"})

    added = create_vault(notes).added

    assert not [path for path in added if path.startswith("Meta/")]
    base = (notes / "Memories.base").read_text()
    assert '!file.inFolder("Meta/Forms")' in base
    (notes / "Memories.base").write_text("mine\n")
    assert create_vault(notes).added == ()
    assert (notes / "Memories.base").read_text() == "mine\n"


def test_a_project_of_code_is_no_vault_by_accident(home: Path, tmp_path: Path) -> None:
    root = tmp_path / "shop"
    write_notes(root, {"manage.py": "x\n", "templates/base.html": "<p>\n", "README.md": "# Shop\n"})
    git(tmp_path, "init", "-q", str(root))

    refused = run_here("init", cwd=root)
    inside = run_here("init", "memory", cwd=root)

    assert refused.code == 5
    assert "`vaultmem init memory`" in refused.err
    assert f"uses the git repository at {root}; nothing" in " ".join(inside.out.split())
    assert (root / "memory/templates/fact.md").exists()
    assert not (root / "MEMORY.md").exists()
    at_home = run_here("init", cwd=home)
    assert (at_home.code, "vaultmem init ~/memory" in at_home.err) == (5, True)
    assert run_here("init", ".", cwd=root).code == 0
    assert [each.name for each in (root / "templates").iterdir()] == ["base.html"]
    assert run_here("init", cwd=root).code == 0


def test_the_base_has_the_form_that_obsidians_types_describe() -> None:
    """As `BasesConfigFile` of the package `obsidian` 1.13.1 has it; nobody opened Obsidian."""
    base = yaml.safe_load((find_package_folder("templates") / "obsidian/Memories.base").read_text())
    views = base["views"]
    names = [view["name"] for view in views]
    named = {name for view in views for name in (*view["order"], view["sort"][0]["property"])}
    statements = [*_list_statements(base["filters"])]
    for view in views:
        statements += _list_statements(view["filters"])

    assert set(base) == {"filters", "properties", "views"}
    assert names == ["Recent", "Today", "Waiting", "Contradictions"]
    assert {name for name in named if not name.startswith("file.")} <= KNOWN_PROPERTIES
    asked = {
        name for each in statements for name in re.findall(r'(?:^|\[")([a-z]+)(?= |"\])', each)
    }
    assert asked == {"state", "contradicts"}


def _list_statements(given: object) -> Iterator[str]:
    if isinstance(given, str):
        yield given
        return
    assert isinstance(given, dict)
    ((word, items),) = given.items()
    assert word in {"and", "or", "not"}
    for item in items:
        yield from _list_statements(item)
