"""A canvas as a note: what of it is read, and how its links change in the JSON."""

from __future__ import annotations

import json
from pathlib import PurePosixPath

import pytest

from vaultmem.core.notes.link_syntax import LinkNames
from vaultmem.core.notes.note import UnreadableNoteError, parse_note
from vaultmem.core.notes.rewrite_links import apply_edits, find_canvas_links, plan_edits

PATH = PurePosixPath("ideas/Board.canvas")
CANVAS = r"""{
	"nodes":[
		{"type":"text","text":"See [[quay|the \u00fcber quay]] \ud83d\ude00, [[quay]].\n```\na"},
		{"id":"b","type":"text","text":"# Money\n\nThe budget is 400 pounds."},
		{"type":"file","id":"c","subpath":"#Hours","file":"notes\/quay.md"},
		{"id":"d","type":"file","file":"odd [1].png"},
		{"id":"e","type":"group","label":"Harbour plan"},
		{"id":"f","type":"link","url":"https://example.org","text":7}, "junk"
	],
	"edges":[{"id":"g","text":"quay.md", "nodes":[{"file":"notes/quay.md"}]}]
}"""


def test_a_card_is_a_section_and_a_file_a_link() -> None:
    note = parse_note(PATH, CANVAS.encode())

    assert note.title == "Board"
    assert [each.heading for each in note.sections] == [
        "Board",
        "See the über quay 😀, quay.",
        "Money",
    ]
    first, _, money = note.sections
    assert note.section_text(first).split() == [
        *("[[notes/quay#Hours]]", "[odd", "1.png](odd%20%5B1%5D.png)"),
        *("Harbour", "plan", "https://example.org"),
    ]
    assert note.section_text(money) == "The budget is 400 pounds."


@pytest.mark.parametrize("data", [b"", b" \n", b"{}"])
def test_an_empty_canvas_says_its_name(data: bytes) -> None:
    assert parse_note(PATH, data).text == "# Board\n"


@pytest.mark.parametrize(
    "data", [b"{bad", b"[]", b'{"nodes": 1}', b"\xff\xfe{}", b"[" * 9_000, b"<<<<<<< ours\n{}"]
)
def test_what_is_no_canvas_is_not_read(data: bytes) -> None:
    with pytest.raises(UnreadableNoteError, match="JSON"):
        parse_note(PATH, data)


def test_only_the_names_change_and_every_other_byte_stays() -> None:
    old, new = "notes/quay.md", 'places/The "Öld" Quay.md'
    before, after = LinkNames([old, "odd [1].png"]), LinkNames([new, "odd [1].png"])
    place = (str(PATH), str(PATH))

    edits = plan_edits(CANVAS, place, before, after, (old, new))
    changed = apply_edits(CANVAS, edits, str(PATH))

    stem = r"The \"Öld\" Quay"
    wanted = CANVAS.replace("[[quay", f"[[{stem}").replace(r"notes\/quay.md", f"places/{stem}.md")
    assert changed == wanted
    assert json.loads(changed)["nodes"][2]["file"] == new
    assert [each.line for each in find_canvas_links(changed)] == [3, 3, 5, 6]
    assert plan_edits(changed, place, after, after, (new, new)) == []
