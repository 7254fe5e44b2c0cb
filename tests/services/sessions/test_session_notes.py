"""A session's note: read leniently, written by position, every other byte as somebody left it."""

from __future__ import annotations

import random
from pathlib import PurePosixPath

import pytest

from vaultmem.core.notes.note import Note, parse_note
from vaultmem.core.sessions.session import (
    ContextWindow,
    Session,
    SessionLink,
    SessionRelation,
    check_session_id,
    is_safe_id,
    make_session_id,
    map_session_id,
)
from vaultmem.core.sessions.session_note import (
    append_to_section,
    as_item,
    as_paragraphs,
    new_session_text,
    parse_session,
)
from vaultmem.core.sessions.turns import TranscriptPosition
from vaultmem.errors import RefusedError
from vaultmem.services.sessions.windows import write_windows


def read(text: str, path: str = "sessions/s-1.md") -> Session:
    return parse_session(note_of(text, path))


def note_of(text: str, path: str = "sessions/s-1.md") -> Note:
    return parse_note(PurePosixPath(path), text.encode())


def test_a_session_written_by_hand_is_read_with_what_it_tells() -> None:
    session = read(
        "---\nagent: codex\nstatus: Error\nstarted: 2026-11-11T13:30:00\n"
        'continues: "[[sessions/s-0|before]]"\nrelated:\n  - s-9\n  - "[[s-0]]"\n'
        "touched:\n  - api/x@y.py\n  - a.py@0f7bc76\n  - old.py@gone\nwindows:\n  - mine\n---\n"
        "# Refunds\n\n## Summary\n\nDone.\n\n### More\n\nIn part.\n\n## Decisions\n\n"
        "- [[a|A]]: because\n- no link\n- [[a]] again\n\n"
        "## Details\n\n1. one\n   goes on\n2. two\n\n"
        "## Open questions\n\n<!-- none? -->\n- [ ] Who?\n- [x] When?\n- ~~Where?~~\n\nWhy not?\n"
    )

    assert session.facts.status == "error"
    assert session.facts.title == "Refunds"
    assert session.facts.edges == (
        SessionLink(SessionRelation.CONTINUES, "s-0"),
        SessionLink(SessionRelation.RELATED, "s-9"),
    )
    assert session.summary == "Done.\n\nIn part."
    assert [(d.target, d.text) for d in session.decisions] == [
        ("a", "[[a|A]]: because"),
        ("", "no link"),
    ]
    assert session.details == ("one goes on", "two")
    assert session.questions == ("Who?", "Why not?")
    assert session.answered == ("When?", "~~Where?~~")
    assert [(t.path, t.blob) for t in session.touched] == [
        ("api/x@y.py", ""),
        ("a.py", "0f7bc76"),
        ("old.py", "gone"),
    ]
    assert session.windows == ()


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("", "open"),
        ("---\nended: 2026-01-01\n---\n", "ok"),
        ("---\nstatus: [x]\n---\n", "open"),
        ("---\nstatus: done\nended: 2026-01-01\n---\n", "ok"),
        ("---\nstatus: {{x}}\n---\n", "open"),
    ],
)
def test_a_status_that_says_nothing_is_read_from_the_end(text: str, status: str) -> None:
    assert read(text).facts.status == status


def test_a_new_note_reads_as_what_it_was_written_from() -> None:
    from datetime import datetime

    edges = (
        SessionLink(SessionRelation.CONTINUES, "s-0"),
        SessionLink(SessionRelation.FORKED_FROM, "s-2"),
    )
    text = new_session_text(
        "s-1", 'Make "it" work: #1', "claude", datetime(2026, 11, 21, 9), "code", edges
    )

    session = read(text)

    facts = session.facts
    assert (facts.goal, facts.agent, facts.workspace) == ('Make "it" work: #1', "claude", "code")
    assert (facts.started, facts.status, facts.edges) == ("2026-11-21T09:00:00", "open", edges)
    assert session.windows == (ContextWindow(1, 0),)
    assert (session.summary, session.decisions, session.questions) == ("", (), ())
    assert note_of(text).warnings == ()


_BODIES = [
    "",
    "## Details\n",
    "## Details",
    "## Details\n\n## Open questions\n\n- a\n",
    "text\n\n## details ##\n\n- a\n- b\n\n\n## Next\n",
    "## Details\n\nprose\n\n### Below\n\n- x\n",
    "## Details\r\n\r\n- a\r\n\r\n## Next\r\n",
    "```\n## Details\n```\n\n## Details\n- a",
    "## Details\n\n- a\n\n```py\nnever closed\n## Open questions\n",
    "# A\n\n> ## Details\n",
]


@pytest.mark.parametrize("head", ["", "---\nstatus: open\n---\n", "\ufeff---\nx: 1\n---\n"])
@pytest.mark.parametrize("body", _BODIES)
def test_what_is_added_to_a_section_can_be_read_there_and_nothing_else_changes(
    head: str, body: str
) -> None:
    text = head + body
    added = append_to_section(text, "Details", as_item("it  was\nadded"))
    twice = append_to_section(added, "Details", as_item("again"))

    for before, after, item in ((text, added, "it was added"), (added, twice, "again")):
        assert len(after) > len(before)
        place = next(
            (n for n, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), len(before)
        )
        grown = len(after) - len(before)
        assert any(
            after[:at] + after[at + grown :] == before
            for at in range(max(place - grown, 0), place + 1)
        )
        assert item in read(after).details
    assert ("\r\n" in text) == ("\r\n" in twice)
    assert twice.count("\r\n") in {0, text.count("\r\n") + 2}


def test_items_of_a_list_stand_below_each_other_without_a_gap() -> None:
    text = append_to_section("## Details\n\n## Next\n", "Details", "- a")
    text = append_to_section(text, "Details", "- b")

    assert text == "## Details\n\n- a\n- b\n\n## Next\n"


def test_a_text_cannot_end_the_section_that_it_is_added_to() -> None:
    hostile = "# Open questions\n- mine?\n```\n---\nstatus: ok"

    text = append_to_section(
        "# A\n\n## Summary\n\n## Open questions\n", "Summary", as_paragraphs(hostile)
    )

    session = read(text)
    assert session.questions == ()
    assert "mine?" in session.summary
    assert session.facts.status == "open"


def test_windows_follow_the_transcript() -> None:
    text = new_session_text_of()
    text = write_windows(note_of(text), TranscriptPosition(3, 300, "a" * 32), begin=True)
    assert read(text).windows == (ContextWindow(1, 0, 300, (1, 3), "a" * 32), ContextWindow(2, 300))
    same = write_windows(note_of(text), TranscriptPosition(3, 300, "a" * 32), begin=True)
    assert read(same).windows == read(text).windows
    text = write_windows(note_of(text), TranscriptPosition(5, 450, "b" * 32), begin=False)
    assert read(text).windows[1] == ContextWindow(2, 300, 450, (4, 5), "b" * 32)
    text = write_windows(note_of(text), TranscriptPosition(6, 500, "c" * 32), begin=False)
    assert read(text).windows[2] == ContextWindow(3, 450, 500, (6, 6), "c" * 32)
    assert read(text).facts.tokens == 500
    assert read(text).facts.turns == 6


def new_session_text_of() -> str:
    from datetime import datetime

    return new_session_text("s-1", "", "", datetime(2026, 1, 1), "")


@pytest.mark.parametrize(
    "text", ["s-0412", "a", "A.b_c-9", "0f1e2d3c-aaaa-bbbb-cccc-ddddeeeeffff", "x" * 100]
)
def test_safe_ids_are_kept(text: str) -> None:
    assert check_session_id(text) == text
    assert map_session_id(text) == text


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "..", "../x", "a/b", "w0t0p0:5A1C", "con", "x" * 101, "a b", "é", "-x", ".x"),
        *("x.", "a\nb", "a.md.md", "[[x", "x|y", "LPT1"),
    ],
)
def test_unsafe_ids_are_refused_and_mapped_to_safe_ones_that_differ(text: str) -> None:
    with pytest.raises(RefusedError):
        check_session_id(text)
    mapped = map_session_id(text)
    assert is_safe_id(mapped)
    assert mapped == map_session_id(text)
    assert mapped != map_session_id(f"{text} ")


def test_new_ids_are_safe_and_sort_by_time() -> None:
    from datetime import datetime, timedelta

    chance = random.Random(3)
    now = datetime(2026, 11, 21, 23, 59, 59)
    ids = [
        make_session_id(now + timedelta(seconds=n), f"{chance.randrange(65536):04x}")
        for n in range(5)
    ]
    assert ids == sorted(ids)
    assert all(map(is_safe_id, ids))
