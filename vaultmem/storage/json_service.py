"""Ask a service of the web: JSON is posted, JSON comes back, and the key goes to one host alone.

Redirects are not followed, an answer may neither take for ever nor fill the memory, and no
message holds the key.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from functools import cache
from http.client import HTTPException, HTTPResponse
from typing import Any

from vaultmem.core.safe_text import one_line

#: Answers that a later try may better: busy, too fast, restarting.
_PASSING = frozenset({408, 409, 425, 429, 500, 502, 503, 504})


class ServiceError(Exception):
    """Why there is no answer: `code` is HTTP's, 0 if the service did not refuse by one.

    Another try may better what `may_pass`; `wait` is what the service asks for, in seconds.
    """

    def __init__(
        self, reason: str, code: int = 0, may_pass: bool = False, wait: float | None = None
    ) -> None:
        super().__init__(reason)
        self.reason, self.code, self.may_pass, self.wait = reason, code, may_pass, wait


def post_json(url: str, body: Any, key: str, timeout: float, limit: int) -> Any:
    """Return what a service answers; `key` may be empty.

    Each part of the answer may take `timeout` seconds, and all of it, `limit` bytes at most,
    twice as long.

    Raises:
        ServiceError: it cannot be reached, refuses, or answers something else.
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
            may_pass, wait = error.code in _PASSING, _read_wait(error.headers.get)
            raise ServiceError(_describe(error, key), error.code, may_pass, wait) from error
    except (OSError, HTTPException) as error:
        cause = getattr(error, "reason", error)
        told = _hide(str(cause), key) or type(cause).__name__
        raise ServiceError(f"cannot be reached ({told})", may_pass=True) from error
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise ServiceError("answered no JSON") from None


def _read(response: HTTPResponse, timeout: float, limit: int) -> bytes:
    """Return the answer's bytes, which may come slowly, but not for ever."""
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
    """Return the code, and what the service says in its words where it says so."""
    said = ""
    try:
        message = json.loads(error.read(65_536))["error"]
        said = str(message["message"] if isinstance(message, dict) else message)
    except (OSError, HTTPException, ValueError, LookupError, TypeError, RecursionError):
        pass
    return f"answered {error.code}{f' ({_hide(said, key)})' if said else ''}"


def _hide(text: str, key: str) -> str:
    """Return a short line of a foreign text, without the key should it be in there."""
    return one_line(text.replace(key, "[key]") if key else text)[:200]


def _read_wait(header: Callable[[str], str | None]) -> float | None:
    try:
        return max(float(header("Retry-After") or ""), 0.0)
    except ValueError:  # None, or a date.
        return None


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Take a redirect for the failure that it is: the key is for one host."""

    def redirect_request(self, *_: object) -> None:
        """Follow nothing."""


@cache
def _opener() -> urllib.request.OpenerDirector:
    return urllib.request.build_opener(_NoRedirects)
