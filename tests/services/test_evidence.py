"""What one machine knows of a vault's use counts on the others, once, and nothing else does."""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Callable
from contextlib import closing

import pytest
from clocks import Clock, ask, tell
from machines import Machine, Machines, MakeMachines, assert_equal
from support import git, write_notes

from vaultmem.core.sessions.turns import Turn
from vaultmem.errors import NoteNotFoundError, VaultError
from vaultmem.services.economics import read_stats
from vaultmem.services.evidence.publish import (
    begin_anew,
    evidence_refspecs,
    publish,
    take_evidence,
)
from vaultmem.services.evidence.usage import read_usage
from vaultmem.services.finding.pack import make_pack
from vaultmem.services.finding.receipts import (
    find_receipt,
    keep_receipt,
    list_receipts,
    replay_receipt,
)
from vaultmem.services.notes.purge import plan_purge
from vaultmem.services.notes.remember import Memory
from vaultmem.services.notes.rename import rename_note
from vaultmem.services.reading.sync import sync_vault
from vaultmem.services.sessions.windows import add_turns
from vaultmem.services.upkeep.compact import compact, plan_compaction
from vaultmem.services.writing.checkpoint import save_checkpoint
from vaultmem.storage.git.machine_refs import REFS
from vaultmem.vault import UserFolders, Vault

Open = Callable[..., Vault]

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

    def make_own(self) -> None:
        """Make the remote one that nobody else reads."""
        git(self.a.root, "config", "--global", "vaultmem.ownRemote", str(self.remote))

    def carry(self, *vaults: Vault) -> None:
        """Sync these, one after the other: notes by plain git, evidence by its own refs."""
        for vault in vaults:
            git(vault.root, "pull", "-q", "--no-edit", "origin", "main")
            git(vault.root, "push", "-q", "origin", "HEAD:main")
            git(vault.root, "fetch", "-q", "origin", *evidence_refspecs(vault))
            take_evidence(vault)
            sync_vault(vault)
            ref = publish(vault)
            if ref is not None:
                git(vault.root, "push", "-q", "origin", f"{ref}:{ref}")


@pytest.fixture
def two(make_machines: MakeMachines, opened: Open) -> Two:
    return Two(make_machines(NOTES), opened)


def times(vault: Vault) -> dict[str, int]:
    return {path: each.times for path, each in read_usage(vault).items()}


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
def test_counts_add_up_once_however_often_they_are_carried(two: Two) -> None:
    for vault in (two.a, two.a, two.b):
        ask(vault, "sail loft")
    for _ in range(3):
        two.carry(two.a, two.b)
    two.carry(two.a)

    assert times(two.a) == times(two.b) == {"notes/sails.md": 3}
    ask(two.b, "oars brown")
    two.carry(two.b, two.a)
    assert times(two.a) == times(two.b) == {"notes/sails.md": 3, "notes/oars.md": 1}


def test_nothing_is_written_where_nothing_changed(two: Two) -> None:
    ask(two.a, "sail loft")
    ref = publish(two.a)
    commit = git(two.a.root, "rev-parse", str(ref))
    two.clock.pass_days(1)

    assert publish(two.a) == ref
    assert git(two.a.root, "rev-parse", str(ref)) == commit


@pytest.mark.campaign
@pytest.mark.parametrize("by_hand", [False, True])
def test_counts_follow_a_rename_on_either_machine(two: Two, by_hand: bool) -> None:
    for vault in (two.a, two.b):
        ask(vault, "sail loft")
    two.carry(two.a, two.b, two.a)
    if by_hand:
        (two.a.root / "notes/sails.md").rename(two.a.root / "notes/loft.md")
    else:
        rename_note(two.a, "notes/sails.md", "notes/loft.md")
    save_checkpoint(two.a, "renamed")
    sync_vault(two.a)
    assert times(two.a) == {"notes/loft.md": 2}
    two.carry(two.a, two.b, two.a, two.b)

    assert times(two.a) == times(two.b) == {"notes/loft.md": 2}


@pytest.mark.campaign
def test_a_state_folder_that_is_deleted_costs_no_counts_and_doubles_none(
    two: Two, opened: Open
) -> None:
    ask(two.a, "sail loft")
    two.carry(two.a)
    two.a.close()
    for file in two.a.state_folder.glob("state*"):
        file.unlink()
    again = two.open(two.anna)
    ask(again, "sail loft")
    two.carry(again, two.b)

    assert times(again) == times(two.b) == {"notes/sails.md": 2}


@pytest.mark.campaign
def test_a_copied_state_counts_once_under_another_id(two: Two) -> None:
    ask(two.a, "sail loft")
    two.carry(two.a, two.b)
    two.b.state.put("machine", two.a.state.get("machine"))
    ask(two.b, "sail loft")
    begin_anew(two.b)
    ask(two.b, "sail loft")
    two.carry(two.b, two.a)

    assert times(two.a) == times(two.b) == {"notes/sails.md": 2}


def test_stats_say_what_each_machine_did(two: Two) -> None:
    ask(two.a, "sail loft")
    two.carry(two.a, two.b)

    stats = read_stats(two.b)
    assert stats.recalls.calls == 0
    assert [(each.recalls, each.packs) for each in stats.machines] == [(1, 0)]
    assert stats.machines[0].id == two.a.state.get("machine")
    assert [each.path for each in stats.most] == ["notes/sails.md"]
    assert "notes/sails.md" not in stats.never


def test_nothing_leaves_where_sharing_is_off(two: Two) -> None:
    write_notes(two.a.root, {"vaultmem.yaml": "share_evidence: false\n"})
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
        "usage/00.json": '{"notes/oars.md": [4, 1e400, 1]}',
        "usage/01.json": '{"notes/oars.md": [NaN, 1, 1], "notes/sails.md": ["9", 1, 1]}',
        "usage/02.json": "[" * 100_000,
        "usage/03.json": '{"notes/oars.md": [-4, 1, 1], "notes/x.md": 4, "notes/y.md": {}}',
        "usage/04.json": '{"notes/oars.md": [2, 9999999999, 0.5]}',
        "usage/05.json": '{"notes/oars.md": [7, 1, 1]}' + " " * 2_000_000,
        "calls.json": "null",
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
    assert {path: each.times for path, each in usage.items()} == {"notes/oars.md": 2}
    assert usage["notes/oars.md"].last <= two.clock()
    (machine,) = read_stats(two.a).machines
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
    assert times(two.b) == {"notes/sails.md": 1}


def keep(vault: Vault, query: str) -> tuple[str, str]:
    """Make a pack as an agent gets it; return its receipt's id and its text."""
    pack = make_pack(vault, query)
    return keep_receipt(vault, pack, query).id, pack.text


@pytest.mark.campaign
def test_receipts_of_another_machine_are_listed_and_replayed_as_its_own(two: Two) -> None:
    two.make_own()
    name, text = keep(two.a, "sail loft")
    own, _ = keep(two.b, "oars")
    two.carry(two.a, two.b)

    listed = {each.id: each.machine for each in list_receipts(two.b)}
    assert listed.keys() == {name, own}
    assert listed[own] == ""
    assert listed[name]
    assert find_receipt(two.b, name).vault == "vault"
    assert replay_receipt(two.b, name[:-3]).text == text
    assert find_receipt(two.b, "2").id == own  # Both begin so.
    with pytest.raises(NoteNotFoundError):
        find_receipt(two.b, "3")
    assert {each.id for each in list_receipts(two.a)} == {name}


@pytest.mark.campaign
def test_what_no_commit_has_stays_where_it_is_though_a_receipt_shows_it(two: Two) -> None:
    two.make_own()
    write_notes(two.a.root, {"notes/draft.md": "# Draft\n\nThe oars are to be sold, secretly.\n"})
    sync_vault(two.a)
    name, text = keep(two.a, "oars")
    assert "secretly" in text
    keep(two.a, "oars for AKIAQYLPMN5HFIQR7XYA")
    ref = str(publish(two.a))
    assert "secretly" not in git(two.a.root, "log", "-p", ref)
    assert "AKIAQYLPMN5HFIQR7XYA" not in git(two.a.root, "log", "-p", ref)
    two.carry(two.b)
    git(two.a.root, "push", "-q", "origin", f"{ref}:{ref}")
    two.carry(two.b)

    replayed = replay_receipt(two.b, name)
    assert [each.path for each in replayed.gone] == ["notes/draft.md"]
    assert "Oars are brown" in replayed.text


def test_a_receipt_is_published_once_and_only_the_newest_are(
    two: Two, monkeypatch: pytest.MonkeyPatch
) -> None:
    two.make_own()
    monkeypatch.setattr("vaultmem.services.evidence.publish.MAX_RECEIPTS", 2)
    names = []
    for _ in range(3):
        names.append(keep(two.a, "sail loft")[0])
        two.clock.at += 2
        ref = str(publish(two.a))
    held = git(two.a.root, "ls-tree", "-r", "--name-only", ref, "receipts/").split()
    assert held == [f"receipts/{name}.json" for name in names[1:]]


@pytest.mark.campaign
def test_receipts_that_others_made_up_are_passed_over_or_refused(two: Two) -> None:
    two.make_own()
    name, _ = keep(two.a, "sail loft")
    made = json.loads(two.a.receipts.read(name))
    odd: list[object] = [None, -1, 1e300, "x", [], {}, [[]], True, "\x1b[31m"]
    files, number = {}, 0
    for key in made:
        for value in odd:
            number += 1
            known = f"{name[:-8]}{number:08x}"
            files[f"receipts/{known}.json"] = json.dumps({**made, "id": known, key: value})
    for key in made["shown"][0]:
        for value in odd:
            number += 1
            known = f"{name[:-8]}{number:08x}"
            shown = [{**made["shown"][0], key: value}]
            files[f"receipts/{known}.json"] = json.dumps({**made, "id": known, "shown": shown})
    files["machine.json"] = json.dumps({"vault": "", "host": "odd"})
    tree = two.remote.parent / "tree"
    write_notes(tree, files)
    git(tree, "init", "-q")
    git(tree, "add", "--all")
    git(tree, "commit", "-q", "-m", "x")
    git(tree, "push", "-q", str(two.remote), f"HEAD:{REFS}{'0' * 16}.1")
    two.carry(two.b)

    found = list(list_receipts(two.b))
    assert 0 < len(found) < len(files)
    for receipt in found:
        assert receipt.machine == "odd"
        with contextlib.suppress(VaultError):
            replay_receipt(two.b, receipt.id)


@pytest.mark.campaign
def test_a_purge_says_how_evidence_is_removed(two: Two) -> None:
    two.make_own()
    keep(two.a, "sail loft")
    two.carry(two.a, two.b)
    own = str(publish(two.b))

    told = str(plan_purge(two.b, ["notes/sails.md"]).steps)
    assert f"git update-ref -d {own}" in told
    assert f"git push origin :{own}" in told
    assert "on each: " in told


@pytest.mark.campaign
def test_sync_carries_evidence_without_a_word(make_machines: MakeMachines) -> None:
    machines = make_machines(NOTES)
    machines.make_own()
    anna, ben = machines.all
    for machine in (anna, ben):
        machine.run("recall", "sail loft")
    anna.run("pack", "oars", "--agent", "claude")
    for machine in (anna, ben, anna, anna):
        assert machine.run("sync").code == 0

    for machine, other in ((anna, ben), (ben, anna)):
        stats = machine.run("stats", "--json").json
        found = {each["path"]: each["times"] for each in stats["most_recalled"]}
        assert found["notes/sails.md"] == 2
        assert [each["recalls"] for each in stats["machines"]] == [1]
        assert machine.git("for-each-ref", REFS) == other.git("for-each-ref", REFS)
    (receipt,) = ben.run("receipts", "--json").json["receipts"]
    assert receipt["machine"]
    replayed = ben.run("replay", receipt["id"])
    assert replayed.out == anna.run("replay", receipt["id"]).out
    assert "says that this was shown there" in replayed.err


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
            assert times(vault) == {"notes/sails.md": 1}


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
@pytest.mark.parametrize("shares", [True, False])
def test_last_turns_are_shared_only_where_the_person_says_so_and_trusts_the_vault(
    make_machines: MakeMachines, shares: bool
) -> None:
    notes = {**NOTES, "vaultmem.yaml": "share_turns: true\n"} if shares else NOTES
    machines = make_machines(notes)
    machines.make_own()
    anna, ben = machines.all
    agent = ("--agent", "claude")
    anna.run("session", "start", "--id", "s-1", "--goal", "mend the sails", *agent)
    with closing(anna.open(agent="claude")) as vault:
        add_turns(vault, "s-1", [Turn("user", "Use the red thread, please.")])
    anna.run("session", "close", "s-1", "--summary", "mended", *agent)
    for machine in (anna, ben):
        assert machine.run("sync").code == 0
    turns = ("for-each-ref", "--format=%(objectname)", REFS)
    assert "turns/" not in ben.git("ls-tree", "-r", "--name-only", ben.git(*turns).split()[0])

    for machine in (anna, ben):
        machine.run("trust")
    for machine in (anna, ben):
        assert machine.run("sync").code == 0
    assert ("red thread" in ben.run("session", "restore", "s-1").out) is shares


@pytest.mark.campaign
def test_a_long_history_of_evidence_ends_and_another_begins(
    make_machines: MakeMachines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vaultmem.storage.git.machine_refs.MAX_COMMITS", 2)
    machines = make_machines(NOTES)
    machines.make_own()
    anna, ben = machines.all
    anna.run("pack", "oars", "--agent", "claude")
    for _ in range(3):
        anna.run("recall", "sail loft")
        assert anna.run("sync", "--json").json["evidence"] == "done"
        assert ben.run("sync").code == 0

    (ref,) = anna.git("for-each-ref", "--format=%(refname)", REFS + "*.2").split()
    for where in (machines.git, anna.git, ben.git):
        assert ref in where("for-each-ref", "--format=%(refname)", REFS)
        assert ref.removesuffix("2") + "1" not in where("for-each-ref", "--format=%(refname)", REFS)
    assert anna.git("rev-list", "--count", ref) == "1"
    most = ben.run("stats", "--json").json["most_recalled"]
    assert {each["path"]: each["times"] for each in most}["notes/sails.md"] == 3
    assert len(ben.run("receipts", "--json").json["receipts"]) == 1


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
@pytest.mark.parametrize("is_own", [False, True])
def test_words_of_queries_and_turns_leave_only_for_a_remote_of_the_persons_own(
    make_machines: MakeMachines, is_own: bool
) -> None:
    machines = make_machines({**NOTES, "vaultmem.yaml": "share_turns: true\n"})
    anna, ben = machines.all
    for machine in machines.all:
        machine.run("trust")
    if is_own:
        machines.make_own()
    say(anna, "zanzibar")
    for machine in (anna, ben):
        assert machine.run("sync", "--json").json["evidence"] == "done"

    held = machines.read_all()
    assert "notes/sails.md" in held  # What was found, and how often, travels in either case.
    assert ("Use the zanzibar thread" in held) is is_own
    assert ("oars zanzibar" in held) is is_own
    assert ("zanzibar" in held) is is_own
    assert ("zanzibar" in ben.run("receipts", "--json").out) is is_own
    assert ("zanzibar" in ben.run("session", "restore", "s-1").out) is is_own


@pytest.mark.campaign
def test_words_that_went_to_the_persons_own_remote_go_to_no_other_one(
    make_machines: MakeMachines,
) -> None:
    machines = make_machines(NOTES)
    machines.make_own()
    anna, ben = machines.all
    say(anna, "zanzibar")
    assert anna.run("sync", "--json").json["evidence"] == "done"
    assert "zanzibar" in machines.read_all()
    team = machines.remote.with_name("team.git")
    anna.git("init", "-q", "--bare", str(team))
    anna.git("remote", "add", "team", str(team))
    say(anna, "samarkand")
    assert anna.run("sync", "team", "--json").json["evidence"] == "done"

    held = machines._replace(remote=team).read_all()
    assert "notes/sails.md" in held
    assert "zanzibar" not in held
    assert "samarkand" not in held
    assert anna.run("sync", "origin", "--json").json["outcome"] == "synced"
    assert "samarkand" not in machines.read_all()
    assert ben.run("sync").code == 0


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
def test_another_persons_machine_decides_nothing_by_what_it_counts(
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
        "machine.json": json.dumps({"vault": "", "host": "annas-laptop", "words": False}),
        f"usage/{digest}.json": '{"notes/oars.md": [100000, 9999999999, 1]}',
        "calls.json": '{"pack": [999999, 9, 9]}',
    })  # fmt: skip
    git(made, "init", "-q")
    git(made, "add", "--all")
    git(made, "-c", "user.name=Ben", "-c", "user.email=ben@example.org", "commit", "-qm", "x")
    ben.git("fetch", "-q", str(made), f"+HEAD:{ref}")
    ben.git("push", "-q", "-f", "origin", f"{ref}:{ref}")
    assert anna.run("sync").code == 0

    stats = anna.run("stats", "--json").json
    assert [(each["path"], each["times"]) for each in stats["most_recalled"]] == [
        ("notes/sails.md", 3),
        ("notes/oars.md", 1),
    ]
    assert [each["name"] for each in stats["machines"]] == [f"Ben ({ref[len(REFS) :][:6]})"]
    assert stats["packs"]["calls"] == 0
    assert "annas-laptop" not in anna.run("stats").out


@pytest.mark.campaign
@pytest.mark.parametrize("email", ["anna@example.org", "ben@example.org"])
def test_turns_and_receipts_count_only_from_the_persons_own_machines(
    make_machines: MakeMachines, email: str
) -> None:
    machines = make_machines({**NOTES, "vaultmem.yaml": "share_turns: true\n"})
    machines.make_own()
    anna, ben = machines.all
    ben.git("config", "--global", "user.email", email)
    for machine in machines.all:
        machine.run("trust")
    say(ben, "zanzibar")
    for machine in (ben, anna):
        assert machine.run("sync").code == 0

    assert "Use the zanzibar thread" in machines.read_all()
    is_hers = email == "anna@example.org"
    assert ("zanzibar" in anna.run("session", "restore", "s-1").out) is is_hers
    assert ("zanzibar" in anna.run("receipts", "--json").out) is is_hers
