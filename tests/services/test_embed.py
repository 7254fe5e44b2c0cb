"""Recall by meaning: what is embedded, what is found with it, and what is not looked at."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from conftest import Make, Open, RunCli
from embedding_service import EmbeddingService
from support import git, write_notes

from vaultmem.core.search.query import parse_query
from vaultmem.services.packs.build import AskPack, ask_pack
from vaultmem.services.search.recall import find_sections, recall
from vaultmem.services.search.run_query import Query, run_query
from vaultmem.services.search.vault_set import VaultSet
from vaultmem.services.semantic.embed import (
    DenseScorer,
    drop_garbage,
    embed_pending,
    embed_sections,
    find_scorer,
    split_passages,
)
from vaultmem.services.semantic.meaning import open_meaning
from vaultmem.services.views.open_view import view_at
from vaultmem.services.views.update_index import sync_vault
from vaultmem.vault import Vault

NOTES = {
    "notes/automobile.md": "The automobile stands in the yard.",
    "notes/cash.md": "Passengers get their cash back within a week.",
    "notes/bread.md": "Bread needs flour, water and a night of rest.",
    "notes/harbour.md": "The harbour office opens at six.",
}
QUESTION = "refund"


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch, home: Path) -> Iterator[EmbeddingService]:
    with EmbeddingService() as running:
        for name, value in running.environment().items():
            monkeypatch.setenv(name, value)
        yield running


@pytest.fixture
def vault(make_vault: Make, opened: Open, service: EmbeddingService) -> Vault:
    root = make_vault(NOTES)
    (root / "vaultmem.yaml").write_text("semantic: endpoint\n")
    vault = opened(root)
    sync_vault(vault)
    return vault


def find(vault: Vault, text: str = QUESTION, **how: int) -> list[str]:
    """Return the paths that a question finds, by meaning too."""
    scorer = find_scorer([vault])
    assert scorer is not None
    return [hit.record.path for hit in recall(vault, parse_query(text, **how), scorer)]


def embed(vault: Vault, seconds: float | None = None) -> int:
    return embed_sections(vault, open_meaning(vault, "endpoint"), seconds).added


def test_question_finds_what_shares_no_word_with_it(vault: Vault) -> None:
    assert not [hit for hit in recall(vault, parse_query(QUESTION)) if "cash" in hit.text]
    embed(vault)
    assert find(vault)[0] == "notes/cash.md"


def test_each_section_is_embedded_once(vault: Vault, service: EmbeddingService) -> None:
    added = embed(vault)
    texts = len(service.texts)
    assert added == texts >= len(NOTES)
    assert embed(vault) == 0
    assert len(service.texts) == texts


def test_only_what_changed_is_embedded_again(vault: Vault, service: EmbeddingService) -> None:
    embed(vault)
    write_notes(vault.root, {"notes/new.md": "A car park.", "notes/cash.md": "Money is back."})
    git(vault.root, "mv", "notes/bread.md", "notes/loaf.md")
    sync_vault(vault)
    before = len(service.texts)
    assert embed(vault) == 2
    assert sorted(service.texts[before:]) == ["cash\nMoney is back.", "new\nA car park."]
    assert find(vault, "automobile park")[0] == "notes/new.md"
    assert find(vault, "flour and rest")[0] == "notes/loaf.md"


def test_nothing_embedded_is_recall_by_words(vault: Vault) -> None:
    scorer = find_scorer([vault])
    assert scorer is not None
    hits = recall(vault, parse_query("harbour office"), scorer)
    assert [hit.record.path for hit in hits] == ["notes/harbour.md"]
    assert (scorer.embedded, scorer.problem) == (0, "")
    assert scorer.sections > 0


def test_question_of_stop_words_alone_is_answered_by_meaning(vault: Vault) -> None:
    embed(vault)
    assert set(find(vault, "what is it about")) >= set(NOTES)


def test_partly_embedded_vault_finds_the_rest_by_words(vault: Vault) -> None:
    many = {f"notes/n{number}.md": f"Sailing {number} has a crew." for number in range(100)}
    write_notes(vault.root, many)
    sync_vault(vault)
    meaning = open_meaning(vault, "endpoint")
    done = embed_sections(vault, meaning, seconds=0.0)
    assert 0 < done.embedded < done.sections
    for number in (0, 50, 99):
        assert find(vault, f"sailing {number}")[0] == f"notes/n{number}.md"
    assert embed_sections(vault, meaning).embedded == done.sections


def test_long_section_is_found_by_any_of_its_passages(
    vault: Vault, service: EmbeddingService
) -> None:
    filler = "Bread needs flour. " * 150
    long = {"notes/long.md": f"# Long\n\n{filler}\n\nthe lighthouse keeper\n\n{filler}"}
    write_notes(vault.root, long)
    sync_vault(vault)
    embed(vault)
    assert sum(text.startswith("Long") for text in service.texts) > 4
    assert find(vault, "lighthouse keeper")[0] == "notes/long.md"


def test_filter_and_state_hold_for_what_is_found_by_meaning(vault: Vault) -> None:
    write_notes(
        vault.root,
        {
            "notes/old.md": "---\nstate: archived\n---\nGive cash back.",
            "notes/bad.md": "---\nstate: quarantined\n---\nGive cash back at once.",
        },
    )
    sync_vault(vault)
    embed(vault)
    assert not {"notes/old.md", "notes/bad.md"} & set(find(vault, limit=50))


def test_what_is_quarantined_is_embedded_by_no_service(
    vault: Vault, service: EmbeddingService, run_cli: RunCli
) -> None:
    write_notes(vault.root, {"notes/bad.md": "---\nstate: quarantined\n---\nGive cash at once."})
    sync_vault(vault)
    embed(vault)
    assert not [text for text in service.texts if "at once" in text]
    asked = ("--vault", vault.root, "recall", QUESTION, "--include-quarantined")
    found = run_cli(*asked, "--json")
    assert found.err == ""
    assert found.json["semantic"]["embedded"] == found.json["semantic"]["sections"]


def test_commit_finds_what_a_vault_of_just_its_notes_finds(
    vault: Vault, opened: Open, tmp_path: Path
) -> None:
    git(vault.root, "add", "--all")
    git(vault.root, "commit", "-q", "-m", "then")
    then = git(vault.root, "rev-parse", "HEAD")
    near = {f"notes/near{number}.md": "refund cash car automobile" for number in range(5)}
    write_notes(vault.root, near)
    sync_vault(vault)
    embed(vault)
    past = view_at(vault, then)
    git(tmp_path, "clone", "-q", "-b", "main", str(vault.root), "clone")
    git(tmp_path / "clone", "reset", "-q", "--hard", then)
    fresh = opened(tmp_path / "clone")
    sync_vault(fresh)
    embed(fresh)
    for question in (QUESTION, "car", "the office"):
        hits = [
            [
                (hit.record.path, pytest.approx(hit.score, abs=1e-5))
                for hit in recall(each, parse_query(question), DenseScorer(each, meaning))
            ]
            for each in (past, fresh)
            for meaning in [open_meaning(each, "endpoint")]
        ]
        assert hits[0] == hits[1]
        assert not [path for path, _ in hits[0] if path in near]


def test_notes_that_are_gone_leave_no_vectors(vault: Vault) -> None:
    text = "\n".join(f"## Heading {number}\n\ntext {number}\n" for number in range(1_300))
    write_notes(vault.root, {"notes/large.md": text})
    sync_vault(vault)
    embed(vault)
    meaning = open_meaning(vault, "endpoint")
    assert len(meaning.store.read().keys) > 1_300
    (vault.root / "notes/large.md").unlink()
    sync_vault(vault)
    assert drop_garbage(vault, meaning) >= 1_300
    assert len(meaning.store.read().keys) < 100
    assert find(vault)[0] == "notes/cash.md"


def test_watcher_embeds_for_some_seconds_and_leaves_alone_what_fails(
    vault: Vault, opened: Open, service: EmbeddingService, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.failures = [(503, {}, b"")]
    assert embed_pending(vault, 5.0) is None
    assert embed_pending(vault, 5.0) is None
    assert len(service.requests) == 1
    open_meaning(vault, "endpoint").resting_until = 0.0
    done = embed_pending(vault, 5.0)
    assert done is not None
    assert done.embedded == done.sections
    monkeypatch.delenv("VAULTMEM_EMBEDDING_BASE_URL")
    assert embed_pending(opened(vault.root), 5.0) is None


def test_vault_that_names_no_model_is_left_alone(
    make_vault: Make, opened: Open, service: EmbeddingService
) -> None:
    vault = opened(make_vault(NOTES))
    sync_vault(vault)
    assert embed_pending(vault, 5.0) is None
    assert find_scorer([vault]) is None
    assert not service.requests


def test_two_who_embed_at_once_do_no_harm(vault: Vault, opened: Open) -> None:
    many = {f"notes/n{number}.md": f"Sailing {number} has a crew." for number in range(200)}
    write_notes(vault.root, many)
    sync_vault(vault)

    def embed_too() -> None:
        other = opened(vault.root)
        embed(other)
        other.close()

    threads = [threading.Thread(target=embed_too) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stored = open_meaning(vault, "endpoint").store.read()
    assert len(set(stored.keys.tolist())) == len(stored.keys)
    assert embed(vault) == 0


@pytest.mark.campaign
def test_interrupted_embedding_goes_on_where_it_was(
    vault: Vault, service: EmbeddingService
) -> None:
    many = {f"notes/n{number}.md": f"Sailing {number} has a crew." for number in range(400)}
    write_notes(vault.root, many)
    sync_vault(vault)
    service.before_answer = lambda: time.sleep(0.2)
    command = [sys.executable, "-m", "vaultmem", "--vault", vault.root, "embed"]
    listen = partial(signal.signal, signal.SIGINT, signal.default_int_handler)  # nohup ignores it.
    with subprocess.Popen(command, stderr=subprocess.PIPE, preexec_fn=listen) as process:
        while len(service.requests) < 3:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        assert b"Traceback" not in process.stderr.read()
    assert process.returncode == 130
    stored = len(open_meaning(vault, "endpoint").store.read().keys)
    assert stored >= 128
    before = len(service.texts)
    service.before_answer = lambda: None
    embed(vault)
    assert (
        len(service.texts) - before
        == embed_sections(vault, open_meaning(vault, "endpoint")).sections - stored
    )


def test_who_does_not_wait_is_answered_with_the_vectors_that_there_are(
    make_vault: Make, opened: Open
) -> None:
    text = "\n\n".join(f"# Berth {number}\n\nA boat lies at {number}." for number in range(1_200))
    root = make_vault({"notes/berths.md": text, "vaultmem.yaml": "semantic: static\n"})
    vault = opened(root)
    hasty = run_query(vault, Query("boats in berths", waits=False)).meaning
    assert hasty is not None
    assert 1_000 <= hasty.embedded < hasty.sections
    patient = run_query(vault, Query("boats in berths")).meaning
    assert patient is not None
    assert patient.embedded == patient.sections


def test_an_answer_says_why_meaning_had_no_part_in_it(
    vault: Vault, service: EmbeddingService
) -> None:
    assert "vaultmem embed" in run_query(vault, Query("harbour")).words_alone
    embed(vault)
    assert run_query(vault, Query("harbour")).words_alone == ""
    service.failures = [(401, {}, b"{}")]
    answer = ask_pack(vault, AskPack("harbour"))
    assert "answered 401" in answer.words_alone
    assert answer.meaning is None
    assert run_query(vault, Query("harbour", semantic=False)).words_alone == ""


class TestCommands:
    def test_embed_tells_how_far_it_is(self, vault: Vault, run_cli: RunCli) -> None:
        done = run_cli("--vault", vault.root, "embed", "--json")
        assert done.json["embedded"] == done.json["sections"] == done.json["added"]
        assert done.json["model"].startswith("words-64@127.0.0.1")
        again = run_cli("--vault", vault.root, "embed")
        assert "0 new" in again.out

    @pytest.mark.campaign
    def test_recall_and_pack_use_it_unless_told_not_to(self, vault: Vault, run_cli: RunCli) -> None:
        embed(vault)
        found = run_cli("--vault", vault.root, "recall", QUESTION, "--json")
        assert found.json["hits"][0]["path"] == "notes/cash.md"
        assert found.json["semantic"]["embedded"] == found.json["semantic"]["sections"] > 0
        assert "cash back" in run_cli("--vault", vault.root, "pack", QUESTION).out
        plain = run_cli("--vault", vault.root, "recall", QUESTION, "--json", "--no-semantic")
        assert plain.json["semantic"] is None
        assert "notes/cash.md" not in [hit["path"] for hit in plain.json["hits"]]

    def test_recall_says_how_many_sections_have_no_vector(
        self, vault: Vault, run_cli: RunCli
    ) -> None:
        embed(vault)
        write_notes(vault.root, {"notes/new.md": "# New\n\nA harbour.\n\n# Other\n\nA pier.\n"})
        found = run_cli("--vault", vault.root, "recall", "harbour")
        assert "found by words alone: 2 of" in found.err
        assert "no vector yet; run `vaultmem embed`" in found.err
        run_cli("--vault", vault.root, "embed")
        assert run_cli("--vault", vault.root, "recall", "harbour").err == ""

    def test_service_that_is_away_leaves_recall_by_words(
        self, vault: Vault, run_cli: RunCli, service: EmbeddingService
    ) -> None:
        embed(vault)
        key = "sk-test-1234567890"
        service.failures = [(401, {}, f'{{"error": "bad key {key}"}}'.encode())]
        found = run_cli(
            *("--vault", vault.root, "recall", "harbour", "--json"),
            env={"VAULTMEM_EMBEDDING_API_KEY": key},
        )
        assert found.code == 0
        assert found.json["semantic"] is None
        assert found.json["hits"][0]["path"] == "notes/harbour.md"
        assert found.err.count("\n") == 1
        assert "found by words alone" in found.err
        assert key not in found.out + found.err

    @pytest.mark.campaign
    def test_without_the_extra_one_line_says_how_to_get_it(
        self, make_vault: Make, start_cli: RunCli, tmp_path: Path
    ) -> None:
        root = make_vault(NOTES)
        (tmp_path / "empty").mkdir()
        (tmp_path / "empty" / "wordllama.py").write_text("raise SystemExit('imported')\n")
        env = {"PYTHONPATH": str(tmp_path / "empty")}
        asked = ("--vault", root, "recall", "harbour")
        found = start_cli(*asked, "--semantic", env=env)
        assert "notes/harbour.md" in found.out
        assert found.err.count("\n") == 1
        assert "run `pip install " in found.err
        refused = start_cli("--vault", root, "embed", env=env)
        assert refused.code == 1
        assert "run `pip install " in refused.err

    def test_unknown_model_is_refused(self, vault: Vault, run_cli: RunCli) -> None:
        assert run_cli("--vault", vault.root, "embed", "--model", "magic").code == 5

    @pytest.mark.campaign
    def test_nothing_heavy_is_loaded_where_semantics_are_off(
        self, make_vault: Make, run_cli: RunCli
    ) -> None:
        root = make_vault(NOTES)
        run_cli("--vault", root, "index")
        found = subprocess.run(
            [sys.executable, "-X", "importtime", "-m", "vaultmem", "--vault", root, "recall", "a"],
            capture_output=True,
            text=True,
            check=True,
        )
        loaded = {line.rsplit("|", 1)[-1].strip() for line in found.stderr.splitlines()}
        assert "vaultmem.services.search.recall" in loaded
        assert not [
            name
            for name in loaded
            if name.startswith(
                ("tokenizers", "onnxruntime", "urllib.request", "vaultmem.storage.embedding")
            )
        ]


@pytest.mark.campaign
def test_static_model_needs_no_preparation(
    make_vault: Make, run_cli: RunCli, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tokenizers", reason="the semantic extra is not installed")
    root = make_vault({**NOTES, "vaultmem.yaml": "semantic: static\n"})
    found = run_cli("--vault", root, "recall", "vehicle", "--json")
    assert found.json["hits"][0]["path"] == "notes/automobile.md"
    assert found.json["semantic"]["embedded"] == found.json["semantic"]["sections"]
    write_notes(root, {"notes/lorry.md": "Trucks park behind the shed."})
    found = run_cli("--vault", root, "recall", "lorry parking", "--json")
    assert found.json["hits"][0]["path"] == "notes/lorry.md"


@pytest.mark.parametrize("text", ["", "word", "word " * 5_000, "認証" * 3_000, "x" * 9_000])
def test_passages_hold_the_text_in_even_parts(text: str) -> None:
    passages = split_passages(text)
    assert 1 <= len(passages) <= 40
    sizes = [len(passage) for passage in passages]
    assert max(sizes) - min(sizes) <= 40
    if len(passages) < 40:
        assert "".join("".join(passages).split()) == "".join(text.split())


def test_several_vaults_are_asked_by_meaning_with_the_vectors_of_each(
    vault: Vault, make_vault: Make, opened: Open
) -> None:
    other = opened(
        make_vault({"notes/far.md": "# Repayment\n\nCash comes back in a week.\n"}, "far")
    )
    other = replace(other, name="far")
    vaults = VaultSet([vault, other])
    for each in (vault, other):
        sync_vault(each)
        embed(each)
    scorer = find_scorer([vault, other])
    query = parse_query(QUESTION)
    hits = find_sections(vaults, query, vaults.count(query), 10, dense=scorer)
    assert {hit.vault for hit in hits if "cash" in hit.text.casefold()} == {"", "far"}
    assert scorer is not None
    assert scorer.embedded == scorer.sections
    assert not scorer.problem
