"""Paths as anybody's commit has them: what harms a clone is found in every spelling."""

from __future__ import annotations

import contextlib
from pathlib import PurePosixPath

from hypothesis import example, given, settings
from hypothesis import strategies as st

from vaultmem.core.text.paths import (
    check_new_name,
    find_danger,
    find_hindrance,
    find_new_twins,
    fold,
    is_owners,
    parse_note_path,
    slugify,
)
from vaultmem.errors import RefusedError

UNSEEN = "\u200b\u200c\u200d\u2060\ufeff\u202e\u00ad"

#: Words as people call notes and folders.
WORDS = st.text("abcnulcom1éßжक日 -", min_size=1, max_size=8).map(slugify)
FOLDERS = st.lists(st.sampled_from(["notes", "a b", "Über", "2026", "日本"]), max_size=2)


@st.composite
def spell_git(draw: st.DrawFn) -> str:
    """Draw a name that some disk takes for git's own folder."""
    name = draw(st.sampled_from([".git", ".GiT", "\uff0egit", ".g\uff49t"]))
    for mark in draw(st.lists(st.sampled_from(UNSEEN), max_size=3)):
        place = draw(st.integers(0, len(name)))
        name = name[:place] + mark + name[place:]
    return name + draw(st.sampled_from(["", " ", ".", ". .", ":x", "::$INDEX_ALLOCATION"]))


@settings(max_examples=60)
@given(FOLDERS, spell_git(), FOLDERS)
def test_git_s_folder_is_found_however_it_is_spelled(
    before: list[str], name: str, after: list[str]
) -> None:
    assert find_danger("/".join([*before, name, *after]))


@settings(max_examples=60)
@given(FOLDERS, WORDS)
def test_what_people_call_their_notes_is_fine(folders: list[str], name: str) -> None:
    path = "/".join([*folders, f"{name}.md"])
    assert (find_danger(path), find_hindrance(path), is_owners(path)) == ("", "", False)


@settings(max_examples=150)
@given(st.text(st.sampled_from("aA.~ \\/:\u200c1gitñ\u0303nconCON|?\n")))
@example("C:/x.md")
@example("a//b.md")
@example("notes/…/a.md")
def test_a_name_that_no_note_may_have_is_stopped_at_the_door_too(text: str) -> None:
    """What `remember` refuses for a new note, but for hidden names, which an owner may push."""
    is_fine = not find_danger(text) and not find_hindrance(text)
    with contextlib.suppress(RefusedError):
        parse_note_path(text)
        check_new_name(PurePosixPath(text))
        return
    hidden = any(part.startswith(".") for part in text.split("/"))
    is_note = text.lower().endswith((".md", ".canvas"))
    assert not is_fine or hidden or not is_note


@settings(max_examples=60)
@given(st.sets(st.text(st.sampled_from("aAbBß/s"), min_size=1, max_size=5), max_size=6))
def test_twins_are_those_that_fold_to_one_name(names: set[str]) -> None:
    paths = {name for name in names if all(name.split("/"))}
    ways = {p[:n] for p in (f"{each}/" for each in paths) for n in range(len(p)) if p[n] == "/"}
    groups: dict[str, set[str]] = {}
    for way in ways:
        groups.setdefault(fold(way), set()).add(way)
    has_twins = any(len(group) > 1 for group in groups.values())
    assert bool(find_new_twins(paths, ())) == has_twins
    for path in paths:
        assert not find_new_twins([path], [path])
