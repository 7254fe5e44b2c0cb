"""A language model's service that refuses, is not there or answers something else."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from embedding_service import EmbeddingService

from vaultmem.errors import VaultError
from vaultmem.storage.semantic.local_models import ask_model

KEY = "sk-very-secret"


@pytest.fixture
def service() -> Iterator[EmbeddingService]:
    with EmbeddingService() as running:
        yield running


def name_model(url: str, key: str = KEY) -> dict[str, str]:
    return {
        "VAULTMEM_LLM_BASE_URL": url,
        "VAULTMEM_LLM_MODEL": "m",
        "VAULTMEM_LLM_API_KEY": key,
    }


def ask(environment: dict[str, str]) -> str:
    return ask_model("Be short.", "A text.", environment)


def test_an_answer_is_the_first_choice_and_the_key_goes_with_the_question(
    service: EmbeddingService,
) -> None:
    told = {"choices": [{"message": {"content": "Short."}}]}
    service.failures = [(200, {}, json.dumps(told).encode())]

    assert ask(name_model(service.url)) == "Short."

    ((headers, body),) = service.requests
    assert headers["Authorization"] == f"Bearer {KEY}"
    assert [each["role"] for each in body["messages"]] == ["system", "user"]


@pytest.mark.parametrize("status", [302, 401, 500])
def test_a_refusal_is_told_by_its_number_without_the_key(
    service: EmbeddingService, status: int
) -> None:
    said = json.dumps({"error": {"message": f"not with {KEY}"}}).encode()
    service.failures = [(status, {"Location": f"{service.url}/elsewhere"}, said)]

    with pytest.raises(VaultError, match=f"answered {status}$") as caught:
        ask(name_model(service.url))

    assert KEY not in str(caught.value)
    assert len(service.requests) == 1


@pytest.mark.parametrize(
    "answer", [b"<html>", b"[" * 100_000, b"{}", b"[]", b"1", b'{"choices": []}']
)
def test_another_answer_is_none(service: EmbeddingService, answer: bytes) -> None:
    service.failures = [(200, {}, answer)]

    with pytest.raises(VaultError, match="answered something else"):
        ask(name_model(service.url))


def test_a_service_that_is_not_there_and_a_key_that_is_none_are_told() -> None:
    with pytest.raises(VaultError, match=r"does not answer \(URLError\)"):
        ask(name_model("http://127.0.0.1:9/v1"))
    with pytest.raises(VaultError, match="answered something else"):
        ask(name_model("http://127.0.0.1:9/v1", "a\r\nX-Evil: b"))
