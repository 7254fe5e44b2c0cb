"""Answer commands in the watcher's process: the same command code, with everything loaded."""

from __future__ import annotations

import contextlib
import io
import json
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import vaultmem
from vaultmem.cli.options import keep_warm
from vaultmem.cli.start import ENVIRONMENT, MAX_QUESTION, WARM_COMMANDS, connect, find_command
from vaultmem.vault import open_vault

#: Seconds that a caller may take to ask, and the watcher to see the last change.
_PATIENCE = 2.0


class WarmServer:
    """Answers one caller after the other, in a thread of its own, until it is closed."""

    def __init__(self, path: Path, root: Path, settle: Callable[[float], bool]) -> None:
        self._path = path
        self._root = root
        self._settle = settle
        self._socket = _listen(path)
        self._out = _Divided(sys.stdout)
        self._err = _Divided(sys.stderr)
        self._thread = threading.Thread(target=self._serve, name="answers", daemon=True)

    def start(self) -> None:
        """Begin to answer."""
        sys.stdout, sys.stderr = self._out, self._err
        self._thread.start()

    def close(self) -> None:
        """Answer nobody any more; whoever waits runs the command by itself."""
        with contextlib.suppress(OSError):
            self._path.unlink()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(timeout=_PATIENCE)

    def _serve(self) -> None:
        vault = open_vault(self._root)
        keep_warm(vault, lambda: self._settle(_PATIENCE))
        command = _load_commands()
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                break
            with connection, contextlib.suppress(OSError):
                connection.settimeout(_PATIENCE)
                question = _read_question(connection)
                if question is None or question["root"] != str(self._root):
                    _send(connection, None)
                    continue
                connection.settimeout(None)
                _send(connection, *self._answer(command, question))
        vault.close()

    def _answer(self, command: Any, question: dict[str, Any]) -> tuple[int, bytes, bytes]:
        """Run the command as a process of its own would, with its streams kept."""
        with (
            _environment(question["environment"], self._root),
            self._out.kept(question["terminal"][0]) as out,
            self._err.kept(question["terminal"][1]) as err,
        ):
            from vaultmem.cli.app import run

            words, name = question["arguments"], question["name"]
            code = run(lambda: command.main(args=words, prog_name=name))
        return code, out.getvalue(), err.getvalue()


class _Divided(io.TextIOBase):
    """A stream that goes where it always went, but for one thread's that is kept."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._mine = threading.local()

    @contextlib.contextmanager
    def kept(self, is_terminal: bool) -> Iterator[io.BytesIO]:
        """Keep what this thread writes; `is_terminal` is what it is told of the stream."""
        kept = io.BytesIO()
        self._mine.stream = io.TextIOWrapper(kept, "utf-8", newline="", write_through=True)
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


def _load_commands() -> Any:
    """Return the commands with everything that they import while they run."""
    from vaultmem.cli.app import build_commands
    from vaultmem.core.finding import ranking  # noqa: F401
    from vaultmem.services.finding import look, pack, recall, receipts  # noqa: F401
    from vaultmem.services.notes import read  # noqa: F401

    return build_commands()


def _listen(path: Path) -> socket.socket:
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    found = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        connect(_Binder(found), os.fspath(path))
    finally:
        os.umask(before)
    found.listen(64)
    return found


class _Binder:
    """Lets `connect` find the way to a long path, and binds there."""

    def __init__(self, found: socket.socket) -> None:
        self._found = found

    def connect(self, path: str) -> None:
        """Bind."""
        self._found.bind(path)


def _read_question(connection: socket.socket) -> dict[str, Any] | None:
    """Return what is asked, None if it is not for this version or nothing to be answered."""
    data = b""
    while not data.endswith(b"\n"):
        part = connection.recv(65_536)
        data += part
        if not part or len(data) > MAX_QUESTION:
            return None
    try:
        question: dict[str, Any] = json.loads(data)
        good = question["version"] == vaultmem.__version__
        words = [str(word) for word in question["arguments"]]
        shaped = {"root", "name", "environment", "terminal"} <= question.keys()
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return question if good and shaped and find_command(words) in WARM_COMMANDS else None


def _send(connection: socket.socket, code: int | None, out: bytes = b"", err: bytes = b"") -> None:
    head = {"code": code, "sizes": [len(out), len(err)]}
    connection.sendall(json.dumps(head).encode() + b"\n" + out + err)


@contextlib.contextmanager
def _environment(given: dict[str, str], root: Path) -> Iterator[None]:
    """Give the command its caller's settings, for as long as it runs."""
    names = {name for name in os.environ if name.startswith("VAULTMEM_")} | set(ENVIRONMENT)
    kept = {name: os.environ.pop(name) for name in names if name in os.environ}
    os.environ.update({str(name): str(value) for name, value in given.items()})
    os.environ["VAULTMEM_VAULT"] = str(root)
    try:
        yield
    finally:
        for name in [*given, "VAULTMEM_VAULT"]:
            os.environ.pop(name, None)
        os.environ.update(kept)
