"""Pages of sessions and agents: what happened, by time, and what of it was undone."""

from __future__ import annotations

import html
import json
import os
import re

from in_process import run_here
from starlette.testclient import TestClient
from support import git
from visiting import HOST, Served

from vaultmem.core.sessions.turns import Turn
from vaultmem.services.sessions.windows import add_turns
from vaultmem.vault import open_vault

HOSTILE = "<script>alert(1)</script>"
TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


def work(served: Served, *words: str, agent: str = "codex") -> None:
    """Run a command as an agent, in its session."""
    env = {"VAULTMEM_AGENT": agent, "VAULTMEM_SESSION_ID": "s-9"}
    done = run_here(*words, cwd=served.root, env=env)
    assert done.code == 0, done.err


def tell(served: Served) -> None:
    """Let an agent ask, write and close a session; its turns are on this machine."""
    work(served, "session", "start", "--id", "s-9", "--goal", f"Mend {HOSTILE}")
    work(served, "checkpoint", "begun")
    work(served, "recall", "xyzzy")
    work(served, "pack", "how are refunds handled?")
    work(served, "remember", "The slipway is painted green.", "--title", "Slipway")
    work(served, "checkpoint", "the slipway")
    vault = open_vault(served.root)
    turns = [Turn("user", f"Turn {n} {HOSTILE} {'x' * 800}") for n in range(1, 70)]
    add_turns(vault, "s-9", turns)
    vault.close()
    file = served.root / "transcripts/s-9.jsonl"  # As an older version, or a hand, wrote it down.
    row = json.loads(file.read_text().splitlines()[-1])
    with file.open("a") as out:
        out.write(json.dumps({**row, "number": 70, "text": f"token {TOKEN}"}) + "\n")


def undo(browser: TestClient, page: str, back: str) -> str:
    """Take back the newest commit that can be chosen; return the page that one comes to."""
    names = {re.findall(r'name="(commit-[0-9a-f]+)"', page)[0]: "1"}
    headers = {"Origin": f"http://{HOST}"}
    done = browser.post("/undo", data={**names, "back": back}, headers=headers)
    assert done.status_code == 303
    assert done.headers["location"] == back
    return browser.get(back).text


def test_a_session_is_a_story_of_turns_commits_and_packs(owned: Served) -> None:
    tell(owned)
    browser = owned.enter()
    page = browser.get("/session/s-9").text
    assert "Turns 1 to 60 of 70 on this machine" in page
    assert "checkpoint: the slipway" in page.partition('id="story"')[2]
    assert HOSTILE not in page
    later = browser.get("/session/s-9?from=61").text
    assert 'id="turn-70"' in later
    assert 'id="turn-60"' not in later
    last = later.partition('id="turn-70"')[2].partition("</li>")[0]
    assert (TOKEN in later, "***" in last) == (False, True)
    assert "how are refunds handled?" in page + later
    assert 'id="turn-' not in browser.get("/session/s-9?at=HEAD").text
    assert "undone</a>" in undo(browser, page, "/session/s-9")


def test_an_agent_has_a_page_of_what_it_wrote_was_shown_and_did_not_find(owned: Served) -> None:
    tell(owned)
    browser = owned.enter()
    page = browser.get("/agent/codex").text
    wrote, committed, shown, sessions = (
        page.partition(f'aria-labelledby="{name}"')[2].partition("</section>")[0]
        for name in ("wrote", "commits", "shown", "sessions")
    )
    assert "Slipway" in wrote
    assert "checkpoint: the slipway" in committed
    assert "how are refunds handled?" in shown
    assert "xyzzy" in shown.partition("Queries without results")[2]
    assert "Mend &lt;script&gt;" in sessions
    rows = browser.get(html.unescape(re.findall(r'href="(/api/v1/notes[^"]*)"', page)[0]))
    assert "Slipway" in [each["title"] for each in rows.json()["notes"]]
    assert "1 undone" in undo(browser, page, "/agent/codex")
    assert not os.path.exists(owned.root / "notes/slipway.md")
    assert git(owned.root, "status", "--porcelain") == ""
    assert browser.get("/agent/nobody").status_code == 404
    assert '<a class="agent" href="/agent/codex">' in browser.get("/sessions").text


def test_a_page_that_only_reads_offers_to_take_nothing_back(served: Served) -> None:
    tell(served)
    browser = served.enter()
    for place in ("/session/s-9", "/agent/codex"):
        page = browser.get(place).text
        assert 'name="commit-' not in page
        assert 'action="/undo"' not in page
    headers = {"Origin": f"http://{HOST}"}
    name = git(served.root, "rev-parse", "HEAD")
    assert browser.post("/undo", data={f"commit-{name}": "1"}, headers=headers).status_code == 422
