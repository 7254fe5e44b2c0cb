"""What others say in a note is told as theirs, and is none of the note's own words."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest
from conftest import Open
from in_process import run_here

from vaultmem.core.notes.note import parse_note

TIDE = """\
# Tide

The ferry leaves at nine from the old pier.

> [!conflict] Also said by ben on 2026-11-22 (laptop)
> The hovercraft leaves at ten.
> #hover [[quay]] <!-- or so -->

Tickets are sold aboard.

## Cold days

It does not leave.

> [!conflict|0] Left out by cleo
"""
GONE = "> [!conflict] Removed by dora\n\nThe cranes are of steel.\n"
CODE = "```\n> [!conflict] Also said by ann\n> An example.\n```\n"


NOTES = {"notes/tide.md": TIDE, "notes/crane.md": GONE, "notes/form.md": CODE}


def test_the_text_of_a_note_is_what_it_says_itself() -> None:
    note = parse_note(PurePosixPath("notes/tide.md"), TIDE.encode())
    first = "The ferry leaves at nine from the old pier.\n\nTickets are sold aboard."
    assert [note.section_text(each) for each in note.sections] == [first, "It does not leave."]
    assert note.tags == ()
    assert note.conflict == "conflicted: ben and cleo say otherwise"
    assert [(x.who, x.text[:14]) for x in note.conflicting_texts[0]] == [("ben", "The hovercraft")]
    assert list(note.conflicting_texts) == [0]
    assert len(note.visible) == len(note.text)
    gone = parse_note(PurePosixPath("a.md"), GONE.encode())
    assert gone.conflict == "conflicted: dora removed it"
    assert gone.visible_body.strip() == "The cranes are of steel."
    many = "".join(f"> [!conflict] Also said by {x * 99}\n\n" for x in "abcde")
    assert len(parse_note(PurePosixPath("a.md"), many.encode()).conflict) < 200
    code = parse_note(PurePosixPath("a.md"), CODE.encode())
    assert (code.conflict, code.visible) == ("", code.text)
    for ends in ("\r\n", "\n"):
        text = TIDE.replace("\n", ends).removesuffix(ends)
        assert "hovercraft" not in parse_note(PurePosixPath("a.md"), text.encode()).visible


def test_a_question_finds_the_note_by_its_own_words_with_the_caution(root: Path) -> None:
    assert run_here("recall", "hovercraft", "--json", cwd=root).json["hits"] == []
    (hit,) = run_here("recall", "ferry old pier", "--json", cwd=root).json["hits"]
    assert hit["caution"] == "conflicted: ben and cleo say otherwise"
    assert "hovercraft" not in hit["text"]
    assert "ben and cleo say otherwise" in run_here("recall", "ferry", cwd=root).out


@pytest.mark.parametrize("labels", ["short", "full"])
def test_a_pack_shows_the_other_version_as_theirs_where_it_fits(
    root: Path, opened: Open, labels: str
) -> None:
    settings = root / "vaultmem.yaml"
    settings.write_text(f"{settings.read_text()}\npack_labels: {labels}\n")
    done = run_here("pack", "ferry old pier tickets", "--agent", "claude", cwd=root)
    shown = done.out
    assert done.code == 0
    assert shown.count("conflicted: ben and cleo say otherwise") >= 1
    own, label, theirs = shown.partition("ben says]\n")
    assert label
    assert "> Tickets are sold aboard." in own
    assert "hovercraft" not in own
    assert theirs.startswith("> The hovercraft leaves at ten.\n")
    (receipt,) = run_here("receipts", "--json", cwd=root).json["receipts"]
    assert run_here("receipt", receipt["id"], cwd=root).out == shown
    sizes = [run_here("pack", "ferry", "--budget", str(n), cwd=root).out for n in (130, 300)]
    assert ["say otherwise" in each for each in sizes] == [True, True]
    assert ["hovercraft" in each for each in sizes] == [False, True]


def test_the_state_is_told_where_states_are(root: Path) -> None:
    listed = run_here("list", "--state", "conflicted", "--json", cwd=root).json
    assert [each["path"] for each in listed["notes"]] == ["notes/crane.md", "notes/tide.md"]
    assert {each["state"] for each in listed["notes"]} == {"active"}
    assert run_here("status", "--json", cwd=root).json["states"]["conflicted"] == 2
    checks = run_here("doctor", "--json", cwd=root).json["checks"]
    (told,) = (each for each in checks if each["name"] == "conflicts")
    assert told["verdict"] == "warning"
    assert told["paths"][0] == "notes/crane.md: conflicted: dora removed it"
    assert next(each for each in checks if each["name"] == "notes")["verdict"] == "ok"
