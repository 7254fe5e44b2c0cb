"""A vault of Obsidian's: what its settings there set aside, and how notes of it are read."""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath

import pytest
from conftest import Make, Open
from in_process import run_here
from support import git, write_notes

from vaultmem import Vault, save_checkpoint, sync_vault
from vaultmem.core.notes.frontmatter import Frontmatter
from vaultmem.core.notes.link_syntax import LinkNames, find_links
from vaultmem.core.notes.note import parse_note
from vaultmem.core.notes.obsidian import EXCLUDED, ExclusionFilter, ObsidianSettings
from vaultmem.services.health.status import read_status
from vaultmem.services.search.link_walk import NewLinks
from vaultmem.services.views.open_view import view_at
from vaultmem.services.watching.sync_hints import sync_pending


def _tell(root: Path, name: str = "app", **values: object) -> None:
    write_notes(root, {f".obsidian/{name}.json": json.dumps(values)})


def _paths(vault: Vault) -> set[str]:
    sync_vault(vault)
    return set(vault.view.blobs()) - {"MEMORY.md", "USER.md"}


NOTES = {
    "Projects/Alpha.md": "# Alpha\n\nThe ferry sails at noon.\n",
    "Private/Diary.md": "# Diary\n\nThe ferry was late.\n",
    "Meta/Skeletons/Person.md": "# {{title}}\n\nMet on the ferry: {{date:YYYY-MM-DD}}\n",
    "99 - Templates/Day.md": "# {{date}}\n\nferry\n",
    "C++/Templates/SFINAE.md": "# SFINAE\n\nA template that is no ferry.\n",
}


@pytest.mark.parametrize(
    ("excluded", "path", "is_told"),
    [
        ("Private/", "Private/Diary.md", True),
        ("private/", "Private/Diary.md", True),
        ("Private", "Privateering.md", True),
        ("Private/", "Old/Private/Diary.md", False),
        ("Diary.md", "Private/Diary.md", False),
        ("/diary/", "Private/Diary.md", True),
        (r"/^Private\/.*\.md$/", "Private/Diary.md", True),
        ("/^Diary/", "Private/Diary.md", False),
        ("*.md", "Private/Diary.md", False),
        ("//", "a.md", False),
        ("notes/", "notes/inbox/memory.md", False),
        ("Notes", "notes/inbox/memory.md", False),
        ("Notes", "Notes of mine/memory.md", True),
        ("notes/private/", "notes/private/memory.md", True),
        ("/md$/", "MEMORY.md", False),
        ("/md$/", "notes/inbox/memory.md", True),
    ],
)
def test_filters_mean_what_they_mean_in_obsidian(excluded: str, path: str, is_told: bool) -> None:
    aside = ExclusionFilter(ObsidianSettings(excluded=("Other/", excluded)))
    assert aside.why(path) == (EXCLUDED if is_told else "")
    assert not aside.refused


@pytest.mark.parametrize("pattern", ["(", "(a+)+$", ".*.*.*.*.*x", "a" * 600, "(?<n>x)"])
def test_filters_that_cannot_be_used_count_as_none(pattern: str) -> None:
    aside = ExclusionFilter(ObsidianSettings(excluded=(f"/{pattern}/", "Old")))
    assert len(aside.refused) == 1
    assert (aside.why("Old.md"), aside.why("a" * 200)) == (EXCLUDED, "")


@pytest.mark.campaign
def test_what_obsidian_sets_aside_is_no_note_and_stays_in_git(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault(NOTES)
    vault = opened(root)
    assert _paths(vault) == NOTES.keys() - {"99 - Templates/Day.md"}

    _tell(root, userIgnoreFilters=["Private/"])
    _tell(root, "templates", folder="Meta\\Skeletons")
    assert _paths(vault) == {"Projects/Alpha.md", "C++/Templates/SFINAE.md"}
    write_notes(root, {"Private/Diary.md": "# Diary\n\nEdited.\n"})
    save_checkpoint(vault, "x")
    assert git(root, "show", "HEAD:Private/Diary.md") == "# Diary\n\nEdited."
    assert "Meta/Skeletons/Person.md" in git(root, "ls-files")
    told = run_here("status", cwd=root).out
    assert "excluded in Obsidian: 1" in told
    assert "templates: 1" in told

    commit = git(root, "rev-parse", "HEAD")
    seen = view_at(vault, commit)
    assert "Private/Diary.md" not in seen.view.blobs()
    _tell(root, userIgnoreFilters=[])
    assert "Private/Diary.md" in _paths(vault)
    assert "Private/Diary.md" in view_at(vault, commit).view.blobs()


def test_who_watches_learns_of_other_settings(make_vault: Make, opened: Open) -> None:
    root = make_vault(NOTES)
    vault = opened(root)
    _paths(vault)
    _tell(root, userIgnoreFilters=["Private/"])
    sync_pending(vault, set())
    assert "Private/Diary.md" not in vault.view.blobs()
    write_notes(root, {"Private/Diary.md": "# Diary\n\nEdited.\n"})
    sync_pending(vault, {"Private/Diary.md"})
    assert "Private/Diary.md" not in vault.view.blobs()


@pytest.mark.campaign
def test_what_is_ignored_is_no_note_and_git_follows_what_it_has(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault(NOTES)
    vault = opened(root)
    save_checkpoint(vault, "x")
    write_notes(root, {"vaultmem.yaml": "ignore: [Private]\n", "Private/New.md": "# New\n"})
    write_notes(root, {"Private/Diary.md": "# Diary\n\nEdited.\n"})
    other = opened(root)
    assert not {"Private/Diary.md", "Private/New.md"} & _paths(other)
    save_checkpoint(other, "x")
    assert git(root, "show", "HEAD:Private/Diary.md") == "# Diary\n\nEdited."
    assert git(root, "ls-files", "Private") == "Private/Diary.md"
    git(root, "add", "Private/New.md")
    git(root, "commit", "-qm", "mine")
    write_notes(root, {"Private/New.md": "# New\n\nMore.\n"})
    (root / "Private/Diary.md").unlink()
    save_checkpoint(opened(root), "x")
    assert git(root, "show", "HEAD:Private/New.md") == "# New\n\nMore."
    assert git(root, "ls-files", "Private") == "Private/New.md"


OWN = {
    "Books/Dune.md": "---\nkind: book\nstate: reading\nconfidence: high\n---\n# Dune\n\nSand.\n",
    "Projects/Ferry.md": "---\nstate: archived\ncreated: last May\n---\n# Ferry\n\nIt sank.\n",
    "Docs/Api.md": "---\nstate: deprecatd\n---\n# Api\n\nCall it.\n",
    "Docs/Kept.md": "---\nstate: quarantined\n---\n# Kept\n\nOut of sight.\n",
    "Docs/Near.md": "---\nstate: quarantned\n---\n# Near\n\nOut of sight.\n",
    "Log/Agent.md": "---\nagent: claude\nstate: archived\n---\n# Agent\n\nDone.\n",
    "Log/Typo.md": "---\nkind: decision\nstate: actve\n---\n# Typo\n\nDone.\n",
    "notes/x/hand.md": "---\nstate: archived\n---\n# Hand\n\nDone.\n",
}


def test_words_of_a_persons_own_are_left_alone(make_vault: Make, opened: Open) -> None:
    vault = opened(make_vault(OWN))
    sync_vault(vault)
    found = {each.path: each for each in vault.view.records()}
    assert {path: found[path].state for path in OWN} == {
        "Books/Dune.md": "active",
        "Projects/Ferry.md": "active",
        "Docs/Api.md": "active",
        "Docs/Kept.md": "quarantined",
        "Docs/Near.md": "unreadable",
        "Log/Agent.md": "archived",
        "Log/Typo.md": "active",
        "notes/x/hand.md": "archived",
    }
    status = read_status(vault)
    assert [path for path, _ in status.problems] == ["Log/Typo.md"]
    assert 'did you mean "active"?' in status.problems[0][1]
    assert [path for path, _ in status.invalid_notes] == ["Docs/Near.md"]
    answer = run_here("recall", "reading", cwd=vault.root, stdin="").out
    assert "Books/Dune.md" in answer


@pytest.mark.campaign
def test_a_state_that_is_asked_for_holds_wherever_the_note_is(make_vault: Make) -> None:
    root = make_vault(OWN)
    for state in ("stale", "archived"):
        for path in ("Projects/Ferry.md", "Books/Dune.md"):
            assert run_here("state", path, state, cwd=root).code == 0
    assert run_here("list", "--state", "archived", cwd=root).out.count(".md") == 4
    assert "kind: book" in (root / "Books/Dune.md").read_text()
    run_here("mv", "notes/x/hand.md", "Log/Hand.md", cwd=root)
    assert "Log/Hand.md" in run_here("list", "--state", "archived", cwd=root).out


def test_a_deprecated_note_that_alone_answers_is_named(make_vault: Make) -> None:
    note = "---\nstate: deprecated\n---\n# Quay\n\nThe ferry leaves from the northern quay.\n"
    root = make_vault({"notes/quay.md": note, "notes/other.md": "# Other\n\nBells ring.\n"})
    told = run_here("recall", "northern lighthouse wages", cwd=root).out
    assert "notes/quay.md" in told
    assert "it is deprecated: ask recall with --include-archived" in told


def test_a_daily_note_has_the_day_of_its_name(make_vault: Make, opened: Open) -> None:
    notes = {
        "Journal/22.11.2025.md": "The ferry was blue.\n",
        "2025-03-04 Quay.md": "The ferry was red.\n",
        "Meeting.md": "---\ndate: 2025-05-06T10:00\n---\nThe ferry was green.\n",
        "Other.md": "---\ncreated: 2025-07-08\ndate: soon\n---\nThe ferry was grey.\n",
    }
    root = make_vault(notes)
    vault = opened(root)
    sync_vault(vault)
    _tell(root, "daily-notes", folder="Journal", format="DD.MM.YYYY")
    sync_vault(vault)
    found = {each.path: each.created for each in vault.view.records() if each.path in notes}
    assert sorted(found.values()) == ["2025-03-04", "2025-05-06", "2025-07-08", "2025-11-22"]
    told = run_here(
        "recall", "ferry", "--since", "2025-11-01", "--until", "2025-12-01", cwd=root
    ).out
    assert "22.11.2025.md" in told
    assert "Meeting.md" not in told


LINKED = {
    "notes/pay/refunds.md": "# Refunds\n\nRefunds go out on Mondays.\n",
    "notes/pay/old refunds.md": "# Old refunds\n\nRefunds go out on Fridays.\n",
    "Projects/refunds.md": "# Another\n\nNothing of that.\n",
}


@pytest.mark.parametrize(
    ("told", "to_new", "to_old"),
    [
        (None, "[[notes/pay/refunds]]", "[[old refunds]]"),
        ({}, "[[notes/pay/refunds]]", "[[old refunds]]"),
        ({"newLinkFormat": "relative"}, "[[refunds]]", "[[old refunds]]"),
        ({"newLinkFormat": "absolute", "useMarkdownLinks": True}, "[[notes/pay/refunds]]", ""),
    ],
)
def test_new_links_are_written_as_obsidian_does(
    make_vault: Make, told: dict[str, object] | None, to_new: str, to_old: str
) -> None:
    root = make_vault(LINKED)
    if told is not None:
        _tell(root, **told)
    replaced = ("notes/pay/old refunds.md", "notes/pay/refunds.md")
    assert run_here("supersede", *replaced, cwd=root).code == 0
    old, new = ((root / "notes/pay" / n).read_text() for n in ("old refunds.md", "refunds.md"))
    assert f'superseded_by:\n  - "{to_new}"\n' in old
    assert f'supersedes:\n  - "{to_old or "[[notes/pay/old refunds]]"}"\n' in new
    links = run_here("links", "notes/pay/refunds.md", "--json", cwd=root).json
    assert {each["target"] for each in links["links"]} == {"notes/pay/old refunds.md"}


@pytest.mark.parametrize(
    ("told", "link"),
    [
        ({}, "[[Old refunds]]"),
        ({"useMarkdownLinks": True}, "[Old refunds](Old%20refunds.md)"),
        ({"useMarkdownLinks": True, "newLinkFormat": "relative"}, "[x](../notes/pay/x.md)"),
        ({"newLinkFormat": "relative"}, "[[../notes/pay/x]]"),
        ({"newLinkFormat": "absolute"}, "[[notes/pay/x]]"),
    ],
)
def test_links_in_texts_too(
    make_vault: Make, opened: Open, told: dict[str, object], link: str
) -> None:
    root = make_vault({"notes/pay/x.md": "x\n", "Other/x.md": "x\n", "P/Old refunds.md": "y\n"})
    _tell(root, **told)
    vault = opened(root)
    sync_vault(vault)
    path = "notes/pay/x.md" if "pay" in link else "P/Old refunds.md"
    written = NewLinks(vault).in_body(path, "sessions/one.md")
    assert written == link
    names = LinkNames([*vault.manifest.stats(), "sessions/one.md"])
    (found,) = find_links(f"See {written}.", Frontmatter())
    assert names.find(found, "sessions/one.md") == path


@pytest.mark.parametrize(
    ("written", "tags", "aliases"),
    [
        ("tags: ferry quay", "ferry quay", ""),
        ("tags: '#ferry, #quay/north'", "ferry quay/north", ""),
        ("Tags:\n  - ferry\n  - '#quay'", "ferry quay", ""),
        ("tag: ferry", "ferry", ""),
        ("tags: 2026", "2026", ""),
        ("tags:", "", ""),
        ("aliases: The ferry, Boat", "", "The ferry|Boat"),
        ("Alias: Boat", "", "Boat"),
        ("aliases:\n  - The ferry, old\ncssclasses: wide\ncssclass: a b", "", "The ferry, old"),
    ],
)
def test_obsidians_own_properties_are_read_as_there(written: str, tags: str, aliases: str) -> None:
    note = parse_note(PurePosixPath("a.md"), f"---\n{written}\n---\nx\n".encode())
    assert note.tags == tuple(tags.split())
    assert note.aliases == tuple(filter(None, aliases.split("|")))
    assert not note.warnings


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Tags: ferry quay\n", "Tags:\n  - ferry\n  - quay\n  - new\n"),
        ("tag: ferry\n", "tag:\n  - ferry\n  - new\n"),
    ],
)
def test_a_tag_is_added_where_the_others_are(make_vault: Make, before: str, after: str) -> None:
    root = make_vault({"a.md": f"---\n{before}---\nx\n"})
    assert run_here("tag", "a.md", "new", cwd=root).code == 0
    assert (root / "a.md").read_text() == f"---\n{after}---\nx\n"


def test_nothing_is_remembered_where_nobody_would_find_it(make_vault: Make) -> None:
    root = make_vault({"vaultmem.yaml": "ignore: [notes/old]\n"})
    _tell(root, userIgnoreFilters=["notes/private/"])
    for context, why in (("private", "excluded in Obsidian"), ("old", "ignored by vaultmem.yaml")):
        done = run_here("remember", "The ferry is late.", "--context", context, cwd=root)
        assert done.code == 5
        assert f"{why}, so no query would find it; choose another --context" in done.err
    assert not (root / "notes/private").exists()
