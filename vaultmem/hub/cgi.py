"""A program that answers one request by the Common Gateway Interface, streamed both ways.

Nothing of a body is kept: what comes is passed on as fast as the program takes it, and what it
answers as fast as the client does. A client that goes takes the program along.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from starlette.types import Message, Receive, Send

_LOG = logging.getLogger("vaultmem.hub")

#: Bytes that are passed on at once.
_CHUNK = 64 * 1024

#: Bytes of the headers of an answer at most, and of what a program complains about.
_HEAD = 16 * 1024

#: Seconds in which a program ends that is asked to; git removes its locks in it.
_GRACE = 3.0


class Limits(NamedTuple):
    """Bytes of a body at most, seconds that one part of it may take to come, and all of it."""

    size: int
    patience: float = 60.0
    longest: float = 3600.0


class _Refusal(Exception):  # noqa: N818  It is answered, and no fault.
    def __init__(self, status: int, told: str) -> None:
        super().__init__(told)
        self.status = status
        self.told = told


async def run_program(
    words: Sequence[str],
    environment: Mapping[str, str],
    limits: Limits,
    receive: Receive,
    send: Send,
) -> int:
    """Answer a request by a program; return the status that was answered, 499 if nobody waited."""
    process = await asyncio.create_subprocess_exec(
        *words,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=dict(environment),
        limit=_CHUNK,
        start_new_session=True,
    )
    answer = _Answer(send)
    complaint = asyncio.create_task(_read_complaint(process))
    work = (
        asyncio.create_task(_feed(process, limits, receive)),
        asyncio.create_task(answer.pass_on(process)),
    )
    try:
        async with asyncio.timeout(limits.longest):
            done, _ = await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
            for each in done:  # Who feeds ends only where the client has gone, or is refused.
                each.result()
        if work[0] in done and work[1] not in done:
            return 499
    except _Refusal as refusal:
        return await answer.refuse(refusal.status, refusal.told)
    except TimeoutError:
        return await answer.refuse(408, f"that took over {limits.longest:.0f} seconds")
    finally:
        for each in work:
            each.cancel()
        await asyncio.shield(asyncio.ensure_future(_end(process)))
        await asyncio.gather(*work, return_exceptions=True)
        await _log(complaint)
    return answer.status


async def _feed(process: asyncio.subprocess.Process, limits: Limits, receive: Receive) -> None:
    """Pass on the body, and return when the client has gone.

    What a program does not want any more is still taken: a client reads the answer when it has
    sent all.
    """
    assert process.stdin is not None  # noqa: S101
    left, is_whole = limits.size, False
    while True:
        message = await _take(receive, None if is_whole else limits.patience)
        if message["type"] == "http.disconnect":
            return
        body: bytes = message.get("body", b"")
        left -= len(body)
        if left < 0:
            raise _Refusal(413, f"that is over {limits.size:,} bytes")
        with contextlib.suppress(ConnectionError):
            if body and not process.stdin.is_closing():
                process.stdin.write(body)
                await process.stdin.drain()
            if not message.get("more_body", False):
                is_whole = True
                process.stdin.close()


async def _take(receive: Receive, seconds: float | None) -> Message:
    try:
        async with asyncio.timeout(seconds):
            return await receive()
    except TimeoutError:
        raise _Refusal(408, f"nothing more of the body came for {seconds:.0f} seconds") from None


class _Answer:
    """What is answered: the program's headers and body, or a refusal while nothing was said."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 0

    async def pass_on(self, process: asyncio.subprocess.Process) -> None:
        """Pass on what the program prints.

        Raises:
            _Refusal: it ended without an answer.
        """
        assert process.stdout is not None  # noqa: S101
        status, headers = await _read_head(process.stdout)
        chunk = await process.stdout.read(_CHUNK)
        await self._begin(status, headers)
        while chunk:
            await self._send({"type": "http.response.body", "body": chunk, "more_body": True})
            chunk = await process.stdout.read(_CHUNK)
        # Whether it is whole, git's client sees by itself: each of its answers says where it ends.
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def refuse(self, status: int, told: str) -> int:
        """Say why not, if that can still be said; return the status."""
        if self.status:
            return self.status
        headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
        await self._begin(status, headers)
        await self._send({"type": "http.response.body", "body": f"{told}\n".encode()})
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
    raise _Refusal(502, "git did not answer; the hub's log says more")


async def _read_complaint(process: asyncio.subprocess.Process) -> bytes:
    assert process.stderr is not None  # noqa: S101
    told = b""
    while more := await process.stderr.read(_CHUNK):
        told = (told + more)[:_HEAD]
    return told


async def _log(complaint: asyncio.Task[bytes]) -> None:
    with contextlib.suppress(TimeoutError):  # What goes on behind it may hold the pipe.
        async with asyncio.timeout(1.0):
            if told := (await complaint).decode("utf-8", "backslashreplace").strip():
                _LOG.warning("git: %s", told)


async def _end(process: asyncio.subprocess.Process) -> None:
    """End what still runs, and all that it started: asked first, so that it leaves no lock."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.returncode is not None:
            break
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_GRACE):
                await process.wait()
