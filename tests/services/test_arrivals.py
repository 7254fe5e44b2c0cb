"""What comes from another machine is compared with what is known, once, and waits to be decided."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest
from conftest import RunCli
from machines import Machine, MakeMachines

from vaultmem.services.curation import review as queue
from vaultmem.services.curation.incoming_notes import compare_incoming, list_arrived
from vaultmem.services.views.update_index import sync_vault
from vaultmem.services.watching.idle import IdleTasks
from vaultmem.storage.uncompared_notes import read_waiting

FEW = "Holmpay answers 429 above 120 refunds a minute."
MANY = "Holmpay answers 429 above 240 refunds a minute."
FERRY = "The ferry to Holm leaves at 23:15 each night from the old pier."
AGAIN = "Each night at 23:15 the ferry to Holm leaves from the old pier."
ROUTER = {"notes/router.md": "---\ncreated: 2026-01-03\n---\nThe router uses channel 6.\n"}
CHANNEL = "The router now uses channel 11."


def tell(machine: Machine, *texts: str) -> None:
    for text in texts:
        done = machine.run("remember", text, env={"VAULTMEM_AGENT": "claude"})
        assert done.code == 0, done


def send(machine: Machine, *texts: str) -> None:
    tell(machine, *texts)
    assert machine.run("sync").code == 0


def pull(machine: Machine, *words: str) -> None:
    """Take in what came by git alone."""
    assert machine.run("checkpoint", "before").code == 0
    machine.git("pull", "-q", *words)


def list_items(machine: Machine, *words: str) -> list[dict[str, Any]]:
    done = machine.run("review", "--json", *words)
    assert done.code == 0, done
    return list(done.json["items"])


def compare_nothing(*_: object) -> None:
    raise AssertionError("the whole vault is compared")


@pytest.mark.campaign
def test_what_comes_is_compared_told_and_shown_as_a_conflict(
    make_machines: MakeMachines, monkeypatch: pytest.MonkeyPatch
) -> None:
    anna, ben = make_machines(ROUTER).all
    tell(anna, FEW, FERRY)
    send(ben, MANY, AGAIN, CHANNEL)
    monkeypatch.setattr(queue, "curate", compare_nothing)
    monkeypatch.setattr(queue, "MAX_COMPARED_NOTES", 1)
    told = anna.run("sync")
    assert told.code == 0
    assert told.out.endswith("\n3 to review: `vaultmem review`\n")
    shown = anna.run("pack", "Holmpay refunds a minute").out
    assert shown.count("In conflict: ") == 1
    assert "120 refunds" in shown
    assert "240 refunds" in shown
    items = list_items(anna)
    assert [each["action"] for each in items] == ["update", "contradiction", "near_duplicate"]
    for item in items:
        assert item["evidence"][0].endswith(".md arrived from claude")
    decided = anna.run("review", "--accept", items[0]["id"], "--reject", items[1]["id"])
    assert decided.code == 0, decided
    assert [each["action"] for each in list_items(anna)] == ["near_duplicate"]
    assert "In conflict" not in anna.run("pack", "Holmpay refunds a minute").out
    assert anna.run("sync", "--json").json["review"] == 1
    assert ben.run("sync", "--json").json["review"] == 1


@pytest.mark.campaign
@pytest.mark.parametrize("how", ["--no-rebase", "--rebase"])
def test_what_git_alone_has_pulled_is_compared_by_the_next_command_that_writes(
    make_machines: MakeMachines, run_cli: RunCli, how: str
) -> None:
    anna, ben = make_machines(ROUTER).all
    tell(anna, FEW)
    send(ben, MANY)
    pull(anna, how)
    with closing(anna.open()) as vault:
        sync_vault(vault)
        assert list(read_waiting(vault.state).values()) == ["claude"]
        assert not list_arrived(vault)
    done = run_cli("remember", "Rooks like the tower.", cwd=anna.root, env=anna.env)
    assert done.code == 0, done
    with closing(anna.open()) as vault:
        assert not read_waiting(vault.state)
        (found,) = list_arrived(vault)
        assert found.action == "contradiction"


@pytest.mark.campaign
def test_a_watcher_compares_in_its_rest_and_two_that_say_the_same_are_offered_as_one(
    make_machines: MakeMachines,
) -> None:
    anna, ben = make_machines(ROUTER).all
    tell(anna, FEW)
    words = ("remember", FEW, "--context", "inbox/pay")
    assert ben.run(*words, env={"VAULTMEM_AGENT": "claude"}).code == 0
    send(ben)
    pull(anna, "--no-rebase")
    with closing(anna.open()) as vault:
        sync_vault(vault)
        assert IdleTasks(vault).compare_incoming() == "1 to review: `vaultmem review`"
        assert IdleTasks(vault).compare_incoming() == ""
    (item,) = list_items(anna)
    assert item["action"] == "merge_duplicates"
    before = anna.git("rev-parse", "HEAD")
    assert anna.run("review", "--accept", str(item["id"])).code == 0
    assert anna.git("rev-parse", "HEAD~1") == before
    assert list_items(anna) == []
    assert anna.run("undo", "HEAD").code == 0
    assert anna.git("rev-parse", "HEAD^{tree}") == anna.git("rev-parse", f"{before}^{{tree}}")


@pytest.mark.campaign
def test_what_was_found_goes_where_a_note_changes_and_is_found_again(
    make_machines: MakeMachines,
) -> None:
    anna, ben = make_machines(ROUTER).all
    tell(anna, FEW)
    send(ben, MANY)
    assert anna.run("sync", "--json").json["review"] == 1
    with closing(anna.open()) as vault:
        (found,) = list_arrived(vault)
        note = anna.read(found.path)
        anna.write(found.path, note.replace("---\n", "---\ntags: [holm]\n", 1))
        sync_vault(vault)
        assert not list_arrived(vault)
        (again,) = compare_incoming(vault, 9.0)
        assert (again.action, again.path, again.into) == (found.action, found.path, found.into)
        assert again.evidence[0] == found.evidence[0]
        assert again.id != found.id
        (anna.root / found.into).unlink()
        sync_vault(vault)
        assert not compare_incoming(vault, 9.0)
        assert not vault.state.get("arrived_found")


@pytest.mark.campaign
def test_nothing_arrives_by_what_was_written_here(make_machines: MakeMachines) -> None:
    """Not by commits of vaultmem or git, nor by a branch, nor in a vault that is new here."""
    anna, ben = make_machines(ROUTER).all
    send(anna, FEW)
    anna.write("notes/pier.md", "The pier is of stone.\n")
    anna.git("add", "notes/pier.md")
    anna.git("commit", "-qm", "by hand")
    anna.run("switch", "--create", "tide")
    tell(anna, "Rooks like the tower.")
    anna.run("checkpoint", "rooks")
    anna.run("switch", "main")
    ben.git("pull", "-q")
    for machine in (anna, ben):
        with closing(machine.open()) as vault:
            sync_vault(vault)
            assert not read_waiting(vault.state)
            assert not list_arrived(vault)
