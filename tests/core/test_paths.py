"""Names: what may not enter a vault, and names that every system can hold."""

from __future__ import annotations

import unicodedata
from pathlib import PurePosixPath

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vaultmem.core.notes.note import parse_note
from vaultmem.core.notes.sections import KEBAB, TITLE, make_name, number_name
from vaultmem.core.text.paths import (
    check_new_name,
    fold_name,
    is_note_name,
    is_note_path,
    note_context,
    parse_note_path,
    slugify,
)
from vaultmem.errors import RefusedError

LONG = "Retries stop after 15 attempts, for the provider blocks the key"


@pytest.mark.parametrize(
    "text",
    [
        *("../x.md", "notes/../../x.md", "a/..", "..", "..\\x.md", "a\\..\\x.md", "a/..\\b.md"),
        *("/etc/passwd", "//x.md", "\\x.md", "\\\\server\\x.md", "C:\\x.md", "c:/x.md"),
        *(".git/config", ".git", "notes/.git/x.md", ".GIT/config", ".Git./x.md", ".git /x.md"),
        *("git~1/config", "GIT~1/config", ".git\\config", ".git::$INDEX_ALLOCATION/config"),
        *(".g\u200cit/config", "\uff0egit/config", "a\0.md", "", "  ", "\n"),
    ],
)
def test_path_out_of_the_vault_is_refused(text: str) -> None:
    with pytest.raises(RefusedError):
        parse_note_path(text)


@pytest.mark.parametrize(
    "text",
    [
        *("x.md", "notes/auth/x.md", "./x.md", "..x.md", "a..b/x.md", ".gitignore", "git/x.md"),
        *("-f.md", ":(top)x.md", "*.md", "with\nnewline.md", "x\x1b[31m.md", "über/ß.md", "c:x.md"),
    ],
)
def test_odd_names_that_exist_may_be_read(text: str) -> None:
    assert parse_note_path(text) == PurePosixPath(text)


@pytest.mark.parametrize(
    "name",
    [
        *("CON.md", "con.md", "Nul.tar.md", "aux.md", "COM1.md", "lpt9.md", "com¹.md", "con .md"),
        *("x..md.", "x.md ", " x.md", "x\x1b.md", "x\n.md", "x\x85.md", "x\u202e.md", "x\u2066.md"),
        *("x\u200f.md", "x\u2028.md", "\ufeffx.md", "a:b.md", "a?.md", "a*.md", 'a".md', "a<b.md"),
        *("a|b.md", "a\\b.md", ".x.md", "~x.md", "#x.md", "x.md~", "x.txt", "x", "x" * 300 + ".md"),
        "界" * 80 + ".md",
    ],
)
def test_new_name_that_some_system_cannot_hold_is_refused(name: str) -> None:
    with pytest.raises(RefusedError):
        check_new_name(PurePosixPath("notes/inbox") / name)


@pytest.mark.parametrize("folder", ["aux", "a/con", "a/x.", "a/.x", "templates", "media"])
def test_new_note_in_a_folder_that_holds_none_is_refused(folder: str) -> None:
    with pytest.raises(RefusedError):
        check_new_name(PurePosixPath(folder) / "x.md")


@settings(max_examples=200, deadline=None)
@given(
    st.one_of(
        st.text(max_size=120),
        st.sampled_from(
            ["CON", "nul.", "com¹", "...", "-", "a" * 300, "界" * 300, "𝒳" * 100, "İ" * 90]
        ),
    )
)
def test_any_title_gives_a_name_that_can_be_made_and_linked(title: str) -> None:
    for style in (TITLE, KEBAB):
        name = make_name(title, style)
        for number in (1, 23):
            path = PurePosixPath("notes/inbox", f"{number_name(name, number, style)}.md")
            check_new_name(path)
            assert is_note_name(str(path))
        assert len(name) <= 96
        assert not set(name) & set('*"\\/<>:|?#^[]')
        assert "%%" not in name
        assert unicodedata.is_normalized("NFC", name)
    slug = slugify(title)
    check_new_name(PurePosixPath("notes/inbox") / f"{slug}-23.md")
    assert (slug, len(slug) <= 66) == (slugify(slug), True)


@pytest.mark.parametrize(
    ("title", "name", "hyphenated"),
    [
        ("Auth tokens are RS256", "Auth tokens are RS256", "auth-tokens-are-rs256"),
        ("  What?! (really) ", "What! (really)", "what-really"),
        ("Größe ändern", "Größe ändern", "größe-ändern"),
        ("Don't use snake_case", "Don't use snake_case", "dont-use-snake-case"),
        ("", "Note", "note"),
        ("Con", "Con note", "con-note"),
        ("认证令牌", "认证令牌", "认证令牌"),
        ("word " * 30, "word " * 7 + "word", "-".join(["word"] * 8)),
        ("Boat at 06:10: OV", "Boat at 06.10 - OV", "boat-at-06-10-ov"),
        ("[[notes/a|Sign-in]] by `code`", "Sign-in by code", "sign-in-by-code"),
        (
            "In billing, retries stop after 15 attempts because the provider blocks the key",
            "In billing, retries stop after 15 attempts",
            "in-billing-retries-stop-after-15-attempts",
        ),
        (
            "The harbour office says that the ship sails at the first half past three",
            "Harbour office says that the ship sails",
            "harbour-office-says-that-the-ship-sails",
        ),
        ("Use README.md", "Use README", "use-readme-md"),
    ],
)
def test_a_name_is_what_a_person_makes_of_a_title(title: str, name: str, hyphenated: str) -> None:
    assert (make_name(title, TITLE), make_name(title, KEBAB)) == (name, hyphenated)


@pytest.mark.parametrize(
    ("stem", "text", "title"),
    [
        ("retries-stop-after-15", f'---\naliases:\n  - "{LONG}"\n---\n# Facts\n', LONG),
        ("Retries stop after 15 2", f"{LONG}.\n", LONG),
        ("retries-stop", f'---\ntitle: Keys\naliases:\n  - "{LONG}"\n---\n{LONG}\n', "Keys"),
        ("Retries stop", f"{LONG}\n", "Retries stop"),
        ("Chapter 2", "Chapter\n", "Chapter 2"),
        ("NYC", "---\naliases: [New York City]\n---\nIt is large.\n", "NYC"),
        ("milk", "# Shopping\n", "Shopping"),
        ("retries-stop-after-15", "<!-- x -->\n", "retries-stop-after-15"),
    ],
)
def test_a_title_is_found_where_the_name_is_short_for_it(stem: str, text: str, title: str) -> None:
    assert parse_note(PurePosixPath(f"notes/{stem}.md"), text.encode()).title == title


def test_twins_have_the_same_folded_name() -> None:
    composed = "Notes/Größe.md"
    decomposed = unicodedata.normalize("NFD", composed)
    assert composed != decomposed
    assert fold_name(PurePosixPath(composed)) == fold_name(PurePosixPath(decomposed.lower()))
    assert fold_name(PurePosixPath("a.md")) != fold_name(PurePosixPath("b.md"))


@pytest.mark.parametrize(
    ("path", "context"),
    [
        ("notes/auth/x.md", "auth"),
        ("notes/auth/oauth/x.md", "auth/oauth"),
        ("primed/holmpay/x.md", "holmpay"),
        ("notes/x.md", ""),
        ("MEMORY.md", ""),
        ("sessions/s-1.md", "sessions"),
        ("docs/notes/x.md", "docs/notes"),
    ],
)
def test_context_is_the_folder_below_notes(path: str, context: str) -> None:
    assert note_context(PurePosixPath(path)) == context


@pytest.mark.parametrize(
    ("path", "is_note"),
    [
        ("MEMORY.md", True),
        ("notes/a/x.MD", True),
        ("build/x.md", True),
        ("node_modules/x.md", True),
        ("notes/templates/x.md", True),
        ("notes/CONTEXT.md", True),
        ("CONTEXT.md", False),
        ("templates/x.md", False),
        ("transcripts/x.md", False),
        ("media/x.md", False),
        (".obsidian/x.md", False),
        ("notes/.trash/x.md", False),
        ("notes/.x.md", False),
        ("notes/x.md~", False),
        ("notes/#x.md", False),
        ("notes/~x.md", False),
        ("notes/x.txt", False),
        ("notes/md", False),
        (".", False),
    ],
)
def test_notes_are_visible_markdown(path: str, is_note: bool) -> None:
    assert is_note_path(PurePosixPath(path)) is is_note
