"""What every reranker does, and what a service or a model may do wrong."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from rerank_service import RerankingService
from small_model import write_cross_encoder

from vaultmem.errors import VaultError
from vaultmem.storage.semantic.embedder import MissingModelError, read_address
from vaultmem.storage.semantic.rerank_model import (
    PREFIX,
    CrossEncoder,
    RerankModel,
    RerankService,
    TooSlowError,
)

KEY = "sk-test-1234567890"
WORDS = ["ferry", "tickets", "worth"]
VARIABLE = f"{PREFIX}_FOLDER"

#: Seconds that are enough for a small model on a busy machine.
ENOUGH = 30.0


@pytest.fixture
def service() -> Iterator[RerankingService]:
    with RerankingService() as running:
        yield running


def open_service(service: RerankingService, **more: str) -> RerankService:
    return RerankService(read_address(service.environment(**more), PREFIX))


def make_encoder(folder: Path, *, heavy: int = 0, columns: int = 1) -> CrossEncoder:
    pytest.importorskip("onnxruntime", reason="the semantic extra is not installed")
    pytest.importorskip("tokenizers", reason="the semantic extra is not installed")
    write_cross_encoder(folder, WORDS, heavy=heavy, columns=columns)
    return CrossEncoder(folder, VARIABLE)


@pytest.fixture(params=["onnx", "documents", "texts"])
def reranker(
    request: pytest.FixtureRequest, service: RerankingService, tmp_path: Path
) -> RerankModel:
    if request.param == "onnx":
        return make_encoder(tmp_path / "small")
    service.takes_texts = request.param == "texts"
    return open_service(service)


class TestEveryReranker:
    def test_scores_what_answers_higher(self, reranker: RerankModel) -> None:
        texts = ["no word", "ferry tickets ferry worth 7.0", "the ferry worth 2.0"]
        none, most, some = reranker.score("ferry tickets", texts, ENOUGH)
        assert most > some > none

    def test_scores_a_text_the_same_in_any_company(self, reranker: RerankModel) -> None:
        texts = [f"ferry number {number} worth {number}.0 " + "x " * number for number in range(50)]
        together = reranker.score("ferry", texts, ENOUGH)
        assert len(together) == 50
        assert reranker.score("ferry", [texts[40]], ENOUGH) == pytest.approx([together[40]])

    def test_takes_strange_and_long_texts(self, reranker: RerankModel) -> None:
        scores = reranker.score("\ud800 ferry", ["\x00\ud800", " ", "x " * 2_000], ENOUGH)
        assert len(scores) == 3

    def test_says_what_it_is(self, reranker: RerankModel) -> None:
        assert reranker.name


class TestCrossEncoder:
    def test_is_broken_off_in_time(self, tmp_path: Path) -> None:
        encoder = make_encoder(tmp_path, heavy=2_000)
        encoder._model._load()
        started = time.monotonic()
        with pytest.raises(TooSlowError, match=r"longer than 0\.2 seconds, the rerank"):
            encoder.score("ferry", ["ferry"] * 50, 0.2)
        assert time.monotonic() - started < 15.0

    def test_of_two_classes_takes_the_difference(self, tmp_path: Path) -> None:
        assert make_encoder(tmp_path, columns=2).score("ferry", ["ferry"], ENOUGH) == [0.0]

    def test_that_is_another_model_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(MissingModelError, match="not a cross-encoder"):
            make_encoder(tmp_path, columns=3).score("ferry", ["ferry"], ENOUGH)

    def test_folder_without_a_model_says_what_it_needs(self, tmp_path: Path) -> None:
        with pytest.raises(MissingModelError, match=r"model\.onnx.*set VAULTMEM_RERANK_FOLDER"):
            CrossEncoder(tmp_path, VARIABLE)


class TestService:
    def test_is_sent_question_texts_model_and_key(self, service: RerankingService) -> None:
        more = {f"{PREFIX}_MODEL": "rerank-1", f"{PREFIX}_API_KEY": KEY}
        named = open_service(service, **more)
        named.score("which", ["one", "two"], ENOUGH)
        ((headers, body),) = service.requests
        assert headers["Authorization"] == f"Bearer {KEY}"
        assert body == {"model": "rerank-1", "query": "which", "documents": ["one", "two"]}
        assert named.name == f"rerank-1@{service.url.split('/')[2]}"

    def test_its_form_is_found_out_once(self, service: RerankingService) -> None:
        service.takes_texts = True
        reranker = open_service(service)
        for _ in range(2):
            reranker.score("which", ["one"], ENOUGH)
        assert [sorted(body) for _, body in service.requests] == [
            ["documents", "query"],
            ["query", "texts", "truncate"],
            ["query", "texts", "truncate"],
        ]

    def test_that_takes_too_long_is_not_waited_for(self, service: RerankingService) -> None:
        service.before_answer = lambda: time.sleep(1.0)
        with pytest.raises(TooSlowError):
            open_service(service).score("which", ["one"], 0.1)

    @pytest.mark.parametrize("status", [401, 429, 503])
    def test_that_refuses_is_asked_once(self, service: RerankingService, status: int) -> None:
        said = f'{{"error": {{"message": "wrong key {KEY}"}}}}'.encode()
        service.failures = [(status, {}, said)] * 2
        with pytest.raises(VaultError, match=rf"answered {status} \(wrong key \[key\]") as caught:
            open_service(service, **{f"{PREFIX}_API_KEY": KEY}).score("which", ["one"], ENOUGH)
        assert len(service.requests) == 1
        assert "see VAULTMEM_RERANK_BASE_URL" in str(caught.value)

    @pytest.mark.parametrize(
        "answer",
        [
            b"<html>",
            b"{}",
            b"[]",
            b'{"results": 3}',
            b'{"results": [{"index": 1, "relevance_score": 1}]}',
            b'{"results": [{"index": 0, "relevance_score": "x"}]}',
            b'{"results": [{"index": 0, "relevance_score": NaN}]}',
            b'[{"index": 0, "score": 1}, {"index": 1, "score": 1}]',
        ],
    )
    def test_takes_no_other_answer(self, service: RerankingService, answer: bytes) -> None:
        service.failures = [(200, {}, answer)]
        with pytest.raises(VaultError, match=r"the service 127\.0\.0\.1"):
            open_service(service).score("which", ["one"], ENOUGH)

    @pytest.mark.parametrize("url", ["", "file:///etc/passwd", "host/v1", "http://u:p@host/v1"])
    def test_needs_an_address_of_the_web(self, url: str) -> None:
        with pytest.raises(MissingModelError, match="VAULTMEM_RERANK_BASE_URL"):
            read_address({"VAULTMEM_RERANK_BASE_URL": url}, PREFIX)
