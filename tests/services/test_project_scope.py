"""A view of one project answers as a vault that has no notes of other projects."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from conftest import Make, Open
from support import git, write_notes

from vaultmem.core.search.query import NoteFilter, parse_query
from vaultmem.services.packs.build import make_pack
from vaultmem.services.search.recall import recall
from vaultmem.services.search.run_query import Query, run_query
from vaultmem.services.views.open_view import view_at
from vaultmem.services.views.read_notes import list_notes
from vaultmem.services.views.resolve_names import choose_note_paths
from vaultmem.services.views.update_index import sync_vault
from vaultmem.vault import Vault

WORDS = ["gangway", "ferry", "tide", "mast", "anchor", "buoy", "rope", "sail", "harbour", "winch"]
QUESTIONS = ["gangway tide", "ferry", "rope and sail anchor", "harbor winch", "how many buoys?"]
PROJECTS = ["", "", "alpha", "beta", "Gamma one"]


def make_notes(seed: int, count: int = 60) -> dict[str, tuple[str, str]]:
    """Return notes by path, each with its project: linked, pinned, tagged, in sessions."""
    chance = random.Random(seed)
    notes: dict[str, tuple[str, str]] = {}
    for number in range(count):
        project = PROJECTS[chance.randrange(len(PROJECTS))]
        lines = ["---", "kind: semantic_fact", f"created: 2026-10-{1 + number % 28:02}"]
        lines += [f"project: {project}"] if project else []
        lines += ["pinned: true"] if number % 9 == 0 else []
        lines += [f"session: s{number % 4}"] if number % 3 == 0 else []
        lines += [f"tags: [{chance.choice(WORDS)}]"]
        lines += [f'contradicts: "[[n{number - 1}]]"'] if number % 7 == 6 else []
        lines += [f'supersedes: "[[n{number - 2}]]"'] if number % 11 == 10 else []
        words = " ".join(chance.choices(WORDS, k=12))
        owner = project.replace(" ", "") or "global"
        body = f"# n{number}\n\nsecret{owner} {words} [[n{chance.randrange(count)}]].\n"
        notes[f"notes/n{number}.md"] = ("\n".join([*lines, "---", body]), project)
    return notes


def collect_answers(vault: Vault) -> list[Any]:
    """Return all that queries, packs and lists show of a vault."""
    packs = [make_pack(vault, question, 1_500) for question in ("", *QUESTIONS)]
    found: list[Any] = [made.text.partition("\n")[2] for made in packs]
    found += [[hit.address for hit in made.omitted_pins] for made in packs]
    for question in QUESTIONS:
        query = parse_query(question, limit=30)
        found.append([(h.address, round(h.score, 5), h.text) for h in recall(vault, query)])
        asked = Query(question, 30, suggests=True, expand_links=True, counts=False)
        result = run_query(vault, asked)
        found.append([(h.address, round(h.score, 5), h.related_sections) for h in result.hits])
        found.append([result.replaced, result.match_strength])
    found.append([each.path for each in list_notes(vault, NoteFilter(any_state=True))])
    return found


# No two blob ids begin alike: handles differ.
@pytest.mark.parametrize(
    "seed", [0, 5, *(pytest.param(each, marks=pytest.mark.campaign) for each in (2, 3))]
)
@pytest.mark.parametrize("project", ["alpha", "Gamma one", ""])
def test_other_projects_change_nothing(
    seed: int, project: str, make_vault: Make, opened: Open
) -> None:
    notes = make_notes(seed)
    own = {path: text for path, (text, name) in notes.items() if name in {"", project}}
    whole = opened(make_vault({path: text for path, (text, _) in notes.items()}, "whole"))
    part = opened(make_vault(own, "part"))
    sync_vault(whole)
    sync_vault(part)
    shown = collect_answers(view_project(whole, project))
    assert shown == collect_answers(part)
    assert "secretglobal" in str(shown)
    assert "secretbeta" not in str(shown)
    assert ("secretGammaone" in str(shown)) is (project == "Gamma one")


def test_a_commit_is_viewed_as_the_folder_is(make_vault: Make, opened: Open) -> None:
    notes = make_notes(9)
    root = make_vault({path: text for path, (text, _) in notes.items()})
    vault = opened(root)
    sync_vault(vault)
    now = collect_answers(view_project(vault, "alpha"))
    for path in notes:
        (root / path).unlink()
    git(root, "commit", "-qam", "remove all")
    then = view_at(view_project(vault, "alpha"), "HEAD~1")
    assert [each.record.project for each in recall(then, parse_query("gangway", 60))]
    assert collect_answers(then)[-1] == now[-1]


def test_handles_are_unique_among_all_projects(make_vault: Make, opened: Open) -> None:
    vault = opened(make_vault({path: text for path, (text, _) in make_notes(2, 300).items()}))
    sync_vault(vault)
    seen = view_project(vault, "alpha")
    hits = recall(seen, parse_query(" ".join(WORDS), 400))
    everywhere = choose_note_paths(vault, hits)
    assert choose_note_paths(seen, hits) == everywhere
    assert len(set(everywhere.values())) == len(hits)


def test_the_case_of_a_name_does_not_matter(make_vault: Make, opened: Open) -> None:
    note = "---\nproject: WebApp\n---\nThe winch is oiled.\n"
    vault = opened(make_vault({"notes/a.md": note}))
    sync_vault(vault)
    assert recall(view_project(vault, "webapp"), parse_query("winch"))
    assert not recall(view_project(vault, "other"), parse_query("winch"))


def test_a_note_moves_with_its_property(make_vault: Make, opened: Open) -> None:
    root = make_vault({"notes/a.md": "The winch is oiled.\n"})
    vault = opened(root)
    sync_vault(vault)
    assert recall(view_project(vault, "other"), parse_query("winch"))
    write_notes(root, {"notes/a.md": "---\nproject: webapp\n---\nThe winch is oiled.\n"})
    sync_vault(vault)
    assert not recall(view_project(vault, "other"), parse_query("winch"))
    assert recall(view_project(vault, "webapp"), parse_query("winch"))


def view_project(vault: Vault, project: str) -> Vault:
    """Return the vault as it is seen from inside a project."""
    return replace(vault, view=vault.view.of_project(project))
