"""A real service on this machine that answers `/rerank`, in either form that services have."""

from __future__ import annotations

from typing import Any

from embedding_service import EmbeddingService

#: What each text counts for: the number behind this word in it.
MARK = "worth"


def score_text(text: str) -> float:
    """Return the number that a text says it is worth, else 0."""
    words = text.split()
    return float(words[words.index(MARK) + 1].strip(".,")) if MARK in words else 0.0


class RerankingService(EmbeddingService):
    """The server; with `takes_texts` it has the form of Text Embeddings Inference."""

    takes_texts = False

    @property
    def texts(self) -> list[str]:
        """All texts that it was asked for."""
        return [
            text
            for _, body in self.requests
            for text in body.get("texts", body.get("documents", ()))
        ]

    def environment(self, **more: str) -> dict[str, str]:
        """Return the variables that name this service."""
        return {"VAULTMEM_RERANK_BASE_URL": self.url, **more}

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        """Return status and answer to a request; best first, as services have it."""
        assert path == "/v1/rerank"
        given = body.get("texts" if self.takes_texts else "documents")
        if given is None:
            return 422, {"error": "a field is missing"}
        if self.takes_texts and len(given) > 32:
            return 413, {"error": "batch size > maximum allowed batch size 32"}
        scores = sorted(enumerate(map(score_text, given)), key=lambda row: -row[1])
        if self.takes_texts:
            return 200, [{"index": index, "score": score} for index, score in scores]
        rows = [{"index": index, "relevance_score": score} for index, score in scores]
        return 200, {"id": "r-1", "results": rows}
