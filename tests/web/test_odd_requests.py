"""Requests that no page of ours makes: each is answered, and by what was meant, or refused."""

from __future__ import annotations

import os
import re
from html import unescape
from pathlib import Path
from urllib.parse import quote

import pytest
from conftest import Make
from starlette.testclient import TestClient
from visiting import HOST, TOKEN, Served

#: Names of files that mean something in an address.
NAMES = [
    "what? now",
    "c#",
    "100%41",
    "a&b=c",
    "a+b",
    "tab\there",
    'quo"te',
    "a;b",
    "x..y",
    "ünï",
    "a\\b",
]

#: Values of parameters at which a reader of numbers, times or names may stumble.
VALUES = [
    "",
    "²",
    "9" * 5_000,
    "-1",
    "1e9",
    "nan",
    "\0",
    "\ud800",
    "..",
    "HEAD~9",
    "@{1}",
    "-x",
    "a" * 3_000,
]

#: Parameters that pages read, without the question and the time, which is asked for by itself.
OTHERS = ("page", "offset", "only", "budget", "ref", "tag", "kind", "state", "part", "labels")

PLACES = [
    "/",
    "/notes",
    "/search",
    "/pack",
    "/time",
    "/receipts",
    "/history/MEMORY.md",
    "/bisect",
    "/review",
    "/sessions",
    "/health",
    "/graph/MEMORY.md",
    "/note/MEMORY.md",
]


@pytest.mark.parametrize("name", NAMES)
def test_links_of_a_note_lead_there_whatever_its_name(
    name: str, make_vault: Make, tmp_path: Path
) -> None:
    path = f"notes/{name}.md"
    root = make_vault({path: "# Odd\n\nHarbour. [[other]]\n", "notes/other.md": f"[[{name}]]\n"})
    served = Served(root, tmp_path)
    browser = served.enter()
    page = browser.get(f"/note/{quote(path)}")
    listed = browser.get("/search?q=harbour")
    assert page.status_code == 200
    found = set(
        re.findall(r'(?:href|data-load)="(/(?:note|rail|graph)/[^"]*)"', page.text + listed.text)
    )
    found = {unescape(link).partition("#")[0] for link in found}
    served_links = {link: browser.get(link).status_code for link in sorted(found)}
    assert any(link.startswith("/rail/") for link in found)
    assert any(link.startswith("/note/") and quote(path) in link for link in found)
    assert set(served_links.values()) == {200}, served_links
    served.workers.close()


@pytest.mark.campaign
@pytest.mark.parametrize("place", PLACES)
def test_no_value_of_a_parameter_breaks_a_page(place: str, served: Served) -> None:
    browser = served.enter()
    broken = {}
    for value in VALUES:
        said = quote(value, errors="surrogatepass")
        for given in (f"at={said}", "&".join(f"{name}={said}" for name in OTHERS)):
            asked = f"q=refunds&good=HEAD&finds=MEMORY&{given}"
            status = browser.get(f"{place}?{asked}").status_code
            if status not in {200, 400, 404, 409, 422}:
                broken[given[:80]] = status
    assert not broken, broken


@pytest.mark.campaign
def test_links_of_the_file_system_lead_nowhere(served: Served, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.md").write_text("# Secret\n\nthe harbour's swordfish42\n")
    (outside / "secret.png").write_bytes(b"\x89PNG the harbour's swordfish42")
    notes = served.root / "notes"
    (notes / "file.md").symlink_to(outside / "secret.md")
    (notes / "file.png").symlink_to(outside / "secret.png")
    (notes / "folder").symlink_to(outside)
    (notes / "git.png").symlink_to(served.root / ".git/config")
    os.mkfifo(notes / "pipe.png")
    browser = served.enter()
    for path in (
        "file.md",
        "file.png",
        "folder/secret.md",
        "folder/secret.png",
        "git.png",
        "pipe.png",
    ):
        for page in ("note", "file", "rail", "graph", "spread", "history"):
            answer = browser.get(f"/{page}/notes/{path}")
            assert answer.status_code in {200, 404, 422}, (page, path)
            assert "swordfish42" not in answer.text, (page, path)
            assert "repositoryformatversion" not in answer.text, (page, path)
    assert "swordfish42" not in browser.get("/search?q=harbour").text


@pytest.mark.parametrize("name", ["host", "authorization", "origin"])
def test_a_header_that_is_given_twice_opens_nothing(name: str, owned: Served) -> None:
    values = {"host": HOST, "authorization": f"Bearer {TOKEN}", "origin": f"http://{HOST}"}
    both = list(values.items())
    assert owned.visit().get("/notes", headers=dict(both)).status_code == 200
    for other in (values[name], "evil.example"):
        given = [("Accept", "text/html"), *both, (name, other)]
        with TestClient(owned.app, "http://x") as client:
            request = client.build_request("POST", "/undo", headers=given)
            assert client.send(request).status_code in {401, 403, 421}, (name, other)
