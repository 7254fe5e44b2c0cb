"""What every model behind the port does, and what a service on the network may do wrong."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from embedding_service import EmbeddingService

from vaultmem.errors import VaultError
from vaultmem.storage.semantic.embedder import (
    Embedder,
    EndpointEmbedder,
    MissingModelError,
    find_shipped,
    read_endpoint,
)
from vaultmem.storage.semantic.local_models import OnnxEmbedder, StaticEmbedder, _find_shipped_files

KEY = "sk-test-1234567890"


@pytest.fixture
def service() -> Iterator[EmbeddingService]:
    with EmbeddingService() as running:
        yield running


@pytest.fixture(params=["static", "onnx", "endpoint"])
def embedder(request: pytest.FixtureRequest, service: EmbeddingService) -> Embedder:
    if request.param == "endpoint":
        return EndpointEmbedder(read_endpoint(service.environment()))
    pytest.importorskip("tokenizers", reason="the semantic extra is not installed")
    if request.param == "onnx":
        pytest.importorskip("onnxruntime", reason="the semantic extra is not installed")
    try:
        return StaticEmbedder() if request.param == "static" else OnnxEmbedder()
    except MissingModelError as error:
        pytest.skip(str(error))


class TestEveryModel:
    def test_gives_one_vector_of_length_1_for_each_text(self, embedder: Embedder) -> None:
        vectors = embedder.embed(
            ["A red car.", "The harbour office", "認証 トークン größe", "x " * 900]
        )
        assert vectors.dtype == np.float32
        assert vectors.shape[0] == 4
        assert np.linalg.norm(vectors, axis=1) == pytest.approx(1.0, abs=1e-4)

    def test_gives_a_text_the_same_vector_in_any_company(self, embedder: Embedder) -> None:
        alone = embedder.embed(["The harbour office sends its timetable at night."])[0]
        together = embedder.embed(
            ["short", "The harbour office sends its timetable at night.", "long text " * 60]
        )[1]
        assert alone @ together == pytest.approx(1.0, abs=1e-3)

    def test_finds_alike_what_means_the_same(self, embedder: Embedder) -> None:
        asked = embedder.embed(["where is my car"], patient=False)[0]
        near, far = embedder.embed(
            ["where is my automobile", "a recipe for bread with seven kinds of flour"]
        )
        assert asked @ near > asked @ far

    def test_takes_empty_and_strange_texts(self, embedder: Embedder) -> None:
        vectors = embedder.embed(["", " \n", "\x00\ud800"])
        assert vectors.shape[0] == 3
        assert np.isfinite(vectors).all()

    def test_takes_no_texts_at_all(self, embedder: Embedder) -> None:
        assert len(embedder.embed([])) == 0

    def test_says_what_it_is(self, embedder: Embedder) -> None:
        assert embedder.name
        assert 0 < embedder.weight < 1
        assert embedder.batch > 0


def test_folder_holds_a_model_of_ones_own(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="the semantic extra is not installed")
    try:
        shipped = OnnxEmbedder()
    except MissingModelError as error:
        pytest.skip(str(error))
    model, vocabulary = _find_shipped_files()
    tokenizer = json.loads(vocabulary.read_text(encoding="utf-8"))
    words = sorted(tokenizer["model"]["vocab"].items(), key=lambda item: item[1])
    (tmp_path / "vocab.txt").write_text("\n".join(word for word, _ in words), encoding="utf-8")
    (tmp_path / "model.onnx").symlink_to(model)
    own = OnnxEmbedder(tmp_path)
    text = "The harbour office sends its timetable."
    assert own.embed([text])[0] @ shipped.embed([text])[0] == pytest.approx(1.0, abs=1e-3)
    assert own.name != shipped.name


def test_folder_without_a_model_says_what_it_needs(tmp_path: Path) -> None:
    with pytest.raises(MissingModelError, match=r"model\.onnx"):
        OnnxEmbedder(tmp_path)


def test_broken_model_file_is_an_expected_failure(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="the semantic extra is not installed")
    (tmp_path / "model.onnx").write_bytes(b"no model")
    (tmp_path / "vocab.txt").write_text("[UNK]\n")
    with pytest.raises(MissingModelError, match="not a usable model"):
        OnnxEmbedder(tmp_path).embed(["text"])


def test_packages_are_found_without_importing_them() -> None:
    assert find_shipped("no_such_package_at_all", "file") is None
    assert find_shipped("vaultmem", "no-such-file") is None
    assert find_shipped("vaultmem", "errors.py") is not None


def make_embedder(service: EmbeddingService, **how: float) -> EndpointEmbedder:
    named = read_endpoint(service.environment(VAULTMEM_EMBEDDING_API_KEY=KEY))
    return EndpointEmbedder(replace(named, **{"pause": 0.01, **how}))  # type: ignore[arg-type]


class TestEndpoint:
    def test_sends_model_texts_and_key(self, service: EmbeddingService) -> None:
        make_embedder(service).embed(["one", "two"])
        ((headers, body),) = service.requests
        assert headers["Authorization"] == f"Bearer {KEY}"
        assert body == {"model": "words-64", "input": ["one", "two"]}

    def test_sends_no_key_where_there_is_none(self, service: EmbeddingService) -> None:
        EndpointEmbedder(read_endpoint(service.environment())).embed(["one"])
        assert "Authorization" not in service.requests[0][0]

    @pytest.mark.parametrize("status", [429, 500, 503])
    def test_asks_again_what_may_pass(self, service: EmbeddingService, status: int) -> None:
        service.failures = [(status, {}, b""), (status, {"Retry-After": "0.01"}, b"{}")]
        assert make_embedder(service).embed(["one"]).shape[0] == 1
        assert len(service.requests) == 3

    def test_waits_as_long_as_it_is_told(self, service: EmbeddingService) -> None:
        service.failures = [(429, {"Retry-After": "0.3"}, b"")]
        started = time.monotonic()
        make_embedder(service).embed(["one"])
        assert time.monotonic() - started >= 0.3

    def test_gives_up_after_some_tries(self, service: EmbeddingService) -> None:
        service.failures = [(503, {}, b"")] * 9
        with pytest.raises(VaultError, match="answered 503"):
            make_embedder(service, tries=3).embed(["one"])
        assert len(service.requests) == 3

    def test_asks_once_where_somebody_waits(self, service: EmbeddingService) -> None:
        service.failures = [(503, {}, b"")] * 9
        with pytest.raises(VaultError, match="answered 503"):
            make_embedder(service).embed(["one"], patient=False)
        assert len(service.requests) == 1

    @pytest.mark.parametrize("status", [400, 401, 403, 404])
    def test_does_not_repeat_what_is_refused(self, service: EmbeddingService, status: int) -> None:
        said = json.dumps({"error": {"message": f"wrong key {KEY}\x1b[2J"}}).encode()
        service.failures = [(status, {}, said)]
        with pytest.raises(VaultError, match=rf"answered {status} \(wrong key \[key\]") as caught:
            make_embedder(service).embed(["one"])
        assert len(service.requests) == 1
        assert "\x1b" not in str(caught.value)

    def test_follows_no_redirect_with_the_key(self, service: EmbeddingService) -> None:
        with EmbeddingService() as other:
            service.failures = [(307, {"Location": f"{other.url}/embeddings"}, b"")]
            with pytest.raises(VaultError, match="answered 307"):
                make_embedder(service).embed(["one"])
            assert not other.requests

    @pytest.mark.parametrize(
        "answer",
        [
            b"<html>",
            b"[" * 100_000,
            b"{}",
            b'{"data": []}',
            b'{"data": [{"index": 1, "embedding": [1.0]}]}',
            b'{"data": [{"index": 0, "embedding": []}]}',
            b'{"data": [{"index": 0, "embedding": ["x"]}]}',
            b'{"data": [{"index": 0, "embedding": [NaN]}]}',
            b'{"data": [{"index": 0, "embedding": [1.0]}, {"index": 1, "embedding": [1.0]}]}',
        ],
    )
    def test_takes_no_other_answer(self, service: EmbeddingService, answer: bytes) -> None:
        service.failures = [(200, {}, answer)]
        with pytest.raises(VaultError, match=r"embedding service 127\.0\.0\.1"):
            make_embedder(service).embed(["one"])

    def test_waits_only_so_long(self, service: EmbeddingService) -> None:
        service.before_answer = lambda: time.sleep(1.0)
        with pytest.raises(VaultError, match="cannot be reached"):
            make_embedder(service, timeout=0.1, tries=2).embed(["one"])
        assert len(service.requests) == 2

    def test_spaces_its_requests(self, service: EmbeddingService) -> None:
        embedder = make_embedder(service, rate=300.0)
        started = time.monotonic()
        for _ in range(3):
            embedder.embed(["one"])
        assert time.monotonic() - started >= 0.4

    def test_shows_the_key_nowhere(self, service: EmbeddingService) -> None:
        named = read_endpoint(service.environment(VAULTMEM_EMBEDDING_API_KEY=KEY))
        assert KEY not in f"{named!r} {named} {EndpointEmbedder(named).name}"

    @pytest.mark.parametrize(
        "url", ["", "file:///etc/passwd", "ftp://host/v1", "host/v1", "http://user:pass@host/v1"]
    )
    def test_needs_an_address_of_the_web(self, url: str) -> None:
        with pytest.raises(MissingModelError, match="VAULTMEM_EMBEDDING_BASE_URL"):
            read_endpoint({"VAULTMEM_EMBEDDING_BASE_URL": url, "VAULTMEM_EMBEDDING_MODEL": "words"})

    def test_refuses_a_key_that_would_end_the_header(self, service: EmbeddingService) -> None:
        with pytest.raises(MissingModelError, match="not a key") as caught:
            read_endpoint(service.environment(VAULTMEM_EMBEDDING_API_KEY="a\r\nX-Evil: b"))
        assert "Evil" not in str(caught.value)
