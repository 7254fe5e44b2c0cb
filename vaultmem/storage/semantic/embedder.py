"""The interface of embedding models, and models with an HTTP endpoint."""

from __future__ import annotations

import importlib.util
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from vaultmem.core.text.display import one_line
from vaultmem.errors import VaultError
from vaultmem.storage.user_files import describe_missing

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Embedder(Protocol):
    """A model that turns texts into vectors whose dot product is their similarity."""

    @property
    def name(self) -> str:
        """The model and its version; only vectors of the same name are comparable."""

    @property
    def weight(self) -> float:
        """The share of the keyword score in the combined score, 0 to 1."""

    @property
    def batch(self) -> int:
        """The best number of texts for one call; an interruption loses at most these."""

    @property
    def is_quick(self) -> bool:
        """Whether thousands of texts take only a second, so that a caller can wait for them."""

    def embed(self, texts: Sequence[str], patient: bool = True) -> NDArray[np.float32]:
        """Return one vector of length 1 for each text (shape: texts, dimensions).

        A text without words has a vector of zeros. Without `patient`, a service gets one try of a
        few seconds.

        Raises:
            VaultError: the model cannot be used, or not in this time.
        """


class MissingModelError(VaultError):
    """A model's package, file or setting is missing; the message explains how to add it."""


def find_shipped(package: str, *names: str) -> Path | None:
    """Return a file that an installed package ships, without importing the package."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return None
    if spec is None or not spec.origin:
        return None
    file = Path(spec.origin).parent.joinpath(*names)
    return file if file.is_file() else None


def import_tokenizers() -> Any:
    """Return the `tokenizers` library.

    Raises:
        MissingModelError: it is not installed.
    """
    try:
        import tokenizers
    except ImportError:
        raise MissingModelError(describe_missing("tokenizers", "semantic-static")) from None
    return tokenizers


def sanitize_texts(texts: Sequence[str]) -> list[str]:
    """Return the texts with lone surrogates replaced, so that UTF-8 can encode them."""
    return [text if text.isascii() else text.encode("utf-8", "replace").decode() for text in texts]


def scale_rows(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return each row with length 1; a row of zeros is unchanged."""
    import numpy as np

    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    result: NDArray[np.float32] = (vectors / np.maximum(lengths, 1e-12)).astype(np.float32)
    return result


# Post JSON to a web service, and read JSON.
#
# The key is sent to one host only: redirects are not followed, and messages never contain the key.
# Time and size of an answer are limited.

#: HTTP codes for which a later try can succeed: busy, too fast, restarting.
_RETRYABLE_STATUSES = frozenset({408, 409, 425, 429, 500, 502, 503, 504})


class ServiceError(Exception):
    """A failed request: `code` is the HTTP code, 0 if the service sent none.

    If `may_pass`, another try can succeed; `wait` is the pause that the service asks for, seconds.
    """

    def __init__(
        self, reason: str, code: int = 0, may_pass: bool = False, wait: float | None = None
    ) -> None:
        super().__init__(reason)
        self.reason, self.code, self.may_pass, self.wait = reason, code, may_pass, wait


def post_json(url: str, body: Any, key: str, timeout: float, limit: int) -> Any:
    """Return the JSON that a service answers; `key` can be empty.

    Each part of the answer can take `timeout` seconds, the whole (at most `limit` bytes) twice as
    long.

    Raises:
        ServiceError: the service is unreachable, refuses, or answers without JSON.
    """
    headers = {"Content-Type": "application/json", "User-Agent": "vaultmem"}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    data = json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers, method="POST")  # noqa: S310
    try:
        with _opener().open(request, timeout=timeout) as response:
            text = _read(response, timeout, limit)
    except urllib.error.HTTPError as error:
        with error:
            may_pass, wait = error.code in _RETRYABLE_STATUSES, _read_wait(error.headers.get)
            raise ServiceError(_describe(error, key), error.code, may_pass, wait) from error
    except (OSError, HTTPException) as error:
        cause = getattr(error, "reason", error)
        reason = _hide(str(cause), key) or type(cause).__name__
        raise ServiceError(f"cannot be reached ({reason})", may_pass=True) from error
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise ServiceError("answered no JSON") from None


def _read(response: HTTPResponse, timeout: float, limit: int) -> bytes:
    """Return the answer's bytes, within `limit` bytes and twice `timeout` seconds."""
    end = time.monotonic() + 2 * timeout
    parts: list[bytes] = []
    size = 0
    while part := response.read1(1 << 20):
        parts.append(part)
        size += len(part)
        if size > limit:
            raise ServiceError("answered too much")
        if time.monotonic() > end:
            raise TimeoutError("the answer took too long")
    return b"".join(parts)


def _describe(error: urllib.error.HTTPError, key: str) -> str:
    """Return a text with the HTTP code and the service's own error message, if it has one."""
    reason = ""
    try:
        message = json.loads(error.read(65_536))["error"]
        reason = str(message["message"] if isinstance(message, dict) else message)
    except (OSError, HTTPException, ValueError, LookupError, TypeError, RecursionError):
        pass
    return f"answered {error.code}{f' ({_hide(reason, key)})' if reason else ''}"


def _hide(text: str, key: str) -> str:
    """Return a service's text as one short line without the key."""
    return one_line(text.replace(key, "[key]") if key else text)[:200]


def _read_wait(header: Callable[[str], str | None]) -> float | None:
    try:
        return max(float(header("Retry-After") or ""), 0.0)
    except ValueError:  # None, or a date.
        return None


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A handler that makes each redirect an error: the key is for one host."""

    def redirect_request(self, *_: object) -> None:
        """Return None, so that the redirect is not followed."""


@cache
def _opener() -> urllib.request.OpenerDirector:
    return urllib.request.build_opener(_NoRedirects)


# Any service with OpenAI's `POST /embeddings`; texts leave this machine.
#
# Source: OpenAI API reference, "Create embeddings".

_BASE_URL = "VAULTMEM_EMBEDDING_BASE_URL"
_MODEL = "VAULTMEM_EMBEDDING_MODEL"

_MAX_BYTES = 256 * 1024 * 1024
_LONGEST_WAIT = 60.0

#: Timeout in seconds while a user waits.
_INTERACTIVE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A service's address and limits.

    `timeout` and `pause` (before the second try) are seconds; `rate` is requests a minute, 0 for
    no limit.
    """

    base_url: str
    model: str
    key: str = field(default="", repr=False)
    timeout: float = 30.0
    tries: int = 5
    rate: float = 0.0
    pause: float = 0.5


def read_endpoint(environment: Mapping[str, str]) -> Endpoint:
    """Return the endpoint that the VAULTMEM_EMBEDDING_* variables describe.

    Raises:
        MissingModelError: base URL or model are missing, or a variable is invalid.
    """
    address = read_address(environment, "VAULTMEM_EMBEDDING")
    if not address.model:
        raise MissingModelError(f"no embedding model is named; set {_BASE_URL} and {_MODEL}")
    timeout = _read_number(environment, "VAULTMEM_EMBEDDING_TIMEOUT", 30.0)
    rate = _read_number(environment, "VAULTMEM_EMBEDDING_RATE", 0.0)
    return replace(address, timeout=timeout, rate=rate)


def read_address(environment: Mapping[str, str], prefix: str) -> Endpoint:
    """Return the endpoint of the variables `prefix` + _BASE_URL, _MODEL ("" if unset), _API_KEY.

    Raises:
        MissingModelError: the base URL is missing or not of HTTP(S), or the key is invalid.
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
    """An embedder that calls one model of a service, at the endpoint's rate."""

    weight = 0.5
    batch = 64
    is_quick = False

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self.name = f"{endpoint.model}@{urlsplit(endpoint.base_url).netloc}"
        self._next = 0.0

    def embed(self, texts: Sequence[str], patient: bool = True) -> NDArray[np.float32]:
        """Return the service's vectors, scaled to length 1.

        Raises:
            VaultError: the service is unreachable, refuses, or answers something else.
        """
        import numpy as np

        if not patient:
            timeout = min(self._endpoint.timeout, _INTERACTIVE_SECONDS)
            hasty = replace(self._endpoint, timeout=timeout, tries=1, rate=0.0)
            return EndpointEmbedder(hasty).embed(texts)
        if not texts:
            return np.zeros((0, 0), np.float32)
        inputs = [
            text if text.strip() else "-" for text in sanitize_texts(texts)
        ]  # Services refuse blanks.
        answer = self._ask({"model": self._endpoint.model, "input": inputs})
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
        """Return the service's answer; after a temporary error, wait and try again."""
        endpoint = self._endpoint
        url, pause = f"{endpoint.base_url}/embeddings", endpoint.pause
        for tries_left in range(endpoint.tries - 1, -1, -1):
            self._wait_for_turn()
            try:
                return post_json(url, body, endpoint.key, endpoint.timeout, _MAX_BYTES)
            except ServiceError as error:
                if not tries_left or not error.may_pass:
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
