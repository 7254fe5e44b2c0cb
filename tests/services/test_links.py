"""Links, backlinks and orphans of real notes; links that a recall follows."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import Make, Open

from vaultmem.core.lifecycle import NoteKind
from vaultmem.core.search.query import NoteFilter, parse_query
from vaultmem.core.search.ranking import share_scores
from vaultmem.services.packs.build import make_pack
from vaultmem.services.search.link_walk import (
    expand_hits,
    list_backlinks,
    list_broken,
    list_links,
    list_orphans,
)
from vaultmem.services.search.recall import recall
from vaultmem.services.views.open_view import view_at
from vaultmem.services.views.update_index import sync_vault
from vaultmem.vault import Vault

NOTES = {
    "notes/hub.md": "# Hub\n\n[[spoke]] [[gone]] [[spoke#Nowhere]] [[spoke#^b1]] [[spoke#^b2]] "
    "[x](../media/p.png) ![[lost.png]] `[[code]]` %%[[alone]]%% [[the alias]]\n",
    "notes/spoke.md": "---\nparents:\n  - '[[hub]]'\n---\nOars and rowlocks. ^b1\n\n"
    "# Depth\n\nThe harbour is four metres deep.\n",
    "notes/alone.md": "Nobody links here.\n",
    "notes/named.md": "---\naliases: [the alias]\nrefs: [notes/spoke.md, src/x.py]\n---\n"
    "An alias.\n",
    "primed/api/x.md": "Reference.\n",
}


@pytest.fixture
def vault(make_vault: Make, opened: Open) -> Vault:
    root = make_vault(NOTES)
    (root / "media").mkdir(exist_ok=True)
    (root / "media" / "p.png").write_bytes(b"png")
    vault = opened(root)
    sync_vault(vault)
    return vault


def test_links_of_a_note_say_what_is_missing(vault: Vault) -> None:
    found = [(f.link.path, f.target, f.missing) for f in list_links(vault, "notes/hub.md")]
    assert found == [
        ("spoke", "notes/spoke.md", ""),
        ("gone", None, "note"),
        ("spoke", "notes/spoke.md", "heading"),
        ("spoke", "notes/spoke.md", ""),
        ("spoke", "notes/spoke.md", "block"),
        ("../media/p.png", "media/p.png", ""),
        ("lost.png", None, "note"),
        ("the alias", "notes/named.md", ""),
    ]
    assert [f.link.path for f in list_links(vault, "notes/named.md")] == ["notes/spoke.md"]
    assert [(f.source, f.link.path) for f in list_broken(vault)] == [
        ("notes/hub.md", "gone"),
        ("notes/hub.md", "lost.png"),
    ]


def test_backlinks_come_from_bodies_properties_and_aliases(vault: Vault) -> None:
    to_spoke = list_backlinks(vault, "notes/spoke.md")
    assert [each.source for each in to_spoke] == ["notes/hub.md"] * 4 + ["notes/named.md"]
    to_hub = list_backlinks(vault, "notes/hub.md")
    assert [(each.source, each.link.property) for each in to_hub] == [("notes/spoke.md", "parents")]
    assert [each.source for each in list_backlinks(vault, "notes/named.md")] == ["notes/hub.md"]


def test_orphans_are_what_nobody_links_to_but_for_pinned_and_primed(vault: Vault) -> None:
    assert [(r.path, count) for r, count in list_orphans(vault)] == [("notes/alone.md", 0)]
    assert list_backlinks(vault, "notes/alone.md") == []  # In a comment, it counts nowhere.


def test_links_follow_a_changed_note_and_an_old_commit_keeps_its_own(vault: Vault) -> None:
    (vault.root / "notes/hub.md").write_text("[[alone]]\n")
    sync_vault(vault)
    assert [each.source for each in list_backlinks(vault, "notes/alone.md")] == ["notes/hub.md"]
    assert [r.path for r, _ in list_orphans(vault)] == ["notes/named.md"]
    then = view_at(vault, "HEAD")
    assert list_backlinks(then, "notes/alone.md") == []
    assert len(list_backlinks(then, "notes/spoke.md")) == 5


def test_note_is_found_by_its_alias(vault: Vault) -> None:
    assert recall(vault, parse_query("the alias"))[0].record.path == "notes/named.md"


def test_recall_that_follows_links_finds_what_the_best_section_links_to(vault: Vault) -> None:
    query = parse_query("hub")
    plain = recall(vault, query)
    hits = expand_hits(vault, plain, query)
    assert [hit.record.path for hit in plain] == ["notes/hub.md"]
    assert hits[0].record.path == "notes/hub.md"
    linked = {(h.record.path, h.section.heading): h for h in hits[1:]}
    assert set(linked) == {("notes/spoke.md", ""), ("notes/named.md", "")}
    for hit in linked.values():
        assert hit.linked_from == "notes/hub.md"
        assert hit.score == pytest.approx(plain[0].score * 0.3)
    pack = make_pack(vault, "hub", expand_links=True)
    assert "Oars and rowlocks" in pack.text
    assert "Oars and rowlocks" not in make_pack(vault, "hub").text


def test_linked_section_has_to_pass_the_filter(vault: Vault) -> None:
    (vault.root / "notes/spoke.md").write_text("---\nstate: quarantined\n---\nOars and rowlocks.\n")
    (vault.root / "notes/named.md").write_text("---\nkind: decision\n---\nAn alias.\n")
    sync_vault(vault)
    query = parse_query("hub", note_filter=NoteFilter(kinds=frozenset({NoteKind.SEMANTIC_FACT})))
    hits = expand_hits(vault, recall(vault, query), query)
    assert [hit.record.path for hit in hits] == ["notes/hub.md"]


def test_linked_section_may_be_in_another_folder_than_the_hit(vault: Vault) -> None:
    query = parse_query("hub", note_filter=NoteFilter(paths=("notes/hub.md",)))
    hits = expand_hits(vault, recall(vault, query), query)
    assert hits[0].record.path == "notes/hub.md"
    assert len(hits) > 1


def test_a_share_is_passed_on_once_and_never_lifts_above_its_giver() -> None:
    ranked = [("a", 10.0), ("b", 4.0), ("c", 3.9)]
    links = {"a": ["c", "x"], "b": ["x", "b"], "x": ["y"]}
    assert share_scores(ranked, links, 0.3) == [
        ("a", 10.0, None),
        ("c", pytest.approx(6.9), "a"),
        ("b", 4.0, None),
        ("x", pytest.approx(3.0), "a"),
    ]
    assert share_scores(ranked, {}) == [(*each, None) for each in ranked]


def test_commands_print_links_and_mark_what_is_broken(run_cli: Any, vault: Vault) -> None:
    shown = run_cli("links", "hub", cwd=vault.root)
    assert "[[gone]]    no such note" in shown.out
    assert "8 links, 4 broken" in shown.out
    found = run_cli("backlinks", "spoke", "--json", cwd=vault.root).json
    assert {each["source"] for each in found["backlinks"]} == {"notes/hub.md", "notes/named.md"}
    orphans = run_cli("orphans", "--json", cwd=vault.root).json["orphans"]
    assert orphans == [{"path": "notes/alone.md", "title": "alone", "links": 0}]
