"""The relay of `vaultmem mcp` between a client and the vault's resident process.

Only fast imports are used, because a client waits for them in each session.

A last line reports how the client ended. After a normal end, the resident process closes the
session. If the client's process is gone or this relay is killed, it closes the session as
interrupted.

If the resident process ends, the relay finds or starts another and repeats the messages that opened
the connection. After a normal end, all accepted requests were answered, so the relay repeats the
others. A killed process might have done unanswered requests, so the client gets an error for each
and decides itself.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from _thread import allocate_lock, start_new_thread
from time import monotonic

from vaultmem.serve.connection import reach
from vaultmem.storage.user_files import find_user_folder
from vaultmem.storage.watch_socket import (
    CLOSING,
    GOODBYE,
    LOST,
    PLACES,
    choose_sent,
    is_client_gone,
    socket_path,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Callable
    from typing import Any

#: Messages that a new process has to receive again.
_OPENING = frozenset(
    (
        *("initialize", "notifications/initialized", "logging/setLevel"),
        *("resources/subscribe", "resources/unsubscribe"),
    )
)

_LOST_ANSWER_TEXT = (
    "the process that serves this vault ended before it answered, and what was asked may have been "
    "done; look before you ask again"
)


def relay(root: str, agent: str, session: str, ref: str, read_only: bool) -> int | None:
    """Serve a client until it ends; return the exit code, None if no process can be used."""
    if os.name != "posix" or os.environ.get("VAULTMEM_NO_WATCHER"):
        return None
    hello = {
        "root": root,
        "agent": agent,
        "session": session,
        "ref": ref,
        "read_only": read_only,
        "environment": choose_sent(os.environ)
        | {k: v for k, v in os.environ.items() if k.startswith("GIT_AUTHOR_")},
        "folder": _find_folder(),
        "pid": os.getpid(),
        "places": [os.environ.get(name, "") for name in PLACES],
    }
    path = socket_path(root, find_user_folder("state", os.environ))
    line = json.dumps(hello).encode() + b"\n"

    connection = reach(path, root, line, is_resumed=False)
    if connection is None:
        return None
    return _Relay(root, lambda: reach(path, root, line, is_resumed=True), connection).run()


class _Relay:
    """One client, and the process that currently serves it."""

    def __init__(self, root: str, find: Callable[[], socket | None], connection: socket) -> None:
        self._root = root
        self._find = find
        self._connection = connection
        self._sending = allocate_lock()
        #: The opening messages, requests without a response, and responses the client already has.
        self._opening: list[bytes] = []
        self._waiting: dict[Any, bytes] = {}
        self._known: set[Any] = set()
        self._is_over = False
        self._client = os.getppid()
        self._signal = 0
        self._signalled = 0.0

    def run(self) -> int:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._end)
        start_new_thread(self._hear_client, ())
        while True:
            in_order = self._hear_resident()
            if self._is_over:
                return 128 + self._signal if self._signal else 0
            if not self._begin_again(in_order):
                reason = f"the process that serves {self._root} ended, and none could be started"
                os.write(2, f"vaultmem: error: {reason}; see `vaultmem doctor`\n".encode())
                return 1

    def _end(self, number: int, _: object) -> None:
        """End after the running requests are answered.

        Clients send several signals while the session is being closed. A signal some seconds after
        the first ends this process at once.
        """
        if self._signal:
            if monotonic() - self._signalled > CLOSING:
                os._exit(128 + number)
            return
        self._signal, self._signalled = number, monotonic()
        self._is_over = True
        if self._sending.acquire(False):
            self._hang_up()
            self._sending.release()
        else:  # A line of the client is being sent.
            start_new_thread(self._leave, ())

    def _leave(self) -> None:
        with self._sending:
            self._hang_up()

    def _hang_up(self) -> None:
        """Report how the client ended; the caller holds `_sending`."""
        from _socket import SHUT_WR

        self._is_over = True
        is_lost = not self._signal and is_client_gone(self._client)
        _send(self._connection, LOST if is_lost else GOODBYE)
        _shut(self._connection, SHUT_WR)

    def _hear_client(self) -> None:
        """Pass on the client's messages until it ends."""
        for line in sys.stdin.buffer:
            with self._sending:
                self._note(line)
                _send(self._connection, line)
        self._leave()

    def _hear_resident(self) -> bool:
        """Pass on the process's messages until it ends; return whether it ended normally."""
        try:
            with open(self._connection.fileno(), "rb", closefd=False) as lines:
                for line in lines:
                    if line == GOODBYE:
                        return True
                    if line.endswith(b"\n"):
                        self._answer(line)
        except BrokenPipeError:  # The client has ended.
            self._leave()
        except ConnectionError:
            return False
        return False

    def _answer(self, line: bytes) -> None:
        """Pass on a message of the process, unless the client already has it."""
        answers = [each for each in _read(line) if "id" in each and "method" not in each]
        ids = [each["id"] for each in answers]
        if not self._known.isdisjoint(ids):
            self._known.difference_update(ids)
            return
        _print(line)
        for answer in answers:
            request = self._waiting.pop(answer["id"], None)
            if "error" in answer and request in self._opening:  # A new process must not get it.
                self._opening.remove(request)

    def _note(self, line: bytes) -> None:
        """Record the client's pending requests and opening messages."""
        for message in _read(line):
            method = message.get("method")
            if method in _OPENING:
                self._opening.append(line)
            if method and "id" in message:
                self._waiting[message["id"]] = line
            elif method == "notifications/cancelled":
                self._waiting.pop((message.get("params") or {}).get("requestId"), None)

    def _begin_again(self, in_order: bool) -> bool:
        """Continue with another process; return False if none can be started."""
        from _socket import SHUT_RDWR

        _shut(self._connection, SHUT_RDWR)  # Unblocks a thread that is sending.
        with self._sending:
            connection = self._find()
            if connection is None:
                return False
            self._connection.close()
            self._connection = connection
            unanswered = {
                id: line for id, line in self._waiting.items() if line not in self._opening
            }
            for line in self._opening:
                self._known |= {each["id"] for each in _read(line) if "id" in each}
                _send(connection, line)
            self._known -= self._waiting.keys()
            for number, line in unanswered.items():
                if in_order:
                    _send(connection, line)
                else:
                    del self._waiting[number]
                    _print(_describe_lost(number))
            if self._is_over:
                self._hang_up()
        return True


def _find_folder() -> str:
    try:
        return os.getcwd()
    except OSError:  # It was removed.
        return ""


def _read(line: bytes) -> list[dict[str, Any]]:
    """Return the messages of a line, none if it is not JSON."""
    try:
        message = json.loads(line)
    except ValueError:
        return []
    return [
        each
        for each in (message if isinstance(message, list) else [message])
        if isinstance(each, dict)
    ]


def _describe_lost(number: object) -> bytes:
    error = {"code": -32000, "message": _LOST_ANSWER_TEXT}
    return json.dumps({"jsonrpc": "2.0", "id": number, "error": error}).encode() + b"\n"


def _send(connection: socket, line: bytes) -> None:
    try:
        connection.sendall(line)
    except OSError:  # The reading thread finds that the process ended, and reconnects.
        return


def _shut(connection: socket, direction: int) -> None:
    try:
        connection.shutdown(direction)
    except OSError:  # It has already ended.
        return


def _print(line: bytes) -> None:
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()
