"""The interface of rerankers, a cross-encoder, and rerankers with an HTTP endpoint."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from vaultmem.errors import VaultError
from vaultmem.storage.semantic.embedder import (
    Endpoint,
    MissingModelError,
    ServiceError,
    post_json,
    sanitize_texts,
)
from vaultmem.storage.semantic.local_models import OnnxModel, find_in_folder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


PREFIX = "VAULTMEM_RERANK"


class RerankModel(Protocol):
    """A model that reads a query and a text together and scores how well the text answers."""

    @property
    def name(self) -> str:
        """The model's name for the user."""

    def score(self, question: str, texts: Sequence[str], seconds: float) -> list[float]:
        """Return one score for each text (higher is better) within about `seconds`.

        Raises:
            VaultError: the model cannot be used, or not in this time.
        """


class TooSlowError(VaultError):
    """A reranker exceeded its timeout."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"it took longer than {seconds:g} seconds, the rerank_timeout_seconds of vaultmem.yaml"
        )


# Any service with `POST /rerank`; texts leave this machine.
#
# Sources: Cohere API v2, "Rerank", also in Jina, vLLM and llama.cpp's server: the answer to
# `{model, query, documents}` is `results` of `index` and `relevance_score`. Text Embeddings
# Inference, `/rerank`: the answer to `{query, texts}` (32 texts) is a list of `index` and `score`.

_MAX_BYTES = 16 * 1024 * 1024

#: Most texts that Text Embeddings Inference accepts in a request by default.
_TEXTS = 32

#: Seconds that a socket waits longer than the caller, who reports the timeout.
_EXTRA_SOCKET_SECONDS = 1.0

#: The HTTP code for a request without a required field: then the other form is tried.
_LACKS_FIELD = 422


class RerankService:
    """A reranker that calls one model of a service."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._host = urlsplit(endpoint.base_url).netloc
        self.name = f"{endpoint.model}@{self._host}" if endpoint.model else self._host
        self._takes_texts = False

    def score(self, question: str, texts: Sequence[str], seconds: float) -> list[float]:
        """Return the service's score of each text, in one try.

        Raises:
            VaultError: the service is unreachable, refuses, answers something else, or takes
                longer than `seconds`.
        """
        query, *clean_texts = sanitize_texts([question, *texts])
        outcomes: list[list[float] | ServiceError] = []

        def ask() -> None:
            try:
                outcomes.append(self._ask(query, clean_texts, seconds + _EXTRA_SOCKET_SECONDS))
            except ServiceError as error:
                outcomes.append(error)

        # A socket's timeout does not limit DNS look-ups and answers that drip.
        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        thread.join(seconds)
        if not outcomes:
            raise TooSlowError(seconds)
        if isinstance(outcomes[0], ServiceError):
            reason = f"{outcomes[0].reason}; see {PREFIX}_BASE_URL"
            raise VaultError(f"the service {self._host}: {reason}")
        return outcomes[0]

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


# An ONNX cross-encoder from a folder: it reads query and text as one pair.
#
# Source: sentence-transformers, "CrossEncoder": the one logit of a pair is its score; a model with
# two classes has two, and the second means "answers".

#: The limit of models such as those for MS MARCO; a long query and a passage fit.
_MAX_TOKENS = 512


class CrossEncoder:
    """A reranker with a folder's model and tokenizer, loaded on first use."""

    def __init__(self, folder: Path, variable: str) -> None:
        """Find the files; `variable` is the setting that names the folder.

        Raises:
            MissingModelError: one is missing.
        """
        self.name = folder.resolve().name
        self._model = OnnxModel(*find_in_folder(folder, variable), _MAX_TOKENS)

    def score(self, question: str, texts: Sequence[str], seconds: float) -> list[float]:
        """Return the model's score of each text; after `seconds`, the run is stopped.

        Raises:
            VaultError: the model cannot be used, or not in this time.
        """
        query, *clean_texts = sanitize_texts([question, *texts])
        options = _make_options()
        timer = threading.Timer(seconds, setattr, (options, "terminate", True))
        timer.daemon = True
        timer.start()
        scores = [0.0] * len(texts)
        try:
            for rows, output, _ in self._model.run(
                [(query, text) for text in clean_texts], options
            ):
                for row, score in zip(rows, self._read(output), strict=True):
                    scores[row] = score
        except VaultError:
            raise
        except Exception as error:  # The library's errors have no base class.
            if options.terminate:
                raise TooSlowError(seconds) from None
            reason = str(error).partition("\n")[0][:200]
            raise VaultError(f"{self._model.file}: cannot be used ({reason})") from error
        finally:
            timer.cancel()
        return scores

    def _read(self, output: NDArray[np.float32]) -> list[float]:
        """Return the score of each pair, from its one or two logits."""
        import numpy as np

        logits = output.reshape(len(output), -1)
        if output.ndim > 2 or logits.shape[1] not in {1, 2} or not np.isfinite(logits).all():
            raise MissingModelError(
                f"{self._model.file}: not a cross-encoder; it has not one score for each pair"
            )
        scores: list[float] = (logits[:, -1] - logits[:, 0] * (logits.shape[1] == 2)).tolist()
        return scores


def _make_options() -> Any:
    try:
        import onnxruntime
    except ImportError:
        from vaultmem.storage.user_files import describe_missing

        raise MissingModelError(describe_missing("onnxruntime", "semantic")) from None
    return onnxruntime.RunOptions()
