"""The server as a process of its own: over standard input, and over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import Make, RunCli
from mcp.client.client import Client
from serving import HELLO, call, connected, play_stdio, serving, told
from support import wait_until

from vaultmem.serve.http import MAX_SILENT_CONNECTIONS

NOTES = {"notes/pier.md": "The pier is of oak.\n"}


@pytest.mark.campaign
def test_two_clients_at_once_over_standard_input(make_vault: Make) -> None:
    root = make_vault(NOTES)

    async def scene(client: Client) -> list[str]:
        paths = []
        for n in range(5):
            done = await call(client, "remember", text=f"Plank {os.getpid()} {n} {id(client)}.")
            paths.append(str(done["path"]))
            assert (await call(client, "recall", query="pier oak"))["hits"]
        return paths

    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(play_stdio, root, scene, "--agent", name) for name in ("a", "b")]
        paths = [path for run in runs for path in run.result()]
    assert len(set(paths)) == 10
    assert all((root / path).is_file() for path in paths)


@pytest.mark.campaign
def test_http_serves_whoever_has_the_token(make_vault: Make) -> None:
    root = make_vault(NOTES)

    async def scene(port: int, token: str) -> None:
        async with connected(port, token) as one, connected(port, token) as two:
            done = await call(one, "remember", text="Bollards are of iron.")
            found = await call(two, "recall", query="bollards iron")
            assert found["hits"][0]["path"] == done["path"]
            large = await call(two, "remember", text="Rope. " * 17_000)
            assert (root / large["path"]).stat().st_size > 100_000
            assert (await two.call_tool("recall", {"query": 3})).is_error
            slow = asyncio.create_task(one.call_tool("context_pack", {"query": "iron"}))
            slow.cancel()
            await asyncio.gather(slow, return_exceptions=True)
            assert "iron" in told(await one.call_tool("recall", {"query": "bollards"}))

    with serving(root, "--agent", "web") as (port, token):
        asyncio.run(scene(port, token))
        assert (root.parent / "token").stat().st_mode & 0o077 == 0


async def use_everything(client: Client) -> None:
    """Call every tool, read every kind of resource, and get every prompt."""
    path = (await call(client, "remember", text="Bollards are of iron."))["path"]
    begun = (await call(client, "session", action="start", goal="Mend the pier"))["message"]
    assert begun
    note = await call(client, "read_note", path=path)
    change = {"path": path, "blob": note["blob"], "property": "confidence", "value": 0.9}
    calls = {
        "recall": {"query": "iron"},
        "context_pack": {"query": "iron"},
        "update_note": change,
        "promote": {"paths": [path]},
        "task": {"action": "add", "title": "Paint the pier"},
        "checkpoint": {"note": "all of it"},
        "history": {"action": "log"},
        "forget": {"path": path, "reason": "rust"},
    }
    used = {"remember", "session", "read_note", *calls}
    assert {tool.name for tool in (await client.list_tools()).tools} == used
    for name, given in calls.items():
        assert await call(client, name, **given), name
    uris = [str(each.uri) for each in (await client.list_resources()).resources]
    assert "vaultmem://pack" in uris
    for uri in (*uris, "vaultmem://pack/oak"):
        assert (await client.read_resource(uri)).contents[0].text, uri
    assert len((await client.list_resource_templates()).resource_templates) == 2
    for prompt in (await client.list_prompts()).prompts:
        assert (await client.get_prompt(prompt.name)).messages


@pytest.mark.campaign
def test_everything_works_over_standard_input_and_over_http(make_vault: Make) -> None:
    play_stdio(make_vault(NOTES), use_everything, "--agent", "pipe")

    async def scene(port: int, token: str) -> None:
        async with connected(port, token) as client:
            await use_everything(client)

    with serving(make_vault(NOTES, name="other"), "--agent", "web") as (port, token):
        asyncio.run(scene(port, token))


@pytest.mark.campaign
def test_http_refuses_strangers(make_vault: Make) -> None:
    root = make_vault(NOTES)

    def ask(port: int, headers: dict[str, str]) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        connection.putrequest("POST", "/mcp", skip_host=True)
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).encode()
        all_headers = {
            "Host": f"127.0.0.1:{port}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "Content-Length": str(len(body)),
            **headers,
        }
        for name, value in all_headers.items():
            connection.putheader(name, value)
        connection.endheaders(body)
        status = connection.getresponse().status
        connection.close()
        return status

    with serving(root) as (port, token):
        good = {"Authorization": f"Bearer {token}"}
        assert ask(port, {}) == 401
        assert ask(port, {"Authorization": "Bearer x" + token}) == 401
        assert ask(port, {"Authorization": f"Basic {token}"}) == 401
        assert ask(port, {**good, "Host": "evil.example"}) == 421
        assert ask(port, {**good, "Host": f"127.0.0.1.evil.example:{port}"}) == 421
        assert ask(port, {**good, "Origin": "http://evil.example"}) == 403
        assert ask(port, {**good, "Origin": "null"}) == 403
        assert ask(port, good) not in {401, 403, 421}


@pytest.mark.campaign
def test_http_keeps_few_connections_that_say_nothing_and_none_for_long(make_vault: Make) -> None:
    root = make_vault(NOTES)
    with serving(root) as (port, token):
        kept = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        for _ in range(2):  # One connection may ask twice, and then say nothing.
            kept.request("GET", "/mcp", headers={"Authorization": f"Bearer {token}"})
            assert kept.getresponse().read() is not None
        silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(300)]
        kept.sock.send(b"GET /mcp HT")
        for each in silent:
            with contextlib.suppress(OSError):
                each.send(b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        wait_until(lambda: sum(map(is_closed, silent)) >= 300 - MAX_SILENT_CONNECTIONS)

        async def scene() -> None:
            async with connected(port, token) as client:
                assert (await call(client, "recall", query="pier oak"))["hits"]

        asyncio.run(scene())
        wait_until(lambda: all(map(is_closed, [*silent, kept.sock])))
        for each in (*silent, kept):
            each.close()


def is_closed(connection: socket.socket) -> bool:
    """Tell whether the other side has hung up."""
    connection.setblocking(False)
    try:
        return connection.recv(65_536) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def test_a_token_that_others_can_read_is_refused(make_vault: Make, run_cli: RunCli) -> None:
    root = make_vault(NOTES)
    file = root.parent / "token"
    file.write_text("a" * 40)
    file.chmod(0o644)
    done = run_cli("serve", "--port", "0", "--token-file", file, "--vault", root)
    assert done.code == 5
    assert "chmod 600" in done.err
    file.chmod(0o600)
    file.write_text("short")
    done = run_cli("serve", "--port", "0", "--token-file", file, "--vault", root)
    assert "16 characters" in done.err


@pytest.mark.campaign
def test_nonsense_on_standard_input_ends_no_server(make_vault: Make) -> None:
    root = make_vault(NOTES)
    nonsense = "\n".join(["not json", "{}", '{"jsonrpc": "2.0"}', "[1]", '"x"', ""])
    ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "vaultmem", "mcp", "--vault", str(root)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{HELLO}\n{nonsense}\n{json.dumps(ping)}\n")
        process.stdin.flush()
        answered = {json.loads(process.stdout.readline()).get("id") for _ in range(2)}
        while 2 not in answered:
            answered.add(json.loads(process.stdout.readline()).get("id"))
        process.stdin.close()
        assert process.wait(timeout=20) == 0
