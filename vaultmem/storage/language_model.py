"""A language model behind an OpenAI-compatible endpoint: one question, one answer.

Source: OpenAI API reference, "Create chat completion".
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from vaultmem.errors import VaultError
from vaultmem.storage.json_service import ServiceError, post_json

_BASE_URL = "VAULTMEM_LLM_BASE_URL"
_MODEL = "VAULTMEM_LLM_MODEL"
_KEY = "VAULTMEM_LLM_API_KEY"
_TIMEOUT = 30.0
_MAX_BYTES = 4 * 1024 * 1024


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
    url, key = f"{base.rstrip('/')}/chat/completions", environment.get(_KEY, "")
    try:
        found = post_json(url, asked, key, _TIMEOUT, _MAX_BYTES)
        return str(found["choices"][0]["message"]["content"])
    except ServiceError as error:
        if error.code:
            raise VaultError(f"the model's service answered {error.code}") from None
        if error.may_pass:
            told = type(error.__cause__).__name__
            raise VaultError(f"the model's service does not answer ({told})") from None
    except (ValueError, LookupError, TypeError):
        pass
    raise VaultError("the model's service answered something else")
