"""Any service that answers `POST /rerank`; texts leave this machine.

Sources: Cohere API v2, "Rerank", as Jina, vLLM and llama.cpp's server have it too: `{model, query,
documents}` is answered with `results` of `index` and `relevance_score`. Text Embeddings Inference,
`/rerank`: `{query, texts}`, 32 at once, is answered with a list of `index` and `score`.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from vaultmem.errors import VaultError
from vaultmem.storage.embedding.embedder import clean_texts
from vaultmem.storage.embedding.endpoint import Endpoint
from vaultmem.storage.json_service import ServiceError, post_json
from vaultmem.storage.reranking.rerank_model import PREFIX, TooSlowError

_MAX_BYTES = 16 * 1024 * 1024

#: Texts that Text Embeddings Inference takes at once where nobody told it otherwise.
_TEXTS = 32

#: Seconds that a socket may wait longer than whoever asks, who says then what happened.
_SPARE = 1.0

#: How a service refuses a request that lacks a field; so one learns which of the two forms it has.
_LACKS_FIELD = 422


class RerankService:
    """One service and model."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._host = urlsplit(endpoint.base_url).netloc
        self.name = f"{endpoint.model}@{self._host}" if endpoint.model else self._host
        self._takes_texts = False

    def score(self, question: str, texts: Sequence[str], seconds: float) -> list[float]:
        """Return the service's score of each text; nothing is tried twice.

        Raises:
            VaultError: the service cannot be reached, refuses, answers something else, or not in
                that time.
        """
        asked, *cleaned = clean_texts([question, *texts])
        found: list[list[float] | ServiceError] = []

        def ask() -> None:
            try:
                found.append(self._ask(asked, cleaned, seconds + _SPARE))
            except ServiceError as error:
                found.append(error)

        # Looking a name up, and an answer that drips, heed no timeout of a socket.
        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        thread.join(seconds)
        if not found:
            raise TooSlowError(seconds)
        if isinstance(found[0], ServiceError):
            reason = f"{found[0].reason}; see {PREFIX}_BASE_URL"
            raise VaultError(f"the service {self._host}: {reason}")
        return found[0]

    def _ask(self, question: str, texts: list[str], seconds: float) -> list[float]:
        if self._takes_texts:
            return self._ask_by_texts(question, texts, seconds)
        body = {"model": self._endpoint.model, "query": question, "documents": texts}
        try:
            return self._post({k: v for k, v in body.items() if v}, len(texts), seconds)
        except ServiceError as refused:
            if refused.code != _LACKS_FIELD:
                raise
            try:
                scores = self._ask_by_texts(question, texts, seconds)
            except ServiceError as error:
                raise (refused if error.code == _LACKS_FIELD else error) from None
        self._takes_texts = True
        return scores

    def _ask_by_texts(self, question: str, texts: list[str], seconds: float) -> list[float]:
        scores: list[float] = []
        for start in range(0, len(texts), _TEXTS):
            part = texts[start : start + _TEXTS]
            body = {"query": question, "texts": part, "truncate": True}
            scores += self._post(body, len(part), seconds)
        return scores

    def _post(self, body: Mapping[str, Any], count: int, seconds: float) -> list[float]:
        url = f"{self._endpoint.base_url}/rerank"
        answer = post_json(url, body, self._endpoint.key, seconds, _MAX_BYTES)
        try:
            rows = answer["results"] if isinstance(answer, dict) else answer
            name = "score" if "score" in rows[0] else "relevance_score"
            scores = {int(row["index"]): float(row[name]) for row in rows}
        except (LookupError, TypeError, ValueError, OverflowError):
            raise ServiceError("answered no scores") from None
        if sorted(scores) != list(range(count)) or not all(map(math.isfinite, scores.values())):
            raise ServiceError(f"answered {len(scores)} scores for {count} texts")
        return [scores[number] for number in range(count)]
