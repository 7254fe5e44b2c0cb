"""When a note was last used on one machine counts on the others, and nothing else does."""

from __future__ import annotations

import hashlib
import json
import time
from contextlib import closing

import pytest
from clocks import Clock, ask, tell
from conftest import Open
from machines import Machine, Machines, MakeMachines, assert_equal
from support import git, write_notes

from vaultmem.core.sessions.turns import Turn
from vaultmem.services.changes.commit import save_checkpoint
from vaultmem.services.curation.compact import compact, plan_compaction
from vaultmem.services.health.economics import read_stats
from vaultmem.services.memory.purge import plan_purge
from vaultmem.services.memory.remember import Memory
from vaultmem.services.memory.rename import rename_note
from vaultmem.services.sessions.windows import add_turns
from vaultmem.services.usage import (
    begin_anew,
    evidence_refspecs,
    import_usage,
    list_machines,
    publish,
    read_usage,
)
from vaultmem.services.views.update_index import sync_vault
from vaultmem.storage.git.machine_refs import REFS
from vaultmem.vault import UserFolders, Vault

SAILS = "\n".join(
    f"The sail loft mends sail {n} on its day, and writes it down." for n in range(60)
)
NOTES = {
    "notes/sails.md": f"---\nagent: claude\ncreated: 2026-01-05\n---\n# Sails\n\n{SAILS}",
    "notes/oars.md": "# Oars\n\nOars are brown.\n",
}


#: Makes of an id one that no object has.
SWAPPED = str.maketrans("0123456789abcdef", "fedcba9876543210")


class Two:
    """Two machines with a bare remote between them, and how evidence gets from one to the other."""

    def __init__(self, machines: Machines, opened: Open) -> None:
        self.clock = Clock(time.time())
        self.remote = machines.remote
        self._opened = opened
        self.a, self.b = (self.open(machine) for machine in machines.all)
        self.anna, self.ben = machines.all

    def open(self, machine: Machine) -> Vault:
        folders = UserFolders(*(machine.home / kind for kind in UserFolders._fields))
        vault = self._opened(machine.root, agent="claude", now=self.clock, folders=folders)
        sync_vault(vault)
        return vault

    def carry(self, *vaults: Vault) -> None:
        """Sync these, one after the other: notes by plain git, evidence by its own refs."""
        for vault in vaults:
            git(vault.root, "pull", "-q", "--no-edit", "origin", "main")
            git(vault.root, "push", "-q", "origin", "HEAD:main")
            git(vault.root, "fetch", "-q", "origin", *evidence_refspecs(vault))
            import_usage(vault)
            sync_vault(vault)
            ref = publish(vault)
            if ref is not None:
                git(vault.root, "push", "-q", "origin", f"{ref}:{ref}")


@pytest.fixture
def two(make_machines: MakeMachines, opened: Open) -> Two:
    return Two(make_machines(NOTES), opened)


def times(vault: Vault) -> dict[str, int]:
    return {path: each.times for path, each in read_usage(vault).items()}


def last(vault: Vault) -> dict[str, float]:
    return {path: each.last for path, each in read_usage(vault).items()}


@pytest.mark.campaign
def test_compact_leaves_alone_what_another_machine_uses(two: Two) -> None:
    (path,) = tell(two.a, Memory(SAILS, title="Sails of the loft"))
    two.carry(two.a, two.b)
    two.clock.pass_days(90)
    assert [step.path for step in plan_compaction(two.b).steps] == [path]

    ask(two.a, "sail loft")
    two.carry(two.a, two.b)

    assert not plan_compaction(two.b).steps
    assert not compact(two.b).steps


@pytest.mark.campaign
def test_the_last_use_on_any_machine_counts_and_counts_stay(two: Two) -> None:
    for vault in (two.a, two.a, two.b):
        ask(vault, "sail loft")
    first = int(two.clock())
    for _ in range(3):
        two.carry(two.a, two.b)
    two.carry(two.a)
    assert (times(two.a), times(two.b)) == ({"notes/sails.md": 2}, {"notes/sails.md": 1})

    two.clock.pass_days(1)
    ask(two.b, "oars brown")
    two.carry(two.b, two.a)
    assert times(two.a) == {"notes/sails.md": 2, "notes/oars.md": 0}
    assert {path: int(at) for path, at in last(two.a).items()} == {
        "notes/sails.md": first,
        "notes/oars.md": int(two.clock()),
    }


def test_nothing_is_written_where_nothing_changed(two: Two) -> None:
    ask(two.a, "sail loft")
    ref = publish(two.a)
    commit = git(two.a.root, "rev-parse", str(ref))
    two.clock.pass_days(1)

    assert publish(two.a) == ref
    assert git(two.a.root, "rev-parse", str(ref)) == commit


@pytest.mark.campaign
@pytest.mark.parametrize("by_hand", [False, True])
def test_last_uses_follow_a_rename_on_either_machine(two: Two, by_hand: bool) -> None:
    ask(two.b, "sail loft")
    used = int(two.clock())
    two.carry(two.b, two.a)
    if by_hand:
        (two.a.root / "notes/sails.md").rename(two.a.root / "notes/loft.md")
    else:
        rename_note(two.a, "notes/sails.md", "notes/loft.md")
    save_checkpoint(two.a, "renamed")
    sync_vault(two.a)
    two.clock.pass_days(1)
    assert {path: int(at) for path, at in last(two.a).items()} == {"notes/loft.md": used}
    two.carry(two.a, two.b, two.a, two.b)

    for vault in (two.a, two.b):
        assert {path: int(at) for path, at in last(vault).items()} == {"notes/loft.md": used}


@pytest.mark.campaign
def test_a_state_folder_that_is_deleted_costs_no_last_use(two: Two) -> None:
    ask(two.a, "sail loft")
    used = int(two.clock())
    two.carry(two.a)
    two.a.close()
    for file in two.a.state_folder.glob("state*"):
        file.unlink()
    two.clock.pass_days(1)
    again = two.open(two.anna)
    two.carry(again, two.b)

    for vault in (again, two.b):
        assert last(vault) == {"notes/sails.md": used}


@pytest.mark.campaign
def test_a_copied_state_is_published_under_another_id(two: Two) -> None:
    ask(two.a, "sail loft")
    two.carry(two.a, two.b)
    two.b.state.put("machine", two.a.state.get("machine"))
    begin_anew(two.b)
    ask(two.b, "oars brown")
    two.carry(two.b, two.a)

    assert two.a.state.get("machine") != two.b.state.get("machine")
    assert last(two.a).keys() == last(two.b).keys() == {"notes/sails.md", "notes/oars.md"}


def test_stats_count_this_machine_and_know_what_others_use(two: Two) -> None:
    ask(two.a, "sail loft")
    two.carry(two.a, two.b)

    stats = read_stats(two.b)
    assert stats.recalls.calls == 0
    assert stats.most == ()
    assert "notes/sails.md" not in stats.never
    assert [each.path for each in read_stats(two.a).most] == ["notes/sails.md"]


def test_nothing_leaves_where_sharing_is_off(two: Two) -> None:
    write_notes(two.a.root, {"vaultmem.yaml": "share_usage: false\n"})
    vault = two.open(two.anna)
    ask(vault, "sail loft")

    assert publish(vault) is None
    assert evidence_refspecs(vault) == ()
    assert not git(vault.root, "for-each-ref", REFS)


@pytest.mark.campaign
def test_what_others_wrote_counts_only_as_it_is_meant(two: Two) -> None:
    """A machine's files may hold anything: too much, other types, numbers that are none."""
    shards = {
        "machine.json": json.dumps({"vault": "", "host": "evil\x1b[31m\nhost"}),
        "usage/00.json": '{"notes/oars.md": 1e400}',
        "usage/01.json": '{"notes/oars.md": NaN, "notes/sails.md": "9"}',
        "usage/02.json": "[" * 100_000,
        "usage/03.json": '{"notes/oars.md": -4, "notes/sails.md": [9, 1, 1], "notes/y.md": true}',
        "usage/04.json": '{"notes/oars.md": 9999999999}',
        "usage/05.json": '{"notes/sails.md": 7}' + " " * 2_000_000,
        "sessions.json": "\xff",
    }
    tree = two.remote.parent / "tree"
    write_notes(tree, shards)
    git(tree, "init", "-q")
    git(tree, "add", "--all")
    git(tree, "commit", "-q", "-m", "x")
    git(tree, "push", "-q", str(two.remote), f"HEAD:{REFS}{'0' * 16}.1")
    git(tree, "push", "-q", str(two.remote), f"HEAD:{REFS}not-one")
    blob = git(tree, "rev-parse", "HEAD:usage/00.json")
    git(tree, "push", "-q", str(two.remote), f"{blob}:{REFS}{'3' * 16}.1")
    two.carry(two.a)
    commit = git(two.a.root, "rev-parse", "HEAD")
    (two.a.root / ".git" / f"{REFS}{'4' * 16}.1").write_text(commit.translate(SWAPPED) + "\n")

    usage = read_usage(two.a)
    assert {path: each.times for path, each in usage.items()} == {"notes/oars.md": 0}
    assert usage["notes/oars.md"].last <= two.clock()
    (machine,) = list_machines(two.a)
    assert machine.name == "evil\\x1b[31m\\nhost"


@pytest.mark.campaign
def test_a_ref_that_was_replaced_is_dropped(two: Two) -> None:
    ask(two.a, "sail loft")
    ref = str(publish(two.a))
    git(two.a.root, "push", "-q", "origin", f"{ref}:{ref}")
    two.carry(two.b)
    newer = ref.removesuffix("1") + "2"
    git(two.a.root, "push", "-q", "origin", f"{ref}:{newer}", f":{ref}")
    two.carry(two.b)

    held = git(two.b.root, "for-each-ref", "--format=%(refname)", REFS).split()
    assert ref not in held
    assert newer in held
    assert last(two.b).keys() == {"notes/sails.md"}


@pytest.mark.campaign
def test_a_purge_says_how_evidence_is_removed(two: Two) -> None:
    ask(two.a, "sail loft")
    two.carry(two.a, two.b)
    own = str(publish(two.b))

    told = str(plan_purge(two.b, ["notes/sails.md"]).steps)
    assert f"git update-ref -d {own}" in told
    assert f"git push origin :{own}" in told


@pytest.mark.campaign
def test_sync_carries_evidence_without_a_word(make_machines: MakeMachines) -> None:
    anna, ben = make_machines(NOTES).all
    anna.run("recall", "sail loft")
    for machine in (anna, ben, anna):
        assert machine.run("sync").code == 0

    for machine, times_here in ((anna, 1), (ben, 0)):
        stats = machine.run("stats", "--json").json
        found = {each["path"]: each["times"] for each in stats["most_recalled"]}
        assert found.get("notes/sails.md", 0) == times_here
        assert "notes/sails.md" not in stats["never_recalled"]
    assert anna.git("for-each-ref", REFS) == ben.git("for-each-ref", REFS)


@pytest.mark.campaign
@pytest.mark.parametrize("how", ["refused by the remote", "another one writes it"])
def test_evidence_never_keeps_notes_from_being_pushed(
    make_machines: MakeMachines, how: str
) -> None:
    machines = make_machines(NOTES)
    anna, ben = machines.all
    anna.run("recall", "sail loft")
    assert anna.run("sync").code == 0
    if how == "refused by the remote":
        script = 'while read old new ref; do case "$ref" in refs/vaultmem/*) exit 1;; esac; done'
        machines.refuse_pushes(script)
    else:  # Its state was copied to another machine, which has synced since.
        (ref,) = machines.git("for-each-ref", "--format=%(refname)", REFS).split()
        tree = machines.git("rev-parse", f"{ref}^{{tree}}")
        who = ("-c", "user.name=x", "-c", "user.email=x")
        moved = machines.git(*who, "commit-tree", tree, "-m", "x")
        machines.git("update-ref", ref, moved)
    anna.run("recall", "oars brown")
    anna.write("notes/pier.md", "# Pier\n\nOf oak.\n")
    done = anna.run("sync", "--json")
    assert (done.code, done.json["outcome"], done.json["pushed"]) == (0, "synced", 1)
    assert anna.run("sync", "--json").json["outcome"] == "synced"
    assert ben.run("sync").code == 0
    assert ben.read("notes/pier.md") == "# Pier\n\nOf oak.\n"
    assert_equal(machines)
    if how == "another one writes it":
        with closing(ben.open()) as vault:
            assert last(vault).keys() == {"notes/sails.md", "notes/oars.md"}


@pytest.mark.campaign
def test_an_open_session_is_shown_as_of_its_machine(make_machines: MakeMachines) -> None:
    anna, ben = make_machines(NOTES).all
    agent = ("--agent", "claude")
    anna.run("session", "start", "--id", "s-1", "--goal", "mend the sails", *agent)
    ben.run("session", "start", "--id", "s-2", "--goal", "paint the oars", *agent)
    for machine in (anna, ben, anna):
        assert machine.run("sync").code == 0

    listed = ben.run("session", "list", "--json").json["sessions"]
    shown = {each["session"]: each for each in listed}
    assert (shown["s-2"]["machine"], shown["s-2"]["last_seen"]) == (None, None)
    assert shown["s-1"]["machine"]
    assert shown["s-1"]["last_seen"]
    text = ben.run("session", "show", "s-1").out
    assert f"on {shown['s-1']['machine']}, last seen 20" in text
    assert "last seen" not in anna.run("session", "show", "s-1").out
    anna.run("session", "close", "s-1", "--summary", "mended", *agent)
    for machine in (anna, ben):
        assert machine.run("sync").code == 0
    assert "last seen" not in ben.run("session", "list").out.partition("s-2")[0]


@pytest.mark.campaign
def test_a_long_history_of_evidence_ends_and_another_begins(
    make_machines: MakeMachines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vaultmem.storage.git.machine_refs.MAX_COMMITS", 2)
    machines = make_machines(NOTES)
    anna, ben = machines.all
    for _ in range(3):
        anna.run("recall", "sail loft")
        time.sleep(1.1)  # A use is published by its second.
        assert anna.run("sync", "--json").json["evidence"] == "done"
        assert ben.run("sync").code == 0

    (ref,) = anna.git("for-each-ref", "--format=%(refname)", REFS + "*.2").split()
    for where in (machines.git, anna.git, ben.git):
        assert ref in where("for-each-ref", "--format=%(refname)", REFS)
        assert ref.removesuffix("2") + "1" not in where("for-each-ref", "--format=%(refname)", REFS)
    assert anna.git("rev-list", "--count", ref) == "1"
    assert "notes/sails.md" not in ben.run("stats", "--json").json["never_recalled"]


def say(machine: Machine, word: str) -> None:
    """Use the vault as a person and an agent do, each time with a word that no note has."""
    agent = ("--agent", "claude", "--session", "s-1")
    machine.run("session", "start", "--id", "s-1", "--goal", "mend the sails", *agent)
    machine.run("recall", f"sail loft {word}")
    machine.run("pack", f"oars {word}", *agent)
    with closing(machine.open(agent="claude")) as vault:
        add_turns(vault, "s-1", [Turn("user", f"Use the {word} thread, please.")])
    machine.run("session", "close", "s-1", "--summary", "mended", *agent)


@pytest.mark.campaign
def test_words_of_queries_and_turns_never_leave_the_machine(make_machines: MakeMachines) -> None:
    machines = make_machines(NOTES)
    anna, ben = machines.all
    for machine in machines.all:
        machine.run("trust")
    say(anna, "zanzibar")
    for machine in (anna, ben):
        assert machine.run("sync", "--json").json["evidence"] == "done"

    held = machines.read_all()
    assert "notes/sails.md" in held  # What was found, and when last, travels.
    assert "zanzibar" not in held
    assert "zanzibar" not in ben.run("receipts", "--json").out
    assert "zanzibar" not in ben.run("session", "restore", "s-1").out


@pytest.mark.campaign
def test_a_ref_of_an_older_vaultmem_with_queries_is_replaced_by_one_without_a_past(
    make_machines: MakeMachines,
) -> None:
    machines = make_machines(NOTES)
    anna, ben = machines.all
    anna.run("recall", "sail loft")
    assert anna.run("sync").code == 0
    (ref,) = anna.git("for-each-ref", "--format=%(refname)", REFS).split()
    where = anna.root.parent / "old"
    write_notes(where, {
        "machine.json": json.dumps({"format": 1, "host": "quay", "vault": ""}),
        "receipts/20260101T000000-00000000.json": '{"query": "zanzibar"}',
    })  # fmt: skip
    git(where, "init", "-q")
    git(where, "add", "--all")
    who = ("-c", "user.name=quay", "-c", "user.email=vaultmem@localhost")
    git(where, *who, "commit", "-q", "-m", "vaultmem: evidence")
    anna.git("fetch", "-q", str(where), f"+HEAD:{ref}")
    anna.git("push", "-q", "-f", "origin", f"{ref}:{ref}")
    anna.run("recall", "oars brown")

    assert anna.run("sync", "--json").json["evidence"] == "done"
    assert ben.run("sync").code == 0
    for held in (anna, ben):
        refs = held.git("for-each-ref", "--format=%(refname)", REFS).split()
        (now,) = [each for each in refs if each.startswith(ref[:-1])]
        assert now == ref.removesuffix("1") + "2"
        assert held.git("rev-list", "--count", now) == "1"
    assert ref not in machines.git("for-each-ref", "--format=%(refname)", REFS)


@pytest.mark.campaign
def test_another_persons_machine_decides_nothing_but_when_a_note_was_last_used(
    make_machines: MakeMachines,
) -> None:
    anna, ben = make_machines(NOTES).all
    for _ in range(3):
        anna.run("recall", "sail loft")
    ben.run("sync")
    (ref,) = ben.git("for-each-ref", "--format=%(refname)", REFS).split()
    made = ben.root.parent / "made"
    digest = hashlib.sha256(b"notes/oars.md").hexdigest()[:2]
    write_notes(made, {
        "machine.json": json.dumps({"vault": "", "host": "annas-laptop"}),
        f"usage/{digest}.json": '{"notes/oars.md": 9999999999}',
        "calls.json": '{"pack": [999999, 9, 9]}',
    })  # fmt: skip
    git(made, "init", "-q")
    git(made, "add", "--all")
    git(made, "-c", "user.name=Ben", "-c", "user.email=ben@example.org", "commit", "-qm", "x")
    ben.git("fetch", "-q", str(made), f"+HEAD:{ref}")
    ben.git("push", "-q", "-f", "origin", f"{ref}:{ref}")
    assert anna.run("sync").code == 0

    stats = anna.run("stats", "--json").json
    found = [(each["path"], each["times"]) for each in stats["most_recalled"]]
    assert found == [("notes/sails.md", 3)]
    assert stats["packs"]["calls"] == 0
    with closing(anna.open()) as vault:
        (machine,) = list_machines(vault)
        assert machine.name == f"Ben ({ref[len(REFS) :][:6]})"
        assert last(vault)["notes/oars.md"] <= vault.now()
