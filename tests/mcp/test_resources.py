"""Resources, subscriptions and prompts, as the SDK's own client sees them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from conftest import Make
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, PromptReference, ResourceTemplateReference
from serving import play, play_stdio
from support import write_notes

from vaultmem.mcp_server.resources import Subscribers

NOTES = {f"notes/pier {n:03}.md": f"# Pier {n}\n\nPlanks of pier {n}.\n" for n in range(120)}


@pytest.mark.campaign
def test_every_note_is_a_resource_and_can_be_read(
    make_vault: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vaultmem.mcp_server.tool_text.PAGE", 100)
    root = make_vault({**NOTES, "notes/bad.md": "---\nstate: quarantined\n---\nObey.\n"})

    async def scene(client: Client) -> None:
        first = await client.list_resources()
        assert len(first.resources) == 101
        rest = await client.list_resources(cursor=first.next_cursor)
        found = [each.uri for each in [*first.resources, *rest.resources]]
        assert found[0] == "vaultmem://pack"
        assert len(found) == len(set(found))
        assert "vaultmem://note/notes/pier%20007.md" in found
        assert not any("bad.md" in uri for uri in found)
        text = (await client.read_resource("vaultmem://note/notes/pier%20007.md")).contents[0].text
        assert "> Planks of pier 7." in text
        pack = (await client.read_resource("vaultmem://pack/planks%20of%20pier%209")).contents[0]
        assert "> Planks of pier 9." in pack.text
        assert (
            (await client.read_resource("vaultmem://pack")).contents[0].text.startswith("# Context")
        )
        templates = (await client.list_resource_templates()).resource_templates
        assert [each.uri_template for each in templates] == [
            "vaultmem://note/{+path}",
            "vaultmem://pack/{+query}",
        ]
        for uri in (
            "vaultmem://note/notes/none.md",
            "vaultmem://note/../../etc/passwd",
            "vaultmem://note/%2e%2e/%2e%2e/etc/passwd",
            "vaultmem://note/notes/bad.md",
            "file:///etc/passwd",
        ):
            with pytest.raises(MCPError):
                await client.read_resource(uri)

        for listing in (
            client.list_resources,
            client.list_resource_templates,
            client.list_prompts,
            client.list_tools,
        ):
            with pytest.raises(MCPError, match="no such cursor") as told:
                await listing(cursor="nowhere")
            assert told.value.error.code == INVALID_PARAMS

    play(root, scene)


def test_paths_and_titles_are_completed(make_vault: Make) -> None:
    root = make_vault({**NOTES, "notes/bad.md": "---\nstate: quarantined\n---\nObey.\n"})
    note, pack = (
        ResourceTemplateReference(uri=f"vaultmem://{form}")
        for form in ("note/{+path}", "pack/{+query}")
    )

    async def scene(client: Client) -> None:
        async def ask(ref: Any, name: str, value: str) -> Any:
            return (await client.complete(ref, {"name": name, "value": value})).completion

        found = await ask(note, "path", "notes/PIER 00")
        assert (found.total, found.has_more) == (10, False)
        assert found.values[7] == "notes/pier 007.md"
        every = await ask(note, "path", "")
        assert (len(every.values), every.has_more) == (100, True)
        assert "notes/bad.md" not in every.values
        assert (await ask(note, "path", "bad")).values == []
        assert (await ask(pack, "query", "pier 11")).values[0] == "Pier 11"
        about = await ask(PromptReference(name="resume"), "about", "ier 11")
        assert "Pier 11" in about.values
        assert (await ask(PromptReference(name="resume"), "colour", "")).values == []
        with pytest.raises(MCPError) as told:
            await ask(PromptReference(name="obey"), "about", "")
        assert told.value.error.code == INVALID_PARAMS

    play(root, scene)


@pytest.mark.campaign
@pytest.mark.parametrize("play", [play, play_stdio])
def test_whoever_listens_is_told_of_a_save(play: Callable[..., object], make_vault: Make) -> None:
    root = make_vault({"notes/a.md": "Anchors.\n", "notes/b.md": "Buoys.\n"})

    async def scene(client: Client) -> None:
        uri = "vaultmem://note/notes/a.md"
        async with client.listen(resource_subscriptions=[uri]) as events:
            write_notes(root, {"notes/b.md": "Buoys, red.\n"})
            write_notes(root, {"notes/a.md": "Anchors, heavy.\n"})
            async with asyncio.timeout(10):
                async for event in events:
                    assert event.uri == uri
                    break
        text = (await client.read_resource(uri)).contents[0].text
        assert "heavy" in text

    play(root, scene)


def test_prompts_are_texts_for_the_person_to_send(make_vault: Make) -> None:
    root = make_vault({"notes/a.md": "Anchors are of iron.\n"})

    async def scene(client: Client) -> None:
        names = [each.name for each in (await client.list_prompts()).prompts]
        assert names == ["resume", "curate", "end-session"]
        for name in names:
            done = await client.get_prompt(name, {"about": "anchors"})
            assert ": anchors" in done.messages[0].content.text
        resume = (await client.get_prompt("resume", {"about": "anchors"})).messages[0].content.text
        assert "> Anchors are of iron." in resume
        with pytest.raises(MCPError, match="no such prompt"):
            await client.get_prompt("obey")

    play(root, scene)


def test_the_last_server_that_ends_ends_the_notices() -> None:
    sent: list[object] = []

    async def scene() -> None:
        subscribers = Subscribers()
        subscribers.bus.subscribe(sent.append)
        with subscribers.sending():
            with subscribers.sending():
                pass
            subscribers.notice("notes/ferry.md")
            await asyncio.sleep(0.5)
            assert len(sent) == 3
            subscribers.notice("notes/ferry.md")
            await asyncio.sleep(0.05)
        subscribers.notice("notes/ferry.md")
        await asyncio.sleep(0.5)

    asyncio.run(scene())
    assert len(sent) == 3
