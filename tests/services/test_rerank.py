"""The best sections in a reranker's order: for every front end, in time, and only what may be."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Make, Open, RunCli
from mcp.client.client import Client
from rerank_service import RerankingService
from serving import call, play
from small_model import write_cross_encoder
from support import write_notes

from vaultmem.services.packs.build import AskPack, ask_pack
from vaultmem.services.search.run_query import Query, run_query
from vaultmem.vault import Vault

QUESTION = "ferry tickets"
NOTES = {
    "notes/by-words.md": "# Ferry tickets\n\nFerry tickets.\n",
    "notes/some.md": "# Gangway\n\nFerry tickets are sold by day. It is worth 5.0 in all.\n",
    "notes/answer.md": "# Office\n\nWho has no ferry tickets asks at six. It is worth 9.0.\n",
    "notes/same.md": "# Quay\n\nThe ferry leaves; tickets are sold. It is worth 5.0 in all.\n",
    **{f"notes/log-{day}.md": f"# Day {day}\n\nA day at sea, the {day}th.\n" for day in range(9)},
}


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch, home: Path) -> Iterator[RerankingService]:
    with RerankingService() as running:
        for name, value in running.environment().items():
            monkeypatch.setenv(name, value)
        yield running


@pytest.fixture
def root(make_vault: Make, service: RerankingService) -> Path:
    return make_vault({**NOTES, "vaultmem.yaml": "rerank: endpoint\nrerank_seconds: 30\n"})


def set_up(root: Path, *lines: str) -> None:
    (root / "vaultmem.yaml").write_text("\n".join(lines) + "\n")


def find(vault: Vault, **how: int) -> list[str]:
    return [hit.record.path for hit in run_query(vault, Query(QUESTION, **how)).hits]


def test_the_best_come_in_the_rerankers_order_ties_as_the_words_have_them(
    root: Path, opened: Open, service: RerankingService
) -> None:
    vault = opened(root)
    found = find(vault)
    assert found[0] == "notes/answer.md"
    set_up(root, "rerank: off")
    by_words = find(opened(root))
    ties = {"notes/some.md", "notes/same.md"}
    assert [path for path in found if path in ties] == [path for path in by_words if path in ties]
    assert set(found) == set(by_words)
    assert by_words[0] == found[-1] == "notes/by-words.md"


@pytest.mark.campaign
def test_each_hit_tells_the_rerankers_score_and_that_of_its_place(
    root: Path, opened: Open, run_cli: RunCli
) -> None:
    told = run_cli("--vault", root, "recall", QUESTION, "--json").json
    assert [hit["explanation"]["rerank"] for hit in told["hits"]] == [9.0, 5.0, 5.0, 0.0]
    assert told["rerank"]["sections"] == 4
    assert told["rerank"]["problem"] == ""
    scores = [hit["score"] for hit in told["hits"]]
    set_up(root, "rerank: off")
    plain = run_cli("--vault", root, "recall", QUESTION, "--json").json
    assert scores == [hit["score"] for hit in plain["hits"]] == sorted(scores, reverse=True)
    assert plain["rerank"] is None
    assert [hit["explanation"]["rerank"] for hit in plain["hits"]] == [None] * 4
    set_up(root, "rerank: endpoint")
    explained = run_cli("--vault", root, "recall", QUESTION, "--explain").out
    assert "9.000  by the reranker" in explained


@pytest.mark.campaign
def test_one_question_has_one_answer(root: Path, opened: Open, run_cli: RunCli) -> None:
    paths = find(opened(root))
    found = run_cli("--vault", root, "recall", QUESTION, "--json").json
    assert [hit["path"] for hit in found["hits"]] == paths

    async def scene(client: Client) -> tuple[list[str], list[str], str]:
        whole = await call(client, "recall", query=QUESTION)
        pages = [await call(client, "recall", query=QUESTION, limit=1, offset=n) for n in range(4)]
        made = await call(client, "context_pack", query=QUESTION)
        parts = [hit["path"] for page in pages for hit in page["hits"]]
        return [hit["path"] for hit in whole["hits"]], parts, made["message"]

    whole, parts, told = play(root, scene)
    assert whole == parts == paths
    pack = run_cli("--vault", root, "pack", QUESTION).out
    # An agent is not sent the last line, which says what it cost.
    assert told == pack.rpartition("\n\n<!-- vaultmem: ")[0]
    places = [pack.index(NOTES[path].partition("\n\n")[2].strip()) for path in paths]
    assert places == sorted(places)


def test_only_the_best_fifty_are_sent_and_the_rest_stand_behind(
    root: Path, opened: Open, service: RerankingService
) -> None:
    many = {
        f"notes/n{number}.md": f"# Pier {number}\n\nThe ferry, worth {number}.0 in all.\n"
        for number in range(70)
    }
    write_notes(root, many)
    found = run_query(opened(root), Query(QUESTION, 60)).hits
    assert len(service.texts) == 50
    assert len(found) == 60
    assert [hit.rerank is not None for hit in found] == [True] * 50 + [False] * 10
    assert find(opened(root), limit=5) == [hit.record.path for hit in found[:5]]
    assert find(opened(root), limit=7, offset=48) == [hit.record.path for hit in found[48:55]]


def test_of_a_long_section_the_sentences_with_the_words_are_sent(
    root: Path, opened: Open, service: RerankingService
) -> None:
    filler = "Bread needs flour. " * 100
    long = f"# Long\n\n## Part\n\n{filler}\n\nFerry tickets are worth 99.0 here.\n\n{filler}"
    write_notes(root, {"notes/long.md": long})
    assert find(opened(root))[0] == "notes/long.md"
    (sent,) = [text for text in service.texts if text.startswith("Long\nPart\n")]
    assert "Ferry tickets are worth 99.0 here." in sent
    assert len(sent.split()) < 150


def test_of_a_section_without_sentences_the_beginning_is_sent(
    root: Path, opened: Open, service: RerankingService
) -> None:
    write_notes(root, {"notes/long.md": f"# Ferry tickets\n\n{'word' * 50_000}\n"})
    find(opened(root))
    assert len(service.texts) == 5
    assert max(map(len, service.texts)) < 1_100


def test_what_is_quarantined_is_sent_to_nobody(
    root: Path, opened: Open, service: RerankingService, run_cli: RunCli
) -> None:
    bad = "---\nstate: quarantined\n---\n# Bad\n\nFerry tickets, worth 99.0 at once.\n"
    write_notes(root, {"notes/bad.md": bad})
    found = run_cli("--vault", root, "recall", QUESTION, "--include-quarantined", "--json").json
    assert "notes/bad.md" in [hit["path"] for hit in found["hits"]]
    assert len(service.texts) == 4
    assert not [text for text in service.texts if "99.0" in text]


@pytest.mark.campaign
def test_a_service_that_fails_or_is_slow_leaves_the_words_order(
    root: Path, opened: Open, service: RerankingService, run_cli: RunCli
) -> None:
    service.failures = [(401, {}, b"{}")]
    refused = run_cli("--vault", root, "recall", QUESTION)
    assert "notes/by-words.md" in refused.out.splitlines()[1]
    assert refused.err.startswith("vaultmem: not reranked: the service 127.0.0.1")
    assert refused.err.count("\n") == 1
    set_up(root, "rerank: endpoint", "rerank_timeout_seconds: 1")
    service.before_answer = lambda: time.sleep(3.0)
    started = time.monotonic()
    slow = run_cli("--vault", root, "pack", QUESTION, "--json")
    assert time.monotonic() - started < 30.0
    assert "longer than 1 seconds" in slow.err
    assert slow.json["items"][0]["path"] == "notes/by-words.md"
    assert "longer than 1 seconds" in slow.json["rerank"]["problem"]


def test_who_does_not_wait_asks_no_reranker(
    root: Path, opened: Open, service: RerankingService
) -> None:
    answer = run_query(opened(root), Query(QUESTION, waits=False))
    assert answer.reranked is None
    assert answer.hits[0].record.path == "notes/by-words.md"
    assert not service.requests


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("onnx", "set VAULTMEM_RERANK_FOLDER"),
        ("../model", "is not a reranker; use onnx, endpoint or off"),
        ("https://example.org/rerank", "is not a reranker; use onnx, endpoint or off"),
    ],
)
def test_a_vault_names_neither_folder_nor_host(
    root: Path, opened: Open, service: RerankingService, setting: str, told: str
) -> None:
    set_up(root, f"rerank: {setting}")
    answer = run_query(opened(root), Query(QUESTION))
    assert answer.reranked is not None
    assert told in answer.reranked.problem
    assert len(answer.hits) == 4
    assert not service.requests


def test_it_is_off_unless_it_is_set(root: Path, opened: Open, service: RerankingService) -> None:
    set_up(root)
    vault = opened(root)
    assert run_query(vault, Query(QUESTION)).reranked is None
    assert ask_pack(vault, AskPack(QUESTION)).reranked is None
    assert not service.requests


def test_linked_notes_stand_behind_what_links_to_them(root: Path, opened: Open) -> None:
    write_notes(root, {"notes/answer.md": f"{NOTES['notes/answer.md']}\nSee [[log-3]].\n"})
    hits = run_query(opened(root), Query(QUESTION, expand_links=True)).hits
    assert hits[0].record.path == "notes/answer.md"
    assert "notes/log-3.md" in [hit.record.path for hit in hits if hit.linked_from]


def test_a_model_in_a_folder_reads_question_and_text_together(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_cli: RunCli
) -> None:
    pytest.importorskip("onnxruntime", reason="the semantic extra is not installed")
    folder = tmp_path / "small-encoder"
    write_cross_encoder(folder, ["ferry", "tickets", "asks"])
    monkeypatch.setenv("VAULTMEM_RERANK_FOLDER", str(folder))
    often = "# Log\n\nThe ferry. " + "On that day they sold tickets, and more tickets. " * 6
    write_notes(root, {"notes/often.md": often})
    set_up(root, "rerank: onnx", "rerank_timeout_seconds: 30")
    found = run_cli("--vault", root, "recall", QUESTION, "--json")
    assert found.err == ""
    assert found.json["hits"][0]["path"] == "notes/often.md"
    assert found.json["rerank"] == {"model": "small-encoder", "sections": 5, "problem": ""}
    assert json.dumps(found.json["hits"][0]["explanation"]["rerank"]) != "null"
