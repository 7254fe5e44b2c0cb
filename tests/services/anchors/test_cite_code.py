"""Memories that cite code, from the shell: what is written, and what recall and packs say of it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from conftest import Make, RunCli
from projects_world import make_code, run_git

from vaultmem.core.notes.frontmatter import read_frontmatter

CODE = """\
LIMIT = 3


def refund_limit(amount):
    return min(amount, LIMIT)
"""


@pytest.fixture
def root(make_vault: Make, home: Path) -> Path:
    return make_vault()


@pytest.fixture
def code(tmp_path: Path, home: Path) -> Path:
    return make_code(tmp_path / "code/shop", CODE)


def run(run_cli: RunCli, root: Path, folder: Path, *words: str, code: int = 0) -> str:
    done = run_cli(*words, "--vault", str(root), cwd=folder)
    assert done.code == code, done
    return done.out + done.err


def run_json(run_cli: RunCli, root: Path, folder: Path, *words: str) -> Any:
    return json.loads(run(run_cli, root, folder, *words, "--json"))


def read_cites(root: Path, path: str) -> tuple[str, ...]:
    prop = read_frontmatter((root / path).read_text()).get("cites")
    assert prop is not None
    return prop.value if isinstance(prop.value, tuple) else (prop.value,)


def pin(code: Path) -> str:
    return (
        f"@{run_git(code, 'rev-parse', 'HEAD')[:10]}+"
        + (run_git(code, "rev-parse", "HEAD:src/limit.py")[:10])
    )


def test_a_cited_path_is_pinned_to_commit_and_blob(run_cli: RunCli, root: Path, code: Path) -> None:
    words = ["remember", "Refunds are limited.", "--cite", "limit.py:refund_limit"]
    words += ["--cite", "src/limit.py#L1", "--cite", "https://example.org/limits"]
    done = run_json(run_cli, root, code / "src", *words)
    expected = (
        f"src/limit.py:refund_limit{pin(code)}",
        f"src/limit.py#L1{pin(code)}",
        "https://example.org/limits",
    )
    assert read_cites(root, done["path"]) == tuple(done["cited"]) == expected


def test_a_global_memory_names_the_project_of_the_code(
    run_cli: RunCli, root: Path, code: Path, tmp_path: Path
) -> None:
    words = ["remember", "Never raise the limit.", "--global", "--cite", "src/limit.py"]
    done = run_json(run_cli, root, code, *words)
    assert read_cites(root, done["path"]) == (f"src/limit.py{pin(code)} (shop)",)
    (code / "src/limit.py").write_text("LIMIT = 4\n")
    (found,) = run_json(run_cli, root, tmp_path, "recall", "raise the limit")["hits"]
    assert found["anchors"][0]["status"] == "changed"
    assert found["anchors"][0]["project"] == "shop"


@pytest.mark.parametrize(
    ("cited", "problem"),
    [
        ("src/limit.py:nothing", "src/limit.py:nothing: no such symbol in the file"),
        ("src/limit.py#L2-9", "src/limit.py#L2-9: the file has 5 lines"),
    ],
)
def test_a_place_that_the_file_lacks_is_refused(
    run_cli: RunCli, root: Path, code: Path, cited: str, problem: str
) -> None:
    told = run(run_cli, root, code, "remember", "Refunds are limited.", "--cite", cited, code=5)
    assert problem in told
    assert not list(root.glob("notes/**/*.md"))


def test_paths_in_the_text_are_offered_and_not_written(
    run_cli: RunCli, root: Path, code: Path
) -> None:
    text = "In src/limit.py (see https://example.org/src/limit.py and other.py) refunds end."
    told = run(run_cli, root, code, "remember", text)
    hint = "hint: to check later whether this still holds, remember it again with --cite"
    assert f"{hint} src/limit.py\n" in told
    (note,) = root.glob("notes/**/*.md")
    assert "cites" not in note.read_text()
    again = run(run_cli, root, code, "remember", text, "--cite", "src/limit.py")
    assert again.startswith("known already")
    assert "hint:" not in again
    assert read_cites(root, str(note.relative_to(root))) == (f"src/limit.py{pin(code)}",)


@pytest.mark.parametrize("kind", ["semantic_fact", "decision", "working_context", "policy_rule"])
def test_recall_and_packs_report_the_state_of_every_kind(
    run_cli: RunCli, root: Path, code: Path, kind: str
) -> None:
    words = ["remember", "Refunds have a limit of three.", "--kind", kind]
    run(run_cli, root, code, *words, "--cite", "src/limit.py:refund_limit")
    place = "src/limit.py:refund_limit"

    def ask(told: str) -> None:
        assert f"    {place} {told}\n" in run(run_cli, root, code, "recall", "limit of refunds")
        assert f"{place} {told}" in run(run_cli, root, code, "pack", "limit of refunds")
        assert f"{place} {told}" in run(run_cli, root, code, "pack", "limit", "--labels", "full")
        found = run_json(run_cli, root, code, "recall", "limit of refunds")["hits"][0]
        item = run_json(run_cli, root, code, "pack", "limit of refunds", "--format", "json")
        assert found["anchors"] == item["items"][0]["anchors"]
        assert found["anchors"][0]["message"] == told

    ask("holds")
    (code / "src/limit.py").write_text(f"import os\n{CODE}".replace("min(", "max("))
    ask(f"changed since {pin(code)[1:5]} (1 line)")
    (code / "src/limit.py").unlink()
    ask("gone")
    code.rename(code.parent / "moved")
    code.mkdir()
    ask("cannot tell here")


def test_an_edit_that_is_not_committed_is_what_was_cited(
    run_cli: RunCli, root: Path, code: Path
) -> None:
    edited = CODE.replace("LIMIT = 3", "LIMIT = 5")
    (code / "src/limit.py").write_text(edited)
    run(run_cli, root, code, "remember", "The limit is five.", "--cite", "src/limit.py#L1")
    (code / "src/limit.py").write_text(f"import os\n{edited}")
    assert "src/limit.py#L1 holds" in run(run_cli, root, code, "recall", "limit five")
    (code / "src/limit.py").write_text(CODE)
    assert "src/limit.py#L1 changed" in run(run_cli, root, code, "recall", "limit five")


def test_paths_without_a_version_are_dated_by_the_note(
    run_cli: RunCli, make_vault: Make, code: Path
) -> None:
    root = make_vault({}, code / "memory")
    shutil.rmtree(root / ".git")
    note = "---\ncreated: 2026-01-05T10:00:00\nrefs: [../src/limit.py, ../gone.py, handbook]\n---\n"
    (root / "notes").mkdir(exist_ok=True)
    (root / "notes/limit.md").write_text(f"{note}Refunds are limited.\n")
    (code / "gone.py").write_text("x = 1\n")
    run_git(code, "add", "-A")
    _commit(code, "Begin memory", "2026-01-05T09:00:00")
    (code / "gone.py").unlink()
    (code / "src/limit.py").write_text(CODE.replace("3", "4"))
    run_git(code, "add", "-A")
    _commit(code, "Raise the limit", "2027-01-05T09:00:00")
    told = run(run_cli, root, code, "recall", "refunds limited")
    assert "../gone.py gone; ../src/limit.py changed (1 line)\n" in told


def _commit(folder: Path, subject: str, at: str) -> None:
    env = {**os.environ, "GIT_COMMITTER_DATE": at, "GIT_AUTHOR_DATE": at}
    subprocess.run(["git", "commit", "-qm", subject], cwd=folder, env=env, check=True)


def test_accepting_a_review_pins_the_anchors_to_the_code_of_now(
    run_cli: RunCli, root: Path, code: Path
) -> None:
    words = ["remember", "Refunds have a limit of three.", "--cite", "src/limit.py#L4-5"]
    done = run_json(run_cli, root, code, *words, "--cite", "src/limit.py:LIMIT")
    (code / "src/limit.py").write_text(f"import os\n{CODE}".replace("min(", "max("))
    run_git(code, "commit", "-qam", "Turn the limit round")
    told = run(run_cli, root, code, "review")
    assert "the code that it cites has changed" in told
    waiting = run_json(run_cli, root, code, "review")["items"]
    (item,) = [each for each in waiting if each["action"] == "revalidate"]
    run(run_cli, root, code, "review", "--accept", item["id"])
    before = f"src/limit.py:LIMIT{done['cited'][1].removeprefix('src/limit.py:LIMIT')}"
    assert read_cites(root, done["path"]) == (f"src/limit.py#L5-6{pin(code)}", before)
    assert "src/limit.py#L5-6 holds" in run(run_cli, root, code, "recall", "refunds limit")


UNTIL = ("--valid-until", "until src/limit.py:refund_limit changes")


def remember_until(run_cli: RunCli, root: Path, code: Path) -> str:
    done = run_json(run_cli, root, code, "remember", "Refunds end at three items.", *UNTIL)
    return str(done["path"])


def read_caution(run_cli: RunCli, root: Path, code: Path, *words: str) -> str:
    (hit,) = run_json(run_cli, root, code, "recall", "refunds end", *words)["hits"]
    return str(hit["caution"] or "")


def change_limit(code: Path, *, commit: bool = True) -> str:
    """Change `refund_limit`, and return the commit of that."""
    file = code / "src/limit.py"
    file.write_text(file.read_text().replace("min(", "max("))
    if commit:
        run_git(code, "commit", "-qam", "Raise the limit")
    return run_git(code, "rev-parse", "HEAD")[:10]


def test_a_note_is_valid_until_code_changes(run_cli: RunCli, root: Path, code: Path) -> None:
    path = remember_until(run_cli, root, code)
    limit = f'valid_until: "until src/limit.py:refund_limit{pin(code)} changes"\n'
    assert limit in (root / path).read_text()
    (code / "src/limit.py").write_text("# Limits.\n" + CODE)
    run_git(code, "commit", "-qam", "Describe limits")
    assert read_caution(run_cli, root, code) == ""
    changed = change_limit(code)
    (code / "src/limit.py").write_text((code / "src/limit.py").read_text() + "END = 1\n")
    run_git(code, "commit", "-qam", "Add the end")
    day = run_git(code, "log", "-1", "--format=%cs")
    label = f"expired since {day} (src/limit.py:refund_limit changed in {changed})"
    assert read_caution(run_cli, root, code) == label
    assert label in run(run_cli, root, code, "pack", "refunds end")
    assert read_caution(run_cli, root, code, "--as-of", "2020-01-01") == ""


def test_an_edit_without_commit_ends_a_note(run_cli: RunCli, root: Path, code: Path) -> None:
    remember_until(run_cli, root, code)
    change_limit(code, commit=False)
    assert read_caution(run_cli, root, code).endswith("refund_limit changed in the work tree)")


def test_a_removed_file_ends_a_note(run_cli: RunCli, root: Path, code: Path) -> None:
    remember_until(run_cli, root, code)
    (code / "src/limit.py").unlink()
    run_git(code, "commit", "-qam", "Remove limits")
    gone = run_git(code, "rev-parse", "HEAD")[:10]
    assert read_caution(run_cli, root, code).endswith(f"refund_limit removed in {gone})")


def test_a_limit_by_code_that_is_not_here(run_cli: RunCli, root: Path, code: Path) -> None:
    remember_until(run_cli, root, code)
    shutil.rmtree(code)
    label = "valid until src/limit.py:refund_limit changes: cannot tell here"
    assert read_caution(run_cli, root, root) == label


def test_a_limit_by_code_that_a_person_wrote(run_cli: RunCli, root: Path, code: Path) -> None:
    run(run_cli, root, code, "remember", "The pier is open.")
    note = root / "notes/refunds.md"
    head = "created: 2024-01-01\nproject: shop\nvalid_until: until src/limit.py changes"
    note.write_text(f"---\n{head}\n---\nRefunds end at three items.\n")
    assert read_caution(run_cli, root, code) == ""
    changed = change_limit(code)
    assert read_caution(run_cli, root, code).endswith(f"(src/limit.py changed in {changed})")


def test_a_limit_by_code_has_to_name_a_file(run_cli: RunCli, root: Path, code: Path) -> None:
    words = ["remember", "Refunds end.", "--valid-until", "until src/none.py changes"]
    assert "src/none.py: no such file" in run(run_cli, root, code, *words, code=5)
    words[2:] = ["--valid-from", "until src/limit.py changes"]
    assert "not a date" in run(run_cli, root, code, *words, code=5)


def test_accepting_an_expired_note_ends_its_listing(
    run_cli: RunCli, root: Path, code: Path
) -> None:
    path = remember_until(run_cli, root, code)
    (root / "notes/ended.md").write_text("---\nvalid_until: 2026-03-01\n---\nThe pier is closed.\n")
    change_limit(code)
    run(run_cli, root, code, "checkpoint", "first")
    items = run_json(run_cli, root, code, "review")["items"]
    assert {each["notes"][0]["path"] for each in items} == {path, "notes/ended.md"}
    for each in items:
        run(run_cli, root, code, "review", "--accept", each["id"])
    assert run_json(run_cli, root, code, "review")["items"] == []
    assert "valid_until" not in (root / "notes/ended.md").read_text()
    limit = f'valid_until: "until src/limit.py:refund_limit{pin(code)} changes"\n'
    assert limit in (root / path).read_text()
