"""A real `vaultmem serve`, and the link that it prints."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from support import wait_until

_LINK = re.compile(r"http://127\.0\.0\.1:\d+/\S*")


class Served(NamedTuple):
    """A vault that is served, and how to get in."""

    root: Path
    link: str
    process: subprocess.Popen[str]
    told: list[str]

    @property
    def origin(self) -> str:
        """Say scheme, address and port, as a browser does."""
        return "http://" + urlsplit(self.link).netloc


@contextmanager
def serve(root: Path, *options: str, env: Mapping[str, str] | None = None) -> Iterator[Served]:
    """Run `vaultmem serve` on a free port until the end of a `with`; it has printed its link."""
    process = subprocess.Popen(
        [sys.executable, "-m", "vaultmem", "serve", "--vault", str(root), "--port", "0", *options],
        env={**os.environ, **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    told: list[str] = []
    reading = threading.Thread(target=lambda: told.extend(iter(process.stdout.readline, "")))  # type: ignore[union-attr]
    reading.start()
    try:
        wait_until(lambda: _find_link(told) or process.poll() is not None, 60)
        assert _find_link(told), "".join(told)
        yield Served(root, _find_link(told), process, told)
    finally:
        process.terminate()
        reading.join(30)
        process.kill()
        process.communicate()
    assert "Traceback" not in "".join(told), "".join(told)


def _find_link(told: list[str]) -> str:
    found = _LINK.search("".join(told))
    return found[0] if found else ""
