"""The private socket on which a vault's watcher answers: where it is, and how it is asked.

Only what Python has loaded anyway, and two modules written in C: `socket`, `json` and `hashlib`
take as long to import as Python takes to start.

A question is its length in bytes, a line end, and texts with a NUL between them: the version of
whoever asks, the vault, and words. The watcher answers with an empty line as soon as it is there,
and with another one ever so often while it works; when it is done, with a line of exit code and the
lengths of two streams, and then the streams. A line of "-" is no answer. An agent's session begins
with a JSON object instead of a length (serve/mcp_socket.py). The socket is its owner's alone (mode
0600).
"""

from __future__ import annotations

import os
from time import monotonic, sleep

from vaultmem.core.clients.agents import VARIABLES

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket as sockets
    from collections.abc import Mapping, Sequence

#: What a watcher's socket is called in the folder of its vault's state.
SOCKET_NAME = "watch.sock"

#: The last line of a side that ends in order. Of the resident process: requests without an answer
#: have not begun. Of a client: its session can be closed.
GOODBYE = b'{"vaultmem":"goodbye"}\n'

#: The last line for a client whose process is gone: its session was interrupted.
LOST = b'{"vaultmem":"lost"}\n'

#: Seconds after the end of its output in which a client's process that was killed is gone.
_DYING = 0.1


def is_client_gone(client: int) -> bool:
    """Return whether the process that began this one is gone; called at the end of input.

    A client that ends in order closes its output and waits for this process.
    """
    until = monotonic() + _DYING
    while os.getppid() == client:
        if monotonic() > until:
            return False
        sleep(_DYING / 10)
    return True


#: Seconds after a signal in which an agent's server ignores further ones: clients send several, and
#: the session is being closed.
CLOSING = 5.0

#: Settings that a command reads, and that are sent with what is asked; so are $VAULTMEM_*.
SENT = frozenset(("NO_COLOR", "COLUMNS", "TERM_SESSION_ID", *VARIABLES))

#: Where the user's own folders are, and the time of day: the resident process has one of each.
PLACES = ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "TZ")

#: Seconds in which a watcher that is alive says so, and says so again; how long it may work.
THERE = 0.25
PATIENCE = 20.0

#: Seconds between two signs of life.
BEAT = 0.05

#: Seconds for which one that did not answer in time is not asked again.
_REST = 2.0

#: A longer question (bytes) is not sent, a longer answer not taken.
MAX_QUESTION = 64 * 1024
MAX_ANSWER = 64 * 1024 * 1024

_MAX_HEAD = 100

#: Sockets at which nobody answered in time, and until when (monotonic) they are left alone.
_silent: dict[str, float] = {}


def socket_path(root: str, state_home: str) -> str:
    """Return where the watcher of a vault (its real path) listens: next to the vault's state."""
    key = _digest(os.fsencode(root))[:32]
    return os.path.join(state_home, "vaults", key, SOCKET_NAME)


def choose_sent(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what of a caller's environment goes along with what it asks."""
    return {k: v for k, v in environment.items() if k.startswith("VAULTMEM_") or k in SENT}


def has_terminal() -> bool:
    """Tell whether this process has a terminal: it reads from one, or writes to one."""
    return any(map(os.isatty, range(3)))


def has_socket(path: str) -> bool:
    """Tell whether a watcher may be there; one that was killed leaves its socket behind."""
    return os.name == "posix" and os.path.exists(path)


def ask_watcher(
    path: str, root: str, version: str, words: Sequence[str]
) -> tuple[int, bytes, bytes] | None:
    """Return the exit code and two streams of the watcher at a socket; None without an answer."""
    if not has_socket(path) or monotonic() < _silent.get(path, 0.0):
        return None
    from _socket import AF_UNIX, SOCK_STREAM, socket

    question = b"\0".join(map(os.fsencode, (version, root, *words)))
    if len(question) > MAX_QUESTION:
        return None
    connection = socket(AF_UNIX, SOCK_STREAM)
    try:
        connection.settimeout(THERE)
        with short_path(path) as short:
            connection.connect(short)
        connection.sendall(b"%d\n%s" % (len(question), question))
        if connection.recv(1) != b"\n":
            return None
        end = monotonic() + PATIENCE
        data = b""
        while b"\n" not in data and len(data) < _MAX_HEAD and monotonic() < end:
            data = (data + _receive(connection.recv(65_536))).lstrip(b"\n")
        head, _, data = data.partition(b"\n")
        code, out, err = map(int, head.split())
        if min(out, err) < 0 or out + err > MAX_ANSWER:
            return None
        parts = [data]
        left = out + err - len(data)
        while left > 0:
            parts.append(_receive(connection.recv(min(left, 1 << 20))))
            left -= len(parts[-1])
        data = b"".join(parts)
        return (code, data[:out], data[out:]) if not left else None
    except TimeoutError:
        _silent[path] = monotonic() + _REST
        return None
    except (OSError, ValueError):
        return None
    finally:
        connection.close()


def read_words(question: bytes) -> list[str]:
    """Return what a question without its length says: version, vault and words."""
    return [os.fsdecode(word) for word in question.split(b"\0")]


class short_path:  # noqa: N801 - used like a function.
    """Gives, for a `with`, a name of a socket that no system finds too long."""

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
    """A socket at a path, which is its owner's alone; what stood there is replaced."""

    def __init__(self, path: str, waiting: int) -> None:
        """Listen, with so many who may wait.

        Raises:
            OSError: there can be no socket.
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
            with short_path(path) as short:
                self._socket.bind(short)
            self._socket.listen(waiting)
            self._inode = os.stat(path).st_ino
        except OSError:
            self._socket.close()
            raise
        finally:
            os.umask(before)

    def accept(self) -> sockets.socket:
        """Wait for who comes next.

        Raises:
            OSError: it was closed.
        """
        return self._socket.accept()[0]

    def close(self) -> None:
        """Let nobody in any more; another one's socket at the path stays."""
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
