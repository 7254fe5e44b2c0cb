"""A program asks a vault that is served, by the client that comes with it."""

from __future__ import annotations

import contextlib
import doctest
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from visiting import TOKEN, serving

from vaultmem.client import Client, Note
from vaultmem.errors import (
    NoteNotFoundError,
    RefusedError,
    SystemFailureError,
    VaultError,
    VersionMismatchError,
)

NOTES = {
    "notes/pier.md": "# Pier\n\nThe pier is of oak.\n",
    "notes/quay.md": "---\nstate: candidate\n---\n# Quay\n\n## Stone\n\nThe quay is of stone.\n",
}
PAGE = Path(__file__).parents[2] / "docs/reference/http.md"


@pytest.fixture
def client(make_vault: Any) -> Iterator[Client]:
    root = make_vault(NOTES)
    with serving(root):
        yield Client.of(root, agent="ada", session="s-1")


@pytest.mark.campaign
def test_a_note_is_found_read_and_changed(client: Client) -> None:
    assert [note["path"] for note in client.notes(state=["candidate"])] == ["notes/quay.md"]
    hit = client.recall("what is the pier made of", limit=1)["hits"][0]
    note = client.note(hit["path"])
    assert (note["text"], note["blob"]) == (NOTES["notes/pier.md"], hit["blob"])
    assert client.note("quay#Stone")["heading"] == "Stone"
    changed = client.update(note, {"tags": ["wood"]}, old_text="oak", new_text="pine")
    now = client.note("pier", known=note)
    assert (now["blob"], now["tags"]) == (changed["blob"], ["wood"])
    assert client.note("pier", known=now) is now
    with pytest.raises(VersionMismatchError, match="read it again"):
        client.rewrite(note, "# Pier\n")
    assert client.rename(now, "notes/jetty.md") == "notes/jetty.md"
    client.promote(client.note("quay"))
    client.move(client.note("quay"), "stale", "nobody goes there")
    client.forget(client.note("jetty"), "torn down")
    with pytest.raises(NoteNotFoundError, match="vaultmem list"):
        client.note("jetty")
    assert "oak" in client.note("notes/pier.md", at="HEAD~3")["text"]


def test_a_pack_says_why_and_what_it_left_out(client: Client) -> None:
    made = client.pack("pier", budget=400, semantic=False)
    first = made["items"][0]
    assert (first["path"], first["tokens"] > 0) == ("notes/pier.md", True)
    assert first["explanation"]["matches"]
    assert made["receipt"]
    assert client.get(f"/receipts/{made['receipt']}/replay")["text"] == made["text"]
    assert client.get("/receipts")["receipts"][0]["agent"] == "ada"


def test_what_was_done_stands_in_the_history(client: Client) -> None:
    done = client.remember("The ferry leaves at seven.", tags=["harbour"])
    assert client.remember("The ferry leaves at seven.")["outcome"] == "known"
    commit = client.checkpoint("what the master said")
    assert client.get("/log", limit=1)["commits"][0]["commit"] == commit
    assert {line["agent"] for line in client.blame(done["path"])} == {"ada"}
    assert [each["path"] for each in client.diff("HEAD~1", "HEAD")] == [done["path"]]
    assert client.checkpoint("again") is None


def test_what_waits_is_decided(client: Client) -> None:
    (item,) = client.review(only="candidate")
    assert client.decide(item["id"], "accept")["path"] == "notes/quay.md"
    assert client.note("quay")["state"] == "active"


@pytest.mark.campaign
def test_what_changes_is_told_as_it_happens(client: Client, tmp_path: Path) -> None:
    client.notes()  # From here on somebody watches.
    heard: list[list[str]] = []

    def listen() -> None:
        with contextlib.closing(client.events()) as events:
            heard.append(next(events))

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    for number in range(100):
        (tmp_path / "vault/notes/new.md").write_text(f"# New\n\n{number}\n")
        thread.join(0.1)
        if not thread.is_alive():
            break
    assert heard
    assert "notes/new.md" in heard[0]


def test_failures_are_the_classes_that_the_server_names(client: Client) -> None:
    with pytest.raises(RefusedError, match="limit: must be an integer, such as 5"):
        client.recall("pier", limit="many")
    with pytest.raises(NoteNotFoundError):
        client.note("pier", at="nowhere")
    with pytest.raises(RefusedError, match="link"):
        Client(client.url, "a-wrong-token-of-programs").notes()
    with pytest.raises(RefusedError, match=r"127\.0\.0\.1:PORT"):
        Client("ftp://example.org", TOKEN)


def test_a_server_that_is_not_there_or_silent_is_told(make_vault: Any) -> None:
    root = make_vault(NOTES)
    with pytest.raises(VaultError, match="start one with `vaultmem serve`"):
        Client.of(root)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        note: Note = {"path": "x.md", "blob": "0"}  # type: ignore[typeddict-item]
        asking = Client(f"http://127.0.0.1:{port}", TOKEN, timeout=0.1)
        with pytest.raises(SystemFailureError, match="no answer within"):
            asking.forget(note)
    with pytest.raises(VaultError, match="no server answers"):
        asking.notes()


def test_the_session_of_the_document_is_what_happens(
    make_vault: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_vault(NOTES, name="ship")
    monkeypatch.chdir(tmp_path)
    (lines,) = re.findall(r"```pycon\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    test = doctest.DocTestParser().get_doctest(lines, {}, PAGE.name, None, None)
    with serving(root):
        assert doctest.DocTestRunner().run(test).failed == 0


def test_the_client_needs_nothing_but_the_standard_library() -> None:
    code = "import vaultmem.client, sys; print(*sorted(n for n in sys.modules if 'vaultmem' in n))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [
        "vaultmem",
        "vaultmem.client",
        "vaultmem.client.client",
        "vaultmem.client.values",
        "vaultmem.errors",
    ]
