"""Names: what may not enter a vault, and names that every system can hold."""

from __future__ import annotations

import unicodedata
from pathlib import PurePosixPath

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vaultmem.core.paths import (
    check_new_name,
    fold_name,
    is_note_path,
    note_context,
    parse_note_path,
    slugify,
)
from vaultmem.errors import RefusedError


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
def test_slug_of_any_title_is_a_name_that_can_be_made(title: str) -> None:
    slug = slugify(title)
    check_new_name(PurePosixPath("notes/inbox") / f"{slug}.md")
    check_new_name(PurePosixPath("notes/inbox") / f"{slug}-23.md")
    assert slug == slugify(slug)
    assert len(slug) <= 66


@pytest.mark.parametrize(
    ("title", "slug"),
    [
        ("Auth tokens are RS256", "auth-tokens-are-rs256"),
        ("  What?! (really) ", "what-really"),
        ("Größe ändern", "größe-ändern"),
        ("snake_case", "snake-case"),
        ("", "note"),
        ("!!!", "note"),
        ("Con", "con-note"),
        ("word " * 30, "-".join(["word"] * 12)),
        ("认证令牌", "认证令牌"),
    ],
)
def test_slug_is_the_titles_words(title: str, slug: str) -> None:
    assert slugify(title) == slug


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
