"""Answer commands in the watcher's process: the same command code, with everything loaded."""

from __future__ import annotations

import contextlib
import io
import os
import queue
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import vaultmem
from vaultmem.cli.opening import keep_warm, run
from vaultmem.cli.start import SAME, SENT, is_warm, same_settings
from vaultmem.environment import open_named_vault
from vaultmem.errors import VaultError
from vaultmem.storage.watch_socket import MAX_ANSWER, MAX_QUESTION, read_words, short_path
from vaultmem.vault import Vault

#: Seconds that a caller may take to ask and to listen, and the watcher to see the last change.
_PATIENCE = 2.0

#: Callers that wait; more run their commands by themselves.
_WAITING = 32

#: The exit code of wrong usage, which depends on how wide the caller's terminal is.
_USAGE = 2

_Answer = tuple[int, bytes, bytes] | None


class _Command(NamedTuple):
    """A command that somebody wants to be run: as in a process of their own."""

    program: str
    terminals: tuple[bool, bool]
    environment: dict[str, str]
    arguments: list[str]
    given: bytes


class WarmServer:
    """Answers one caller after the other, in threads of its own, until it is closed."""

    def __init__(self, path: Path, root: Path, settle: Callable[[float], bool]) -> None:
        self._path = path
        self._root = root
        self._settle: Callable[[], bool] = partial(settle, _PATIENCE)
        self._waiting: queue.Queue[socket.socket | None] = queue.Queue(_WAITING)
        self._socket = _listen(path)
        self._inode = os.stat(path).st_ino
        self._out = _Divided(sys.stdout)
        self._err = _Divided(sys.stderr)
        self._threads = [
            threading.Thread(target=work, name="answers", daemon=True)
            for work in (self._accept, self._serve)
        ]

    def start(self) -> None:
        """Begin to answer."""
        sys.stdout, sys.stderr = self._out, self._err
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Answer nobody any more; whoever waits runs the command by itself."""
        with contextlib.suppress(OSError):
            if os.stat(self._path).st_ino == self._inode:
                self._path.unlink()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for thread in self._threads:
            thread.join(timeout=_PATIENCE)

    def _accept(self) -> None:
        """Tell each caller at once that somebody is there."""
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                break
            try:
                connection.settimeout(_PATIENCE)
                connection.sendall(b"\n")
                self._waiting.put_nowait(connection)
            except (OSError, queue.Full):
                connection.close()
        self._waiting.put(None)

    def _serve(self) -> None:
        command = _load_commands()
        vault: Vault | None = None
        inode = 0
        while (connection := self._waiting.get()) is not None:
            with connection, contextlib.suppress(OSError):
                answer: _Answer = None
                with contextlib.suppress(OSError, VaultError, ValueError, IndexError):
                    words = self._read_question(connection)
                    here = os.stat(self._root).st_ino
                    if vault is None or here != inode:  # Another folder may stand there now.
                        vault, inode = self._open(vault), here
                    answer = self._answer(command, words)
                _send(connection, answer)
        if vault is not None:
            vault.close()

    def _open(self, before: Vault | None) -> Vault:
        """Open the vault, to be used by every command that is run here."""
        if before is not None:
            before.close()
        vault = open_named_vault(self._root)
        keep_warm(vault, self._settle)
        return vault

    def _read_question(self, connection: socket.socket) -> list[str]:
        """Return the words of what is asked.

        Raises:
            ValueError: it is not for this version and vault, or no question.
        """
        with connection.makefile("rb") as question:
            size = int(question.readline(20))
            data = question.read(size) if 0 <= size <= MAX_QUESTION else b""
        version, root, *words = read_words(data)
        if len(data) != size or (version, root) != (vaultmem.__version__, str(self._root)):
            raise ValueError("not for this watcher")
        return words

    def _answer(self, command: Any, words: list[str]) -> _Answer:
        """Run the command as a process of its own would, with its streams kept."""
        if words == ["settle"]:
            return (0, b"", b"") if self._settle() else None
        wanted = _read_command(words)
        try:
            with (
                _environment(wanted.environment, self._root),
                _input(wanted.given),
                self._out.kept(wanted.terminals[0]) as out,
                self._err.kept(wanted.terminals[1]) as err,
            ):
                code = run(lambda: command.main(args=wanted.arguments, prog_name=wanted.program))
        except Exception:  # noqa: BLE001 - a defect is the caller's to see, not the watcher's end.
            return None
        return None if code == _USAGE else (code, out.getvalue(), err.getvalue())


class _Divided(io.TextIOBase):
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


def _load_commands() -> Any:
    """Return the commands with everything that they import while they run."""
    from vaultmem.cli.app import build_commands
    from vaultmem.core.finding import ranking  # noqa: F401
    from vaultmem.services.finding import pack, recall, receipts  # noqa: F401
    from vaultmem.services.hooks import answer  # noqa: F401
    from vaultmem.services.reading import look, read_notes  # noqa: F401

    return build_commands()


def _listen(path: Path) -> socket.socket:
    path.unlink(missing_ok=True)
    found = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        with short_path(os.fspath(path)) as short:
            found.bind(short)
        found.listen(_WAITING)
    except OSError:
        found.close()
        raise
    finally:
        os.umask(before)
    return found


def _read_command(words: list[str]) -> _Command:
    """Return the command that these words ask for, as `make_words` has them.

    Raises:
        ValueError: the answer here might not be that of a process of the caller's own.
    """
    kind, *words = words
    given = os.fsencode(words.pop(0)) if kind == "tell" else b""
    program, terminals, *rest = words
    settings, count, rest = rest[: len(SAME)], int(rest[len(SAME)]), rest[len(SAME) + 1 :]
    sent, arguments = rest[:count], rest[count:]
    if kind not in {"run", "tell"} or settings != same_settings() or len(terminals) != 2:
        raise ValueError("other settings")
    # Help is as wide as the caller's terminal, which is not known here.
    if not is_warm(arguments) or {"--help", "-h"} & set(arguments):
        raise ValueError("not a command that is answered here")
    environment = dict(each.split("=", 1) for each in sent)
    is_terminal = (terminals[0] == "1", terminals[1] == "1")
    return _Command(program, is_terminal, environment, arguments, given)


def _send(connection: socket.socket, answer: _Answer) -> None:
    if answer is None or len(answer[1]) + len(answer[2]) > MAX_ANSWER:
        connection.sendall(b"-\n")
        return
    code, out, err = answer
    connection.sendall(b"%d %d %d\n%s%s" % (code, len(out), len(err), out, err))


@contextlib.contextmanager
def _input(given: bytes) -> Iterator[None]:
    """Let the command read what its caller had on standard input; nobody else reads that here."""
    before = sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(given))
    try:
        yield
    finally:
        sys.stdin = before


@contextlib.contextmanager
def _environment(given: dict[str, str], root: Path) -> Iterator[None]:
    """Give the command its caller's settings, for as long as it runs."""
    names = {name for name in os.environ if name.startswith("VAULTMEM_")} | set(SENT)
    kept = {name: os.environ.pop(name) for name in names if name in os.environ}
    os.environ.update(given)
    os.environ["VAULTMEM_VAULT"] = str(root)
    try:
        yield
    finally:
        for name in [*given, "VAULTMEM_VAULT"]:
            os.environ.pop(name, None)
        os.environ.update(kept)
