"""How sure an answer is, and where else there is one."""

from __future__ import annotations

import time

import pytest
from branching import commit_on
from conftest import Open, RunCli
from support import held_by_thread, write_notes

from vaultmem.core.search.query import MatchStrength, describe_strength, judge_hits, parse_query
from vaultmem.core.text.token_count import count_tokens
from vaultmem.mcp_server.search_tools import recall_tool
from vaultmem.services.packs.build import AskPack, ask_pack
from vaultmem.services.packs.receipts import replay_receipt
from vaultmem.services.search.recall import recall
from vaultmem.services.search.run_query import (
    Query,
    QueryResult,
    describe_match_strength,
    run_query,
)
from vaultmem.services.views.update_index import sync_vault
from vaultmem.vault import Vault

ARCHIVED = "---\nagent: x\nstate: archived\n---\nThe espresso machine is descaled every Monday.\n"
NOTES = {
    "refunds.md": "Refunds over 50 euros need a second signature.\n",
    "zebra.md": "Anna likes the zebra poster.\n",
    "old.md": ARCHIVED,
    "secret.md": ARCHIVED.replace("archived", "quarantined").replace("espresso", "bread"),
    **{f"n{n}.md": f"Gangway {n} was painted at pier {n} by crew {n}.\n" for n in range(12)},
}


#: It shares one word with a note.
UNRELATED = (
    "which striped zebra lives longest in a dry savanna of southern Kenya beside hungry lions, "
    "grazing wildebeest, thorny acacias and muddy rivers"
)


def judge(vault: Vault, question: str) -> MatchStrength:
    return judge_hits(recall(vault, parse_query(question)))


def answer(vault: Vault, question: str, **more: object) -> QueryResult:
    return run_query(vault, Query(question, suggests=True, **more))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("question", "sureness"),
    [
        ("who signs refunds over 50 euros", MatchStrength.STRONG),
        ("refunds", MatchStrength.STRONG),
        ("when were refunds last audited by the external accountants", MatchStrength.WEAK),
        ("zebra enclosure", MatchStrength.WEAK),  # One of two words is no answer, however rare.
        (
            UNRELATED,
            MatchStrength.NONE,
        ),
        ("quantum chromodynamics", MatchStrength.NONE),
    ],
)
def test_an_answer_says_how_sure_it_is(
    vault: Vault, question: str, sureness: MatchStrength
) -> None:
    assert judge(vault, question) is sureness


def test_turns_of_another_speaker_than_the_named_one_are_no_answer(vault: Vault) -> None:
    for name, text in (("t1", "Maren: I moved to Lisbon in May."), ("t2", "Omar: How nice.")):
        (vault.root / f"{name}.md").write_text(f"---\nsession: s-1\n---\n{text}\n")
    sync_vault(vault)
    assert judge(vault, "when did Maren move to Lisbon?") is MatchStrength.STRONG
    assert judge(vault, "when did Omar move to Lisbon?") is not MatchStrength.STRONG


def test_how_sure_does_not_hang_on_what_else_the_vault_holds(vault: Vault) -> None:
    asked = "who signs refunds over 50 euros"
    (before, *_) = recall(vault, parse_query(asked))
    for n in range(200):
        (vault.root / f"more{n}.md").write_text(f"Barge {n} lies at berth {n}.\n")
    sync_vault(vault)
    (after, *_) = recall(vault, parse_query(asked))
    assert after.coverage == pytest.approx(before.coverage, abs=0.15)
    assert after.strength == pytest.approx(before.strength, rel=0.3)


def test_an_archived_note_answers_where_nothing_else_does(vault: Vault) -> None:
    question = "when is the espresso machine descaled"
    (first, *_) = answer(vault, question).hits
    assert (first.record.path, first.record.state) == ("old.md", "archived")
    pack = ask_pack(vault, AskPack(question)).pack
    assert " | archived | " in pack.text


def test_an_archived_note_with_more_of_what_was_asked_answers(vault: Vault) -> None:
    (vault.root / "new.md").write_text("The coffee machine is descaled on Mondays.\n")
    sync_vault(vault)
    found = answer(vault, "when is the espresso machine descaled")
    assert found.hits[0].record.path == "old.md"


def test_an_archived_note_ranks_like_an_equal_one(vault: Vault) -> None:
    (vault.root / "zz.md").write_text(ARCHIVED.replace("state: archived\n", ""))
    sync_vault(vault)
    question = "when is the espresso machine descaled"
    found = answer(vault, question)
    assert {hit.record.path for hit in found.hits[:2]} == {"old.md", "zz.md"}
    assert found.hits[0].score == pytest.approx(found.hits[1].score, rel=0.01)


def test_a_quarantined_note_is_never_named(vault: Vault) -> None:
    assert "secret.md" not in answer(vault, "when is the bread machine descaled").elsewhere


def test_another_branch_that_answers_is_named(vault: Vault) -> None:
    commit_on(vault.root, "trip", {"notes/ferry.md": b"The ferry to Naxos leaves at seven.\n"})
    found = answer(vault, "when does the ferry to Naxos leave")
    assert describe_match_strength(found) == [
        "Nothing in this vault answers that.",
        "notes/ferry.md on branch trip may answer that.",
    ]
    assert not answer(vault, "who signs refunds over 50 euros").elsewhere


def test_a_branch_that_was_never_looked_at_waits_for_no_writer(vault: Vault, opened: Open) -> None:
    commit_on(vault.root, "trip", {"notes/ferry.md": b"The ferry to Naxos leaves at seven.\n"})
    question, writer = "when does the ferry to Naxos leave", opened(vault.root)
    with held_by_thread(writer.lock):
        started = time.monotonic()
        found = answer(vault, question)
        taken = time.monotonic() - started

    assert found.elsewhere == ""
    assert taken < 10
    assert "notes/ferry.md" in answer(vault, question).elsewhere


def test_a_pack_says_that_it_is_not_sure_and_does_not_fill_its_budget(vault: Vault) -> None:
    pack = ask_pack(vault, AskPack("gangway turnstile quotas for visiting inspectors", 800)).pack
    assert pack.match_strength is MatchStrength.NONE
    assert len(pack.items) == 10
    assert pack.account.sent < 400
    assert f"\n\n{describe_strength(MatchStrength.NONE)[0]}\n\n## Evidence" in pack.text
    assert pack.account.sent == count_tokens(pack.text)

    sure = ask_pack(vault, AskPack("who signs refunds over 50 euros", 800)).pack
    assert (sure.match_strength, sure.notices) == (MatchStrength.STRONG, ())


def test_a_pack_that_was_not_sure_is_shown_again_as_it_was(vault: Vault) -> None:
    commit_on(vault.root, "trip", {"notes/ferry.md": b"The ferry to Naxos leaves at seven.\n"})
    made = ask_pack(vault, AskPack("when does the ferry to Naxos leave", 400, receipt=True))
    assert "notes/ferry.md on branch trip may answer that." in made.pack.text
    assert replay_receipt(vault, made.receipt).text == made.pack.text


def test_where_nothing_answers_notes_that_are_too_large_are_named(
    vault: Vault, run_cli: RunCli
) -> None:
    walrus = "The walrus sleeps. " * 60_000
    write_notes(vault.root, {f"notes/large{n}.md": walrus for n in range(4)})
    sync_vault(vault)
    told = (
        "Not searched, since over 1 MiB: notes/large0.md, notes/large1.md, notes/large2.md and 1 "
        "more; divide them into smaller notes."
    )
    at = ("--vault", str(vault.root))
    assert run_cli(*at, "recall", "walrus").out.splitlines() == [
        "Nothing in this vault answers that.",
        told,
    ]
    large = [f"notes/large{n}.md" for n in range(4)]
    assert run_cli(*at, "recall", "walrus", "--json").json["too_large"] == large
    assert recall_tool(vault, {"query": "walrus"}).text.endswith(told)
    assert run_cli(*at, "recall", "refunds", "--json").json["too_large"] == []
    assert not answer(vault, "walrus", at="HEAD").too_large
