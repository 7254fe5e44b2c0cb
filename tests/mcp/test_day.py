"""A day of an agent through the server alone, and what notes, git and receipts say of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Make, RunCli
from mcp.client.client import Client
from serving import call, play_stdio, refused, told
from support import git, hash_tree

NOTES = {
    "notes/pier.md": "The pier is of oak.\n",
    "notes/rope.md": "---\nstate: candidate\nkind: semantic_fact\n---\nRope is of hemp.\n",
}

TOKEN = "ghp_" + "a1B2" * 9


@pytest.mark.campaign
def test_a_day_of_an_agent(make_vault: Make, run_cli: RunCli, tmp_path: Path) -> None:
    root = make_vault(NOTES)
    packs: list[str] = []

    async def evening_before(client: Client) -> None:
        await call(client, "session", action="start", session="day-0", goal="Look at the pier")
        await call(client, "session", action="close", summary="The east end is rotten.")

    async def start_and_restore(client: Client) -> None:
        began = await client.call_tool(
            "session",
            {"action": "start", "session": "day-1", "goal": "Mend it", "continues": "day-0"}
            | {"detail": True},
        )
        assert began.structured_content["restored"] == "day-0"
        assert "The east end is rotten." in told(began)
        restored = await client.call_tool("session", {"action": "restore"})
        assert "Mend it" in told(restored)
        assert (
            "> The pier is of oak." in (await call(client, "recall", query="pier oak"))["message"]
        )
        packs.append((await call(client, "context_pack", query="pier"))["message"])
        assert "> The pier is of oak." in packs[0]

    async def remember(client: Client) -> tuple[str, str]:
        crane = "The crane at the east pier lifts 3 tons."
        first = await call(client, "remember", text=crane, context="pier")
        again = await call(client, "remember", text=crane)
        assert (again["outcome"], again["path"]) == ("known", first["path"])
        other = await call(client, "remember", text=crane.replace("3", "5"), context="pier")
        assert (other["outcome"], other["similar"][0]["contradicts"]) == ("created", True)
        assert f"contradicts {first['path']}" in other["message"]
        return first["path"], other["path"]

    async def attack(client: Client) -> None:
        before = hash_tree(tmp_path, ("home",))
        assert TOKEN not in await refused(client, "remember", text=f"The token is {TOKEN}.")
        for outside in ("../../outside", "/../outside"):
            await refused(client, "remember", text="Planks of elm.", context=outside)
        assert "root:" not in await refused(client, "read_note", path="../../etc/passwd")
        await refused(client, "update_note", path="../../x", property="tags", value=["x"])
        await refused(client, "forget", path="/etc/passwd")
        assert hash_tree(tmp_path, ("home",)) == before

    async def day(client: Client) -> tuple[str, str, str]:
        await start_and_restore(client)
        first, other = await remember(client)
        await attack(client)
        decided = await call(client, "session", action="decide", text="Oak planks only.")
        await call(client, "session", action="question", text="Who pays for the crane?")
        await call(client, "checkpoint", note="crane")
        (promoted,) = (await call(client, "promote", paths=["rope"]))["promoted"]
        assert promoted["path"] == "notes/rope.md"
        closed = await call(client, "session", action="close", summary="The pier is mended.")
        assert (closed["session"], closed["status"]) == ("day-1", "ok")
        assert "no session" in await refused(client, "session", action="note", text="late")
        return first, other, str(decided["decision"]["path"])

    play_stdio(root, evening_before, "--agent", "claude")
    first, other, decided = play_stdio(root, day, "--agent", "claude")

    # The notes: one for the fact said twice, one against it that says so, each with its author.
    written = {str(file.relative_to(root)) for file in root.glob("notes/**/*.md")}
    assert written == {*NOTES, first, other, decided}
    for path in (first, other, decided):
        text = (root / path).read_text()
        assert "agent: claude\nsession: day-1\n" in text
    assert f'contradicts:\n  - "[[{Path(first).stem}]]"' in (root / other).read_text()
    assert "state: active" in (root / "notes/rope.md").read_text()
    session = (root / "sessions/day-1.md").read_text()
    for words in ("status: ok", "day-0", "The pier is mended.", "Who pays", Path(decided).stem):
        assert words in session

    # Git: each event under the agent's name, in the session, and nothing left over.
    trailers = "%(trailers:key=Session-Id,key=Vault-Event,valueonly,separator=|)"
    assert git(root, "log", "-4", f"--format=%an: {trailers}").splitlines() == [
        "claude: day-1|session-close",
        "claude: day-1|promote",
        "claude: day-1|checkpoint",
        "claude: day-0|session-close",
    ]
    assert git(root, "status", "--porcelain") == ""
    assert TOKEN not in git(root, "log", "-p", "--all")

    # The receipt: the agent's pack, in its session, and the same bytes again.
    receipts = run_cli("receipts", "--vault", root, "--json").json["receipts"]
    assert [(each["query"], each["session"]) for each in receipts] == [("pier", "day-1")]
    again = run_cli("receipt", receipts[0]["id"], "--vault", root)
    # The agent was not sent the last line, which says what it cost.
    assert again.out.startswith(f"{packs[0]}\n\n<!-- vaultmem: ")
    assert "of 2000 tokens" in again.out
