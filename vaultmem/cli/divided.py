"""A stream that goes where it always went, but for one thread's, which is kept."""

from __future__ import annotations

import contextlib
import io
import threading
from collections.abc import Iterator
from typing import Any


class DividedStream(io.TextIOBase):
    """A stream that goes where it always went, but for one thread's that is kept."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._mine = threading.local()

    @contextlib.contextmanager
    def kept(self, is_terminal: bool) -> Iterator[io.BytesIO]:
        """Keep what this thread writes; `is_terminal` is what the stream says of itself."""
        kept = io.BytesIO()
        errors = self._stream.errors
        self._mine.stream = io.TextIOWrapper(
            kept, self._stream.encoding, errors, newline="", write_through=True
        )
        self._mine.is_terminal = is_terminal
        try:
            yield kept
            self._mine.stream.flush()
        finally:
            self._mine.stream.detach()
            self._mine.stream = None

    @property
    def _target(self) -> Any:
        return getattr(self._mine, "stream", None) or self._stream

    @property
    def buffer(self) -> Any:
        """The bytes below the text."""
        return self._target.buffer

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """How text becomes bytes."""
        return str(self._target.encoding)

    def isatty(self) -> bool:
        """Tell whether the stream is the caller's terminal."""
        if getattr(self._mine, "stream", None) is not None:
            return bool(self._mine.is_terminal)
        return bool(self._stream.isatty())

    def write(self, text: str) -> int:
        """Write text."""
        return int(self._target.write(text))

    def flush(self) -> None:
        """Pass on what is buffered."""
        self._target.flush()
