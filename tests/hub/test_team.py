"""Two people and three agents of different scopes, by git's own client, MCP, and a browser."""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
import threading
import time
from html import unescape
from typing import Any

import pytest
from hub_serving import Team, play_at, push
from serving import call, refused
from support import git, wait_until

from vaultmem.client import Client
from vaultmem.errors import ForbiddenError
from vaultmem.services.hub.hub_folder import read_audit

pytestmark = pytest.mark.campaign


def test_a_team_works_together(team: Team) -> None:
    maren = team.person("maren", own="*")
    jonas = team.person("jonas", write="harbour", read="payments")
    scout, porter = team.agent("scout", read="*"), team.agent("porter", write="harbour")
    scribe = team.agent("scribe", propose="*")
    at = f"{team.address}/v/harbour/mcp"

    # The owner and a teammate, each in a clone of theirs.
    theirs, own = team.clone("harbour", "jonas", jonas), team.clone("harbour", "maren", maren)
    (theirs / "notes/tide.md").write_text("# Tide\n\nThe tide comes at noon.\n")
    git(theirs, "add", ".")
    git(theirs, "commit", "-qm", "Add tide")
    assert push(theirs).returncode == 0
    git(own, "pull", "-q")
    assert (own / "notes/tide.md").exists()
    other = team.clone("payments", "jonas", jonas)
    git(other, "commit", "-q", "--allow-empty", "-m", "Nothing")
    assert "you may only read it" in push(other).stderr

    async def porters(client: Any) -> str:
        assert (await call(client, "recall", query="tide"))["hits"][0]["path"] == "notes/tide.md"
        made = await call(client, "remember", text="The crane lifts twelve tonnes.")
        return str(made["path"])

    async def scouts(client: Any) -> None:
        tools = {each.name for each in (await client.list_tools()).tools}
        assert "recall" in tools
        assert not {"remember", "forget", "checkpoint"} & tools
        assert (await call(client, "recall", query="crane"))["hits"]

    async def scribes(client: Any) -> None:
        made = await call(client, "remember", text="The lamp at the pier is green.")
        assert made["ref"] == "proposals/scribe/notes"

    crane = play_at(at, porter, porters)
    play_at(at, scout, scouts)
    before = team.tip("harbour")
    play_at(at, scribe, scribes)
    assert team.tip("harbour") == before
    git(own, "pull", "-q")
    assert (own / crane).exists()

    # The owner takes over what was proposed, and everybody has it.
    git(own, "fetch", "-q")
    git(own, "merge", "-q", "-m", "Take over", "origin/proposals/scribe/notes")
    assert push(own).returncode == 0
    with team.client(jonas) as client:
        hits = client.get("/v/harbour/api/v1/recall?query=lamp").json()["hits"]
        assert [hit["agent"] for hit in hits[:1]] == ["scribe"]

    with pytest.raises(ForbiddenError, match="you may only read this vault"):
        Client(f"{team.address}/v/harbour", scout).remember("Nothing")
    assert Client(f"{team.address}/v/payments/", scout).recall("pier")["hits"]

    asked = {(each.who, each.details["operation"]) for each in read_audit(team.hub, what="ask")}
    assert {("porter", "recall"), ("scout", "recall"), ("jonas", "recall")} <= asked
    pushed = {(each.who, each.outcome) for each in read_audit(team.hub, what="push")}
    assert {(name, "done") for name in ("maren", "jonas", "porter", "scribe")} <= pushed
    for each in team.hub.repositories.glob("*.git"):
        git(each, "fsck", "--strict")


def test_proposals_are_decided_on_the_page_and_by_the_api(team: Team) -> None:
    jonas, scribe = team.person("jonas", write="harbour"), team.agent("scribe", propose="*")
    at = f"{team.address}/v/harbour"

    def propose(text: str) -> str:
        async def scene(client: Any) -> None:
            assert (await call(client, "remember", text=text))["ref"] == "proposals/scribe/notes"

        play_at(f"{at}/mcp", scribe, scene)
        return team.tip("harbour", "refs/heads/proposals/scribe/notes")

    with team.client(jonas) as program:
        propose("The lamp at the pier is green.")
        (item,) = wait_until(lambda: _list_proposals(program))
        assert [note["agent"] for note in item["notes"]] == ["scribe"]
        done = program.post(f"/v/harbour/api/v1/review/{item['id']}", json={"choice": "accept"})
        assert done.json()["decided"][0]["message"] == "it is merged"
        assert program.get("/v/harbour/api/v1/recall?query=lamp").json()["hits"]
        assert team.tip("harbour", "refs/heads/proposals/scribe/notes") == ""

    ours = {"Origin": team.address, "Accept": "text/html"}
    with team.client(**ours) as browser:
        browser.post("/sign-in", data={"token": jonas})
        assert "to decide" not in browser.get("/v/harbour/").text
        propose("The fog horn is silent.")
        wait_until(lambda: "1 proposal</a>" in browser.get("/v/harbour/").text)
        assert '/v/harbour/review?only=proposal">1 proposal</a>' in browser.get("/").text
        page = browser.get("/v/harbour/review?only=proposal").text
        assert "The fog horn is silent." in page
        (link,) = re.findall(r'<h3><a href="([^"]+)"', page)
        assert "The fog horn is silent." in browser.get(unescape(link)).text
        (name,) = re.findall(r'name="id" value="([0-9a-f]+)"', page)
        given = {"id": name, "choice": "reject", "reason": "It is loud."}
        browser.post("/v/harbour/review", data=given)
        page = browser.get("/v/harbour/review").text
        assert "it is rejected" in page
        assert "fog horn" not in page
    assert team.tip("harbour", "refs/heads/proposals/scribe/notes") == ""
    told = git(team.hub.repositories / "harbour.git", "log", "-1", "--format=%an %s %b", "main")
    assert "jonas" in told
    assert "review: proposals/scribe/notes is rejected" in told
    assert "It is loud." in told


def test_an_agent_finds_what_it_proposed_and_others_do_not(team: Team) -> None:
    scribe, scout = team.agent("scribe", propose="*"), team.agent("scout", read="*")
    at = f"{team.address}/v/harbour/mcp"

    async def propose(client: Any) -> None:
        made = await call(client, "remember", text="The lamp at the pier is green.")
        found = await call(client, "recall", query="lamp green")
        assert [hit["path"] for hit in found["hits"][:1]] == [made["path"]]
        assert "green" in (await call(client, "context_pack", query="lamp"))["message"]
        assert "green" in str(await call(client, "read_note", path=made["path"]))

    async def search(client: Any) -> None:
        found = await call(client, "recall", query="lamp green")
        assert not [hit for hit in found["hits"] if "lamp" in hit["path"]]

    play_at(at, scribe, propose)
    play_at(at, scout, search)


def _list_proposals(program: Any) -> list[Any]:
    found: list[Any] = program.get("/v/harbour/api/v1/review?only=proposal").json()["items"]
    return found


def test_an_agent_is_served_over_all_that_it_may_read(team: Team) -> None:
    porter = team.agent("porter", write="harbour", read="payments")

    async def scene(client: Any) -> None:
        found = await call(client, "recall", query="pier oak")
        assert {hit["vault"] for hit in found["hits"]} == {"harbour", "payments"}
        found = await call(client, "recall", query="pier oak", vaults=["payments"])
        assert found["hits"]
        assert "oak" in (await call(client, "context_pack", query="pier"))["message"]
        made = await call(client, "remember", vault="harbour", text="The lamp is green.")
        read = await call(client, "read_note", vault="harbour", path=made["path"])
        assert "green" in str(read)
        assert "may only read" in await refused(client, "remember", vault="payments", text="No.")
        assert "no such vault" in await refused(client, "read_note", vault="other", path="x.md")
        assert "vault" in await refused(client, "read_note", path="x.md")

    play_at(f"{team.address}/mcp", porter, scene)


def test_pages_of_two_vaults(team: Team) -> None:
    ours = {"Origin": team.address, "Accept": "text/html"}
    token = team.person("maren", write="harbour", read="payments")
    with team.client(**ours) as browser:
        assert "Your token" in browser.get("/").text
        assert browser.post("/sign-in", data={"token": "wrong"}).status_code == 403
        assert browser.post("/sign-in", data={"token": token}).headers["location"] == "/"
        home = browser.get("/").text
        assert 'href="/v/harbour/"' in home
        assert "you may read" in home
        found = browser.get("/", params={"q": "pier oak"}).text
        assert 'href="/v/payments/note/notes/pier.md' in found
        assert browser.get("/v/harbour").headers["location"] == "/v/harbour/"
        for name, footer in (("harbour", "You may write"), ("payments", "Read only")):
            page = browser.get(f"/v/{name}/").text
            assert footer in page
            links = set(re.findall(r'(?:href|src|action|data-[a-z]+)="(/[^"?#]*)', page)) - {"/"}
            assert links
            assert all(each.startswith(f"/v/{name}/") for each in links), links
            for each in links - {f"/v/{name}/events"}:
                assert browser.get(each).status_code == 200, each
            note = browser.get(f"/v/{name}/note/notes/pier.md").text
            assert f'href="/v/{name}/history/notes/pier.md' in note
            assert "/spread/" not in note
            assert browser.get(f"/v/{name}/spread/notes/pier.md").status_code == 403

        commit = team.tip("harbour")
        written = {"text": "The lamp is green.", "kind": "semantic_fact"}
        assert browser.post("/v/harbour/api/v1/notes", json=written).status_code == 201
        made = team.tip("harbour")
        undone = browser.post("/v/harbour/undo", data={"commit": made})
        assert undone.headers["location"] == "/v/harbour/review"
        assert "Taken back" in browser.get("/v/harbour/review").text
        assert git(team.hub.repositories / "harbour.git", "diff", "--stat", commit, "main") == ""
        assert browser.post("/v/payments/undo", data={"commit": commit}).status_code == 403
        assert browser.post("/sign-out").status_code == 303
        assert browser.get("/").status_code == 401


@pytest.mark.parametrize("protocol", ["0", "2"])
def test_packs_that_are_large_and_questions_that_are_long(team: Team, protocol: str) -> None:
    token = team.person("maren", own="*")
    clone = team.clone("harbour", "maren", token)
    git(clone, "config", "protocol.version", protocol)
    (clone / "chart.bin").write_bytes(random.Random(7).randbytes(5_000_000))  # Sent in chunks.
    git(clone, "add", ".")
    git(clone, "commit", "-qm", "Add a chart")
    for number in range(60):  # What is known is told in a body that git compresses.
        git(clone, "commit", "-q", "--allow-empty", "-m", f"Nothing {number}")
    assert push(clone, "origin", "HEAD").returncode == 0
    again = team.clone("harbour", "again", token)
    assert git(again, "rev-parse", "HEAD") == team.tip("harbour")
    for number in range(60):
        git(again, "commit", "-q", "--allow-empty", "-m", f"Ours {number}")
    git(clone, "commit", "-q", "--allow-empty", "-m", "Theirs")
    assert push(clone).returncode == 0
    git(again, "-c", f"protocol.version={protocol}", "fetch", "-q")
    assert git(again, "rev-parse", "origin/main") == team.tip("harbour")


def test_behind_a_proxy(team: Team) -> None:
    team.close()
    team.serve(names=("hub.example.org",), by_proxy=True)
    assert team.server is not None
    assert team.server.address == "https://hub.example.org"
    team.address = f"http://127.0.0.1:{team.server.port}"
    token = team.person("maren", own="*")
    proxied = {"Host": "hub.example.org", "X-Forwarded-For": "203.0.113.9, 198.51.100.7"}
    ours = {**proxied, "Origin": "https://hub.example.org", "Accept": "text/html"}
    with team.client(**ours) as browser:
        entered = browser.post("/sign-in", data={"token": token})
        assert "Secure" in entered.headers["set-cookie"]
        cookie = {"Cookie": entered.headers["set-cookie"].partition(";")[0]}
        assert browser.get("/v/harbour/", headers=cookie).status_code == 200
        plain = {**cookie, "Origin": "http://hub.example.org"}
        assert browser.post("/sign-out", headers=plain).status_code == 403
    clone = team.clone("harbour", "maren", token)
    for name, value in proxied.items():
        git(clone, "config", "--add", "http.extraHeader", f"{name}: {value}")
    git(clone, "commit", "-q", "--allow-empty", "-m", "Nothing")
    assert push(clone).returncode == 0
    (entry,) = read_audit(team.hub, what="push")
    assert entry.origin == "198.51.100.7"  # What the proxy itself saw.


def test_vaults_come_and_go_while_a_hub_is_served(team: Team) -> None:
    from vaultmem.services.hub.repositories import make_repository, remove_repository

    with team.client(team.person("maren", own="*")) as client:
        make_repository(team.hub, "new", {}, str(team.hub.repositories / "harbour.git"), "main")
        remove_repository(team.hub, "payments", time.time())
        time.sleep(1.1)
        listed = [each["name"] for each in client.get("/api/v1/vaults").json()["vaults"]]
        assert listed == ["harbour", "new"]
        assert "vaultmem_" in client.get("/metrics").text
        assert client.get("/v/new/api/v1/recall?query=pier").json()["hits"]
        assert client.get("/v/payments/api/v1/recall?query=pier").status_code == 404


def test_nobody_who_listens_keeps_a_hub_from_its_end(team: Team) -> None:
    token = team.person("maren", own="*")
    ended = threading.Event()

    async def scene(client: Any) -> None:
        await call(client, "recall", query="pier")
        started = time.monotonic()
        await asyncio.to_thread(team.close)
        assert time.monotonic() - started < 8
        ended.set()

    with (
        team.client(token) as listening,
        listening.stream("GET", "/v/harbour/api/v1/events") as stream,
    ):
        lines = stream.iter_lines()
        assert next(lines).startswith(":")
        with contextlib.suppress(BaseException):  # Its server has gone.
            play_at(f"{team.address}/v/harbour/mcp", token, scene)
    assert ended.is_set()
