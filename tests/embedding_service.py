"""A real service on this machine that answers as OpenAI's embeddings do: words as vectors."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

DIMENSIONS = 64

#: Words that this model takes for the same.
SYNONYMS = {"car": "automobile", "cars": "automobile", "money": "cash", "refund": "cash"}


def embed_words(text: str) -> list[float]:
    """Return a vector in which each word has a direction of its own."""
    vector = [0.0] * DIMENSIONS
    for word in text.lower().split():
        word = SYNONYMS.get(word.strip(".,?"), word.strip(".,?"))
        digest = hashlib.sha256(word.encode()).digest()
        for place in digest[:4]:
            vector[place % DIMENSIONS] += 1.0 if digest[5] % 2 else -1.0
    return vector if any(vector) else [1.0] * DIMENSIONS


class EmbeddingService:
    """The server, what it was asked, and what it says next instead of an answer."""

    def __init__(self) -> None:
        self.requests: list[tuple[dict[str, str], dict[str, Any]]] = []
        #: (status, headers, body) to give first, one a request.
        self.failures: list[tuple[int, dict[str, str], bytes]] = []
        self.before_answer: Callable[[], None] = lambda: None
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _make_handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    @property
    def url(self) -> str:
        """The base URL to configure."""
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    @property
    def texts(self) -> list[str]:
        """All texts that it was asked for."""
        return [text for _, body in self.requests for text in body["input"]]

    def environment(self, **more: str) -> dict[str, str]:
        """Return the variables that name this service."""
        return {
            "VAULTMEM_EMBEDDING_BASE_URL": self.url,
            "VAULTMEM_EMBEDDING_MODEL": "words-64",
            **more,
        }

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        """Return status and answer to a request."""
        assert path == "/v1/embeddings"
        rows = [
            {"object": "embedding", "index": index, "embedding": embed_words(text)}
            for index, text in enumerate(body["input"])
        ]
        return 200, {"object": "list", "data": rows[::-1]}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _make_handler(service: EmbeddingService) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            service.requests.append((dict(self.headers), body))
            if service.failures:
                self._answer(*service.failures.pop(0))
                return
            service.before_answer()
            status, answer = service.answer(self.path, body)
            self._answer(status, {}, json.dumps(answer).encode())

        def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
            try:
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
            except OSError:  # Whoever asked was killed meanwhile.
                pass

        def log_message(self, *_: object) -> None:
            pass

    return Handler
