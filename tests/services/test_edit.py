"""Pins, tags and properties: the changed lines change, every other byte stays."""

from __future__ import annotations

import os
import stat
from pathlib import PurePosixPath

import pytest
from conftest import Make, Open, RunCli
from support import hash_tree

from vaultmem.errors import NoteNotFoundError, RefusedError
from vaultmem.services.changes.edit_notes import change_tags, set_note_property
from vaultmem.services.views.read_notes import read_note

NOTE = PurePosixPath("notes/n.md")
PLAIN = b"---\ntitle: A\n# a comment\nnumber: 010\ntime: 12:30:45\n---\n\nBody  \n\n---\nend"


@pytest.mark.parametrize(
    "data",
    [
        PLAIN,
        PLAIN.replace(b"\n", b"\r\n"),
        b"\xef\xbb\xbf" + PLAIN,
        b"no frontmatter, no final newline",
        b"# Heading\r\n\r\ntext\r\n",
        "---\n\"odd key\": 'it''s'\nemoji: 🚢\n---\ntext\n".encode(),
    ],
    ids=["plain", "crlf", "bom", "bare", "bare crlf", "quotes"],
)
def test_pin_adds_one_line_and_unpin_gives_the_same_bytes_back(
    make_vault: Make, opened: Open, data: bytes
) -> None:
    root = make_vault({str(NOTE): data})
    vault = opened(root)

    set_note_property(vault, NOTE, "pinned", True)
    pinned = (root / NOTE).read_bytes()
    assert read_note(vault, NOTE).pinned
    set_note_property(vault, NOTE, "pinned", None)

    had_matter = b"title: A" in data or b"odd key" in data
    after = (root / NOTE).read_bytes()
    assert not read_note(vault, NOTE).pinned
    if had_matter:
        eol = b"\r\n" if b"\r\n" in data else b"\n"
        assert pinned.replace(b"pinned: true" + eol, b"") == data
        assert after == data
    else:  # An empty block is left: what was there before stands behind it.
        assert after.endswith(data)


def test_tags_change_in_their_list_only(make_vault: Make, opened: Open) -> None:
    text = "---\ntags:\n- a   # first\n- b\nx: 1\n---\nBody\n"
    root = make_vault({str(NOTE): text})
    vault = opened(root)

    change_tags(vault, NOTE, ("new/tag",), ("b",))

    assert (root / NOTE).read_text() == "---\ntags:\n- a   # first\n- new/tag\nx: 1\n---\nBody\n"


def test_a_tag_that_is_there_already_changes_nothing(make_vault: Make, opened: Open) -> None:
    root = make_vault({str(NOTE): "---\ntags: [Auth, b]\n---\n"})
    before = hash_tree(root)

    change_tags(opened(root), NOTE, ("auth",), ("absent",))

    assert hash_tree(root) == before


def test_an_edit_keeps_the_files_permissions(make_vault: Make, opened: Open) -> None:
    root = make_vault({str(NOTE): "text\n"})
    os.chmod(root / NOTE, 0o664)

    set_note_property(opened(root), NOTE, "pinned", True)

    assert stat.S_IMODE((root / NOTE).stat().st_mode) == 0o664


@pytest.mark.parametrize(
    "data",
    [
        b"---\ntitle: a\ntitle: b\n---\nbody\n",
        b"---\n\ttab: x\n---\nbody\n",
        b"---\na: &x 1\nb: *x\n---\nbody\n",
        b"\xff\xfe latin",
        b"nul \0 byte",
    ],
    ids=["duplicate", "tab", "alias", "bytes", "nul"],
)
def test_row_6_and_9_a_note_that_cannot_be_read_safely_is_never_rewritten(
    make_vault: Make, opened: Open, data: bytes
) -> None:
    root = make_vault({str(NOTE): data})

    with pytest.raises(RefusedError):
        set_note_property(opened(root), NOTE, "pinned", True)

    assert (root / NOTE).read_bytes() == data


def test_unknown_states_and_credentials_are_refused(make_vault: Make, opened: Open) -> None:
    root = make_vault({str(NOTE): "text\n"})
    vault = opened(root)

    with pytest.raises(RefusedError, match="unknown state"):
        set_note_property(vault, NOTE, "state", "dne")
    with pytest.raises(RefusedError, match="credential"):
        set_note_property(vault, NOTE, "token", "ghp_" + "a1B2" * 9)

    assert (root / NOTE).read_text() == "text\n"


def test_a_note_that_is_not_there_is_a_typed_error(make_vault: Make, opened: Open) -> None:
    with pytest.raises(NoteNotFoundError):
        set_note_property(opened(make_vault()), NOTE, "pinned", True)


def test_the_command_line_sets_properties_and_leaves_every_other_byte(
    make_vault: Make, run_cli: RunCli
) -> None:
    root = make_vault({str(NOTE): PLAIN})
    words = ("edit", "n", "--set", "confidence=0.8", "--set", "about=pier: west # no")
    done = run_cli(*words, "--set", "aliases=[a, b]", "--json", cwd=root).json
    assert done["path"] == str(NOTE)
    assert done["properties"] == {
        "confidence": 0.8,
        "about": "pier: west # no",
        "aliases": ["a", "b"],
    }
    text = (root / NOTE).read_text()
    assert text.startswith(PLAIN.decode()[: PLAIN.index(b"---\n\nBody")])
    assert text.endswith("---\n\nBody  \n\n---\nend")
    assert "confidence: 0.8\n" in text
    run_cli("edit", "n", "--set", "confidence=", "--set", "about=", "--set", "aliases=", cwd=root)
    assert (root / NOTE).read_bytes() == PLAIN
    assert "unchanged" in run_cli("edit", "n", "--set", "title=A", cwd=root).out


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["--set", "confidence"], 2, "write PROPERTY=VALUE"),
        (["--set", "confidence=7"], 5, "a number from 0 to 1"),
        (["--set", "state=active"], 5, "a state is changed with its reason"),
        (["--set", "pinned=false", "--agent", "claude"], 5, "only a person sets it"),
    ],
)
def test_a_property_that_cannot_be_set_so_is_refused(
    make_vault: Make, run_cli: RunCli, words: list[str], code: int, told: str
) -> None:
    root = make_vault({str(NOTE): PLAIN})
    done = run_cli("edit", "n", *words, cwd=root)
    assert (done.code, told in done.err, (root / NOTE).read_bytes()) == (code, True, PLAIN), done
