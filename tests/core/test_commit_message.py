from __future__ import annotations

from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.credentials import CREDENTIALS
from vaultmem.core.commit_message import (
    COLUMNS,
    ShownNote,
    cut,
    format_files,
    format_message,
    format_pair,
    parse_shown,
)
from vaultmem.core.text.display import one_line, width

KEY = dict(each[:2] for each in CREDENTIALS)["AWS access key"]
MANY = [f"notes/payments/{name}.md" for name in ("glossary", "refund-rules", *"abcdefghijklmnop")]


@pytest.mark.parametrize(
    ("paths", "subject"),
    [
        (["notes/payments/half-refunds-round-up.md"], "promote: half-refunds-round-up"),
        (["b.md", "a.md"], "promote: a and b"),
        (["vaultmem.yaml", "a.md", "pic/x.png"], "promote: a, x.png and vaultmem.yaml"),
        (["sessions/s-0431.md"], "promote: session s-0431"),
        (MANY, "promote: a, b, c, d, e, f, g, glossary, h, i, j, k and 6 more"),
        ([f"{'long-name-' * 5}{n}.md" for n in (1, 2)], f"promote: {'long-name-' * 5}1 and 1 more"),
        ([f"keys/{KEY}.md"], "promote: ***"),
        (["a\nVault-Event: x\x1b[31m.md"], "promote: a Vault-Event: x [31m"),
    ],
)
def test_a_subject_names_what_it_is_about(paths: list[str], subject: str) -> None:
    message = format_message(format_files("promote", paths), (), {})
    assert message == f"{subject}\n"


def test_two_that_do_not_fit_share_the_room() -> None:
    old, new = "notes/the-old-rule-" + "of-refunds-" * 6, "notes/new.md"
    subject = format_pair("supersede", f"{old}.md", " by ", new)
    assert (width(subject) <= COLUMNS, subject[-10:]) == (True, "... by new")
    subject = format_pair("supersede", f"{old}.md", " by ", f"{old}-2.md")
    assert [part[-3:] for part in subject.split(" by ")] == ["...", "..."]
    assert subject.count("the-old-rule-of") == 2


def test_what_is_cut_stands_whole_in_the_body_and_is_no_trailer() -> None:
    said = f"checkpoint: {'the pier is closed and ' * 6}\nIntent: none"
    first, empty, *rest = format_message(said, ["wrote a.md"], {"Intent": "checkpoint"}).split("\n")
    assert (len(first) <= COLUMNS, first[-3:], empty) == (True, "...", "")
    assert " ".join(rest[: rest.index("")]) == " ".join(said.split())
    assert max(map(len, rest)) <= COLUMNS
    assert rest[-5:] == ["", "wrote a.md", "", "Intent: checkpoint", ""]


@given(
    st.lists(st.text(min_size=1).filter(lambda t: "/" not in t), min_size=1), st.text(max_size=9)
)
def test_a_first_line_is_never_too_wide(names: list[str], tail: str) -> None:
    paths = [str(PurePosixPath("notes") / f"{name}.md") for name in names]
    for subject in (
        format_files("state", paths, tail),
        format_pair("dedup", paths[0], " by ", paths[-1]),
    ):
        first = format_message(subject, (), {}).partition("\n")[0]
        assert (width(first) <= COLUMNS, one_line(first)) == (True, first)


@pytest.mark.parametrize(
    ("text", "columns", "shown"),
    [
        ("a word more", 11, "a word more"),
        ("the pier is closed", 15, "the pier is..."),
        ("the pier is closed", 14, "the pier is..."),
        ("x" * 40, 20, "x" * 17 + "..."),
        ("渡船" * 10, 20, "渡船" * 4 + "..."),
    ],
)
def test_a_text_is_cut_behind_a_word(text: str, columns: int, shown: str) -> None:
    assert cut(text, columns) == shown


def test_shown_notes_are_read_again_but_for_names_that_no_trailer_holds() -> None:
    many = [ShownNote(f"notes/a folder/{'x' * 90}{n}.md", 60) for n in range(40)]
    odd = [
        ShownNote(name, 61) for name in ("a | b.md", "a\nShown-Notes: b.md", "a  b.md", "\udcff.md")
    ]
    emoji = ShownNote("notes/\U0001f469\u200d\U0001f680.md", 62)
    notes = [*many, *odd, ShownNote("notes/ü: b.md", 62), emoji]
    message = format_message("write: x", (), {"Agent-Id": "claude"}, notes)
    lines = message.split("\n\n")[-1].splitlines()
    assert lines[0] == "Agent-Id: claude"
    assert all(len(line) < 2_100 for line in lines)
    found = [note for line in lines[1:] for note in parse_shown(line.removeprefix("Shown-Notes: "))]
    assert found == [*many, *notes[-2:]]
    assert [parse_shown(each) for each in ("", "x", "yesterday a.md", "9999999-01-01 a.md")] == [
        []
    ] * 4
