"""A browser and a program in front of the app of a real vault, without a server between them."""

from __future__ import annotations

from pathlib import Path

from starlette.applications import Starlette
from starlette.testclient import TestClient

from vaultmem.web.app import create_app
from vaultmem.web.codes import make_code
from vaultmem.web.site import Site
from vaultmem.workers.workers import Workers

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
