"""Whoever asks, and wherever: the same vault, settings and question have the same answer."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from conftest import Make, Open
from in_process import run_here
from mcp.client.client import Client
from serving import call, play
from support import git, write_notes

from vaultmem.core.packs.context_file import write_plainly
from vaultmem.core.text.json_values import as_plain
from vaultmem.operations.finding import hit_data
from vaultmem.services.packs.build import AskPack, ask_pack
from vaultmem.services.search.run_query import Query, run_query

Rows = list[dict[str, Any]]

QUESTION = "how do passengers get reimbursed for tickets"

#: What `QUESTION` finds by its meaning alone: it shares no word with it.
MEANT = "notes/refunds.md"

NOTES = {
    "USER.md": "---\npinned: true\n---\n# User\n\nThe user runs a ferry.\n",
    MEANT: "# Refunds\n\nA refund is money that is paid back, within a week, by bank.\n",
    **{
        f"notes/tickets-{name}.md": f"# Tickets {name}\n\nPassengers show {name} tickets {where}.\n"
        for name, where in (
            ("day", "at the gangway"),
            ("week", "at the office, when they ask how"),
            ("year", "to nobody"),
            ("child", "with a grown-up; see [[refunds]]"),
        )
    },
    **{f"notes/log-{day}.md": f"# Day {day}\n\nThe ferry left at {day}.\n" for day in range(9)},
}
LATER = {
    "notes/tickets-year.md": "# Tickets for a year\n\nPassengers get them reimbursed in May.\n",
}


class Asked(NamedTuple):
    """The settings of a vault, and the ref or date that every front end asks for."""

    settings: str = ""
    at: str = ""
    ref: str = ""

    @property
    def options(self) -> list[str]:
        """The same for the command line."""
        pairs = (("--at", self.at), ("--ref", self.ref))
        return [word for name, value in pairs if value for word in (name, value)]


SEMANTIC, FEW = "semantic: static\n", "recall_limit: 3\n"
ALL = [
    Asked(),
    Asked(SEMANTIC),
    Asked(FEW),
    Asked(SEMANTIC + FEW),
    Asked(at="then"),
    Asked(SEMANTIC + FEW, at="then"),
    Asked(ref="side"),
    Asked(SEMANTIC + FEW, ref="side"),
]


@pytest.fixture(params=ALL, ids=lambda each: "-".join(filter(None, each)).replace("\n", " "))
def asked(request: pytest.FixtureRequest) -> Asked:
    found: Asked = request.param
    return found


@pytest.fixture
def root(make_vault: Make, asked: Asked) -> Path:
    """Give a vault whose branches and past differ, with the settings committed in all of them."""
    root = make_vault(NOTES)
    contexts = f'extra_packs: ["packs/tickets.md: {QUESTION}"]\n'
    ref = f"ref: {asked.ref}\n" if asked.ref else ""
    write_notes(root, {"vaultmem.yaml": asked.settings + contexts + ref})
    commit(root, "settings")
    git(root, "tag", "then")
    git(root, "switch", "-qc", "side")
    write_notes(root, {"notes/tickets-week.md": "# A week\n\nReimbursed passengers are glad.\n"})
    commit(root, "side")
    git(root, "switch", "-q", "main")
    write_notes(root, LATER)
    commit(root, "later")
    return root


def commit(root: Path, subject: str) -> None:
    git(root, "add", "-A")
    git(root, "commit", "-qm", subject)


def run(root: Path, *arguments: str, stdin: str = "") -> str:
    done = run_here(*arguments, "--vault", str(root), stdin=stdin)
    assert (done.code, done.err) == (0, "")
    return done.out


def recall_by_command(root: Path, asked: Asked, *more: str) -> Rows:
    found = json.loads(run(root, "recall", QUESTION, "--json", *asked.options, *more))
    return [without_text(row) for row in found["hits"]]


def pack_by_command(root: Path, asked: Asked, *words: str) -> str:
    return run(root, "pack", *words, *asked.options).rstrip("\n")


def without_text(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "text"}


def test_recall_is_one_for_all(root: Path, asked: Asked, opened: Open) -> None:
    expected = recall_by_command(root, asked)
    assert (len(expected) == 3) == (FEW in asked.settings)
    assert any(row["explanation"]["semantic"] for row in expected) == (SEMANTIC in asked.settings)
    if FEW not in asked.settings:
        assert (MEANT in [row["path"] for row in expected]) == (SEMANTIC in asked.settings)

    at = {"at": asked.at} if asked.at else {}

    async def scene(client: Client) -> tuple[Rows, Rows, Rows]:
        whole = await call(client, "recall", query=QUESTION, **at)
        pages: Rows = []
        following: int | None = 0
        while following is not None and len(pages) < len(expected):
            page = await call(client, "recall", query=QUESTION, limit=1, offset=following, **at)
            pages += page["hits"]
            following = page["next_offset"]
        commit = asked.at or asked.ref or "HEAD"
        then = await call(client, "history", action="belief", query=QUESTION, at=commit)
        return whole["hits"], pages, then["rows"]

    whole, pages, then = play(root, scene, ref=asked.ref)
    assert whole == expected
    assert pages == expected
    assert [row["path"] for row in then] == [row["path"] for row in expected]

    answer = run_query(opened(root, ref=asked.ref), Query(QUESTION, at=asked.at))
    assert [without_text(as_plain(hit_data(hit))) for hit in answer.hits] == expected


def test_packs_are_one_for_all(root: Path, asked: Asked, opened: Open) -> None:
    expected = pack_by_command(root, asked, QUESTION)
    assert ("money that is paid back" in expected) == (SEMANTIC in asked.settings)
    at = {"at": asked.at} if asked.at else {}

    async def scene(client: Client) -> list[str]:
        made = await call(client, "context_pack", query=QUESTION, **at)
        return [made["message"]]

    # An agent is not sent the last line, which says what it cost.
    assert play(root, scene, ref=asked.ref)[0] == expected.rpartition("\n\n<!-- vaultmem: ")[0]
    answer = ask_pack(opened(root, ref=asked.ref), AskPack(QUESTION, at=asked.at))
    assert answer.pack.text.rstrip("\n") == expected
    assert bool(answer.meaning) == (SEMANTIC in asked.settings)

    expecting = ("assert", QUESTION, "--contains-note", MEANT, *asked.options)
    judged = run_here(*expecting, "--vault", root)
    assert (judged.code == 0) == (SEMANTIC in asked.settings)


@pytest.mark.parametrize("asked", [each for each in ALL if not each.at], indirect=True)
def test_what_comes_unasked_is_the_same(root: Path, asked: Asked) -> None:
    expected = pack_by_command(root, asked, QUESTION)
    plain = pack_by_command(root, asked)

    async def scene(client: Client) -> list[str]:
        about = QUESTION.replace(" ", "%20")
        packs = [
            (await client.read_resource(uri)).contents[0].text.rstrip("\n")
            for uri in (f"vaultmem://pack/{about}", "vaultmem://pack")
        ]
        resume = await client.get_prompt("resume", {"about": QUESTION})
        return [*packs, resume.messages[0].content.text]

    told, recent, resume = play(root, scene, ref=asked.ref)
    assert (told, recent) == (expected, plain)
    assert expected in resume
    run(root, "context")
    assert (root / "packs/tickets.md").read_text().rstrip("\n") == write_plainly(expected)
    assert (root / "CONTEXT.md").read_text().rstrip("\n") == write_plainly(plain)


@pytest.mark.campaign
@pytest.mark.parametrize("asked", [each for each in ALL if not each.at], indirect=True)
def test_hooks_tell_the_same(root: Path, asked: Asked) -> None:
    given = json.dumps({"prompt": QUESTION, "session_id": "s-1", "source": "startup"})
    hits = recall_by_command(root, asked, "-n", "4")
    several = [row["path"] for row in hits if len(row["explanation"]["matches"]) > 1]
    told = run(root, "hook", "prompt", "--format", "text", stdin=given)
    handles = re.findall(r"^\[([0-9a-f]{4,}) ", told, re.MULTILINE)
    told_of = [json.loads(run(root, "show", each, "--json"))["path"] for each in handles]
    assert told_of == several != []

    told = run(root, "hook", "session-start", "--format", "text", stdin=given)
    pack = pack_by_command(root, asked, "--budget", "1200", "--format", "text")
    if asked.ref:  # There a session begins by a commit, so the pack after it is of that one.
        told, pack = (re.sub(r"(?<=side@)\w+", "", text) for text in (told, pack))
    assert told.startswith(pack)


@pytest.mark.parametrize("asked", [Asked(SEMANTIC)], indirect=True)
def test_bisect_asks_as_assert_does(root: Path, asked: Asked) -> None:
    write_notes(root, {MEANT: "# Refunds\n\nBread needs flour and water.\n"})
    commit(root, "bread")
    bad = git(root, "rev-parse", "HEAD")
    line = ("bisect", QUESTION, "--good", "then", "--contains", "money", "--json")
    done = json.loads(run(root, *line))
    assert [each["commit"] for each in done["first_bad"]] == [bad]


def test_a_vault_that_nobody_synced_is_synced(make_vault: Make, opened: Open) -> None:
    root = make_vault({})
    write_notes(root, NOTES)
    assert run_query(opened(root), Query("ferry left")).hits
    assert "Refunds" in ask_pack(opened(root), AskPack("refund money")).pack.text


@pytest.mark.campaign
@pytest.mark.parametrize("asked", [Asked()], indirect=True)
def test_what_somebody_is_shown_is_counted_once(root: Path, opened: Open) -> None:
    given = json.dumps({"prompt": QUESTION, "session_id": "s-1"})

    async def scene(client: Client) -> None:
        await call(client, "recall", query=QUESTION)
        await call(client, "context_pack", query=QUESTION)
        await client.read_resource("vaultmem://pack")
        await client.get_prompt("resume", {})

    play(root, scene)
    run(root, "recall", QUESTION)
    run(root, "pack", QUESTION)
    run(root, "hook", "prompt", stdin=given)
    run_query(opened(root), Query(QUESTION))
    for unseen in (("context",), ("assert", QUESTION, "--contains", "tickets")):
        run(root, *unseen)
    run(root, "hook", "prompt", stdin=json.dumps({"prompt": "thanks!"}))
    found = json.loads(run(root, "stats", "--json"))
    assert (found["recalls"]["calls"], found["packs"]["calls"]) == (4, 4)
