"""A browser and a program in front of the app of a real vault, without a server between them."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.testclient import TestClient

from vaultmem.vault import open_vault
from vaultmem.web.access import make_code
from vaultmem.web.background_jobs import Events
from vaultmem.web.rendering import Site
from vaultmem.web.web_app import create_app
from vaultmem.workers import Workers

HOST = "127.0.0.1:8421"
TOKEN = "a-token-of-programs-0123456789"


class Served:
    """The app of a vault, and who comes to it."""

    def __init__(self, root: Path, folder: Path, may_write: bool = False) -> None:
        self.root = root
        self.site = Site(root, frozenset({HOST, "localhost:8421"}), TOKEN, folder, may_write)
        self.workers = Workers(root)
        self.app: Starlette = create_app(self.workers, self.site)

    def visit(self) -> TestClient:
        """Return a browser that nobody let in yet."""
        headers = {"Accept": "text/html", "Host": HOST}
        return TestClient(self.app, f"http://{HOST}", headers=headers, follow_redirects=False)

    def enter(self) -> TestClient:
        """Return a browser that was let in."""
        browser = self.visit()
        assert browser.get(f"/enter?code={make_code(self.site.folder)}").status_code == 200
        return browser

    def connect(self, agent: str = "claude") -> TestClient:
        """Return a program that has the token."""
        headers = {"Authorization": f"Bearer {TOKEN}", "Vaultmem-Agent": agent}
        return TestClient(self.app, f"http://{HOST}", headers=headers, follow_redirects=False)


@contextmanager
def serving(root: Path) -> Iterator[str]:
    """Serve a vault at a port of this machine, as `vaultmem serve` tells of itself; yield where."""
    events = Events()
    workers = Workers(root, events.notice)
    listening = socket.create_server(("127.0.0.1", 0))
    host = f"127.0.0.1:{listening.getsockname()[1]}"
    vault = open_vault(root)
    folder = vault.state_folder
    vault.close()
    (folder / "mcp.token").write_text(f"{TOKEN}\n")
    (folder / "watch.json").write_text(json.dumps({"pid": 1, "address": f"http://{host}"}))
    app = create_app(workers, Site(root, frozenset({host}), TOKEN, folder), events)
    config = uvicorn.Config(
        app, http="h11", ws="none", lifespan="off", log_level="warning", timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        yield f"http://{host}"
    finally:
        server.should_exit = True
        thread.join(20)
        workers.close()
        (folder / "watch.json").unlink()
