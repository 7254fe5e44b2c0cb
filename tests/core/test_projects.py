"""Which project a folder belongs to, and how the table changes as text."""

from __future__ import annotations

import pytest

from vaultmem.core.project import (
    FolderFacts,
    Project,
    ProjectTable,
    add_entry,
    change_entry,
    learn,
    make_project,
    match_project,
    merge_tables,
    normalise_remote,
    parse_table,
    remove_entry,
)
from vaultmem.errors import VaultError

A, B = "a" * 40, "b" * 40
HARBOUR = "github.com/holm/harbour"


def facts(
    root: str = A, *remotes: str, path: str = "/code/harbour", git: bool = True
) -> FolderFacts:
    return FolderFacts(path, git, root, remotes, path.rpartition("/")[2])


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://github.com/holm/harbour.git", HARBOUR),
        ("https://maren:secret@GitHub.com/holm/harbour", HARBOUR),
        ("git@github.com:holm/harbour.git", HARBOUR),
        ("ssh://git@github.com:22/holm/harbour/", HARBOUR),
        ("github.com:holm/harbour", HARBOUR),
        ("/srv/git/harbour.git", ""),
        ("../harbour", ""),
        ("file:///srv/git/harbour.git", ""),
        ("C:/code/harbour", ""),
        ("https://github.com/", ""),
        ("", ""),
    ],
)
def test_a_remote_is_known_by_host_and_path(url: str, expected: str) -> None:
    assert normalise_remote(url) == expected


def test_the_root_commit_decides_and_then_the_remotes() -> None:
    own = Project("harbour", A, (HARBOUR,))
    table = ProjectTable((own,))
    assert match_project(table, facts(A)) == own  # a clone of a local folder
    assert match_project(table, facts(A, HARBOUR, path="/elsewhere")) == own
    assert match_project(table, facts(A, "github.com/tuuli/harbour")) is None  # a fork
    assert match_project(table, facts(A, "github.com/tuuli/harbour", HARBOUR)) == own
    assert match_project(table, facts("", HARBOUR)) == own  # a shallow clone
    assert match_project(table, facts("")) is None
    assert match_project(table, facts(B)) is None
    assert match_project(table, facts(B, HARBOUR)) == own  # its history was rewritten


def test_of_two_with_one_root_commit_the_common_remote_decides() -> None:
    first, fork = Project("one", A), Project("fork", A, (HARBOUR,))
    assert match_project(ProjectTable((first, fork)), facts(A, HARBOUR)) == fork


def test_without_git_the_nearest_folder_above_counts() -> None:
    outer, inner = Project("outer", paths=("/code",)), Project("inner", paths=("/code/inner",))
    table = ProjectTable((outer, inner))
    assert match_project(table, facts("", path="/code/inner/deep", git=False)) == inner
    assert match_project(table, facts("", path="/code/other", git=False)) == outer
    assert match_project(table, facts("", path="/codex", git=False)) is None
    assert match_project(table, facts(A, path="/code/inner/repository")) is None


def test_a_folder_that_becomes_a_repository_stays_its_project() -> None:
    own = Project("notes", paths=("/code/notes",))
    now = facts(A, path="/code/notes")
    assert match_project(ProjectTable((own,)), now) == own
    assert learn(own, now) == Project("notes", A)
    assert learn(Project("x", A), facts(A, HARBOUR)) == Project("x", A, (HARBOUR,))
    assert learn(Project("x", A, ("other/x",)), facts(B, "y/z")) == Project("x", A, ("other/x",))


def test_names_are_short_and_no_two_the_same() -> None:
    table = ProjectTable()
    names = []
    for each in (
        facts(A, HARBOUR),
        facts(A, "github.com/tuuli/harbour"),
        facts(A, "gitlab.com/tuuli/harbour"),
        facts(B, path="/code/Über uns (alt)"),
        facts(B, path="/code/all"),
        facts(B, path="/code/..."),
    ):
        made = make_project(table, each)
        table = ProjectTable((*table.projects, made))
        names.append(made.name)
    expected = ["harbour", "tuuli-harbour", "harbour-2", "Über-uns-alt", "all-2", "project"]
    assert names == expected


def test_what_is_written_is_read_again_and_other_lines_stay() -> None:
    first, second = Project("harbour", A, (HARBOUR,)), Project("no", paths=('/a "b"/c: d',))
    text = add_entry(add_entry("", first), second)
    assert parse_table(text) == ProjectTable((first, second))
    text = text.replace("- name: harbour\n", "# Ours.\n- name: harbour  # the old one\n")
    renamed = change_entry(text, "harbour", Project("port", A, (HARBOUR, "x.org/port")))
    assert (
        renamed.replace("port  # the", "harbour  # the").replace("    - x.org/port\n", "") == text
    )
    assert parse_table(remove_entry(renamed, "port")) == ProjectTable((second,))
    emptied = change_entry(text, "harbour", Project("harbour", A))
    assert parse_table(emptied).projects[0] == Project("harbour", A)


def test_a_table_by_hand_is_read_by_yamls_rules() -> None:
    two = f'# Two.\n- name: "two"\n  remotes: [{HARBOUR}, "x.org/y"]\n'
    text = f"---\n- name: one\n  root: {A}\n\n{two}"
    found = parse_table(text).projects
    assert found == (Project("one", A), Project("two", "", (HARBOUR, "x.org/y")))
    assert parse_table("") == ProjectTable()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("projects:\n", 'line 1: an entry begins with "- name: "'),
        ("- name: a\n- name: A\n", 'line 2: the name "A" is listed twice'),
        ("- root: x\n", 'line 1: "" cannot be a project\'s name'),
        ("- name: all\n", 'line 1: "all" cannot be a project\'s name'),
        ("- name: a\n  root: abc\n", 'line 1: root "abc" is not the full id'),
        ("- name: a\nroot: b\n", "line 2: indent the lines"),
        ("<<<<<<< ours\n- name: a\n", "line 1: an entry begins"),
        ("- name: a\n  remotes: [x\n", "line 1: the entry is not valid YAML"),
    ],
)
def test_a_table_that_cannot_be_read_says_where(text: str, why: str) -> None:
    with pytest.raises(VaultError, match=r"projects\.yaml, ") as raised:
        parse_table(text)
    assert why in str(raised.value)
    assert "git checkout -- projects.yaml" in str(raised.value)


def test_a_merge_has_the_entries_of_both_sides() -> None:
    base = add_entry("", Project("harbour", A))
    ours = add_entry(base, Project("tides", B))
    theirs = add_entry(
        change_entry(base, "harbour", Project("harbour", A, (HARBOUR,))), Project("x")
    )
    assert parse_table(merge_tables(base, ours, theirs)).projects == (
        Project("harbour", A, (HARBOUR,)),
        Project("tides", B),
        Project("x"),
    )
    renamed = change_entry(base, "harbour", Project("port", A))
    assert parse_table(merge_tables(base, renamed, base)).names == ("port",)
    assert parse_table(merge_tables(base, base, renamed)).names == ("port",)


def test_a_merge_keeps_two_repositories_of_one_name_apart() -> None:
    ours = add_entry("", Project("harbour", A, (HARBOUR,)))
    theirs = add_entry("", Project("harbour", B, ("github.com/tuuli/harbour",)))
    found = parse_table(merge_tables("", ours, theirs)).projects
    assert [(each.name, each.root) for each in found] == [("harbour", A), ("tuuli-harbour", B)]


def test_an_ssh_alias_of_a_host_is_no_fork() -> None:
    table = ProjectTable((Project("harbour", A, (HARBOUR,)),))
    alias = HARBOUR.replace("github.com", "work")
    assert match_project(table, facts(A, alias)) is not None
    assert match_project(table, facts(B, alias)) is None
    assert match_project(table, facts(A, HARBOUR.replace("github.com", "gitlab.com"))) is None
    assert match_project(table, facts(A, "work/tuuli/harbour")) is None
    aliased = ProjectTable((Project("harbour", A, (alias,)),))
    assert match_project(aliased, facts(A, HARBOUR)) is not None
