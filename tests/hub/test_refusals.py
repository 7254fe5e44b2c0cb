"""What a hub refuses over HTTP, and that nothing of it changes anything."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import time
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from hub_serving import Team, push
from serving import HELLO
from support import git, wait_until

from vaultmem.hub import cgi
from vaultmem.hub import git_requests as git_app
from vaultmem.services.hub.grants import revoke
from vaultmem.services.hub.hub_folder import read_audit

pytestmark = pytest.mark.campaign

_REFS = "/git/harbour.git/info/refs?service=git-upload-pack"
_WRITTEN = {"text": "The crane lifts twelve tonnes.", "kind": "semantic_fact"}


def _tips(team: Team) -> list[str]:
    return [
        git(each, "for-each-ref", "--format=%(refname) %(objectname)")
        for each in sorted(team.hub.repositories.glob("*.git"))
    ]


def _basic(token: str) -> str:
    return "Basic " + b64encode(f"x:{token}".encode()).decode()


@pytest.fixture
def unchanged(team: Team) -> Iterator[Team]:
    """A hub in which a test changes nothing."""
    before = _tips(team)
    yield team
    assert _tips(team) == before
    for each in team.hub.repositories.glob("*.git"):
        git(each, "fsck", "--strict")


def test_tokens_that_do_not_count(unchanged: Team) -> None:
    team = unchanged
    good, gone = team.agent("scout", read="*"), team.agent("former", own="*")
    late = team.agent("late", expires=time.time() - 1, own="*")
    with team.client() as client:
        assert client.get(_REFS, headers={"Authorization": _basic(gone)}).status_code == 200
        revoke(team.hub, "former", time.time())
        for shown in (None, "Bearer x", _basic("x"), f"Bearer {gone}", _basic(gone), _basic(late)):
            headers = {"Authorization": shown} if shown else {}
            for place in (_REFS, "/git/none.git/info/refs?service=git-upload-pack"):
                told = client.get(place, headers=headers)
                assert told.status_code == 401, shown
                assert told.headers["www-authenticate"].startswith("Basic ")
        for shown in ("Bearer x", f"Bearer {gone}", f"Bearer {late}", _basic(good), "Token x"):
            for place in ("/v/harbour/api/v1/notes", "/api/v1/vaults", "/v/harbour/mcp", "/mcp"):
                assert client.get(place, headers={"Authorization": shown}).status_code in {401, 429}
        wrong = {"Authorization": "Bearer y", "X-Forwarded-For": "203.0.113.9"}
        assert client.get(_REFS, headers=wrong).status_code == 429
        assert client.get(_REFS, headers={"Authorization": _basic(good)}).status_code == 200
    assert len(list(read_audit(team.hub, what="sign-in", outcome="refused"))) == 20


def test_other_vaults_look_like_none(unchanged: Team) -> None:
    team = unchanged
    with team.client(team.agent("scout", write="harbour")) as client:
        for place in (
            "/git/{}.git/info/refs?service=git-upload-pack",
            "/v/{}/api/v1/notes",
            "/v/{}/",
            "/v/{}/mcp",
            "/api/v1/recall?query=pier&vaults={}",
        ):
            other, none = (client.get(place.format(name)) for name in ("payments", "nothing"))
            assert other.status_code == none.status_code == 404, place
            assert other.text.replace("payments", "nothing") == none.text
        assert [each["name"] for each in client.get("/api/v1/vaults").json()["vaults"]] == [
            "harbour"
        ]
        assert client.get("/metrics").status_code == 404
        found = client.get("/api/v1/recall?query=pier").json()["hits"]
        assert {hit["vault"] for hit in found} == {"harbour"}


#: Addresses that lead nowhere, or not for somebody who may only write to `harbour`.
_NOWHERE = [
    "/git/harbour.git/HEAD",
    "/git/harbour.git/config",
    "/git/harbour.git/objects/info/packs",
    "/git/harbour.git/hooks/pre-receive",
    "/git/harbour.git/info/refs",
    "/git/harbour.git/info/refs?service=git-upload-archive",
    "/git/harbour.git/info/refs?service=git-upload-pack&x=1",
    "/git/harbour.git/git-upload-archive",
    "/git/harbour.git/git-upload-pack",
    "/git/harbour.git/../payments.git/info/refs?service=git-upload-pack",
    "/git/harbour.git/%2e%2e/payments.git/info/refs?service=git-upload-pack",
    "/git/%2e%2e/grants.json",
    "/git/harbour.git%2f..%2fpayments.git/info/refs?service=git-upload-pack",
    "/git//harbour.git/info/refs?service=git-upload-pack",
    "/git/harbour.git//info/refs?service=git-upload-pack",
    "/git/harbour/info/refs?service=git-upload-pack",
    "/git/harbour.git/info/refs%00?service=git-upload-pack",
    "/git/.git/info/refs?service=git-upload-pack",
    "/v/harbour%2f..%2fpayments/",
    "/v/../api/v1/vaults",
    "/v/%2e%2e/",
    "/v/harbour%00/",
    "/v//harbour/",
    "/static/../../__init__.py",
    "/static/%2e%2e/app.py",
    "/v/harbour/static/%2e%2e%2fapp.py",
    "/v/harbour/file/%2e%2e/%2e%2e/grants.json",
    "/v/harbour/note/%2e%2e/%2e%2e/grants.json",
    "/grants.json",
]

_METHODS = ("PUT", "DELETE", "PROPFIND", "PATCH", "TRACE", "CONNECT")


def test_addresses_that_lead_nowhere(unchanged: Team) -> None:
    shown = f"Authorization: Bearer {unchanged.agent('scout', write='harbour')}"
    for place in _NOWHERE:
        told = _ask(unchanged, f"GET {place} HTTP/1.1", shown)
        assert told.split()[1] in {b"403", b"404", b"400", b"422", b"405"}, (place, told)
        assert b"vmhub" not in told, place
        assert b"digest" not in told, place
    for method in _METHODS:
        for place in ("/git/harbour.git/info/refs?service=git-receive-pack", "/", "/sign-in"):
            told = _ask(unchanged, f"{method} {place} HTTP/1.1", shown)
            assert told.split()[1] in {b"400", b"403", b"404", b"405"}, (method, told)


def test_hosts_and_pages_of_others(unchanged: Team) -> None:
    token = unchanged.person("maren", own="*")
    with unchanged.client(token) as client:
        for place in (_REFS, "/", "/v/harbour/", "/mcp", "/api/v1/vaults"):
            assert client.get(place, headers={"Host": "evil.example"}).status_code == 421
        origin = {"Origin": "https://evil.example"}
        for place in ("/v/harbour/api/v1/notes", "/sign-in", "/sign-out"):
            assert client.post(place, json=_WRITTEN, headers=origin).status_code == 403
    with unchanged.client() as browser:
        form = {"token": token}
        assert browser.post("/sign-in", data=form).status_code == 403  # It says no origin.
        ours = {"Origin": unchanged.address}
        assert browser.post("/sign-in", data=form, headers=ours).status_code == 303
        assert browser.get("/v/harbour/").status_code == 200
        assert browser.post("/v/harbour/undo", data={"commit": "HEAD"}).status_code == 403
        cookie = dict(browser.cookies)
        ((name, value),) = cookie.items()
        id, end, signature = value.split(".")
    with unchanged.client() as browser:
        for forged in (
            f"{id}.{int(end) + 1}.{signature}",
            f"{id}.{end}.{signature[:-1]}0" if signature[-1] != "0" else f"{id}.{end}.x",
            f"{id}.1.{signature}",
            f"00000000.{end}.{signature}",
            "..",
            "x" * 5_000,
        ):
            told = browser.get("/v/harbour/", headers={"Cookie": f"{name}={forged}"})
            assert told.status_code == 401, forged
        revoke(unchanged.hub, "maren", time.time())
        assert browser.get("/", headers={"Cookie": f"{name}={value}"}).status_code == 401


def test_scopes(unchanged: Team) -> None:
    team = unchanged
    reader, writer = team.agent("scout", read="*"), team.agent("porter", write="harbour:notes/team")
    scribe = team.agent("scribe", propose="*")
    clone = team.clone("harbour", "scout", reader)
    (clone / "notes/tide.md").write_text("# Tide\n")
    git(clone, "add", ".")
    git(clone, "commit", "-qm", "Add tide")
    refused = push(clone)
    assert refused.returncode != 0
    assert "you may only read it" in refused.stderr
    git(clone, "remote", "set-url", "origin", team.url("harbour", scribe))
    refused = push(clone)
    assert refused.returncode != 0
    assert "vaultmem: " in refused.stderr
    with team.client(reader) as client:
        told = client.post("/v/harbour/api/v1/notes", json=_WRITTEN)
        assert told.status_code == 403
        assert "may only read" in told.json()["detail"]
    with team.client(writer) as client:
        told = client.post("/v/harbour/api/v1/notes", json=_WRITTEN)
        assert told.status_code == 403
        assert "is not yours to write" in told.json()["detail"]
    with team.client(scribe) as client:
        told = client.post("/v/harbour/api/v1/notes?ref=main", json=_WRITTEN)
        assert told.status_code == 403
        assert "proposals/scribe/" in told.json()["detail"]
    who = {each.who for each in read_audit(team.hub, what="push", outcome="refused")}
    assert who == {"porter", "scribe", "scout"}
    who = {each.who for each in read_audit(team.hub, what="write", outcome="refused")}
    assert who == {"scout", "scribe"}


def test_bodies_that_are_too_large_or_too_slow(
    unchanged: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = unchanged.agent("porter", write="*")
    monkeypatch.setattr(git_app, "_MAX_WANTS_BYTES", 100_000)
    monkeypatch.setattr(cgi.CgiLimits, "__new__", _impatient(cgi.CgiLimits))
    head = (
        "POST /git/harbour.git/git-upload-pack HTTP/1.1",
        f"Authorization: Bearer {token}",
        "Content-Type: application/x-git-upload-pack-request",
    )
    assert _ask(unchanged, *head, "Content-Length: 100001").split()[1] == b"413"
    chunks = (b"%x\r\n%s\r\n" % (50_000, b"0" * 50_000)) * 3 + b"0\r\n\r\n"
    told = _ask(unchanged, *head, "Transfer-Encoding: chunked", body=chunks)
    assert told.split()[1] == b"413"
    assert _ask(unchanged, *head, "Content-Length: 50", body=b"0011").split()[1] == b"408"
    api = ("POST /v/harbour/api/v1/notes HTTP/1.1", head[1], "Content-Type: application/json")
    assert _ask(unchanged, *api, "Content-Length: 3000000").split()[1] == b"413"


def test_what_git_itself_refuses_is_on_record(unchanged: Team) -> None:
    team = unchanged
    clone = team.clone("harbour", "porter", team.agent("porter", write="*"))
    tree, tip = git(clone, "rev-parse", "HEAD^{tree}"), team.tip("harbour")
    odd = f"tree {tree}\nparent {tip}\nauthor x 1 +0000\ncommitter y 1 +0000\n\nodd\n"
    command = ["git", "hash-object", "-t", "commit", "-w", "--literally", "--stdin"]
    done = subprocess.run(command, cwd=clone, input=odd, capture_output=True, text=True, check=True)
    assert push(clone, "origin", f"{done.stdout.strip()}:refs/heads/main").returncode
    wait_until(lambda: list(read_audit(team.hub, what="push")))
    (kept,) = read_audit(team.hub, what="push")
    assert (kept.who, kept.outcome, kept.origin) == ("porter", "refused", "127.0.0.1")
    assert kept.details["refused"][0].startswith("the push: ")
    assert kept.details["refused"][1].startswith("refs/heads/main: ")


def test_a_push_is_not_unpacked_before_it_is_looked_at(unchanged: Team) -> None:
    token = unchanged.agent("porter", write="*")
    told = _ask(
        unchanged,
        "POST /git/harbour.git/git-receive-pack HTTP/1.1",
        f"Authorization: Bearer {token}",
        "Content-Type: application/x-git-receive-pack-request",
        "Content-Encoding: gzip",
        "Content-Length: 4",
        body=b"0000",
    )
    assert told.split()[1] == b"403"


def test_what_lasts_ends_with_the_token(unchanged: Team) -> None:
    team = unchanged
    clone = team.clone("harbour", "porter", team.agent("porter", write="*"))
    client = team.client(team.person("maren", own="*"))
    with client, client.stream("GET", "/v/harbour/api/v1/events") as heard:
        parts = heard.iter_raw()
        assert next(parts)
        revoke(team.hub, "maren", time.time())
        git(clone, "commit", "-q", "--allow-empty", "-m", "x")
        assert push(clone).returncode  # It is of nobody; but a change is looked for.
        assert next(parts, b"") == b""


def test_streams_end_soon_after_the_token_though_nothing_changes(unchanged: Team) -> None:
    team = unchanged
    token = team.person("maren", own="*")
    kinds = {"Accept": "application/json, text/event-stream"}
    hello = json.loads(HELLO)
    with team.client(token, **kinds) as client:
        session = {"Mcp-Session-Id": client.post("/mcp", json=hello).headers["mcp-session-id"]}
        within = httpx2.Timeout(12)  # A sign of life comes each 15 seconds.
        with (
            client.stream("GET", "/v/harbour/api/v1/events", timeout=within) as events,
            client.stream("GET", "/mcp", headers=session, timeout=within) as messages,
        ):
            heard = events.iter_raw()
            assert next(heard)
            assert messages.status_code == 200
            revoke(team.hub, "maren", time.time())
            assert next(heard, b"") == b""
            assert b"data:" not in b"".join(messages.iter_raw())


def test_who_goes_away_leaves_no_program_behind(team: Team) -> None:
    team.enlarge("harbour")
    token = team.agent("porter", read="*")
    before = _count_pipes()
    for _ in range(3):
        with team.ask_for_all(token) as gone:
            assert gone.recv(12) == b"HTTP/1.1 200"
            wait_until(lambda: _count_programs(team))
        wait_until(lambda: not _count_programs(team))
    wait_until(lambda: _count_pipes() == before)
    with team.connect() as gone:  # No program is started for what never comes as a whole.
        gone.sendall(team.write_head(team.agent("scout", write="*"), "receive", 5000) + b"0094")
    assert not list(team.hub.repositories.glob("harbour.git/**/*.lock"))


def test_an_agents_name_comes_from_its_token(team: Team) -> None:
    with team.client(team.agent("porter", write="*"), **{"Vaultmem-Agent": "maren"}) as client:
        assert client.post("/v/harbour/api/v1/notes", json=_WRITTEN).status_code == 201
    author = git(team.hub.repositories / "harbour.git", "log", "-1", "--format=%an", "main")
    assert author == "porter"


def _place(team: Team) -> tuple[str, int]:
    host, _, port = team.address.removeprefix("http://").rpartition(":")
    return host, int(port)


def _ask(team: Team, *lines: str, body: bytes = b"") -> bytes:
    """Say something as it is, and return the answer: clients tidy up addresses."""
    host = team.address.removeprefix("http://")
    with socket.create_connection(_place(team), 20) as asking:
        head = "\r\n".join([lines[0], f"Host: {host}", "Connection: close", *lines[1:], "", ""])
        asking.sendall(head.encode() + body)
        told = b""
        while more := asking.recv(65_536):
            told += more
    return told


def _impatient(limits: type[cgi.CgiLimits]) -> object:
    make = limits.__new__

    def new(kind: type[cgi.CgiLimits], size: int, cpu: int, _: float) -> cgi.CgiLimits:
        return make(kind, size, cpu, 0.5, 20.0)

    return new


def _count_pipes() -> int:
    """Return how many pipes this process has, which serves the hub."""
    found = 0
    for file in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found += os.readlink(file).startswith("pipe:")
    return found


def _count_programs(team: Team) -> int:
    """Return how many programs of git's work in the hub's repositories."""
    wanted, found = str(team.hub.repositories).encode(), 0
    for file in Path("/proc").glob("[0-9]*/environ"):
        try:
            command = (file.parent / "cmdline").read_bytes()
            found += b"http-backend" in command and wanted in file.read_bytes()
        except OSError:
            continue
    return found
