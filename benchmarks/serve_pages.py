"""Rows on pages: how soon they come after the process started, and while it runs."""

from __future__ import annotations

import http.client
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple
from urllib.parse import quote, urlencode

from measure import Row, find_command, percentile
from memory import list_children, read_cpu, read_resident

_EMPTY_APP = """\
import socket, sys
import uvicorn
from starlette.applications import Starlette
from starlette.responses import HTMLResponse
from starlette.routing import Route

async def show(request):
    return HTMLResponse("<!doctype html><title>Empty</title>")

app = Starlette(routes=[Route("/{path:path}", show)])
listening = socket.create_server(("127.0.0.1", 0))
listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
print(f"page  http://127.0.0.1:{listening.getsockname()[1]}/enter", flush=True)
config = uvicorn.Config(app, http="h11", log_level="warning", lifespan="off")
uvicorn.Server(config).run([listening])
"""

_OURS, _EMPTY = "vaultmem", "empty Starlette app"

#: Seconds after a save in which nothing is asked.
_PAUSE = 0.7


class Browser:
    """A connection that is kept open, with the cookie of somebody who was let in."""

    def __init__(self, link: str) -> None:
        """Come in by a link."""
        host, _, path = link.removeprefix("http://").partition("/")
        self._connection = http.client.HTTPConnection(host, timeout=60)
        self._headers = {"Accept": "text/html", "Accept-Encoding": "gzip"}
        answer = self._ask(f"/{path}")
        if cookie := answer.headers.get("set-cookie"):
            self._headers["Cookie"] = cookie.partition(";")[0]
        answer.read()

    def get(self, address: str) -> None:
        """Get a page to its last byte.

        Raises:
            SystemExit: it is not there.
        """
        answer = self._ask(address)
        answer.read()
        if answer.status != 200:
            raise SystemExit(f"{address}: {answer.status}")

    def _ask(self, address: str) -> http.client.HTTPResponse:
        """Ask, once more where the server has ended a connection that was idle for some seconds."""
        try:
            return self._send(address)
        except ConnectionError:
            self._connection.close()
            return self._send(address)

    def _send(self, address: str) -> http.client.HTTPResponse:
        self._connection.request("GET", address, headers=self._headers)
        return self._connection.getresponse()


class Served(NamedTuple):
    """A process that serves pages, and a browser that was let in."""

    process: int
    browser: Browser


@contextmanager
def serving(vault: Path) -> Iterator[Served]:
    """Have a vault served for the time of a `with`."""
    with _started([*find_command(), "serve", "--port", "0", "--vault", vault]) as served:
        yield served


@contextmanager
def _started(command: Sequence[str | Path]) -> Iterator[Served]:
    """Start a server that prints where its page is, and come in."""
    words = list(map(str, command))
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if found := re.match(r"page +(http\S+)", line):
                    break
            else:
                raise SystemExit(f"{' '.join(words)}: it serves no page")
            yield Served(process.pid, Browser(found[1]))
        finally:
            process.terminate()


def measure_first_page(vault: Path, scratch: Path, note: str, times: int) -> list[Row]:
    """Time from the start of the process, whose index is there, to a first page; in turns."""
    commands = _write_commands(vault, scratch)
    taken: dict[str, dict[str, list[float]]] = {}
    for _ in range(times):
        for name, command in commands.items():
            started = time.perf_counter()
            with _started(command) as served:
                for what, address in (("first page", "/"), ("a first note", _note(note))):
                    served.browser.get(address)
                    seconds = time.perf_counter() - started
                    taken.setdefault(f"start to {what}", {}).setdefault(name, []).append(seconds)
                    what, spent = f"start to {what}, CPU", read_cpu(served.process)
                    taken.setdefault(what, {}).setdefault(name, []).append(spent)
    return [
        Row(what, "s", median(of[_OURS]), _EMPTY, median(of[_EMPTY]), of)
        for what, of in taken.items()
    ]


def measure_pages(
    vault: Path,
    scratch: Path,
    notes: Sequence[str],
    typed: Sequence[str],
    packs: Sequence[str],
    times: int,
    saves: int,
) -> list[Row]:
    """Time pages, each address once where there are many, in turns with an empty page."""
    prefixes = [each[:end] for each in typed for end in range(2, len(each) + 1)]
    pages = {
        "note's page": list(map(_note, notes)),
        "what stands beside a note": [f"/rail/{quote(note)}" for note in notes],
        "search as one types": [
            f"/search?{urlencode({'q': q, 'part': 'results'})}" for q in prefixes
        ],
        "pack's page": [f"/pack?{urlencode({'q': question})}" for question in packs],
        "home": ["/"] * times,
        "list of notes": ["/notes"] * times,
        "time": ["/time"] * times,
    }
    commands = _write_commands(vault, scratch)
    with _started(commands[_OURS]) as ours, _started(commands[_EMPTY]) as empty:
        ours.browser.get("/")
        memory = [_tell_memory("first page", ours.process, empty.process)]
        rows = [
            row
            for what, addresses in pages.items()
            for row in _measure_page(what, addresses, ours, empty)
        ]
        memory.append(_tell_memory("all pages", ours.process, empty.process))
        return [*rows, *_measure_after_saves(vault, notes, saves, ours), *memory]


def _measure_page(what: str, addresses: Sequence[str], ours: Served, empty: Served) -> list[Row]:
    wall: dict[str, list[float]] = {_OURS: [], _EMPTY: []}
    sides = ((_OURS, ours.browser), (_EMPTY, empty.browser))
    for _, browser in sides:
        browser.get(addresses[0])
    before = read_cpu(ours.process), read_cpu(empty.process)
    for address in addresses:
        for name, browser in sides:
            wall[name].append(_time(browser, address))
    after = read_cpu(ours.process), read_cpu(empty.process)
    spent, theirs = (
        (late - early) * 1_000 / len(addresses) for early, late in zip(before, after, strict=True)
    )
    shares = (("10 of 100", 0.1), ("median", 0.5), ("95 of 100", 0.95))
    rows = [
        Row(
            f"{what}, {name}",
            "ms",
            percentile(wall[_OURS], share),
            _EMPTY,
            percentile(wall[_EMPTY], share),
            wall,
        )
        for name, share in shares
    ]
    return [*rows, Row(f"{what}, CPU of the server", "ms", spent, _EMPTY, theirs)]


def _measure_after_saves(
    vault: Path, notes: Sequence[str], saves: int, served: Served
) -> list[Row]:
    """Time a note's page asked for as soon as another note was saved."""
    wall = []
    before = read_cpu(served.process)
    for number in range(saves):
        with (vault / notes[number]).open("a", encoding="utf-8") as file:
            file.write(f"\nSaved {number}.\n")
        wall.append(_time(served.browser, _note(notes[-number - 1])))
        time.sleep(_PAUSE)
    spent = (read_cpu(served.process) - before) * 1_000 / saves
    what = "note's page, another just saved"
    samples = {_OURS: wall}
    return [
        Row(f"{what}, median", "ms", median(wall), samples=samples),
        Row(f"{what}, CPU with the watcher's", "ms", spent),
    ]


def _tell_memory(when: str, ours: int, empty: int) -> Row:
    """Tell of a server's memory, without git's processes that it keeps."""
    git = sum(map(read_resident, list_children(ours)))
    return Row(
        f"resident memory after {when}",
        "MB",
        read_resident(ours) - git,
        _EMPTY,
        read_resident(empty),
        {"git's processes": [git]},
    )


def _time(browser: Browser, address: str) -> float:
    """Return the milliseconds that a page takes."""
    started = time.perf_counter()
    browser.get(address)
    return (time.perf_counter() - started) * 1_000


def _write_commands(vault: Path, scratch: Path) -> dict[str, Sequence[str | Path]]:
    script = scratch / "empty_app.py"
    script.write_text(_EMPTY_APP, encoding="utf-8")
    return {
        _OURS: [*find_command(), "serve", "--port", "0", "--vault", vault],
        _EMPTY: [sys.executable, "-P", script],
    }


def _note(path: str) -> str:
    return f"/note/{quote(path)}"
