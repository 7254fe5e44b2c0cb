"""Notes whose bytes are no UTF-8: found, named so, moved and forgotten, and never rewritten."""

from __future__ import annotations

import subprocess
from pathlib import Path, PurePosixPath

import pytest
from conftest import Open
from in_process import run_here
from serving import call, play, refused
from support import git, write_notes

from vaultmem.core.notes.note import parse_note
from vaultmem.core.search.query import parse_query
from vaultmem.services.history.explain import explain_text
from vaultmem.services.search.recall import recall

LATIN = "---\nkind: decision\nstate: candidate\n---\n# Größe\n\nThe gangway of Jürgen. [[plain]]\n"
SIXTEEN = "# Fähre\n\nThe gangway is naïve.\n"
NOTES = {
    "notes/latin.md": LATIN.encode("cp1252"),
    "notes/sixteen.md": SIXTEEN.encode("utf-16"),
    "notes/mixed.md": "# Möwe\n\nThe gangway für ".encode() + b"J\xfcrgen.\n",
    "notes/binary.md": b"# Gangway\n\n\0\xe9\n",
    "notes/plain.md": b"# Plain\n\nNothing.\n",
}
CAUTIONS = {
    "notes/latin.md": "not UTF-8, read as Windows-1252",
    "notes/sixteen.md": "not UTF-8, read as UTF-16",
    "notes/mixed.md": "not UTF-8, read as UTF-8 and Windows-1252",
}


def _bytes(root: Path) -> dict[str, bytes]:
    return {path: (root / path).read_bytes() for path in NOTES if (root / path).exists()}


@pytest.mark.parametrize("where", [(), ("--at=HEAD",), ("--ref=main",)])
def test_they_are_found_and_named(root: Path, where: tuple[str, ...]) -> None:
    for words in (("recall", "gangway"), ("recall", "naïve"), ("recall", "jürgen")):
        hits = run_here(*words, *where, "--json", cwd=root).json["hits"]
        assert hits, words
        assert {hit["path"]: hit["caution"] for hit in hits}.items() <= CAUTIONS.items()
    pack = run_here("pack", "gangway naïve jürgen", *where, "--json", cwd=root).json
    assert {item["path"]: item["caution"] for item in pack["items"]} == CAUTIONS
    assert "> The gangway für Jürgen." in pack["text"]
    told = run_here("show", "latin", *where, cwd=root)
    assert told.out == LATIN
    assert "iconv -f Windows-1252 -t UTF-8" in told.err
    assert "read as UTF-16" in run_here("recall", "naïve", *where, cwd=root).out
    listed = run_here("list", *where, "--json", cwd=root).json["notes"]
    assert {n["path"] for n in listed if any("save it as UTF-8" in w for w in n["warnings"])} == {
        *CAUTIONS
    }


def test_a_question_of_an_agent_is_answered_with_the_caution(root: Path) -> None:
    async def scene(client: object) -> None:
        from mcp.client.client import Client

        assert isinstance(client, Client)
        hits = (await call(client, "recall", query="naïve"))["hits"]
        assert [hit["caution"] for hit in hits] == ["not UTF-8, read as UTF-16"]
        told = await call(client, "read_note", path="sixteen")
        assert "semantic_fact | active | UTF-16" in told["message"]
        given = {"path": "sixteen", "property": "tags", "value": ["x"]}
        assert "save it as UTF-8" in await refused(client, "update_note", **given)
        await call(client, "context_pack", query="gangway jürgen")

    play(root, scene)
    assert _bytes(root) == NOTES


@pytest.mark.parametrize(
    "words",
    [
        ("tag", "latin", "x"),
        ("pin", "sixteen"),
        ("state", "mixed", "deprecated", "--reason=x"),
        ("promote", "latin"),
        ("promote", "latin", "--from=main"),
        ("mv", "plain", "notes/other.md"),  # A link in latin.md would have to change.
        ("supersede", "sixteen", "plain", "--reason=x"),
    ],
)
def test_what_would_rewrite_them_says_how_to_convert_them(
    root: Path, words: tuple[str, ...]
) -> None:
    done = run_here(*words, cwd=root)
    assert done.code == 5, done
    assert "is never rewritten; save it as UTF-8 with" in done.err
    assert _bytes(root) == NOTES
    assert git(root, "status", "--porcelain") == ""


@pytest.mark.guarantee
@pytest.mark.campaign
@pytest.mark.parametrize(
    ("where", "reason"), [((), "It is wrong."), (("--ref=side",), "Für Jürgen: „falsch“.")]
)
def test_they_are_quarantined_and_each_byte_that_was_there_stays(
    root: Path, where: tuple[str, ...], reason: str
) -> None:
    big = b"\xfe\xff" + SIXTEEN.encode("utf-16-be")
    quoted = LATIN.replace("kind", "title: „Größe“\r\nkind", 1).encode("cp1252")
    odd = "# A\n\n\x81\x8d \ue000 \U0010f000\n".encode() + b"\x81\xff\xfe\n"
    files = {**NOTES, "notes/big.md": big, "notes/quoted.md": quoted, "notes/odd.md": odd}
    del files["notes/binary.md"], files["notes/plain.md"]
    write_notes(root, files)
    run_here("checkpoint", "before", cwd=root)
    git(root, "branch", "side")
    for path, before in files.items():
        done = run_here("state", path, "quarantined", f"--reason={reason}", *where, cwd=root)
        assert done.code == 0, (path, done)
        name = f"{where[0][6:] if where else 'HEAD'}:{path}"
        after = read_blob(root, name)
        assert_only_added(before, after)
        assert parse_note(PurePosixPath(path), after).state == "quarantined"
        shown = run_here("show", path, *where, cwd=root).out
        assert next(line for line in shown.splitlines() if "state_reason" in line)[14:] in {
            reason,
            f'"{reason}"',
        }
    again = run_here("state", "odd", "quarantined", "--reason=x", *where, cwd=root)
    assert (again.code, read_blob(root, name)) == (0, after)
    for words in ("gangway", "naïve", "jürgen"):
        hits = run_here("recall", words, *where, "--json", cwd=root).json["hits"]
        assert hits == [], words
    assert git(root, "status", "--porcelain") == ""


def read_blob(root: Path, name: str) -> bytes:
    words = ["git", "cat-file", "blob", name]
    return subprocess.run(words, cwd=root, check=True, capture_output=True).stdout


def assert_only_added(before: bytes, after: bytes) -> None:
    """Fail unless all bytes of before are there in their order, but for a state of theirs."""
    rest = iter(after)
    kept = before.replace(b"state: candidate", b"state: quarantined")
    assert all(byte in rest for byte in kept)


def test_what_works_unasked_leaves_them_alone(root: Path) -> None:
    old = run_here("remember", "The gangway of Jürgen.", "--title=Größe", cwd=root)
    assert old.out.startswith("remembered"), old
    for words in (
        *(("curate",), ("dream",), ("dedup", "--apply", "-y"), ("compact",), ("checkpoint", "x")),
        *(("blame", "sixteen"), ("history", "latin"), ("diff", "HEAD~1"), ("show",), ("links",)),
    ):
        done = run_here(*words, cwd=root)
        assert done.code == 0, (words, done)
    assert _bytes(root) == NOTES


def test_they_are_moved_and_forgotten_byte_for_byte(root: Path) -> None:
    for words in (("mv", "sixteen", "notes/x/y.md"), ("forget", "mixed", "--yes", "--reason=old")):
        assert run_here(*words, cwd=root).code == 0
    assert (root / "notes/x/y.md").read_bytes() == NOTES["notes/sixteen.md"]
    assert not (root / "notes/mixed.md").exists()
    assert run_here("restore", "mixed", "--at=HEAD~1", cwd=root).code == 0
    assert (root / "notes/mixed.md").read_bytes() == NOTES["notes/mixed.md"]
    assert run_here("mv", "sixteen", "notes/z.md", "--ref=main", cwd=root).code in {0, 4}


def test_their_lines_are_shown_with_where_they_come_from(root: Path, opened: Open) -> None:
    done = run_here("blame", "sixteen", "--json", cwd=root).json
    assert [line["text"] for line in done][:3] == SIXTEEN.splitlines()
    assert all(line["committed"] for line in done)
    vault = opened(root)
    (ground,) = explain_text(vault, "jürgen gangway", 1)
    assert all(step.commit for step in ground.steps)
    write_notes(root, {"notes/latin.md": LATIN.encode()})
    assert run_here("diff", cwd=root).out.strip() == "changed  notes/latin.md"


def test_the_converted_note_is_as_any_other(root: Path, opened: Open) -> None:
    write_notes(root, {"notes/latin.md": LATIN.encode()})
    assert run_here("tag", "latin", "x", cwd=root).code == 0
    hits = recall(opened(root), parse_query("jürgen", limit=5))
    assert {hit.record.path: hit.record.caution for hit in hits}["notes/latin.md"] == ""


def test_a_merge_takes_either_version_whole_and_converts_none(root: Path) -> None:
    git(root, "switch", "-qc", "side")
    write_notes(root, {"notes/latin.md": LATIN.replace("Größe", "Höhe").encode("cp1252")})
    git(root, "commit", "-qam", "side")
    git(root, "switch", "-q", "main")
    write_notes(root, {"notes/plain.md": "# Plain\n\nMore.\n"})
    git(root, "commit", "-qam", "main")
    assert run_here("merge", "side", cwd=root).code == 0
    assert "Höhe".encode("cp1252") in (root / "notes/latin.md").read_bytes()
    write_notes(root, {"notes/latin.md": LATIN.encode("cp1252") + b"one\n"})
    git(root, "commit", "-qam", "ours")
    git(root, "switch", "-q", "side")
    write_notes(root, {"notes/latin.md": LATIN.encode("cp1252") + b"two\n"})
    git(root, "commit", "-qam", "theirs")
    git(root, "switch", "-q", "main")
    done = run_here("merge", "side", cwd=root)
    assert (done.code, git(root, "status", "--porcelain")) == (0, "")
    assert "theirs is notes/latin (side).md" in done.out
    found = [(root / f"notes/latin{more}.md").read_bytes() for more in ("", " (side)")]
    assert found == [LATIN.encode("cp1252") + said for said in (b"one\n", b"two\n")]


def test_a_receipt_of_what_no_commit_has_is_replayed(root: Path) -> None:
    write_notes(root, {"notes/new.md": "# Boje\n\nDie Boje für Jürgen.\n".encode("cp1252")})
    write_notes(root, {"notes/newer.md": "# Tonne\n\nDie Tonne, naïve Boje.\n".encode("utf-16")})
    done = run_here("pack", "boje", "--receipt", "--json", cwd=root).json
    assert len(done["items"]) == 2
    again = run_here("receipt", done["receipt"], cwd=root)
    assert again.code == 0, again
    assert "Die Boje für Jürgen." in again.out
