"""The commands about branches: what they print, as JSON too, and how they end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from branching import NOTE, change, commit_on, list_refs, look_around
from conftest import PERSON, RunCli
from in_process import run_here
from support import git, write_notes


def lay(root: Path) -> None:
    """Make a vault with branches that merge, of which one changed what main did (`torn`)."""
    commit_on(root, "main", {"notes/a.md": NOTE, "notes/b.md": "b\n"})
    git(root, "branch", "side", "main")
    git(root, "branch", "torn", "main")
    ours = change(NOTE, "title: Session tokens", "title: Ours", "opaque", "clear")
    commit_on(root, "main", {"notes/a.md": ours})
    commit_on(root, "side", {"notes/a.md": change(NOTE, "weekly", "daily"), "notes/c.md": "c\n"})
    theirs = change(NOTE, "title: Session tokens", "title: Theirs", "opaque", "odd")
    commit_on(root, "torn", {"notes/a.md": theirs}, who="Ey\x1b[2Jve <eve@example.org>")
    git(root, "reset", "-q", "--hard")


def test_branches_are_made_listed_and_removed(root: Path) -> None:
    commit = git(root, "rev-parse", "HEAD")

    made = run_here("branch", "new", cwd=root)
    asked = run_here("branch", "old", "--from", "HEAD~1", "--json", cwd=root).json
    listed = run_here("branch", "--json", cwd=root).json["branches"]
    shown = run_here("branch", cwd=root).out.splitlines()
    kept = run_here("branch", "side", "--delete", cwd=root)
    removed = run_here("branch", "new", "--delete", cwd=root)

    assert (made.code, made.out) == (0, f"made  new  at {commit[:7]}\n")
    assert asked == {"branch": "old", "commit": git(root, "rev-parse", "main~1"), "removed": False}
    assert [each["name"] for each in listed] == ["main", "new", "old", "side", "torn"]
    assert set(listed[0]) == {
        *("name", "commit", "at", "subject", "folder", "is_current", "ahead", "behind")
    }
    assert (listed[3]["ahead"], listed[3]["behind"], listed[3]["folder"]) == (1, 1, None)
    assert (listed[0]["is_current"], listed[0]["folder"]) == (True, str(root))
    assert shown[0].startswith(f"* main  {commit[:7]}  ")
    assert "+1 -1" in shown[3]
    assert (kept.code, "--delete --force" in kept.err) == (5, True)
    assert (removed.code, removed.out) == (0, f"removed  new  at {commit[:7]}\n")


def test_a_switch_says_where_it_is_and_what_holds_it_back(root: Path) -> None:
    done = run_here("switch", "side", cwd=root)
    back = run_here("switch", "main", "--json", cwd=root).json
    made = run_here("switch", "--create", "topic", "--json", cwd=root).json
    write_notes(root, {"notes/b.md": "changed\n"})
    held = run_here("switch", "main", cwd=root)

    tip = git(root, "rev-parse", "--short=7", "side")
    assert done.out == f"on  side  at {tip}, 2 files changed\n"
    assert back == {"branch": "main", "commit": git(root, "rev-parse", "main"), "files": 2}
    assert made == {"branch": "topic", "commit": back["commit"], "files": 0}
    assert (held.code, held.err.count("\n")) == (7, 1)
    assert "notes/b.md" in held.err
    assert "vaultmem checkpoint" in held.err
    assert git(root, "symbolic-ref", "--short", "HEAD") == "topic"


def test_a_merge_says_what_came_in(root: Path) -> None:
    tip = git(root, "rev-parse", "side")
    done = run_here("merge", "side", cwd=root)
    again = run_here("merge", "side", cwd=root)
    told = run_here("merge", "side", "--json", cwd=root).json

    commit = git(root, "rev-parse", "--short=7", "HEAD")
    assert done.out == f"merged  side into main  as {commit}, 2 files changed\n"
    assert again.out == "main has all of side already; nothing was merged.\n"
    assert told["source"]["commit"] == tip
    del told["source"]
    nothing: dict[str, Any] = {name: [] for name in ("paths", "losses", "conflicts", "twins")}
    assert told == {"merged": False, "commit": None, "into": "main", **nothing}


CONFLICT: dict[str, Any] = {
    "path": "notes/a.md",
    "what": "line 11",
    "ours": "Tokens are clear.\n",
    "our_author": "Bob",
}


def test_a_planned_merge_names_the_uncommitted_files_that_prevent_it(root: Path) -> None:
    write_notes(root, {"notes/b.md": "changed\n"})

    text, plan = (
        run_here("merge", "side", "--dry-run", *more, cwd=root) for more in ([], ["--json"])
    )
    merged = run_here("merge", "side", cwd=root)

    assert (text.code, plan.code, merged.code) == (0, 0, 7)
    assert text.out.startswith("not merged: 1 file is not committed (notes/b.md); run ")
    assert merged.err == f"vaultmem: error: {text.out}"
    assert plan.json["would_merge"] is False
    assert plan.json["refused"] == text.out.rstrip()
    assert plan.json["paths"] == ["notes/a.md", "notes/c.md"]


@pytest.mark.campaign
def test_a_merge_tells_what_both_sides_changed(root: Path, run_cli: RunCli) -> None:
    before, refs = look_around(root), list_refs(root)
    planned = run_here("merge", "torn", "--dry-run", "--json", cwd=root).json
    shown = run_here("merge", "torn", "--dry-run", cwd=root)
    taken = run_here("promote", "--from", "torn", "a", cwd=root)
    taken_json = run_here("promote", "--from", "torn", "a", "--json", cwd=root)
    assert (look_around(root), list_refs(root)) == (before, refs)
    told = run_cli("merge", "torn", cwd=root)

    assert told.code == 0
    assert told.err == ""
    for out in (shown.out, told.out):
        assert '  lost      notes/a.md: property "title": ' in out
        assert "  conflict  notes/a.md: line 11\n" in out
        assert "\x1b" not in out
    [conflict] = planned["conflicts"]
    assert set(conflict) == {"path", "what", "ours", "theirs", "our_author", "their_author"}
    assert {name: conflict[name] for name in CONFLICT} == CONFLICT
    assert (conflict["theirs"], conflict["their_author"][:2]) == ("Tokens are odd.\n", "Ey")
    assert (planned["would_merge"], planned["refused"], planned["twins"]) == (True, None, [])
    for done in (taken, taken_json):
        assert done.code == 8
        assert done.err.startswith("vaultmem: error: ")
        assert "nothing was changed" in done.err
    assert "    ours (Bob): Tokens are clear.\n" in taken.out
    assert "    theirs (Ey" in taken.out
    assert (taken_json.json["promoted"], taken_json.json["conflicts"]) == ([], [conflict])


def test_promote_from_a_branch_names_what_it_did(root: Path) -> None:
    there = git(root, "rev-parse", "side")
    done = run_here("promote", "--from", "side", "c", cwd=root)
    told = run_here("promote", "--from", "side", "a", "--json", cwd=root).json

    promoted, taken, last = done.out.splitlines()
    assert promoted == "promoted  notes/c.md  (from side)"
    assert taken.endswith("  take: c from side")
    assert last.endswith("  promote: c")
    assert told["promoted"] == [{"path": "notes/a.md", "from": "active", "to": "active"}]
    assert [each["subject"] for each in told["commits"]] == [*("take: a from side", "promote: a")]
    assert f"from side at {there}" in git(root, "log", "-1", "--format=%b")
    log = json.loads(run_here("log", "--event", "take", "--json", cwd=root).out)["commits"]
    assert [each["author"] for each in log] == ["Bob", "Bob"]
    assert git(root, "log", "-1", "--format=%an") == PERSON[0]
