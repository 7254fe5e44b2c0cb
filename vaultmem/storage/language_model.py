"""A language model behind an OpenAI-compatible endpoint: one question, one answer.

Source: OpenAI API reference, "Create chat completion". The key goes to that host and nowhere else.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from urllib.parse import urlsplit

from vaultmem.errors import VaultError

_BASE_URL = "VAULTMEM_LLM_BASE_URL"
_MODEL = "VAULTMEM_LLM_MODEL"
_KEY = "VAULTMEM_LLM_API_KEY"
_TIMEOUT = 30.0
_MAX_BYTES = 4 * 1024 * 1024


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        """Follow nobody elsewhere: the key is for one host."""


def ask_model(instruction: str, text: str, environment: Mapping[str, str]) -> str:
    """Return what the model answers to a text.

    Raises:
        VaultError: no model is named, or it does not answer; the message never holds the key.
    """
    base, model = environment.get(_BASE_URL, ""), environment.get(_MODEL, "")
    if not base or not model:
        raise VaultError(f"no model is named; set ${_BASE_URL} and ${_MODEL}")
    if urlsplit(base).scheme not in {"http", "https"}:
        raise VaultError(f"${_BASE_URL}: not a URL of the web")
    messages = [{"role": "system", "content": instruction}, {"role": "user", "content": text}]
    asked = {"model": model, "messages": messages, "temperature": 0}
    request = urllib.request.Request(  # noqa: S310  Its scheme was looked at.
        f"{base.rstrip('/')}/chat/completions",
        json.dumps(asked).encode(),
        {"Content-Type": "application/json"},
    )
    if key := environment.get(_KEY, ""):
        request.add_header("Authorization", f"Bearer {key}")
    try:
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=_TIMEOUT) as answer:
            found = json.loads(answer.read(_MAX_BYTES))
        return str(found["choices"][0]["message"]["content"])
    except urllib.error.HTTPError as error:
        raise VaultError(f"the model's service answered {error.code}") from None
    except (OSError, HTTPException) as error:
        raise VaultError(f"the model's service does not answer ({type(error).__name__})") from None
    except (ValueError, KeyError, IndexError, TypeError):
        raise VaultError("the model's service answered something else") from None
