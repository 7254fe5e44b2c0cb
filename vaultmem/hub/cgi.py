"""A program that answers one request through the Common Gateway Interface.

It starts when the whole request body is in a file. Its output is sent as fast as the client reads
it. If the client disconnects, the program is ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, NamedTuple

from starlette.types import Message, Receive, Send

_LOG = logging.getLogger("vaultmem.hub")

#: Bytes read at once.
_CHUNK = 64 * 1024

#: Most bytes of an answer's headers, and of a program's stderr.
_HEAD = 16 * 1024

#: Seconds a program has to end after SIGTERM; git removes its locks in this time.
_TERMINATION_SECONDS = 3.0

#: Runs a program with a limit of CPU seconds, for it and each process that it starts.
_CPU_LIMIT_COMMAND = ("/bin/sh", "-c", 'ulimit -c 0; ulimit -S -t "$1"; shift; exec "$@"', "sh")


class CgiLimits(NamedTuple):
    """Limits of a request: body bytes and CPU seconds.

    `patience`: seconds for one chunk of the body or the answer. `longest`: seconds for all of
    either.
    """

    size: int
    cpu: int
    patience: float = 60.0
    longest: float = 3600.0


class RefusedRequestError(Exception):
    """A request that is answered by a status and a reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.message = reason


async def collect_body(receive: Receive, limits: CgiLimits, folder: Path) -> IO[bytes] | None:
    """Return the body in an unnamed file on the disk of `folder`; None if the client disconnected.

    Raises:
        RefusedRequestError: it is too large or too slow, or the disk is full.
    """
    with contextlib.ExitStack() as cleanup:
        try:
            unnamed_file = tempfile.TemporaryFile(prefix=".vaultmem-", suffix=".tmp", dir=folder)
            file: IO[bytes] = cleanup.enter_context(unnamed_file)
            async with asyncio.timeout(limits.longest):
                if not await _write_body(file, receive, limits):
                    return None
            file.seek(0)
        except TimeoutError:
            raise RefusedRequestError(408, f"that took over {limits.longest:.0f} seconds") from None
        except OSError as error:
            reason = f"the hub's disk takes no more ({error.strerror})"
            raise RefusedRequestError(507, reason) from None
        cleanup.pop_all()
    return file


async def _write_body(file: IO[bytes], receive: Receive, limits: CgiLimits) -> bool:
    """Write the body to a file; return False if the client disconnected before its end."""
    size, is_whole = 0, False
    while not is_whole:
        message = await _take(receive, limits.patience)
        if message["type"] == "http.disconnect":
            return False
        body: bytes = message.get("body", b"")
        size += len(body)
        is_whole = not message.get("more_body", False)
        if size <= limits.size:
            file.write(body)
        elif is_whole or size > 2 * limits.size:  # A client reads the answer when it has sent all.
            raise RefusedRequestError(413, f"that is over {limits.size:,} bytes")
    file.flush()
    return True


async def _take(receive: Receive, seconds: float) -> Message:
    try:
        async with asyncio.timeout(seconds):
            return await receive()
    except TimeoutError:
        reason = f"nothing more of the body came for {seconds:.0f} seconds"
        raise RefusedRequestError(408, reason) from None


async def run_program(
    words: Sequence[str],
    environment: Mapping[str, str],
    body: IO[bytes],
    limits: CgiLimits,
    receive: Receive,
    send: Send,
) -> int:
    """Answer a request by a program; return the status, 499 if the client disconnected."""
    process = await asyncio.create_subprocess_exec(
        *_CPU_LIMIT_COMMAND,
        str(limits.cpu),
        *words,
        stdin=body,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=dict(environment),
        limit=_CHUNK,
        start_new_session=True,
    )
    answer = _Answer(send, limits.patience)
    complaint = asyncio.create_task(_read_complaint(process))
    tasks = (
        asyncio.create_task(_await_end(receive)),
        asyncio.create_task(answer.pass_on(process)),
    )
    try:
        async with asyncio.timeout(limits.longest):
            finished_tasks, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in finished_tasks:
                task.result()
        if tasks[0] in finished_tasks and tasks[1] not in finished_tasks:
            return 499
    except RefusedRequestError as refusal:
        return await answer.refuse(refusal.status, refusal.message)
    except TimeoutError:
        return await answer.refuse(408, f"that took over {limits.longest:.0f} seconds")
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.shield(asyncio.ensure_future(_end(process)))
        await asyncio.gather(*tasks, return_exceptions=True)
        await _drain(process)
        await _log(complaint)
    return answer.status


async def _await_end(receive: Receive) -> None:
    """Return when the client has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        pass


class _Answer:
    """The response: the program's headers and body, or an error if nothing was sent yet."""

    def __init__(self, send: Send, patience: float) -> None:
        self._send = send
        self._patience = patience
        self.status = 0

    async def pass_on(self, process: asyncio.subprocess.Process) -> None:
        """Send the program's output.

        Raises:
            RefusedRequestError: it ended without headers.
            TimeoutError: the client stopped reading.
        """
        assert process.stdout is not None  # noqa: S101
        status, headers = await _read_head(process.stdout)
        chunk = await process.stdout.read(_CHUNK)
        await self._begin(status, headers)
        while chunk:
            async with asyncio.timeout(self._patience):
                await self._send({"type": "http.response.body", "body": chunk, "more_body": True})
            chunk = await process.stdout.read(_CHUNK)
        # Git's client sees a truncated answer itself: git's protocol marks the end.
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def refuse(self, status: int, reason: str) -> int:
        """Send an error if no response was started; return the status."""
        if self.status:
            return self.status
        headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
        await self._begin(status, headers)
        await self._send({"type": "http.response.body", "body": f"{reason}\n".encode()})
        return status

    async def _begin(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self.status = status
        await self._send({"type": "http.response.start", "status": status, "headers": headers})


async def _read_head(stdout: asyncio.StreamReader) -> tuple[int, list[tuple[bytes, bytes]]]:
    """Return the status and the headers of a program's answer."""
    status, headers, size = 200, [], 0
    while line := (await stdout.readline()).rstrip(b"\r\n"):
        size += len(line)
        name, colon, value = line.partition(b":")
        if not colon or size > _HEAD:
            break
        if name.lower() == b"status":
            status = int(value.split()[0])
        else:
            headers.append((name.lower(), value.strip()))
    else:
        if headers or status != 200:
            return status, headers
    raise RefusedRequestError(502, "git did not answer; see the hub's log")


async def _read_complaint(process: asyncio.subprocess.Process) -> bytes:
    assert process.stderr is not None  # noqa: S101
    text = b""
    while chunk := await process.stderr.read(_CHUNK):
        text = (text + chunk)[:_HEAD]
    return text


async def _drain(process: asyncio.subprocess.Process) -> None:
    """Read the rest of the output: a pipe closes only at its end."""
    assert process.stdout is not None  # noqa: S101
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(1.0):
            while await process.stdout.read(_CHUNK):
                pass


async def _log(complaint: asyncio.Task[bytes]) -> None:
    with contextlib.suppress(TimeoutError):  # Background children can hold the pipe open.
        async with asyncio.timeout(1.0):
            if text := (await complaint).decode("utf-8", "backslashreplace").strip():
                _LOG.warning("git: %s", text)


async def _end(process: asyncio.subprocess.Process) -> None:
    """End a running program and all its children; SIGTERM first, so that git leaves no lock."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.returncode is not None:
            break
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_TERMINATION_SECONDS):
                await process.wait()
