"""What `stats` says is what was sent: every recall and pack counts, from any process."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Any

import pytest
from conftest import Make, Open, RunCli
from support import git

from vaultmem.core.search.query import parse_query
from vaultmem.core.text.display import plot_lines
from vaultmem.core.text.token_count import count_tokens
from vaultmem.services.health.economics import read_pack_sizes, read_stats
from vaultmem.services.packs.build import AskPack, ask_pack, make_pack
from vaultmem.services.packs.receipts import find_receipt, list_recent, store_receipt
from vaultmem.services.search.recall import recall
from vaultmem.services.search.run_query import Query, count_pack, count_recall, run_query
from vaultmem.services.views.update_index import sync_vault
from vaultmem.storage.query_log import SignalStore
from vaultmem.vault import Vault

NOTES = {
    "notes/g.md": "The gangway is blue.\n",
    "notes/o.md": "Oars are brown.\n",
    "notes/never.md": "Nobody asks for me.\n",
    "notes/old.md": "---\nstate: archived\n---\nLong gone.\n",
}


def ask(vault: Vault, query: str) -> None:
    pack = make_pack(vault, query)
    count_pack(vault, query, pack)


@pytest.fixture
def vault(make_vault: Make, opened: Open) -> Vault:
    vault = opened(make_vault(NOTES), agent="claude", session="s-1")
    sync_vault(vault)
    return vault


def test_stats_sum_up_packs_and_recalls_by_session(vault: Vault, opened: Open) -> None:
    other = opened(vault.root)
    sent = []
    for who, query in ((vault, "gangway"), (vault, "gangway"), (other, "oars"), (other, "zzz")):
        pack = make_pack(who, query)
        sent.append(count_tokens(pack.text))
        count_pack(who, query, pack)
    hits = recall(vault, parse_query("oars"))
    count_recall(vault, "oars", hits, [hit.text for hit in hits])
    stats = read_stats(vault)
    flat = vault.view.totals()[1]
    assert (stats.notes, stats.flat) == (6, flat)
    assert (stats.packs.calls, stats.packs.sent, stats.packs.flat) == (4, sum(sent), 4 * flat)
    assert stats.packs.saved == 4 * flat - sum(sent)
    assert (stats.packs.empty, stats.failed) == (1, (("zzz", 1),))
    assert (stats.recalls.calls, stats.recalls.flat) == (1, flat)
    assert 0 < stats.recalls.sent < 60
    assert {(s.agent, s.session): s.packs.calls for s in stats.sessions} == {
        ("claude", "s-1"): 2,
        ("", ""): 2,
    }
    most = [(each.path, each.times) for each in stats.most]
    assert most == [("notes/o.md", 2), ("notes/g.md", 2)]  # The last one asked for comes first.
    assert stats.never == ("notes/never.md",)
    mine = read_stats(vault, "s-1")
    assert (mine.packs.calls, mine.packs.sent, mine.failed) == (2, sum(sent[:2]), ())


def test_what_is_pinned_and_packs_without_a_question_are_no_signal(vault: Vault) -> None:
    ask(vault, "")
    stats = read_stats(vault)
    assert (stats.packs.calls, stats.packs.empty, stats.most) == (1, 0, ())


def test_the_most_frequent_question_without_an_answer_comes_first(
    vault: Vault, run_cli: RunCli
) -> None:
    for query in ("zeppelin", "quokka", "Quokka ", "balloon"):
        run_cli("recall", query, "--vault", vault.root)

    found_nothing = run_cli("stats", "--vault", vault.root, "--json").json["found_nothing"]

    assert [tuple(each.values()) for each in found_nothing] == [
        ("Quokka ", 2),
        ("balloon", 1),
        ("zeppelin", 1),
    ]


@pytest.mark.campaign
def test_recent_tells_what_was_shown_to_whom_and_when(
    vault: Vault, opened: Open, run_cli: RunCli
) -> None:
    root = vault.root
    before = git(root, "status", "--porcelain")
    run_cli("recall", "oars", "--vault", root)
    run_cli("pack", "gangway", "--vault", root, "--agent", "codex", "--session", "s-7")
    run_cli("recall", "zeppelin", "--vault", root, "--agent", "codex")
    nothing, pack, asked = run_cli("queries", "--vault", root, "--json").json["calls"]
    assert (nothing["query"], nothing["shown"], nothing["receipt"]) == ("zeppelin", [], None)
    assert (pack["kind"], pack["agent"], pack["session"]) == ("pack", "codex", "s-7")
    assert [each["path"] for each in pack["shown"]] == ["notes/g.md"]
    assert run_cli("receipt", pack["receipt"], "--vault", root).out.count("gangway") == 1
    assert (asked["agent"], asked["tokens"] > 0) == (None, True)
    assert abs(datetime.fromisoformat(asked["time"]).timestamp() - time.time()) < 600
    assert git(root, "status", "--porcelain") == before

    def find(*options: str) -> list[str]:
        found = run_cli("queries", *options, "--vault", root, "--json").json["calls"]
        return [each["query"] for each in found]

    assert find("notes/o.md") == ["oars"]
    assert find("--from-agent", "codex") == ["zeppelin", "gangway"]
    assert find("--from-session", "s-7") == ["gangway"]
    assert find("-n", "1") == ["zeppelin"]
    assert find("--since", "2100-01-01") == []
    told = run_cli("queries", "-n", "2", "--vault", root).out.splitlines()
    assert told[0].endswith("  recall  codex  0 tokens")
    assert told[1:2] + told[3:] == ["    zeppelin", "    gangway", "    notes/g.md"]
    assert f"pack  codex s-7  {pack['tokens']} tokens  receipt {pack['receipt']}" in told[2]


def test_each_pack_of_a_second_has_its_own_receipt(make_vault: Make, opened: Open) -> None:
    notes = {f"notes/{n}.md": f"Gangway {n} is blue.\n" for n in range(9)}
    vault = opened(make_vault(notes), agent="claude", now=lambda: 1_795_000_000.5)
    sync_vault(vault)
    for budget in (150, 200, 200, 600):
        ask_pack(vault, AskPack("gangway", budget))
    shown = list_recent(vault, 9)
    assert len({receipt for _, receipt in shown}) == len(shown) == 4
    for (call, _), receipt in shown:
        assert find_receipt(vault, receipt).account.sent == call.sent


def test_question_with_a_credential_is_counted_and_not_kept(vault: Vault) -> None:
    ask(vault, "what is AKIAIOSFODNN7EXAMPLE for")
    files = b"".join(f.read_bytes() for f in vault.state_folder.glob("calls*"))
    assert b"AKIA" not in files
    assert read_stats(vault).packs.calls == 1
    assert [call.query for call in SignalStore(vault.state, vault.state_folder).calls()] == [""]


def test_a_writer_that_holds_the_vault_makes_nobody_wait(vault: Vault, opened: Open) -> None:
    other = opened(vault.root)
    sync_vault(other)
    with vault.lock(), vault.state.transaction():
        vault.state.put("x", "y")
        ask(other, "gangway")
    assert read_stats(vault).packs.calls == 1


def test_commands_count_and_say_what_was_saved(run_cli: Any, make_vault: Make) -> None:
    root = make_vault(NOTES)
    who = ("--agent", "claude", "--session", "s-9")
    pack = run_cli("pack", "gangway", *who, "--json", cwd=root).json
    run_cli("recall", "oars", cwd=root)
    stats = run_cli("stats", "--json", cwd=root).json
    assert stats["packs"]["sent"] == pack["tokens"]["sent"]
    assert stats["packs"]["saved"] == pack["tokens"]["full_vault_tokens"] - pack["tokens"]["sent"]
    assert stats["recalls"]["calls"] == 1
    assert {each["session"] for each in stats["sessions"]} == {"s-9", None}
    shown = run_cli("stats", "--session", "s-9", "--plot", cwd=root).out
    assert "packs    1, " in shown
    assert "tokens in the vault" in shown


def test_plot_puts_each_point_in_its_place(vault: Vault) -> None:
    shape = plot_lines(
        [(".", [(10, 10), (1000, 1000)]), ("o", [(10, 100), (1000, 100)])], "x", "y", 21, 5
    )
    assert shape.split("\n")[:7] == [
        "     y",
        " 1k |                    .",
        "    |",
        "100 |o                   o",
        "    |",
        " 10 |.",
        "    +---------------------",
    ]
    assert shape.split("\n")[-1].split() == ["10", "100", "1k", "x"]
    assert plot_lines([], "x", "y") == ""
    ask(vault, "gangway")
    read_stats(vault)
    packs, flat = read_pack_sizes(vault)
    assert len(packs) == len(flat) == 1


@pytest.mark.campaign
def test_recent_finds_who_was_shown_a_text_that_the_note_has_no_more(
    make_vault: Make, opened: Open, run_cli: RunCli
) -> None:
    root = make_vault(
        {"notes/pier.md": "# Pier\n\nThe pier opens\nat six.\n\n## Crane\n\nTwo tons.\n"}
    )
    may = datetime(2026, 5, 4, 10).timestamp()

    def ask_as(agent: str, at: float, packs: bool = True) -> None:
        vault = opened(root, agent=agent, now=lambda: at)
        ask_pack(vault, AskPack("pier opens")) if packs else run_query(vault, Query("pier opens"))

    git(root, "commit", "-q", "--amend", "--no-edit", "--date=2026-05-01T10:00:00")
    ask_as("amy", may)
    ask_as("bob", may + 60, packs=False)
    uncounted = opened(root, agent="dan", now=lambda: may + 90)
    made = store_receipt(uncounted, make_pack(uncounted, "pier opens"), "pier opens")
    (root / "notes/pier.md").write_text("# Pier\n\nThe pier opens at nine.\n")
    git(root, "commit", "-qam", "Nine")
    ask_as("cyd", time.time())

    def find(*words: str) -> list[tuple[str, str, Any]]:
        calls = run_cli("queries", *words, "--vault", root, "--json").json["calls"]
        return [
            (x["agent"], x["kind"], [(y["path"], y["heading"]) for y in x["shown"]]) for x in calls
        ]

    pier = [("notes/pier.md", "Pier")]
    amy, bob, dan = ("amy", "pack", pier), ("bob", "recall", pier), ("dan", "pack", pier)
    assert find("--contains", "the pier OPENS at six") == [dan, bob, amy]
    assert find("--contains", "opens at six", "--from-agent", "amy") == [amy]
    assert find("--contains", "opens at six", "--since", "2026-06-01") == []
    assert find("--contains", "opens at nine") == [("cyd", "pack", pier)]
    assert find("--contains", "opens at six", "-n", "1") == [dan]
    assert find("--contains", "opens at six", "pier") == [dan, bob, amy]
    assert "dan" not in {agent for agent, _, _ in find()}  # What is only made is not counted.
    assert made.id in run_cli("queries", "--contains", "at six", "--vault", root).out
    said = run_cli("queries", "--contains", "at ten", "--vault", root).out
    assert said == "Nothing with that text was shown.\n"
    said = run_cli("queries", "--from-session", "nosuch", "--vault", root).out
    assert said == "No recall or pack matches the filters.\n"
    assert run_cli("queries", "--contains", " ", "--vault", root).code == 5
