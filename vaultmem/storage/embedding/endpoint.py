"""Any service that answers `POST /embeddings` as OpenAI's does; texts leave this machine.

Source: OpenAI API reference, "Create embeddings". The key is sent to the host of the base URL
and nowhere else: redirects are not followed, and no message holds it.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http.client import HTTPException, HTTPResponse
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from vaultmem.core.safe_text import one_line
from vaultmem.errors import VaultError
from vaultmem.storage.embedding.embedder import MissingModelError, clean_texts, scale_rows

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_BASE_URL = "VAULTMEM_EMBEDDING_BASE_URL"
_MODEL = "VAULTMEM_EMBEDDING_MODEL"

#: Answers of the service that a later try may better: busy, too fast, restarting.
_PASSING = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
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
    base_url = environment.get(_BASE_URL, "").rstrip("/")
    model = environment.get(_MODEL, "")
    if not base_url or not model:
        raise MissingModelError(f"no embedding service is named; set {_BASE_URL} and {_MODEL}")
    parts = urlsplit(base_url)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.username:
        raise MissingModelError(f"{_BASE_URL}: not a web address; it is like https://host/v1")
    key = environment.get("VAULTMEM_EMBEDDING_API_KEY", "")
    if not key.isascii() or any(mark.isspace() for mark in key):
        raise MissingModelError("VAULTMEM_EMBEDDING_API_KEY: not a key; it has blanks or the like")
    timeout = _read_number(environment, "VAULTMEM_EMBEDDING_TIMEOUT", 30.0)
    rate = _read_number(environment, "VAULTMEM_EMBEDDING_RATE", 0.0)
    return Endpoint(base_url, model, key, timeout, rate=rate)


class EndpointEmbedder:
    """One service and model; requests are spaced by the endpoint's rate."""

    weight = 0.5
    batch = 64
    is_quick = False

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self.name = f"{endpoint.model}@{urlsplit(endpoint.base_url).netloc}"
        self._next = 0.0
        self._opener = urllib.request.build_opener(_NoRedirects)

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
        data = json.dumps(body).encode()
        pause = self._endpoint.pause
        for left in range(self._endpoint.tries - 1, -1, -1):
            self._wait_for_turn()
            try:
                return self._post(data)
            except _PassingError as error:
                if not left:
                    raise self._failed(error.reason) from None
                time.sleep(min(pause if error.wait is None else error.wait, _LONGEST_WAIT))
                pause *= 2
        raise AssertionError("unreachable")

    def _post(self, data: bytes) -> Any:
        headers = {"Content-Type": "application/json", "User-Agent": "vaultmem"}
        if self._endpoint.key:
            headers["Authorization"] = f"Bearer {self._endpoint.key}"
        url = f"{self._endpoint.base_url}/embeddings"
        request = urllib.request.Request(url, data, headers, method="POST")  # noqa: S310
        try:
            with self._opener.open(request, timeout=self._endpoint.timeout) as response:
                text = self._read(response)
        except urllib.error.HTTPError as error:
            with error:
                reason = self._describe(error)
                if error.code in _PASSING:
                    raise _PassingError(reason, _read_wait(error.headers.get)) from None
            raise self._failed(reason) from None
        except (OSError, HTTPException) as error:
            cause = getattr(error, "reason", error)
            name = type(cause).__name__
            raise _PassingError(f"cannot be reached ({self._hide(str(cause)) or name})") from None
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise self._failed("answered no JSON") from None

    def _read(self, response: HTTPResponse) -> bytes:
        """Return the answer's bytes, which may come slowly, but not for ever."""
        end = time.monotonic() + 2 * self._endpoint.timeout
        parts: list[bytes] = []
        size = 0
        while part := response.read1(1 << 20):
            parts.append(part)
            size += len(part)
            if size > _MAX_BYTES:
                raise self._failed("answered too much")
            if time.monotonic() > end:
                raise TimeoutError("the answer took too long")
        return b"".join(parts)

    def _wait_for_turn(self) -> None:
        if self._endpoint.rate > 0:
            time.sleep(max(self._next - time.monotonic(), 0.0))
            self._next = time.monotonic() + 60.0 / self._endpoint.rate

    def _describe(self, error: urllib.error.HTTPError) -> str:
        """Return the code, and what the service says in its words where it says so."""
        said = ""
        try:
            message = json.loads(error.read(65_536))["error"]
            said = str(message["message"] if isinstance(message, dict) else message)
        except (OSError, HTTPException, ValueError, LookupError, TypeError, RecursionError):
            pass
        return f"answered {error.code}{f' ({self._hide(said)})' if said else ''}"

    def _hide(self, text: str) -> str:
        """Return a short line of a foreign text, without the key should it be in there."""
        if self._endpoint.key:
            text = text.replace(self._endpoint.key, "[key]")
        return one_line(text)[:200]

    def _failed(self, reason: str) -> VaultError:
        host = urlsplit(self._endpoint.base_url).netloc
        return VaultError(f"the embedding service {host}: {reason}; see {_BASE_URL}")


class _PassingError(Exception):
    """A failure that another try may better; `wait` is what the service asks for, in seconds."""

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.wait = wait


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Take a redirect for the failure that it is: the key is for one host."""

    def redirect_request(self, *_: object) -> None:
        """Follow nothing."""


def _read_wait(header: Callable[[str], str | None]) -> float | None:
    try:
        return max(float(header("Retry-After") or ""), 0.0)
    except ValueError:  # None, or a date.
        return None


def _read_number(environment: Mapping[str, str], name: str, default: float) -> float:
    text = environment.get(name, "")
    try:
        number = float(text) if text else default
    except ValueError:
        number = -1.0
    if not 0 <= number < 1e6:
        raise MissingModelError(f'{name}: cannot be "{text}"; it takes a number of 0 or more')
    return number
