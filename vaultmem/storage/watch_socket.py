"""The private socket of a vault's watcher (mode 0600), and its protocol.

This module imports only what Python has already loaded, and two C modules: importing `socket`,
`json` and `hashlib` takes as long as starting Python.

A request is its length in bytes, a line end, and texts separated by NUL: the caller's version, the
vault, and words. The watcher sends an empty line at once, and others regularly while it works; then
a line with exit code and the lengths of two streams, and the streams. A line "-" means no answer.
An agent's session starts with a JSON object instead of a length (serve/mcp_socket.py).
"""

from __future__ import annotations

import os
from time import monotonic, sleep

from vaultmem.core.clients.agents import VARIABLES

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket as sockets
    from collections.abc import Mapping, Sequence

#: The name of a watcher's socket in the folder of its vault's state.
SOCKET_NAME = "watch.sock"

#: The last line of a side that ends normally. From the watcher: unanswered requests have not
#: started. From a client: its session can be closed.
GOODBYE = b'{"vaultmem":"goodbye"}\n'

#: The last line for a client whose process has ended: its session was interrupted.
LOST = b'{"vaultmem":"lost"}\n'

#: Seconds within which a killed client's process has ended after the end of its output.
_CLIENT_EXIT_SECONDS = 0.1


def is_client_gone(client: int) -> bool:
    """Return whether the parent process has ended; called at the end of input.

    A client that ends normally closes its output and waits for this process.
    """
    deadline = monotonic() + _CLIENT_EXIT_SECONDS
    while os.getppid() == client:
        if monotonic() > deadline:
            return False
        sleep(_CLIENT_EXIT_SECONDS / 10)
    return True


#: Seconds after a signal in which an agent's server ignores further ones: clients send several
#: while it closes the session.
CLOSING = 5.0

#: Variables that are sent with a request, like $VAULTMEM_*.
SENT = frozenset(("NO_COLOR", "TERM", "COLUMNS", "TERM_SESSION_ID", *VARIABLES))

#: Variables for the user's folders and time zone; a watcher has one value of each.
PLACES = ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "TZ")

#: Seconds within which a live watcher sends each empty line, and within which it must be done.
HEARTBEAT_TIMEOUT_SECONDS = 0.25
MAX_ANSWER_SECONDS = 20.0

#: Seconds between two empty lines of a working watcher.
HEARTBEAT_SECONDS = 0.05

#: Seconds without requests to a watcher that did not answer in time.
_RETRY_SECONDS = 2.0

#: Most bytes of a request and of an answer.
MAX_QUESTION = 64 * 1024
MAX_ANSWER = 64 * 1024 * 1024

_MAX_HEAD = 100

#: Sockets without an answer in time, and the (monotonic) time until which they are not used.
_silent: dict[str, float] = {}


def socket_path(root: str, state_home: str) -> str:
    """Return the socket's path for a vault (its real path), in the folder of the vault's state."""
    key = _digest(os.fsencode(root))[:32]
    return os.path.join(state_home, "vaults", key, SOCKET_NAME)


def choose_sent(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a caller's environment that are sent with a request."""
    return {k: v for k, v in environment.items() if k.startswith("VAULTMEM_") or k in SENT}


def has_terminal() -> bool:
    """Return whether a standard stream of this process is a terminal."""
    return any(map(os.isatty, range(3)))


def has_socket(path: str) -> bool:
    """Return whether a socket exists; a killed watcher does not remove it."""
    return os.name == "posix" and os.path.exists(path)


def ask_watcher(
    path: str, root: str, version: str, words: Sequence[str]
) -> tuple[int, bytes, bytes] | None:
    """Return exit code, stdout and stderr from the watcher at a socket; None without an answer."""
    if not has_socket(path) or monotonic() < _silent.get(path, 0.0):
        return None
    from _socket import AF_UNIX, SOCK_STREAM, socket

    question = b"\0".join(map(os.fsencode, (version, root, *words)))
    if len(question) > MAX_QUESTION:
        return None
    connection = socket(AF_UNIX, SOCK_STREAM)
    try:
        connection.settimeout(HEARTBEAT_TIMEOUT_SECONDS)
        with short_path(path) as short_name:
            connection.connect(short_name)
        connection.sendall(b"%d\n%s" % (len(question), question))
        if connection.recv(1) != b"\n":
            return None
        end = monotonic() + MAX_ANSWER_SECONDS
        data = b""
        while b"\n" not in data and len(data) < _MAX_HEAD and monotonic() < end:
            data = (data + _receive(connection.recv(65_536))).lstrip(b"\n")
        head, _, data = data.partition(b"\n")
        code, out, err = map(int, head.split())
        if min(out, err) < 0 or out + err > MAX_ANSWER:
            return None
        parts = [data]
        size_left = out + err - len(data)
        while size_left > 0:
            parts.append(_receive(connection.recv(min(size_left, 1 << 20))))
            size_left -= len(parts[-1])
        data = b"".join(parts)
        return (code, data[:out], data[out:]) if not size_left else None
    except TimeoutError:
        _silent[path] = monotonic() + _RETRY_SECONDS
        return None
    except (OSError, ValueError):
        return None
    finally:
        connection.close()


def read_words(question: bytes) -> list[str]:
    """Return the texts of a request without its length: version, vault and words."""
    return [os.fsdecode(word) for word in question.split(b"\0")]


class short_path:  # noqa: N801 - used like a function.
    """A context with a name of a socket that is short enough for the system."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._folder = -1

    def __enter__(self) -> str:
        if len(os.fsencode(self._path)) < 100:
            return self._path
        self._folder = os.open(os.path.dirname(self._path), os.O_RDONLY)
        return f"/proc/self/fd/{self._folder}/{os.path.basename(self._path)}"

    def __exit__(self, *_: object) -> None:
        if self._folder >= 0:
            os.close(self._folder)


class Listener:
    """A listening socket, private to the owner; it replaces an older file at its path."""

    def __init__(self, path: str, waiting: int) -> None:
        """Listen, with at most `waiting` queued connections.

        Raises:
            OSError: the socket cannot be created.
        """
        import contextlib
        import socket

        if os.name != "posix":
            raise OSError("this system has no such sockets")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        self._path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        before = os.umask(0o177)
        try:
            with short_path(path) as short_name:
                self._socket.bind(short_name)
            self._socket.listen(waiting)
            self._inode = os.stat(path).st_ino
        except OSError:
            self._socket.close()
            raise
        finally:
            os.umask(before)

    def accept(self) -> sockets.socket:
        """Wait for the next connection and return it.

        Raises:
            OSError: the listener was closed.
        """
        return self._socket.accept()[0]

    def close(self) -> None:
        """Stop listening; another process's socket at the path is not removed."""
        import contextlib
        import socket

        with contextlib.suppress(OSError):
            if os.stat(self._path).st_ino == self._inode:
                os.unlink(self._path)
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


def _receive(part: bytes) -> bytes:
    if not part:
        raise OSError("the watcher hung up")
    return part


def _digest(data: bytes) -> str:
    for name in ("_sha2", "_sha256", "hashlib"):  # Python 3.12, 3.11, any.
        try:
            return str(__import__(name).sha256(data).hexdigest())
        except ImportError:
            continue
    raise ImportError("no SHA-256")
