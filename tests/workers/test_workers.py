"""Threads that work for many callers: each in their own name, and none in another's way."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from conftest import Make

from vaultmem.environment import on_behalf, read_settings
from vaultmem.errors import NoteNotFoundError, RefusedError
from vaultmem.services.memory.remember import Memory, remember
from vaultmem.services.search.link_walk import LinkMap, map_links
from vaultmem.services.sessions.begin import start_session
from vaultmem.services.sessions.identify import identify_session
from vaultmem.vault import Vault
from vaultmem.workers import Caller, Workers

NOTES = {"notes/pier.md": "# Pier\n\nThe pier is of oak.\n"}


@pytest.fixture
def workers(make_vault: Make) -> Iterator[Workers]:
    """Give the workers of a vault."""
    made = Workers(make_vault(NOTES))
    yield made
    made.close()


def tell_who(vault: Vault) -> tuple[str, str, str]:
    return vault.author.agent, vault.author.session, vault.environment.get("VAULTMEM_NOTE", "")


def fail(error: Exception, vault: Vault) -> None:
    raise error


def test_each_works_in_its_callers_name_whatever_this_process_was_told(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VAULTMEM_AGENT", "nobody")
    monkeypatch.setenv("VAULTMEM_NOTE", "ours")
    own = {"VAULTMEM_SESSION_ID": "s-2", "VAULTMEM_NOTE": "theirs"}
    callers = [Caller("a"), Caller("b", environment=own), Caller("c", session="s-3"), Caller()]
    asked = [workers.submit_read(tell_who, caller) for caller in callers]
    told = [each.result(20) for each in asked]
    assert told == [("a", "", ""), ("b", "s-2", "theirs"), ("c", "s-3", ""), ("", "", "")]


def test_what_a_command_goes_by_is_told_to_its_thread_alone(workers: Workers) -> None:
    before = dict(os.environ)
    with on_behalf({"VAULTMEM_AGENT": "theirs"}):
        assert read_settings()["agent"] == "theirs"
        agent = workers.submit_read(lambda vault: read_settings()["agent"], Caller("a"))
        assert agent.result(20) == os.environ.get("VAULTMEM_AGENT", "")
    assert dict(os.environ) == before


def test_a_session_is_that_of_the_callers_folder_and_process(
    workers: Workers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()
    one, two = (Caller("a", folder=folder, pid=os.getppid(), may_write=True) for folder in folders)
    begun = [workers.submit_write(start_session, who).result(20) for who in (one, two)]
    monkeypatch.chdir(folders[1])
    ids = [each.session.facts.id for each in begun]
    found = [workers.submit_read(identify_session, who).result(20).session for who in (one, two)]
    assert found == ids
    assert workers.submit_read(tell_who, one).result(20)[1] == ids[0]


def test_who_may_not_write_does_not(workers: Workers) -> None:
    with pytest.raises(RefusedError, match="only reads"):
        workers.submit_write(partial(fail, ValueError("it was run")), Caller("a"))


def test_a_long_question_keeps_nobody_from_reading_or_writing(workers: Workers) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def wait(_: Vault) -> bool:
        begun.set()
        return go_on.wait(20)

    slow = workers.submit_read(wait, Caller("a"))
    assert begun.wait(20)
    assert workers.submit_read(tell_who, Caller("b")).result(20)[0] == "b"
    memory = Memory("Bollards are of iron.")
    writer = Caller("c", may_write=True)
    written = workers.submit_write(lambda vault: remember(vault, memory), writer).result(20)
    assert (workers.root / written.path).is_file()
    assert not slow.done()
    go_on.set()
    assert slow.result(20)


def test_those_who_read_make_once_what_is_of_all_notes(workers: Workers) -> None:
    together = threading.Barrier(2)

    def map_together(vault: Vault) -> LinkMap:
        together.wait(20)  # So that each thread does one of two.
        return map_links(vault)

    def map_both() -> list[LinkMap]:
        asked = [workers.submit_read(map_together, Caller()) for _ in range(2)]
        return [each.result(20) for each in asked]

    map_both()
    one, two = map_both()
    assert one is two
    (workers.root / "notes" / "quay.md").write_text("See [[pier]].\n", encoding="utf-8")
    assert not one.sources
    for found in map_both():
        assert found.sources == {"notes/pier.md": {"notes/quay.md": 6}}


def test_what_goes_wrong_is_told_and_ends_nobody(workers: Workers) -> None:
    for error in (NoteNotFoundError("there is none"), ZeroDivisionError("by nothing")):
        with pytest.raises(type(error), match=str(error)):
            workers.submit_read(partial(fail, error), Caller("a")).result(20)
    assert workers.submit_read(tell_who, Caller("a")).result(20)[0] == "a"


def test_what_was_asked_for_is_done_at_the_end_and_nothing_after_it(workers: Workers) -> None:
    who = Caller("a", may_write=True)
    texts = [f"Plank {n}." for n in range(3)]
    asked = [
        workers.submit_write(lambda vault, text=text: remember(vault, Memory(text)), who)
        for text in texts
    ]
    workers.close()
    assert all((workers.root / each.result(0).path).is_file() for each in asked)
    with pytest.raises(RefusedError, match="is ending"):
        workers.submit_read(tell_who, who)
