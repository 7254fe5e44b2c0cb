"""A model on this machine that says one thing, for clients that are run without an account.

It answers in the dialects of Anthropic's messages, OpenAI's responses and chat completions, and
Gemini's contents, and keeps what it was asked.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SAID = "Understood and noted."

_TEXT = {"type": "text", "text": SAID}
_USAGE = {"input_tokens": 1, "output_tokens": 1}
_MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [_TEXT],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": _USAGE,
}
_ITEM = {
    "type": "message",
    "id": "i-1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": SAID, "annotations": []}],
}
_RESPONSE = {"id": "r-1", "object": "response", "status": "completed", "output": [_ITEM]}
_CHUNK = {"id": "c-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
_GEMINI = {
    "candidates": [
        {"content": {"role": "model", "parts": [{"text": SAID}]}, "finishReason": "STOP"}
    ],
    "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
}

#: What each dialect sends, by the end of its path.
_STREAMS: dict[str, list[dict[str, Any]]] = {
    "/messages": [
        {"type": "message_start", "message": {**_MESSAGE, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": SAID},
        },
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": _USAGE},
        {"type": "message_stop"},
    ],
    "/responses": [
        {"type": "response.created", "response": {**_RESPONSE, "output": []}},
        {"type": "response.output_item.done", "output_index": 0, "item": _ITEM},
        {
            "type": "response.completed",
            "response": {**_RESPONSE, "usage": {**_USAGE, "total_tokens": 2}},
        },
    ],
    "/chat/completions": [
        {**_CHUNK, "choices": [{"index": 0, "delta": {"role": "assistant", "content": SAID}}]},
        {**_CHUNK, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    ],
    ":streamGenerateContent": [_GEMINI],
}


class Model(ThreadingHTTPServer):
    """Answers on a port of this machine; `asked` are the requests, oldest first."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        """Return where it is."""
        return f"http://127.0.0.1:{self.server_port}"


@contextmanager
def serve_model() -> Iterator[Model]:
    """Serve the model until the block ends."""
    with Model() as model:
        thread = threading.Thread(target=model.serve_forever, daemon=True)
        thread.start()
        yield model
        model.shutdown()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Model

    def log_message(self, format: str, *args: object) -> None:
        return

    def do_GET(self) -> None:
        self._send("application/json", json.dumps({"data": [], "models": []}))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        self.server.asked.append(body)
        path = self.path.partition("?")[0]
        stream = next((told for end, told in _STREAMS.items() if path.endswith(end)), None)
        if stream is None:
            self._send("application/json", json.dumps({"totalTokens": 1, "input_tokens": 1}))
        elif path.endswith("/messages") and not json.loads(body).get("stream"):
            self._send("application/json", json.dumps(_MESSAGE))
        else:
            named = path.endswith(("/messages", "/responses"))
            parts = [
                (f"event: {told['type']}\n" if named else "") + f"data: {json.dumps(told)}\n\n"
                for told in stream
            ]
            done = "data: [DONE]\n\n" if path.endswith("/completions") else ""
            self._send("text/event-stream", "".join(parts) + done)

    def _send(self, kind: str, text: str) -> None:
        data = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
