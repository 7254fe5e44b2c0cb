"""Merging branches: all of it in one commit, or nothing; as git does where it has our driver."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from branching import (
    NOTE,
    Content,
    change,
    commit_on,
    copy_vault,
    disk_bytes,
    is_clean,
    list_refs,
    look_around,
    read_at,
    tree_bytes,
)
from conftest import PERSON, Make, Open
from support import git, write_notes

from vaultmem.core.merging.text import DiscardedValue
from vaultmem.core.notes.edit_properties import set_property
from vaultmem.core.text.blob import blob_id
from vaultmem.errors import (
    ConflictError,
    NoteNotFoundError,
    PendingError,
    RefusedError,
    SystemFailureError,
    VaultError,
)
from vaultmem.services.changes.commit import commit_all
from vaultmem.services.changes.edit_notes import edit_note
from vaultmem.services.memory.create_vault import create_vault
from vaultmem.services.memory.remember import Memory, remember
from vaultmem.services.merging import merge
from vaultmem.services.merging.merge import merge_branch, plan_merge
from vaultmem.services.views.update_index import sync_vault
from vaultmem.storage import scan_files as move
from vaultmem.storage.git.vault_history import VaultHistory
from vaultmem.vault import Vault

KEY = "AKIA" + "IOSFODNN7EXAMPLQ"
MEMORY = "# Memory\n\n## Project\n\n- Ferries run hourly.\n"
LONG = "# Long\n\n" + "".join(f"Line {n} of a note that is renamed.\n\n" for n in range(12))

#: What both sides begin with, what each makes of it, and what has to come of it (None: nothing).
CLEAN: dict[str, tuple[str | None, str | None, str | None, str | None]] = {
    "notes/properties.md": (
        NOTE,
        change(NOTE, "state: active\n", "state: stale\n"),
        change(NOTE, "title: Session tokens\n", "title: Tokens\nconfidence: 0.9\n"),
        change(
            *(NOTE, "state: active\n", "state: stale\n"),
            *("title: Session tokens\n", "title: Tokens\nconfidence: 0.9\n"),
        ),
    ),
    "notes/tags.md": (
        NOTE,
        change(NOTE, "  - auth\n", "  - auth\n  - ours\n"),
        change(NOTE, "  - auth\n", "  - auth\n  - theirs\n"),
        change(NOTE, "  - auth\n", "  - auth\n  - ours\n  - theirs\n"),
    ),
    "MEMORY.md": (
        MEMORY,
        MEMORY + "- Ours is a bullet.\n",
        MEMORY + "- Theirs is one too.\n",
        MEMORY + "- Ours is a bullet.\n- Theirs is one too.\n",
    ),
    "notes/lines.md": (
        NOTE,
        change(NOTE, "Tokens are opaque.", "Tokens are opaque to all."),
        change(NOTE, "Keys rotate weekly.", "Keys rotate daily."),
        change(
            *(NOTE, "Tokens are opaque.", "Tokens are opaque to all."),
            *("Keys rotate weekly.", "Keys rotate daily."),
        ),
    ),
    "notes/updated.md": (
        "---\nupdated: 2026-11-01\n---\nx\n",
        "---\nupdated: 2026-11-03\n---\nx\n",
        "---\nupdated: 2026-11-02\n---\nx\n",
        "---\nupdated: 2026-11-03\n---\nx\n",
    ),
    "notes/both-new.md": (None, "# New\n\n- ours\n", "# New\n\n- t\n", "# New\n\n- ours\n- t\n"),
    "notes/same-new.md": (None, "same\n", "same\n", "same\n"),
    "notes/ours-new.md": (None, "ours\n", None, "ours\n"),
    "notes/-theirs ünew.md": (None, None, "theirs\n", "theirs\n"),
    "notes/removed.md": ("gone\n", "gone\n", None, None),
    "notes/old-name.md": (LONG, change(LONG, "Line 3 of", "Line three of"), None, None),
    "notes/new-name.md": (None, None, LONG, change(LONG, "Line 3 of", "Line three of")),
    "data.txt": ("a\nb\nc\nd\ne\n", "A\nb\nc\nd\ne\n", "a\nb\nc\nd\nE\n", "A\nb\nc\nd\nE\n"),
}

#: Base, ours and theirs; then of each conflict what it is about, and both sides as shown.
TORN: dict[str, tuple[Content, Content, Content, list[tuple[str, str, str]]]] = {
    "notes/a.md": (
        NOTE,
        change(NOTE, "state: active", "state: stale", "  - auth\n", "  - auth\n  - x\n"),
        change(NOTE, "state: active", "state: archived", "weekly", "daily"),
        [],
    ),
    "notes/b.md": (
        NOTE,
        change(NOTE, "Tokens are opaque.", "Tokens are JWTs."),
        change(NOTE, "Tokens are opaque.", "Tokens are random."),
        [("line 11", "Tokens are JWTs.\n", "Tokens are random.\n")],
    ),
    "notes/gone.md": (
        "a\nb\n",
        None,
        "a\nb\nc\n",
        [("removed by ours, changed by theirs", "", "a\nb\nc\n")],
    ),
    "bytes.bin": (
        b"\0a",
        b"\0b",
        b"\0c",
        [
            (
                "the whole file; theirs is bytes (side).bin",
                *(blob_id(data)[:7] for data in (b"\0b", b"\0c")),
            )
        ],
    ),
    "notes/place.md": (
        None,
        "a note\n",
        None,
        [("a file on one side, a folder on the other; the file is notes/place (main).md", "", "")],
    ),
    "notes/place.md/in.md": (None, None, "in a folder\n", []),
    "notes/moved.md": (
        LONG,
        None,
        None,
        [("renamed by both, now notes/m1.md", "notes/m1.md", "notes/m2.md")],
    ),
    "notes/m1.md": (None, LONG, None, []),
    "notes/m2.md": (None, None, LONG, []),
    "notes/links.md": (None, None, "[[m2]] and [[m1]]\n", []),
}


def fork(
    root: Path,
    base: dict[str, Content],
    ours: dict[str, Content],
    theirs: dict[str, Content],
) -> None:
    """Commit on main, and then differently on main and on a branch `side`."""
    commit_on(root, "main", {path: text for path, text in base.items() if text is not None})
    git(root, "branch", "side", "main")
    commit_on(root, "side", _changes(base, theirs), "theirs", "Bob <bob@example.org>")
    commit_on(root, "main", _changes(base, ours), "ours", "Ada <ada@example.org>")  # Never earlier.
    git(root, "reset", "-q", "--hard")


def _changes(base: dict[str, Content], side: dict[str, Content]) -> dict[str, Content]:
    changed = {path: text for path, text in side.items() if text != base.get(path)}
    return dict(sorted(changed.items(), key=lambda item: item[1] is not None))


def _make(root: Path, cases: dict[str, Any]) -> Path:
    create_vault(root).vault.close()
    sides = [{path: case[place] for path, case in cases.items()} for place in range(3)]
    fork(root, *sides)
    return root


@pytest.fixture(scope="module")
def clean_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _make(tmp_path_factory.mktemp("clean") / "vault", CLEAN)


@pytest.fixture(scope="module")
def torn_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _make(tmp_path_factory.mktemp("torn") / "vault", TORN)


@pytest.fixture
def root(home: Path, clean_template: Path, tmp_path: Path) -> Path:
    """Return a copy of a vault whose branches `main` and `side` can be merged."""
    return copy_vault(clean_template, tmp_path / "vault")


@pytest.fixture
def torn(home: Path, torn_template: Path, tmp_path: Path) -> Path:
    """Return a copy of a vault whose branches cannot be merged."""
    return copy_vault(torn_template, tmp_path / "torn")


def texts_of(root: Path) -> dict[str, str | None]:
    """Return what is on disk of the files of `CLEAN`."""
    found = {name: data.decode() for name, (_, data) in disk_bytes(root).items()}
    return {path: found.get(path) for path in CLEAN}


def expected() -> dict[str, str | None]:
    return {path: case[3] for path, case in CLEAN.items()}


def assert_same_lines(found: dict[str, str | None]) -> None:
    """The other way round, what theirs added stands before ours."""
    for path, text in expected().items():
        lines = [
            None if each is None else sorted(each.splitlines()) for each in (found[path], text)
        ]
        assert lines[0] == lines[1], path


# ---- what merges


@pytest.mark.campaign
def test_what_both_sides_changed_apart_is_merged_in_one_commit_of_two_parents(
    root: Path, opened: Open
) -> None:
    parents = git(root, "rev-parse", "main", "side").split()
    vault = opened(root, agent="ada", session="s-1")

    done = merge_branch(vault, "side")

    assert texts_of(root) == expected()
    assert disk_bytes(root) == tree_bytes(root, "HEAD")
    assert is_clean(root)
    assert done.commit == git(root, "rev-parse", "main")
    assert (done.target_branch, done.source.name) == ("main", "side")
    changed = git(root, "diff", "-z", "--name-only", "--no-renames", "main~1", "main")
    assert list(done.paths) == sorted(filter(None, changed.split("\0")))
    assert git(root, "log", "-1", "--format=%P").split() == parents
    assert git(root, "log", "-1", "--format=%an|%s") == "ada|merge: side into main"
    body = git(root, "log", "-1", "--format=%b")
    assert body.splitlines()[0] == f"side at {parents[1]}"
    parsed = git(root, "interpret-trailers", "--parse", stdin=git(root, "log", "-1", "--format=%B"))
    assert parsed.splitlines() == ["Agent-Id: ada", "Session-Id: s-1", "Vault-Event: merge"]


@pytest.mark.campaign
def test_plain_git_merge_with_the_driver_makes_the_same_tree(root: Path) -> None:
    git(root, "merge", "-q", "--no-edit", "side")

    assert texts_of(root) == expected()
    assert is_clean(root)


@pytest.mark.campaign
def test_merging_the_other_way_round_loses_nothing_either(root: Path, opened: Open) -> None:
    git(root, "switch", "-q", "side")

    merge_branch(opened(root), "main")

    assert_same_lines(texts_of(root))


@pytest.mark.parametrize("broken", ["no settings", "no vaultmem"])
def test_without_vaultmem_git_still_merges_line_by_line(root: Path, broken: str) -> None:
    if broken == "no settings":
        git(root, "config", "--remove-section", "merge.vaultmem")
        (root / ".git/info/attributes").unlink()
    else:
        driver = git(root, "config", "merge.vaultmem.driver")
        python = driver.partition(" -P")[0]
        git(root, "config", "merge.vaultmem.driver", driver.replace(python, "/no/such/python"))
    done = subprocess.run(
        ["git", "merge", "-q", "--no-edit", "side"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )

    merged = texts_of(root)
    for path in ("notes/lines.md", "notes/new-name.md", "data.txt", "notes/-theirs ünew.md"):
        assert merged[path] == expected()[path], path
    assert done.returncode == 1
    unmerged = set(git(root, "diff", "--name-only", "--diff-filter=U").splitlines())
    assert unmerged == {"MEMORY.md", "notes/both-new.md", "notes/tags.md", "notes/updated.md"}
    assert "<<<<<<<" in (merged["MEMORY.md"] or "")
    git(root, "merge", "--abort")
    assert is_clean(root)


@pytest.mark.campaign
def test_what_is_merged_already_makes_no_commit_and_a_merge_is_never_a_fast_forward(
    root: Path, opened: Open
) -> None:
    git(root, "branch", "ahead", "main")
    tip = commit_on(root, "ahead", {"notes/ahead.md": "ahead\n"})
    vault, before = opened(root), look_around(root)

    assert merge_branch(vault, "main~1").commit == ""
    assert look_around(root) == before
    done = merge_branch(vault, "ahead")

    assert git(root, "log", "-1", "--format=%P").split() == [before["commit"], tip]
    assert done.paths == ("notes/ahead.md",)
    assert merge_branch(vault, tip).commit == ""


@pytest.mark.campaign
def test_a_branch_that_is_not_checked_out_is_merged_into_without_a_trace_here(
    root: Path, opened: Open
) -> None:
    commit_on(root, "third", {"notes/third.md": "third\n"})
    write_notes(root, {"notes/lines.md": "not committed\n", "notes/untracked.md": "x\n"})
    git(root, "add", "notes/untracked.md")
    before, tip = look_around(root), git(root, "rev-parse", "side")

    done = merge_branch(opened(root, ref="side"), "third")

    assert look_around(root) == before
    assert done.commit == git(root, "rev-parse", "side")
    assert git(root, "log", "-1", "--format=%P|%s", "side") == (
        f"{tip} {git(root, 'rev-parse', 'third')}|merge: third into side"
    )
    merged = {path: data.decode() for path, (_, data) in tree_bytes(root, "side").items()}
    assert_same_lines({path: merged.get(path) for path in CLEAN})
    assert read_at(root, "side:notes/third.md") == b"third\n"
    assert "error" not in git(root, "fsck", "--strict", "--no-dangling", "--no-progress")


@pytest.mark.campaign
def test_a_vault_in_a_folder_merges_what_differs_there_alone(
    home: Path, tmp_path: Path, opened: Open
) -> None:
    big = tmp_path / "big"
    git(tmp_path, "init", "-q", str(big))
    write_notes(big, {"code.py": "1\n"})
    git(big, "add", "-A")
    git(big, "commit", "-qm", "first")
    create_vault(big / "mem ory").vault.close()
    git(big, "add", "-A")
    git(big, "commit", "-qm", "vault")
    fork(
        big,
        {"mem ory/MEMORY.md": MEMORY},
        {"mem ory/MEMORY.md": MEMORY + "- o\n"},
        {"mem ory/MEMORY.md": MEMORY + "- t\n"},
    )
    commit_on(big, "code", {"code.py": "2\n"})
    vault = opened(big / "mem ory")

    assert merge_branch(vault, "side").paths == ("MEMORY.md",)
    assert (big / "mem ory/MEMORY.md").read_text() == MEMORY + "- o\n- t\n"
    before = look_around(big)
    with pytest.raises(RefusedError, match=r"code\.py: not a file of the vault.*use git itself"):
        merge_branch(vault, "code")
    assert look_around(big) == before
    assert is_clean(big)


def test_what_the_repository_says_of_files_that_are_no_notes_counts(
    make_vault: Make, opened: Open
) -> None:
    """Its attributes are heeded as git does; the programs that they name are not run."""
    root = make_vault({".gitattributes": "*.txt merge=union\n"})
    write_notes(root, {"sub/.gitattributes": "*.csv -merge\n"})
    git(root, "add", "-A")
    git(root, "commit", "-qm", "attributes")
    fork(
        root,
        {"log.txt": "a\n", "sub/whole.csv": "1\n2\n3\n4\n"},
        {"log.txt": "a\nours\n", "sub/whole.csv": "0\n2\n3\n4\n"},
        {"log.txt": "a\ntheirs\n", "sub/whole.csv": "1\n2\n3\n5\n"},
    )

    done = merge_branch(opened(root), "side")

    assert [conflict.path for conflict in done.conflicts] == ["sub/whole.csv"]
    assert (root / "sub/whole.csv").read_text() == "0\n2\n3\n4\n"
    assert (root / "sub/whole (side).csv").read_text() == "1\n2\n3\n5\n"
    assert (root / "log.txt").read_text() == "a\nours\ntheirs\n"


@pytest.mark.campaign
def test_a_crosswise_history_is_merged_as_notes_too(make_vault: Make, opened: Open) -> None:
    """Two branches that merged one another have two common ancestors; git merges these first."""
    root = make_vault({"notes/a.md": NOTE})
    vault = opened(root)
    git(root, "branch", "side")
    commit_on(root, "main", {"notes/a.md": change(NOTE, "  - auth\n", "  - auth\n  - one\n")})
    commit_on(root, "side", {"notes/a.md": change(NOTE, "  - auth\n", "  - auth\n  - two\n")})
    git(root, "reset", "-q", "--hard")
    git(root, "branch", "old")
    merge_branch(vault, "side")
    git(root, "switch", "-q", "side")
    merge_branch(vault, "old")
    text = (root / "notes/a.md").read_text()
    write_notes(root, {"notes/a.md": change(text, "title: Session tokens", "title: Theirs")})
    git(root, "commit", "-qam", "title")
    git(root, "switch", "-q", "main")
    write_notes(root, {"notes/a.md": change((root / "notes/a.md").read_text(), "weekly", "daily")})
    git(root, "commit", "-qam", "rotation")
    assert len(git(root, "merge-base", "--all", "main", "side").split()) == 2

    merge_branch(vault, "side")

    merged = (root / "notes/a.md").read_text()
    assert ("title: Theirs" in merged, "Keys rotate daily." in merged) == (True, True)
    assert sorted(line for line in merged.splitlines() if line.startswith("  - ")) == [
        *("  - auth", "  - one", "  - two")
    ]


# ---- what does not


@pytest.mark.campaign
def test_what_both_sides_changed_is_settled_in_one_commit_that_tells_of_it(
    torn: Path, opened: Open
) -> None:
    planned = plan_merge(opened(torn), "side")
    before = list_refs(torn)
    done = merge_branch(opened(torn), "side")

    found: dict[str, list[tuple[str, str, str]]] = {}
    for each in done.conflicts:
        found.setdefault(each.path, []).append((each.what, each.ours, each.theirs))
        assert (each.our_author, each.their_author) in {("Ada", "Bob"), ("Ada", "")}, each
    assert found == {path: case[3] for path, case in TORN.items() if case[3]}
    assert done.losses == (DiscardedValue("notes/a.md", 'property "state"', "stale"),)
    assert planned[3:7] == done[3:7]
    assert before != list_refs(torn)

    day = git(torn, "log", "-1", "--format=%cI", "side")[:10]
    files = {name: data for name, (_, data) in disk_bytes(torn).items()}
    texts = {name: data.decode(errors="replace") for name, data in files.items()}
    assert texts["notes/a.md"] == change(
        *(NOTE, "state: active", "state: archived", "  - auth\n", "  - auth\n  - x\n"),
        *("weekly", "daily"),
    )
    assert (
        f"> [!conflict] Also said by Bob on {day} (side)\n> Tokens are random.\n"
        in (texts["notes/b.md"])
    )
    assert texts["notes/gone.md"] == f"> [!conflict] Removed by Ada on {day}\n\na\nb\nc\n"
    assert (files["bytes.bin"], files["bytes (side).bin"]) == (b"\0b", b"\0c")
    assert texts["notes/place (main).md"] == "a note\n"
    assert texts["notes/place.md/in.md"] == "in a folder\n"
    assert texts["notes/m1.md"] == LONG
    assert not {"notes/m2.md", "notes/moved.md"} & texts.keys()
    assert texts["notes/links.md"] == "[[m1]] and [[m1]]\n"
    assert not any("<<<<<<<" in text for text in texts.values())
    assert is_clean(torn)
    body = git(torn, "log", "-1", "--format=%b")
    assert 'lost notes/a.md: property "state": stale\n' in body
    assert "conflict notes/b.md: line 11\n" in body


@pytest.mark.campaign
def test_agents_are_named_with_their_sessions_where_they_differ(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault({"notes/a.md": NOTE})
    git(root, "branch", "side")
    there = opened(root, agent="claude", session="s-2", ref="side")
    sync_vault(there)
    edit_note(there, PurePosixPath("notes/a.md"), lambda note: change(note.text, "opaque", "odd"))
    write_notes(root, {"notes/a.md": change(NOTE, "opaque", "clear")})
    git(root, "commit", "-qam", "by hand")

    [conflict] = merge_branch(opened(root), "side").conflicts

    assert (conflict.our_author, conflict.their_author) == (PERSON[0], "claude, session s-2")
    assert "Also said by claude on " in (root / "notes/a.md").read_text()


@pytest.mark.campaign
def test_git_itself_settles_what_is_one_note_in_the_same_way(torn: Path) -> None:
    done = subprocess.run(
        ["git", "merge", "-q", "--no-edit", "side"], cwd=torn, capture_output=True, check=False
    )

    assert done.returncode == 1
    unmerged = set(git(torn, "diff", "--name-only", "--diff-filter=U").splitlines())
    assert {"notes/a.md", "notes/b.md"} & unmerged == set()
    assert {"notes/gone.md", "bytes.bin", "notes/moved.md"} <= unmerged
    text = (torn / "notes/a.md").read_text()
    assert ("state: archived\n" in text, "  - x\n" in text, "daily" in text) == (True,) * 3
    assert "Also said by Bob" in (torn / "notes/b.md").read_text()
    assert b'lost notes/a.md: property "state": stale' in done.stderr


# ---- the same statement on both sides


def _tell(vault: Vault, *texts: str, **given: Any) -> None:
    sync_vault(vault)
    for text in texts:
        remember(vault, Memory(text, **given))


@pytest.mark.campaign
def test_the_same_facts_told_on_both_sides_are_one_note_each_that_both_confirm(
    make_vault: Make, opened: Open
) -> None:
    """Twelve facts, told by two agents who know nothing of one another, in one order or another."""
    root = make_vault({"notes/a.md": NOTE})
    git(root, "branch", "side")
    woods = ("oak", "larch", "pine", "fir", "beech", "ash", "elm", "alder", "birch", "yew")
    facts = [
        f"The pier at the {wood} grove is built of {wood}." for wood in (*woods, "teak", "ipe")
    ]
    _tell(opened(root, agent="ada", session="s-1", ref="side"), *facts)
    here = opened(root, agent="bob", session="s-2")
    _tell(here, *facts[::-1])
    commit_all(here)

    done = merge_branch(opened(root), "side")

    assert (done.conflicts, done.losses, len(done.twins)) == ((), (), 12)
    notes = sorted((root / "notes").rglob("*pier*.md"))
    assert len(notes) == 12
    for note in notes:
        text = note.read_text()
        assert text.count("confirmed_by:") == 1
        assert {"ada", "bob"} <= set(re.findall(r"ada|bob", text))
    assert git(root, "log", "-1", "--format=%b").count("\ntwin ") == 12


@pytest.mark.campaign
def test_twins_at_two_paths_become_one_and_links_follow(make_vault: Make, opened: Open) -> None:
    root = make_vault({"notes/a.md": NOTE})
    git(root, "branch", "side")
    fact = "The gangway was painted blue in May."
    first, second = (
        f"---\ntitle: Gangway\ncreated: 2026-11-0{day}T10:00:00\nagent: {who}\nsession: {who}-1\n"
        f"source: agent\n---\n{said}\n"
        for day, who, said in ((2, "ada", fact), (3, "bob", fact[:-1]))
    )
    commit_on(root, "side", {"notes/theirs/gangway.md": first})
    commit_on(root, "main", {"notes/gangway-2.md": second, "notes/b.md": "See [[gangway-2]].\n"})
    git(root, "reset", "-q", "--hard")

    planned = plan_merge(opened(root), "side")
    done = merge_branch(opened(root), "side")

    assert planned.twins == done.twins
    [twin] = done.twins
    assert (twin.path, twin.other) == ("notes/theirs/gangway.md", "notes/gangway-2.md")
    assert not (root / "notes/gangway-2.md").exists()
    assert (root / "notes/b.md").read_text() == "See [[gangway]].\n"
    text = (root / "notes/theirs/gangway.md").read_text()
    assert "created: 2026-11-02T10:00:00\nagent: ada\n" in text
    assert 'confirmed_by:\n  - "bob, session bob-1"\n' in text
    assert "also_said:" in text
    assert "twin notes/gangway-2.md is notes/theirs/gangway.md: by " in git(
        root, "log", "-1", "--format=%b"
    )
    assert is_clean(root)


@pytest.mark.parametrize("theirs", ["notes/it-is-closed.md", "notes/closed/it-is-closed-2.md"])
def test_twins_of_which_one_was_given_another_title_keep_it(
    make_vault: Make, opened: Open, theirs: str
) -> None:
    root = make_vault({"notes/a.md": NOTE})
    git(root, "branch", "side")
    text = "---\ntitle: It is closed\ncreated: 2026-11-02T10:00:00\nagent: {}\n---\nIt is closed.\n"
    named = text.format("ada").replace("title: It is closed", "title: The quay")
    commit_on(root, "side", {theirs: text.format("bob").replace("-02T", "-03T")})
    commit_on(root, "main", {"notes/it-is-closed.md": named})
    git(root, "reset", "-q", "--hard")

    done = merge_branch(opened(root), "side")

    assert ([twin.path for twin in done.twins], done.losses) == (["notes/it-is-closed.md"], ())
    merged = (root / "notes/it-is-closed.md").read_text()
    assert "title: The quay\n" in merged
    assert "confirmed_by:\n  - bob\n" in merged
    assert len(list(root.rglob("*closed*.md"))) == 1


@pytest.mark.parametrize(
    ("name", "value"), [("state", "quarantined"), ("kind", "policy_rule"), ("title", "Other quay")]
)
def test_what_remember_would_keep_apart_stays_two_notes(
    make_vault: Make, opened: Open, name: str, value: str
) -> None:
    root = make_vault({"notes/a.md": NOTE})
    git(root, "branch", "side")
    text = "---\nkind: semantic_fact\nstate: active\ntitle: Quay\n---\nIt is closed.\n"
    other = set_property(text, name, value)
    commit_on(root, "side", {"notes/one.md": other})
    commit_on(root, "main", {"notes/two.md": text})
    git(root, "reset", "-q", "--hard")

    assert merge_branch(opened(root), "side").twins == ()

    assert ((root / "notes/one.md").read_text(), (root / "notes/two.md").read_text()) == (
        other,
        text,
    )


def test_links_follow_a_rename_that_the_other_side_made(make_vault: Make, opened: Open) -> None:
    root = make_vault({"notes/old.md": LONG, "notes/b.md": "# B\n"})
    git(root, "branch", "side")
    commit_on(root, "main", {"notes/old.md": None, "notes/new.md": LONG})
    commit_on(root, "side", {"notes/b.md": "# B\n\nSee [[old|it]] and [x](old.md).\n"})
    commit_on(root, "side", {"notes/c.md": "[[notes/old#Long]]\n"})
    board = '{"nodes":[{"file":"notes/old.md"},{"text":"[[old]]"}]}'
    commit_on(root, "side", {"b.canvas": board, "bad.canvas": "}" + board})
    git(root, "reset", "-q", "--hard")

    merge_branch(opened(root), "side")

    assert (root / "notes/b.md").read_text() == "# B\n\nSee [[new|it]] and [x](new.md).\n"
    assert (root / "notes/c.md").read_text() == "[[notes/new#Long]]\n"
    assert (root / "b.canvas").read_text() == board.replace("old", "new")
    assert (root / "bad.canvas").read_text() == "}" + board


@pytest.mark.campaign
def test_a_name_that_one_note_gives_up_and_another_takes_is_not_removed(
    make_vault: Make, opened: Open
) -> None:
    other = LONG.replace("line", "row").replace("Long", "Other")
    root = make_vault({"notes/a.md": LONG, "notes/b.md": other})
    git(root, "branch", "side")
    commit_on(root, "side", {"notes/a.md": None, "notes/a-side.md": LONG})
    commit_on(root, "side", {"notes/b.md": None, "notes/p.md": other})
    late = {"notes/a.md": None, "notes/p.md": LONG, "notes/b.md": None, "notes/b-main.md": other}
    time.sleep(1.1)  # So ours are the later names, and `p` is that of another note on each side.
    commit_on(root, "main", late)
    git(root, "reset", "-q", "--hard")

    merge_branch(opened(root), "side")

    assert (root / "notes/p.md").read_text() == LONG
    assert (root / "notes/b-main.md").read_text() == other
    assert not (root / "notes/a-side.md").exists()


@pytest.mark.parametrize("how", ["changed", "untracked", "removed", "staged"])
def test_nothing_is_merged_over_what_is_not_committed(root: Path, opened: Open, how: str) -> None:
    if how == "removed":
        (root / "notes/tags.md").unlink()
    else:
        name = "notes/new.md" if how == "untracked" else "notes/tags.md"
        write_notes(root, {name: "mine\n"})
    if how == "staged":
        git(root, "add", "-A")
        git(root, "restore", "--source=HEAD", "--worktree", "notes/tags.md")
    before, refs = look_around(root), list_refs(root)

    with pytest.raises(PendingError, match=r"not merged: .*(not committed|are staged)"):
        merge_branch(opened(root), "side")

    assert (look_around(root), list_refs(root)) == (before, refs)


@pytest.mark.campaign
def test_what_looks_like_a_credential_does_not_come_in(root: Path, opened: Open) -> None:
    commit_on(root, "leaky", {"notes/leak.md": f"x\n{KEY}\n"})
    half = change(NOTE, "Keys rotate weekly.", f"Keys rotate: {KEY}")
    commit_on(root, "merged", {"notes/lines.md": half.replace("weekly", "daily")})
    before, refs, vault = look_around(root), list_refs(root), opened(root)

    for name, place in (("leaky", "notes/leak.md:2"), ("merged", "notes/lines.md:18")):
        with pytest.raises(RefusedError, match=f"looks like a credential: {place}") as raised:
            merge_branch(vault, name)
        assert KEY not in str(raised.value)
    with pytest.raises(RefusedError, match="looks like a credential"):
        merge_branch(opened(root, ref="side"), "leaky")

    assert (look_around(root), list_refs(root)) == (before, refs)


@pytest.mark.campaign
def test_links_and_submodules_and_files_that_are_too_large_are_left_to_git(
    root: Path, opened: Open
) -> None:
    commit_on(root, "link", {"notes/link.md": ("120000", "/etc/passwd")})
    commit_on(root, "large", {"notes/large.md": "x" * (1024 * 1024 + 1)})
    commit_on(root, "evil", {"notes/.git/config": "x"})
    git(root, "branch", "-q", "-D", "side")
    items = {
        side: "- a\n" + "".join(f"- {side} {n} {'x' * 300}\n" for n in range(2000))
        for side in ("ours", "theirs")
    }
    half = "notes/half.md"
    fork(root, {half: "- a\n"}, {half: items["ours"]}, {half: items["theirs"]})
    before, refs, vault = look_around(root), list_refs(root), opened(root)

    for name, told in (
        ("link", "use git itself"),
        ("large", "use git itself"),
        ("evil", "git allows no file of this name"),
        ("side", "both versions together are too large"),
    ):
        with pytest.raises(RefusedError, match=told):
            merge_branch(vault, name)

    assert (look_around(root), list_refs(root)) == (before, refs)


def test_a_history_that_has_nothing_in_common_is_refused(root: Path, opened: Open) -> None:
    tree = git(root, "rev-parse", "side^{tree}")
    stranger = git(root, "commit-tree", tree, "-m", "stranger")
    vault, before = opened(root), look_around(root)

    with pytest.raises(VaultError, match="no commit in common"):
        merge_branch(vault, stranger)
    with pytest.raises(NoteNotFoundError, match="nowhere"):
        merge_branch(vault, "nowhere")
    with pytest.raises(RefusedError):
        merge_branch(vault, "--help")

    assert look_around(root) == before


# ---- somebody saves, commits or fails in the middle


def _everything(root: Path) -> tuple[Any, ...]:
    return disk_bytes(root), git(root, "ls-files", "-s"), list_refs(root)


@pytest.mark.campaign
@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (move, "create_file"),
        (move, "replace_file"),
        (move, "remove_file"),
        (VaultHistory, "write_commits"),
    ],
)
def test_a_failure_anywhere_leaves_all_as_it_was(
    root: Path, opened: Open, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str
) -> None:
    vault, before = opened(root), _everything(root)
    sync_vault(vault)
    real = getattr(owner, name)
    calls: list[int] = []

    def fail(*arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            if name != "write_commits":
                real(*arguments)
            raise VaultError("disk full")
        return real(*arguments)

    monkeypatch.setattr(owner, name, fail)
    with pytest.raises(VaultError, match="disk full"):
        merge_branch(vault, "side")
    monkeypatch.undo()

    assert _everything(root) == before
    assert is_clean(root)
    assert merge_branch(vault, "side").commit


@pytest.mark.campaign
def test_a_git_that_dies_says_so_and_that_nothing_was_merged(root: Path, opened: Open) -> None:
    vault, before = opened(root), _everything(root)
    sync_vault(vault)
    vault.history.objects.read("HEAD")
    vault.history.objects._process.proc.kill()
    vault.history.objects._process.proc.wait()

    with pytest.raises(SystemFailureError, match="nothing was merged: git cat-file ended early"):
        merge_branch(vault, "side")

    assert _everything(root) == before
    assert merge_branch(vault, "side").commit


def test_a_fault_after_the_merge_names_its_commit_and_the_same_command_completes_it(
    root: Path, opened: Open
) -> None:
    git(root, "branch", "proposals/bob/tags", "side")
    in_the_way = root / ".git/refs/vaultmem/decided"
    in_the_way.parent.mkdir(exist_ok=True)
    in_the_way.write_text("a file in place of a folder\n")
    vault = opened(root)
    before = git(root, "rev-parse", "HEAD")

    with pytest.raises(SystemFailureError) as raised:
        merge_branch(vault, "proposals/bob/tags")

    made = git(root, "rev-parse", "HEAD")
    assert git(root, "rev-parse", "HEAD^1") == before
    assert str(raised.value).startswith(
        f"the notes are committed ({made[:7]}), but not all is done; run the command again: git "
    )
    in_the_way.unlink()
    assert is_clean(root)
    assert not merge_branch(vault, "proposals/bob/tags").is_needed
    assert "proposals/bob/tags" in git(root, "for-each-ref", "refs/vaultmem/decided")


@pytest.mark.campaign
def test_an_editors_save_at_the_same_moment_wins_and_nothing_is_merged(
    root: Path, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    vault, before = opened(root), _everything(root)
    sync_vault(vault)
    real = move.replace_file

    def save_first(folder: Path, path: PurePosixPath, *rest: Any) -> None:
        if str(path) == "notes/tags.md":
            (folder / path).write_text("saved by an editor\n")
        real(folder, path, *rest)

    monkeypatch.setattr(move, "replace_file", save_first)
    with pytest.raises(ConflictError):
        merge_branch(vault, "side")
    monkeypatch.undo()

    files, index, refs = _everything(root)
    assert files.pop("notes/tags.md")[1] == b"saved by an editor\n"
    before[0].pop("notes/tags.md")
    assert (files, index, refs) == before
    sync_vault(vault)
    assert git(root, "status", "--porcelain") == " M notes/tags.md"


@pytest.mark.campaign
@pytest.mark.parametrize("ref", ["", "side"])
def test_a_commit_that_somebody_makes_meanwhile_is_merged_with(
    root: Path, opened: Open, monkeypatch: pytest.MonkeyPatch, ref: str
) -> None:
    vault, real = opened(root, ref=ref), merge.draft_event
    late: list[str] = []

    def commit_first(*arguments: Any) -> Any:
        if not late:
            late.append(commit_on(root, ref or "main", {"notes/late.md": "late\n"}))
            if not ref:  # As git leaves it behind its own commit.
                git(root, "reset", "-q", "--hard")
        return real(*arguments)

    monkeypatch.setattr(merge, "draft_event", commit_first)
    done = merge_branch(vault, "main" if ref else "side")

    assert git(root, "rev-parse", f"{done.commit}^1") == late[0]
    assert read_at(root, f"{done.commit}:notes/late.md") == b"late\n"
    assert is_clean(root)


@pytest.mark.campaign
def test_who_keeps_committing_makes_a_merge_give_up_and_change_nothing(
    root: Path, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = merge.draft_event

    def commit_first(*arguments: Any) -> Any:
        git(root, "commit", "-q", "--allow-empty", "-m", "by the person")
        return real(*arguments)

    before = disk_bytes(root)
    monkeypatch.setattr(merge, "draft_event", commit_first)
    with pytest.raises(PendingError, match="other commits keep coming in"):
        merge_branch(opened(root), "side")

    assert disk_bytes(root) == before
    assert is_clean(root)
    assert "merge" not in git(root, "log", "--format=%s")


@pytest.mark.campaign
def test_a_merged_vault_is_found_at_once_and_can_be_written_to(root: Path, opened: Open) -> None:
    vault = opened(root, agent="ada")
    merge_branch(vault, "side")

    note = remember(vault, Memory("Gangways are steep.", title="Gangway"))

    assert git(root, "status", "--porcelain", "-uall") == f"?? {note.path}"
