"""Any service that answers `POST /embeddings` as OpenAI's does; texts leave this machine.

Source: OpenAI API reference, "Create embeddings".
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from vaultmem.errors import VaultError
from vaultmem.storage.embedding.embedder import MissingModelError, clean_texts, scale_rows
from vaultmem.storage.json_service import ServiceError, post_json

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_BASE_URL = "VAULTMEM_EMBEDDING_BASE_URL"
_MODEL = "VAULTMEM_EMBEDDING_MODEL"

_MAX_BYTES = 256 * 1024 * 1024
_LONGEST_WAIT = 60.0

#: Seconds that an answer may take where somebody waits.
_HASTE = 5.0


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a service is, and how it may be used.

    `timeout` and `pause`, the first wait before another try, are seconds; `rate` is requests a
    minute, 0 for any number.
    """

    base_url: str
    model: str
    key: str = field(default="", repr=False)
    timeout: float = 30.0
    tries: int = 5
    rate: float = 0.0
    pause: float = 0.5


def read_endpoint(environment: Mapping[str, str]) -> Endpoint:
    """Return the endpoint that the environment's VAULTMEM_EMBEDDING_* describe.

    Raises:
        MissingModelError: base URL or model are not named, or the URL is none of the web.
    """
    address = read_address(environment, "VAULTMEM_EMBEDDING")
    if not address.model:
        raise MissingModelError(f"no embedding model is named; set {_BASE_URL} and {_MODEL}")
    timeout = _read_number(environment, "VAULTMEM_EMBEDDING_TIMEOUT", 30.0)
    rate = _read_number(environment, "VAULTMEM_EMBEDDING_RATE", 0.0)
    return replace(address, timeout=timeout, rate=rate)


def read_address(environment: Mapping[str, str], prefix: str) -> Endpoint:
    """Return the endpoint that `prefix` and _BASE_URL, _MODEL, _API_KEY name; no model may be.

    Raises:
        MissingModelError: no base URL is named, it is none of the web, or the key is no key.
    """
    base_url = environment.get(f"{prefix}_BASE_URL", "").rstrip("/")
    if not base_url:
        raise MissingModelError(f"no service is named; set {prefix}_BASE_URL")
    parts = urlsplit(base_url)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.username:
        raise MissingModelError(f"{prefix}_BASE_URL: not a web address; it is like https://host/v1")
    key = environment.get(f"{prefix}_API_KEY", "")
    if not key.isascii() or any(mark.isspace() for mark in key):
        raise MissingModelError(f"{prefix}_API_KEY: not a key; it has blanks or the like")
    return Endpoint(base_url, environment.get(f"{prefix}_MODEL", ""), key)


class EndpointEmbedder:
    """One service and model; requests are spaced by the endpoint's rate."""

    weight = 0.5
    batch = 64
    is_quick = False

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self.name = f"{endpoint.model}@{urlsplit(endpoint.base_url).netloc}"
        self._next = 0.0

    def embed(self, texts: Sequence[str], patient: bool = True) -> NDArray[np.float32]:
        """Return the service's vectors, with length 1.

        Raises:
            VaultError: the service cannot be reached, refuses, or answers something else.
        """
        import numpy as np

        if not patient:
            timeout = min(self._endpoint.timeout, _HASTE)
            hasty = replace(self._endpoint, timeout=timeout, tries=1, rate=0.0)
            return EndpointEmbedder(hasty).embed(texts)
        if not texts:
            return np.zeros((0, 0), np.float32)
        given = [
            text if text.strip() else "-" for text in clean_texts(texts)
        ]  # Services refuse blanks.
        answer = self._ask({"model": self._endpoint.model, "input": given})
        try:
            rows = sorted(answer["data"], key=lambda row: int(row["index"]))
            vectors = np.asarray([row["embedding"] for row in rows], np.float32)
            places = [int(row["index"]) for row in rows]
        except (LookupError, TypeError, ValueError, OverflowError):
            raise self._failed("answered no embeddings") from None
        if places != list(range(len(texts))) or vectors.ndim != 2 or not vectors.size:
            raise self._failed(f"answered {len(places)} embeddings for {len(texts)} texts")
        if not np.isfinite(vectors).all():
            raise self._failed("answered numbers that are none")
        return scale_rows(vectors)

    def _ask(self, body: Mapping[str, Any]) -> Any:
        """Return the service's answer; what may pass is asked again after a while."""
        endpoint = self._endpoint
        url, pause = f"{endpoint.base_url}/embeddings", endpoint.pause
        for left in range(endpoint.tries - 1, -1, -1):
            self._wait_for_turn()
            try:
                return post_json(url, body, endpoint.key, endpoint.timeout, _MAX_BYTES)
            except ServiceError as error:
                if not left or not error.may_pass:
                    raise self._failed(error.reason) from None
                time.sleep(min(pause if error.wait is None else error.wait, _LONGEST_WAIT))
                pause *= 2
        raise AssertionError("unreachable")

    def _wait_for_turn(self) -> None:
        if self._endpoint.rate > 0:
            time.sleep(max(self._next - time.monotonic(), 0.0))
            self._next = time.monotonic() + 60.0 / self._endpoint.rate

    def _failed(self, reason: str) -> VaultError:
        host = urlsplit(self._endpoint.base_url).netloc
        return VaultError(f"the embedding service {host}: {reason}; see {_BASE_URL}")


def _read_number(environment: Mapping[str, str], name: str, default: float) -> float:
    text = environment.get(name, "")
    try:
        number = float(text) if text else default
    except ValueError:
        number = -1.0
    if not 0 <= number < 1e6:
        raise MissingModelError(f'{name}: cannot be "{text}"; it takes a number of 0 or more')
    return number
