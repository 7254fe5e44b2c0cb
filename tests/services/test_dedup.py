"""`dedup` and `similar`: what says the same in a vault, and how it becomes one."""

from __future__ import annotations

import pytest
from conftest import Make, Open
from support import git, hash_tree, note_at, synced

from vaultmem.core.search.query import parse_query
from vaultmem.errors import ConflictError
from vaultmem.services.curation.dedup import apply_merges, plan_merges
from vaultmem.services.search.link_walk import list_links
from vaultmem.services.search.recall import recall
from vaultmem.services.similarity.pairs import compare_vault
from vaultmem.services.similarity.similar import find_similar, read_asked
from vaultmem.services.views.update_index import sync_vault

BY_AGENT = "---\ntitle: {text}\nagent: claude\nsession: s-1\ncreated: {created}\n---\n\n{text}\n"
FACT = "Session tokens expire after 15 minutes."
AGAIN = "session *tokens* expire after 15 min"
OTHERWISE = "After 15 min a session token expires."


def by_agent(text: str, created: str = "2026-01-01") -> str:
    return BY_AGENT.format(text=text, created=created)


def test_the_older_of_two_alike_goes_on_and_links_to_the_other_lead_to_it(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault(
        {
            "notes/expiry.md": by_agent(AGAIN, "2026-02-02"),
            "notes/tokens.md": by_agent(FACT, "2026-01-01"),
            "notes/other.md": "See [[expiry]].\n",
        }
    )
    vault = synced(opened(root))
    head = git(root, "rev-parse", "HEAD")

    merges = plan_merges(vault)
    report = apply_merges(vault, merges)

    assert [(m.path, m.into) for m in merges] == [("notes/expiry.md", "notes/tokens.md")]
    assert git(root, "rev-list", f"{head}..") == report.commit
    assert git(root, "log", "-1", "--format=%s") == "dedup: expiry into tokens"
    dropped, kept = note_at(root, "notes/expiry.md"), note_at(root, "notes/tokens.md")
    assert (dropped.state, dropped.body.strip()) == ("deprecated", AGAIN)
    assert (kept.state, kept.body.strip(), kept.aliases) == ("active", FACT, ("expiry",))
    assert [hit.record.path for hit in recall(vault, parse_query("tokens"))] == ["notes/tokens.md"]
    assert [link.target for link in list_links(vault, "notes/other.md")] == ["notes/expiry.md"]
    (root / "notes/expiry.md").unlink()
    sync_vault(vault)
    assert [link.target for link in list_links(vault, "notes/other.md")] == ["notes/tokens.md"]


def test_what_says_more_or_the_same_in_another_order_is_merged_into_nothing(
    make_vault: Make, opened: Open
) -> None:
    more = f"{FACT} Support can revoke them."
    root = make_vault(
        {
            "notes/tokens.md": f"{FACT}\n",
            "notes/more.md": by_agent(more),
            "notes/otherwise.md": by_agent(OTHERWISE),
        }
    )

    assert plan_merges(synced(opened(root))) == []


def test_one_text_under_titles_that_say_more_is_not_merged(make_vault: Make, opened: Open) -> None:
    root = make_vault({"notes/web login.md": f"{FACT}\n", "notes/mobile login.md": f"{FACT}\n"})

    assert plan_merges(synced(opened(root))) == []


def test_near_misses_contexts_kinds_and_pinned_notes_are_left_alone(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault(
        {
            "notes/auth/a.md": by_agent(FACT),
            "notes/auth/b.md": by_agent(FACT.replace("15", "30")),
            "notes/search/c.md": by_agent(FACT),
            "notes/auth/d.md": by_agent(FACT).replace("agent:", "kind: decision\nagent:"),
            "notes/auth/e.md": by_agent(FACT).replace("agent:", "pinned: true\nagent:"),
            "notes/auth/f.md": by_agent(FACT).replace("agent:", "state: archived\nagent:"),
            "sessions/s-1.md": by_agent(FACT),
            "primed/docs/h.md": by_agent(FACT),
        }
    )
    vault = synced(opened(root))

    merges = plan_merges(vault)

    assert [(merge.path, merge.into) for merge in merges] == [
        ("notes/auth/a.md", "notes/auth/e.md")
    ]


def test_a_machine_merges_no_note_of_a_person_and_a_person_none_into_a_machines(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault({"notes/session.md": f"{FACT}\n", "notes/tokens.md": f"{FACT}\n"})
    assert plan_merges(synced(opened(root, agent="claude"))) == []
    assert plan_merges(synced(opened(root)), is_machine=True) == []
    assert len(plan_merges(synced(opened(root)))) == 1

    (root / "notes/tokens.md").write_text(by_agent(FACT))
    (merge,) = plan_merges(synced(opened(root)))
    assert (merge.path, merge.into) == ("notes/tokens.md", "notes/session.md")


def test_three_alike_become_one(make_vault: Make, opened: Open) -> None:
    root = make_vault(
        {f"notes/{name}.md": by_agent(FACT, f"2026-01-0{n}") for n, name in enumerate("cab", 1)}
    )
    vault = synced(opened(root))

    merges = plan_merges(vault)
    apply_merges(vault, merges)

    assert [(merge.path, merge.into) for merge in merges] == [
        ("notes/a.md", "notes/c.md"),
        ("notes/b.md", "notes/c.md"),
    ]
    assert note_at(root, "notes/c.md").aliases == ("a", "b")
    assert plan_merges(vault) == []


def test_a_plan_that_is_no_longer_true_is_refused_whole(make_vault: Make, opened: Open) -> None:
    root = make_vault(
        {f"notes/{name}.md": by_agent(FACT) for name in "ab"}
        | {f"notes/{name}.md": by_agent("The ferry to Holm leaves at noon.") for name in "cd"}
    )
    vault = synced(opened(root))
    merges = plan_merges(vault)
    assert len(merges) == 2
    (root / merges[1].into).write_text("something else\n")
    before = hash_tree(root, skip=(".git",))

    with pytest.raises(ConflictError, match="changed since"):
        apply_merges(vault, merges)

    assert hash_tree(root, skip=(".git",)) == before


def test_exact_copies_of_long_notes_are_found_too(make_vault: Make, opened: Open) -> None:
    text = "".join(f"## Part {n}\n\nWords of part {n} about otter {n}.\n\n" for n in range(200))
    root = make_vault({"notes/part.md": text, "notes/otter.md": text})

    assert len(plan_merges(synced(opened(root)))) == 1


def test_contradictions_are_listed_once(make_vault: Make, opened: Open) -> None:
    root = make_vault(
        {
            "notes/a.md": f"{FACT}\n",
            "notes/b.md": "Session tokens do not expire after 15 minutes.\n",
            "notes/c.md": "Refresh tokens expire after 15 minutes.\n",
        }
    )

    found = compare_vault(synced(opened(root)))

    pairs = [{str(p.ours.path), str(p.theirs.path)} for p in found.contradictions]
    assert pairs == [{"notes/a.md", "notes/b.md"}]
    assert found.duplicates == ()


def test_similar_takes_a_text_or_a_note_and_never_names_the_note_itself(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault(
        {
            "notes/a.md": f"{FACT}\n",
            "notes/b.md": f"# Other\n\nThe ferry leaves at noon.\n\n# Tokens\n\n{AGAIN}\n",
        }
    )
    vault = synced(opened(root))

    by_text = find_similar(vault, read_asked(vault, "session tokens expire after 15 minutes"))
    by_path = find_similar(vault, read_asked(vault, "notes/a.md"))

    assert [each.address for each in by_text] == ["notes/a.md", "notes/b.md#Tokens"]
    assert [each.address for each in by_path] == ["notes/b.md#Tokens"]
    assert find_similar(vault, read_asked(vault, "nothing of the kind anywhere")) == []


def test_only_notes_that_share_rare_words_are_read(
    make_vault: Make, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vaultmem.services.similarity import similar

    notes = {f"notes/n{n}.md": f"The tide table {n} lists harbour {n}.\n" for n in range(120)}
    root = make_vault({**notes, "notes/a.md": f"{FACT}\n"})
    vault = synced(opened(root))
    read: list[str] = []
    real = similar.find_note
    monkeypatch.setattr(similar, "find_note", lambda v, p: read.append(str(p)) or real(v, p))

    find_similar(vault, read_asked(vault, f"{FACT} The table lists them."))

    assert "notes/a.md" in read
    assert len(read) <= 8
