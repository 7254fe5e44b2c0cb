"""Commands run in the watcher's process, with output sent to the caller."""

from __future__ import annotations

import contextlib
import io
import os
import queue
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import vaultmem
from vaultmem.cli.opening import cache_vault, run
from vaultmem.cli.start import is_warm, same_settings
from vaultmem.environment import on_behalf, open_named_vault
from vaultmem.storage.lock import READER
from vaultmem.storage.watch_socket import (
    HEARTBEAT_SECONDS,
    MAX_ANSWER,
    MAX_QUESTION,
    SENT,
    Listener,
    read_words,
)
from vaultmem.vault import Vault

# A stream that one thread can redirect for itself.


class DividedStream(io.TextIOBase):
    """A stream whose output one thread can capture for itself."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._mine = threading.local()

    @contextlib.contextmanager
    def capture(self, is_terminal: bool) -> Iterator[io.BytesIO]:
        """Capture this thread's output; `is_terminal` is the result of `isatty` meanwhile."""
        output = io.BytesIO()
        errors = self._stream.errors
        self._mine.stream = io.TextIOWrapper(
            output, self._stream.encoding, errors, newline="", write_through=True
        )
        self._mine.is_terminal = is_terminal
        try:
            yield output
            self._mine.stream.flush()
        finally:
            self._mine.stream.detach()
            self._mine.stream = None

    @property
    def _target(self) -> Any:
        return getattr(self._mine, "stream", None) or self._stream

    @property
    def buffer(self) -> Any:
        """The stream's bytes."""
        return self._target.buffer

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The stream's encoding."""
        return str(self._target.encoding)

    def isatty(self) -> bool:
        """Return whether the stream is the caller's terminal."""
        if getattr(self._mine, "stream", None) is not None:
            return bool(self._mine.is_terminal)
        return bool(self._stream.isatty())

    def write(self, text: str) -> int:
        """Write text."""
        return int(self._target.write(text))

    def flush(self) -> None:
        """Flush the buffer."""
        self._target.flush()


#: Timeout in seconds for a caller to send its request and read the response.
_CALLER_TIMEOUT_SECONDS = 2.0

#: Timeout in seconds for the watcher to see the last change.
_SETTLE_SECONDS = 1.0

#: Timeout in seconds in the queue; the caller then runs the command itself.
_TURN = 0.25

#: Maximum number of concurrent callers; others run their commands themselves.
_MAX_CALLERS = 32

#: Seconds after the start before the commands are imported without a request.
_IMPORT_DELAY_SECONDS = 2.0

#: Maximum digits of a request's length.
_MAX_LENGTH = 20

#: The exit code of wrong usage; its message depends on the caller's terminal.
_USAGE = 2

_Answer = tuple[int, bytes, bytes] | None


class _Command(NamedTuple):
    """A command to run as in the caller's own process."""

    program: str
    at_terminal: bool
    terminals: tuple[bool, bool]
    folder: str
    environment: dict[str, str]
    arguments: list[str]
    stdin: bytes


class WarmServer:
    """A server that runs callers' commands one at a time; agents are passed to `admit`.

    One thread greets callers. Each caller has a thread that reads its request, so that a slow one
    does not delay others. One thread runs the commands.
    """

    def __init__(
        self,
        path: Path,
        root: Path,
        settle: Callable[[float], bool],
        admit: Callable[[socket.socket], None],
    ) -> None:
        self._root = root
        self._admit = admit
        self._resolve: Callable[[], bool] = partial(settle, _SETTLE_SECONDS)
        self._free = threading.Semaphore(_MAX_CALLERS)
        self._listener = Listener(os.fspath(path), _MAX_CALLERS)
        self._out = DividedStream(sys.stdout)
        self._err = DividedStream(sys.stderr)
        self._work: queue.SimpleQueue[tuple[Future[_Answer], list[str]] | None]
        self._work = queue.SimpleQueue()
        self._command: Any = None
        self._vault: Vault | None = None
        self._vault_inode = 0
        self._threads = [
            threading.Thread(target=work, name="answers", daemon=True)
            for work in (self._accept, self._serve)
        ]

    def start(self) -> None:
        """Start answering."""
        sys.stdout, sys.stderr = self._out, self._err
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Stop answering; waiting callers run their commands themselves."""
        self._listener.close()
        self._work.put(None)
        for thread in self._threads:
            thread.join(timeout=_CALLER_TIMEOUT_SECONDS)

    def _accept(self) -> None:
        """Greet each caller at once."""
        while True:
            try:
                connection = self._listener.accept()
            except OSError:
                return
            if not self._free.acquire(blocking=False):
                connection.close()
                continue
            with contextlib.suppress(OSError):
                connection.setblocking(False)
                connection.send(b"\n")
            threading.Thread(target=self._converse, args=[connection], daemon=True).start()

    def _converse(self, connection: socket.socket) -> None:
        """Read one caller's request and send the response; pass agents to `admit`."""
        is_agent = False
        try:
            connection.settimeout(_CALLER_TIMEOUT_SECONDS)
            is_agent = connection.recv(1, socket.MSG_PEEK) == b"{"
            if not is_agent:
                self._answer_command(connection)
        except OSError:
            pass
        finally:
            self._free.release()
        if is_agent:
            self._admit(connection)
        else:
            connection.close()

    def _answer_command(self, connection: socket.socket) -> None:
        answer: _Answer = None
        with contextlib.suppress(ValueError):
            words = self._read_question(connection)
            work: Future[_Answer] = Future()
            self._work.put((work, words))
            answer = _wait(work, connection)
        connection.settimeout(_CALLER_TIMEOUT_SECONDS)
        _send(connection, answer)

    def _serve(self) -> None:
        wait: float | None = _IMPORT_DELAY_SECONDS
        while True:
            try:
                job = self._work.get(timeout=wait)
            except queue.Empty:
                self._load()
                wait = None
                continue
            if job is None:
                break
            work, words = job
            if work.set_running_or_notify_cancel():
                work.set_result(self._answer(words))
        self._release()

    def _load(self) -> Any:
        """Return the commands, importing them on first use."""
        if self._command is None:
            self._command = _load_commands()
        return self._command

    def _open(self) -> None:
        """Open the vault for the commands that run here, unless it is open."""
        inode = os.stat(self._root).st_ino
        if self._vault is not None and inode == self._vault_inode:
            return
        self._release()  # The folder was replaced.
        self._vault = open_named_vault(self._root, patience=READER)
        self._vault_inode = inode
        cache_vault(self._vault, self._resolve)

    def _release(self) -> None:
        if self._vault is not None:
            self._vault.close()
        self._vault = None

    def _read_question(self, connection: socket.socket) -> list[str]:
        """Return the words of a request; raise ValueError if it is for another watcher."""
        version, root, *words = read_words(
            _read_all(connection, time.monotonic() + _CALLER_TIMEOUT_SECONDS)
        )
        if (version, root) != (vaultmem.__version__, str(self._root)):
            raise ValueError("not for this watcher")
        return words

    def _answer(self, words: list[str]) -> _Answer:
        """Run a command as in the caller's process, and capture its streams."""
        try:
            if words == ["settle"]:
                return (0, b"", b"") if self._resolve() else None
            request = _read_command(words)
            command = self._load()
            self._open()
            with (
                on_behalf(
                    _complete(request.environment, self._root), request.at_terminal, request.folder
                ),
                _input(request.stdin),
                self._out.capture(request.terminals[0]) as out,
                self._err.capture(request.terminals[1]) as err,
            ):
                code = run(lambda: command.main(args=request.arguments, prog_name=request.program))
        except Exception:  # noqa: BLE001 - the caller sees the error by running the command itself.
            return None
        return None if code == _USAGE else (code, out.getvalue(), err.getvalue())


def _load_commands() -> Any:
    """Return the commands, with all modules that they import at run time."""
    from vaultmem.cli.app import build_commands
    from vaultmem.core.search import ranking  # noqa: F401
    from vaultmem.services.hooks import answer  # noqa: F401
    from vaultmem.services.search import recall  # noqa: F401
    from vaultmem.services.views import open_view, read_notes  # noqa: F401

    return build_commands()


def _read_command(words: list[str]) -> _Command:
    """Return the command of a request that `make_words` made.

    Raises:
        ValueError: the result could differ from that in the caller's process.
    """
    kind, *words = words
    input_data = os.fsencode(words.pop(0)) if kind == "tell" else b""
    program, terminals, folder, *rest = words
    own = same_settings()
    settings, count, rest = rest[: len(own)], int(rest[len(own)]), rest[len(own) + 1 :]
    variables, arguments = rest[:count], rest[count:]
    if kind not in {"run", "tell"} or settings != own or len(terminals) != 3:
        raise ValueError("other settings")
    if not is_warm(arguments):
        raise ValueError("not a command that is answered here")
    environment = dict(each.split("=", 1) for each in variables)
    at_terminal, *streams = (each == "1" for each in terminals)
    outputs = (streams[0], streams[1])
    return _Command(program, at_terminal, outputs, folder, environment, arguments, input_data)


def _read_all(connection: socket.socket, end: float) -> bytes:
    """Return the bytes of a request; all must arrive before `end` (monotonic).

    Raises:
        ValueError: their number differs from the announced length.
        TimeoutError: they arrive too slowly.
    """
    data, size = b"", -1
    while size < 0 or len(data) < size:
        connection.settimeout(max(end - time.monotonic(), 0.001))
        part = connection.recv(65_536)
        data += part
        if size < 0 and (b"\n" in data or len(data) >= _MAX_LENGTH):
            length, _, data = data.partition(b"\n")
            size = int(length) if length.isdigit() else MAX_QUESTION + 1
        if not part or size > MAX_QUESTION:
            raise ValueError("no question")
    if len(data) != size:
        raise ValueError("no question")
    return data


def _wait(work: Future[_Answer], connection: socket.socket) -> _Answer:
    """Return the response; until then, send heartbeats to the caller.

    Raises:
        ValueError: other commands take too long.
    """
    end = time.monotonic() + _TURN
    while True:
        with contextlib.suppress(TimeoutError):
            return work.result(HEARTBEAT_SECONDS)
        if time.monotonic() > end and work.cancel():
            raise ValueError("it is not their turn")
        connection.sendall(b"\n")


def _send(connection: socket.socket, answer: _Answer) -> None:
    if answer is None or len(answer[1]) + len(answer[2]) > MAX_ANSWER:
        connection.sendall(b"-\n")
        return
    code, out, err = answer
    connection.sendall(b"%d %d %d\n%s%s" % (code, len(out), len(err), out, err))


@contextlib.contextmanager
def _input(data: bytes) -> Iterator[None]:
    """Set the caller's standard input for the command; no other thread reads it here."""
    old_stdin = sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(data))
    try:
        yield
    finally:
        sys.stdin = old_stdin


def _complete(variables: dict[str, str], root: Path) -> dict[str, str]:
    """Return a caller's environment: the sent variables and those that are equal here."""
    own = {k: v for k, v in os.environ.items() if not k.startswith("VAULTMEM_") and k not in SENT}
    return {**own, **variables, "VAULTMEM_VAULT": str(root)}
