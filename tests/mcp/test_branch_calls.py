"""Branches in an agent's hands: a ref for each call, and branches made, moved and merged."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Make
from mcp.client.client import Client
from serving import call, play, refused, told
from support import git, hash_tree

NOTES = {
    "notes/ferry.md": "# Ferry\n\nThe ferry leaves at noon.\n",
    "notes/half.md": "---\nstate: candidate\n---\n# Half\n\nHalf fares end at ten.\n",
}


@pytest.mark.campaign
def test_each_call_may_name_its_branch_and_nothing_is_checked_out(make_vault: Make) -> None:
    root = make_vault(NOTES)
    git(root, "branch", "draft")
    before, main = hash_tree(root, (".git",)), git(root, "rev-parse", "main")

    async def scene(client: Client) -> None:
        there = {"ref": "draft"}
        made = await call(client, "remember", text="The ferry to Holm is full.", **there)
        path = made["path"]
        assert made["ref"] == "draft"
        assert "On draft, which is not checked out." in made["message"]
        note = await call(client, "read_note", path=path, **there)
        new = {"old_text": "full", "new_text": "late", "blob": note["blob"]}
        assert (await call(client, "update_note", path=path, **new, **there))["ref"] == "draft"
        assert "no note is called" in await refused(client, "read_note", path=path)
        found = await call(client, "recall", query="Holm ferry late", **there)
        assert found["hits"][0]["path"] == path
        both = await call(client, "recall", query="ferry", include_refs=["draft", "main"])
        refs = {each["path"]: each["refs"] for each in both["hits"]}
        assert refs == {path: ["draft"], "notes/ferry.md": ["main", "draft"]}
        pack = await call(client, "context_pack", query="ferry", include_refs=["draft"])
        assert f"draft@{git(root, 'rev-parse', '--short=7', 'draft')}" in pack["message"]
        assert "late" in (await call(client, "context_pack", query="Holm", **there))["message"]
        [event, *_] = (await call(client, "history", action="log", **there))["rows"]
        assert (event["event"], event["agent"]) == ("write", "claude")
        asked = {"action": "diff", "from": "main...draft"}
        parted = (await call(client, "history", **asked))["rows"]
        assert [each["path"] for each in parted] == [path]
        since = await call(client, "history", action="log", commit="main..draft")
        assert len(since["rows"]) == 2
        assert (await call(client, "promote", paths=["half"], **there))["ref"] == "draft"
        assert (await call(client, "forget", path=path, **there))["forgotten"] == [path]
        elsewhere = await call(client, "recall", query="Holm ferry late", ref="main")
        assert path not in {each["path"] for each in elsewhere["hits"]}
        assert "nowhere" in await refused(client, "recall", query="ferry", ref="nowhere")
        tag = await refused(client, "remember", text="The ferry is green.", ref=main)
        assert "not a branch" in tag

    play(root, scene)
    assert hash_tree(root, (".git",)) == before
    assert git(root, "rev-parse", "main") == main


@pytest.mark.campaign
def test_branches_are_made_compared_moved_merged_and_removed(make_vault: Make) -> None:
    root = make_vault(NOTES)

    async def scene(client: Client) -> None:
        made = await call(client, "checkpoint", action="branch", ref="draft")
        assert made["commit"] == git(root, "rev-parse", "draft")
        await call(client, "remember", text="Gulls nest on the crane.", ref="draft")
        await call(client, "remember", text="The crane is of steel.", ref="draft")
        rows = (await call(client, "history", action="branches"))["rows"]
        assert [(each["name"], each["ahead"]) for each in rows] == [("draft", 2), ("main", 0)]
        merge = {"action": "merge", "from": "draft"}
        planned = await call(client, "checkpoint", **merge, dry_run=True)
        assert (planned["would_merge"], len(planned["paths"])) == (True, 2)
        assert git(root, "rev-parse", "main") == made["commit"]
        back = await call(client, "checkpoint", action="reset", ref="draft", **{"from": "draft~1"})
        assert git(root, "rev-parse", "draft~1") == made["commit"]
        assert git(root, "rev-parse", back["backup"] + "~1") == git(root, "rev-parse", "draft")
        merged = await call(client, "checkpoint", **merge)
        assert (merged["into"], len(merged["paths"])) == ("main", 1)
        assert "Gulls nest" in (root / merged["paths"][0]).read_text()
        assert "checked out" in await refused(
            client, "checkpoint", action="reset", ref="main", **{"from": "main~1"}
        )
        assert 'needs "from"' in await refused(client, "checkpoint", action="merge")
        assert (await call(client, "checkpoint"))["commits"] == []
        into = {"action": "merge", "ref": "draft", "from": back["backup"]}
        assert (await call(client, "checkpoint", **into))["into"] == "draft"
        removed = await client.call_tool("checkpoint", {"action": "remove", "ref": "draft"})
        assert "on no other branch" in told(removed)
        assert "--delete --force` (in a shell; no tool does it)" in told(removed)

    play(root, scene)
    assert git(root, "status", "--porcelain") == ""


def test_what_both_sides_changed_is_named_and_not_recited(make_vault: Make) -> None:
    root = make_vault(NOTES)
    git(root, "branch", "draft")

    async def scene(client: Client) -> None:
        for there, time in (({}, "one"), ({"ref": "draft"}, "two")):
            blob = (await call(client, "read_note", path="ferry", **there))["blob"]
            new = {"old_text": "noon", "new_text": time, "blob": blob}
            await call(client, "update_note", path="ferry", **new, **there)
        await call(client, "checkpoint", note="at one")
        for more in ({"dry_run": True}, {}):
            merge = {"action": "merge", "from": "draft", **more}
            done = await client.call_tool("checkpoint", {**merge, "detail": True})
            assert not done.is_error, told(done)
            assert "both changed  notes/ferry.md: " in told(done)
            assert "two" not in told(done) + str(done.structured_content["conflicts"])
        assert "two" in told(await client.call_tool("read_note", {"path": "ferry"}))

    play(root, scene)


def _paint(make_vault: Make) -> Path:
    """Return a vault whose branches `draft` and `main` changed the same line."""
    root = make_vault({"notes/crane.md": "# Crane\n\nThe crane is red.\n", **NOTES})
    for branch, colour in (("draft", "green"), ("main", "blue")):
        git(root, "switch", "-q", "-C", branch, "main")
        (root / "notes/crane.md").write_text(f"# Crane\n\nThe crane is {colour}.\n")
        git(root, "commit", "-qam", colour)
    return root


def test_a_file_at_which_git_has_stopped_is_decided(make_vault: Make) -> None:
    root = _paint(make_vault)
    git(root, "-c", "merge.vaultmem.driver=false", "merge", "-q", "draft", check=False)
    assert git(root, "diff", "--name-only", "--diff-filter=U") == "notes/crane.md"

    async def scene(client: Client) -> None:
        decide = {"action": "resolve", "path": "crane", "choice": "theirs"}
        done = await call(client, "checkpoint", **decide)
        assert (done["resolved"], done["commits"]) == ("notes/crane.md", [])

    play(root, scene)
    assert git(root, "diff", "--name-only", "--diff-filter=U") == ""
    assert (root / "notes/crane.md").read_text() == "# Crane\n\nThe crane is green.\n"


def test_what_a_merge_left_to_decide_is_listed_and_decided(make_vault: Make) -> None:
    root = _paint(make_vault)

    async def scene(client: Client) -> None:
        merged = await call(client, "checkpoint", action="merge", **{"from": "draft"})
        assert merged["conflicts"] == ["notes/crane.md: line 3"]
        listed = told(await client.call_tool("history", {"action": "conflicts"}))
        assert ("blue" in listed, "green" in listed) == (True, True)
        decide = {"action": "resolve", "path": "crane", "choice": "theirs"}
        done = await call(client, "checkpoint", **decide)
        assert (done["resolved"], done["decided"]) == ("notes/crane.md", 1)
        assert (root / "notes/crane.md").read_text() == "# Crane\n\nThe crane is green.\n"
        assert "no conflict" in await refused(client, "checkpoint", **decide)

    play(root, scene)


def test_a_note_of_another_branch_is_promoted_here(make_vault: Make) -> None:
    root = make_vault(NOTES)
    git(root, "branch", "draft")

    async def scene(client: Client) -> None:
        path = (await call(client, "remember", text="Buoys are green.", ref="draft"))["path"]
        done = await call(client, "promote", paths=[path], **{"from": "draft"})
        subjects = [each["subject"] for each in done["commits"]]
        assert subjects == [f"take: {Path(path).stem} from draft", f"promote: {Path(path).stem}"]
        assert "Buoys" in (root / path).read_text()

    play(root, scene)


def test_who_only_reads_looks_at_any_branch_and_writes_to_none(make_vault: Make) -> None:
    root = make_vault(NOTES)
    git(root, "branch", "draft")

    async def scene(client: Client) -> None:
        found = await call(client, "recall", query="ferry", ref="draft")
        assert [each["path"] for each in found["hits"]] == ["notes/ferry.md"]
        own = await call(client, "history", action="log", ref="main")
        assert own["rows"] == (await call(client, "history", action="log"))["rows"]
        asked = await refused(client, "checkpoint", action="branch", ref="other")
        assert "no such tool" in asked

    play(root, scene, ref="draft", may_write=False)
    assert "other" not in git(root, "branch", "--list")
