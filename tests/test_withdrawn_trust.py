"""What the owner took back instructs no more, whatever an agent does afterwards.

Each way in which a note can change is a row of `WAYS`. A new command, HTTP operation or MCP tool
that writes has to appear there, or in `OTHERS` with the reason why it makes no note active.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Make
from in_process import run_here
from machines import MakeMachines
from serving import play
from support import git, wait_until
from visiting import Served
from watchers import watch_process

from vaultmem.cli.commands import read_rows
from vaultmem.mcp_server.tool_server import TOOLS
from vaultmem.web.api.routes import OPERATIONS

PATH = "notes/ops/friday.md"
RULE = "Deploys never run on Fridays."
NEW = "Deploys run on any day."
POLICY = f"---\nkind: policy_rule\n---\n# Friday\n\n{RULE}\n"
NOTES = {PATH: POLICY, "notes/ops/other.md": f"---\nkind: policy_rule\n---\n# Other\n\n{NEW}\n"}


class World:
    """A vault with a policy that its owner trusts, and the branch `old` on which it is active."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.root = root
        self.folder = folder
        self.file = root / PATH
        self.base = git(root, "rev-parse", "HEAD")

    def run(self, *words: str, agent: str = "", code: int | None = 0) -> str:
        """Give a command as the owner, or as an agent, whose command may be refused."""
        env = {"VAULTMEM_AGENT": agent} if agent else {}
        done = run_here(*words, "--vault", str(self.root), env=env)
        assert done.code == code or (agent and code == 0), done
        return done.out + done.err

    def act(self, *words: str) -> str:
        """Give a command as an agent; it may be refused."""
        return self.run(*words, agent="claude")

    def save(self, text: str) -> None:
        """Save the note as an editor would."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text(text)

    def instructs(self, *options: str) -> bool:
        """Tell whether the rule stands under Instructions in the owner's and an agent's pack."""
        packs = [self.run("pack", "deploys Fridays", *options, agent=who) for who in ("", "codex")]
        found = [
            RULE in pack.partition("## Evidence")[0].partition("## Instr")[2] for pack in packs
        ]
        return any(found)

    def http(self, method: str, path: str, **content: Any) -> Any:
        """Send a request as an agent, with the ETag of the note if it is there."""
        served = Served(self.root, self.folder)
        try:
            program = served.connect("claude")
            etag = program.get(f"/api/v1/notes/{PATH}").headers.get("etag", '"none"')
            return program.request(
                method, f"/api/v1{path}", json=content or None, headers={"If-Match": etag}
            )
        finally:
            served.workers.close()

    def mcp(self, *calls: tuple[str, dict[str, Any]]) -> None:
        """Call tools as an agent."""

        async def scene(client: Any) -> None:
            for name, given in calls:
                await client.call_tool(name, given)

        play(self.root, scene)


@pytest.fixture
def world(make_vault: Make, tmp_path: Path) -> World:
    return World(make_vault(NOTES, prepare=_prepare), tmp_path)


def _prepare(root: Path) -> None:
    world = World(root, root.parent)
    world.run("promote", PATH)
    git(root, "branch", "old")
    assert world.instructs()


def test_each_vault_of_these_tests_instructs_at_first(make_vault: Make, tmp_path: Path) -> None:
    for number in range(3):  # The third is a copy.
        root = make_vault(NOTES, f"vault{number}", prepare=_prepare)
        assert World(root, tmp_path).instructs()


def _stale(world: World) -> None:
    world.run("state", PATH, "stale", "--reason", "not so any more")


def _archive(world: World) -> None:
    _stale(world)
    world.run("state", PATH, "archived")


def _commit_removal(world: World) -> None:
    git(world.root, "rm", "-q", PATH)
    git(world.root, "commit", "-q", "-m", "gone")
    world.run("status")


def _commit_state(world: World) -> None:
    world.save(POLICY.replace("---\n#", "state: deprecated\n---\n#"))
    git(world.root, "commit", "-qam", "not so any more")
    world.run("status")


def _save_state(world: World) -> None:
    world.save(POLICY.replace("---\n#", "state: deprecated\n---\n#"))
    world.run("status")


def _save_kind(world: World) -> None:
    world.save(POLICY.replace("policy_rule", "semantic_fact"))
    world.run("status")


def _other_text(world: World) -> None:
    world.save(POLICY.replace(RULE, NEW))
    world.run("checkpoint", "any day")
    world.run("status")


def _on_page(world: World) -> None:
    served = Served(world.root, world.folder, may_write=True)
    try:
        browser = served.enter()
        etag = browser.get(f"/api/v1/notes/{PATH}").headers["etag"]
        headers = {"If-Match": etag, "Origin": f"http://{browser.base_url.host}:8421"}
        done = browser.post(
            f"/api/v1/state/{PATH}", json={"state": "deprecated", "reason": "no"}, headers=headers
        )
        assert done.status_code == 200, done.text
    finally:
        served.workers.close()


#: How the owner takes the rule back.
WITHDRAWALS: dict[str, Callable[[World], object]] = {
    "candidate": lambda w: w.run("state", PATH, "candidate", "--reason", "not so any more"),
    "stale": _stale,
    "deprecated": lambda w: w.run("state", PATH, "deprecated", "--reason", "not so any more"),
    "archived": _archive,
    "quarantined": lambda w: w.run("state", PATH, "quarantined", "--reason", "made up"),
    "superseded": lambda w: w.run("supersede", PATH, "notes/ops/other.md"),
    "forgotten": lambda w: w.run("forget", PATH, "--yes"),
    "forgotten with a reason": lambda w: w.run("forget", PATH, "--yes", "--reason", "no"),
    "moved": lambda w: w.run("mv", PATH, "notes/ops/saturday.md"),
    "a saved state": _save_state,
    "a saved kind": _save_kind,
    "a committed state": _commit_state,
    "a committed removal": _commit_removal,
    "another text": _other_text,
    "on the page": _on_page,
    "trust dropped": lambda w: w.run("trust", "--drop", PATH),
}


def _remember(world: World, *more: str) -> None:
    words = ("remember", RULE, "--kind", "policy_rule", "--title", "Friday", "--context", "ops")
    world.act(*words, *more)
    world.act("promote", PATH)


def _change_kind_twice(world: World) -> None:
    world.mcp(
        ("update_note", {"path": PATH, "properties": {"kind": "semantic_fact"}}),
    )
    world.act("state", PATH, "active")
    world.mcp(
        ("update_note", {"path": PATH, "properties": {"kind": "policy_rule"}}),
    )


def _switch(world: World) -> None:
    world.act("checkpoint", "x")
    world.act("switch", "old")
    assert world.file.read_text() == POLICY


def _merge(world: World) -> None:
    """Make the note active on a branch by git, as an agent, and merge that."""
    _commit_as_agent(world, "old")
    world.act("merge", "old")
    world.act("resolve", "--all", "--theirs")


def _reset(world: World) -> None:
    world.act("checkpoint", "x")
    world.act("branch", "--reset", "main", world.base)


def _commit_as_agent(world: World, branch: str = "") -> None:
    """Commit the active note by git, as an agent does whose commits say so."""
    if branch:
        world.act("switch", branch)
        world.save(POLICY.replace("kind:", "tags: [x]\nkind:"))
    else:
        world.save(POLICY)
    git(world.root, "add", "-A")
    who = ("-c", "user.name=claude", "-c", "user.email=claude@agents.localhost")
    git(
        world.root,
        *who,
        "commit",
        "--allow-empty",
        "-qm",
        "active",
        "-m",
        "Agent-Id: claude\nVault-Event: write",
    )
    if branch:
        world.act("switch", "main")


def _import_archive(world: World) -> None:
    """Take the owner's trust from an archive that was made while the rule was active."""
    archive = world.folder / "old.tar.gz"
    git(world.root, "stash", "-q", "-u") if git(world.root, "status", "--porcelain") else None
    git(world.root, "switch", "-q", "old")
    world.act("export", "--archive", str(archive))
    git(world.root, "switch", "-q", "main")
    other = world.folder / "imported"
    run_here(
        *("import", "archive", str(archive), str(other), "--trust"),
        env={"VAULTMEM_AGENT": "claude"},
    )
    if other.is_dir():
        world.root = other


def _import_memories(world: World) -> None:
    folder = world.folder / "rules"
    folder.mkdir()
    (folder / "friday.md").write_text(POLICY)
    world.act("import", "folder", str(folder), "--yes")
    world.act("promote", PATH)


def _clone_old(world: World) -> None:
    """Work in a clone at the commit at which the rule was active."""
    other = world.folder / "clone"
    git(world.folder, "clone", "-q", "-b", "old", str(world.root), str(other))
    world.root = other


def _work_tree(world: World) -> None:
    other = world.folder / "tree"
    git(world.root, "worktree", "add", "-q", str(other), "old")
    world.root = other


def _edit_by_http(world: World) -> None:
    world.http("PUT", f"/notes/{PATH}", text=POLICY)
    world.http("POST", f"/promote/{PATH}")


def _edit(world: World) -> None:
    """Write the note as it was by an editor that an agent starts."""
    text = world.folder / "as-it-was.md"
    text.write_text(POLICY)
    env = {"VAULTMEM_AGENT": "claude", "EDITOR": f"cp {text}"}
    run_here("edit", PATH, "--vault", str(world.root), env=env)


def _watched(world: World) -> None:
    """Save the note as it was, while a watcher runs that names the agent."""
    world.act("checkpoint", "x")
    with watch_process(world.root):
        world.save(POLICY.replace("kind:", "tags: [x]\nkind:"))
        wait_until(lambda: "tags: [x]" in world.act("show", PATH))


#: How an agent tries to let it instruct again; the names say by which command, operation or tool.
WAYS: dict[str, Callable[[World], object]] = {
    "command promote": lambda w: w.act("promote", PATH),
    "command undo": lambda w: (w.act("undo", "HEAD"), w.act("promote", PATH)),
    "command undo --session": lambda w: (
        w.act("--session", "s-9", "forget", PATH, "--reason", "x"),
        w.act("undo", "--session", "s-9", "--apply"),
        w.act("promote", PATH),
    ),
    "command restore": lambda w: (w.act("restore", PATH, "--at", w.base), w.act("promote", PATH)),
    "command remember": _remember,
    "command remember --state": lambda w: _remember(w, "--state", "active"),
    "command remember --force": lambda w: _remember(w, "--force"),
    "command state": lambda w: (w.act("state", PATH, "active"), w.act("state", PATH, "stale")),
    "command state, by candidate": lambda w: (
        w.act("state", PATH, "candidate"),
        w.act("promote", PATH),
    ),
    "command promote --from": lambda w: w.act("promote", PATH, "--from", "old"),
    "command switch": _switch,
    "command merge": _merge,
    "command resolve": _merge,
    "command branch --reset": _reset,
    "command mv": lambda w: (
        w.act("mv", "notes/ops/saturday.md", PATH),
        w.act("mv", PATH, "notes/x.md"),
        w.act("mv", "notes/x.md", PATH),
    ),
    "command supersede": lambda w: w.act("supersede", "notes/ops/other.md", PATH),
    "command forget": lambda w: (w.act("forget", PATH, "--yes"), w.act("restore", PATH)),
    "command review": lambda w: [w.act("review", "--yes", str(n)) for n in (1, 2)],
    "command tag": lambda w: w.act("tag", PATH, "x"),
    "command pin": lambda w: w.act("pin", PATH),
    "command curate": lambda w: w.act("curate", "--apply"),
    "command dream": lambda w: w.act("dream"),
    "command compact": lambda w: w.act("compact", "--yes"),
    "command dedup": lambda w: w.act("dedup", "--merge", "--yes"),
    "command import": _import_memories,
    "command import archive": _import_archive,
    "command trust": lambda w: (w.act("trust"), w.act("trust", "--from", str(w.root))),
    "command checkpoint": lambda w: (w.save(POLICY), w.act("checkpoint", "as it was")),
    "command sync": lambda w: (w.save(POLICY), w.act("sync")),
    "command edit": _edit,
    "command session": lambda w: (
        w.act("session", "start", "x"),
        _remember(w),
        w.act("session", "close", "x"),
    ),
    "command init": lambda w: w.act("init", str(w.root), "--yes"),
    "command index": lambda w: w.act("index", "--rebuild"),
    "command reference": lambda w: w.act("reference", str(w.file), "--name", "ops"),
    "http remember": lambda w: w.http(
        *("POST", "/notes"), text=RULE, kind="policy_rule", title="Friday", context="ops"
    ),
    "http rewrite_note": _edit_by_http,
    "http update_note": lambda w: [
        w.http("PATCH", f"/notes/{PATH}", properties={name: value})
        for name, value in (("state", "active"), ("state", None), ("kind", "policy_rule"))
    ],
    "http forget_note": lambda w: (
        w.http("DELETE", f"/notes/{PATH}"),
        w.http("POST", f"/restore/{PATH}", at=w.base),
    ),
    "http forget_notes": lambda w: (
        w.http("POST", "/forget", paths=[PATH]),
        w.http("POST", f"/restore/{PATH}", at=w.base),
    ),
    "http pin_note": lambda w: w.http("POST", f"/pin/{PATH}"),
    "http tag_note": lambda w: w.http("POST", f"/tags/{PATH}", add=["x"]),
    "http rename_note": lambda w: (
        w.http("POST", f"/rename/{PATH}", to="notes/x.md"),
        w.http("POST", "/rename/notes/x.md", to=PATH),
    ),
    "http move_note": lambda w: [
        w.http("POST", f"/state/{PATH}", state=state) for state in ("stale", "candidate", "active")
    ],
    "http promote_note": lambda w: w.http("POST", f"/promote/{PATH}"),
    "http promote_notes": lambda w: [
        w.http("POST", "/promote", paths=[PATH], **more) for more in ({}, {"from": "old"})
    ],
    "http supersede_note": lambda w: w.http("POST", "/supersede/notes/ops/other.md", by=PATH),
    "http restore_note": lambda w: (
        w.http("POST", f"/restore/{PATH}", at=w.base),
        w.http("POST", f"/promote/{PATH}"),
    ),
    "http undo": lambda w: (
        w.http("POST", "/undo", commit="HEAD"),
        w.http("POST", f"/promote/{PATH}"),
    ),
    "http merge": lambda w: (_commit_as_agent(w, "old"), w.http("POST", "/merge", branch="old")),
    "http dream": lambda w: w.http("POST", "/dream"),
    "http compact": lambda w: w.http("POST", "/compact", apply=True),
    "http checkpoint": lambda w: (w.save(POLICY), w.http("POST", "/checkpoint", note="x")),
    "mcp remember": lambda w: w.mcp(
        ("remember", {"text": RULE, "kind": "policy_rule", "title": "Friday", "context": "ops"}),
        ("promote", {"paths": [PATH]}),
    ),
    "mcp update_note": _change_kind_twice,
    "mcp forget": lambda w: (w.mcp(("forget", {"path": PATH})), w.act("restore", PATH)),
    "mcp promote": lambda w: w.mcp(("promote", {"paths": [PATH]})),
    "mcp promote from": lambda w: w.mcp(("promote", {"paths": [PATH], "from": "old"})),
    "mcp checkpoint": lambda w: w.mcp(
        ("checkpoint", {"action": "merge", "from": "old"}),
        ("checkpoint", {"action": "reset", "ref": "main", "from": w.base}),
    ),
    "git commit": _commit_as_agent,
    "git clone": _clone_old,
    "git worktree": _work_tree,
    "file saved under a watcher": _watched,
}

#: Commands that write, and make no note active: what they write instead.
OTHERS = {
    "connect": "settings of clients",
    "embed": "vectors",
    "eval": "nothing",
    "hub": "a hub; its push check has a table of its own",
    "push-check": "nothing; it has a table of its own",
    "projects": "the property `project` of notes",
    "fleet": "vaults of others, each by the commands above",
    "task": "task notes",
    "skill": "settings of clients",
    "mcp": "what its tools write",
    "watch": "what is saved, which has a row",
    "serve": "what its API writes",
    "export": "files outside of the vault",
    "demo": "a vault of its own",
    "doctor": "settings",
    "vault": "a list of folders",
    "context": "generated files",
    "hook": "sessions",
    "merge-driver": "what git merges; `merge` has a row",
}
READS = {
    *("check",),
    *(
        "recall",
        "pack",
        "show",
        "list",
        "log",
        "status",
        "links",
        "trace",
        "similar",
        "show",
        "diff",
    ),
    *("history", "blame", "bisect", "assert", "queries", "receipt", "stats"),
}


def test_the_table_has_each_command_operation_and_tool_that_writes() -> None:
    named = {tuple(name.replace(",", " ").split()[:2]) for name in WAYS}
    commands = {name for name, _, _ in read_rows()} - READS - OTHERS.keys()
    assert {("command", name) for name in commands} <= named
    writing = {each.name for each in OPERATIONS if not each.address.startswith("GET ")}
    writing -= {"recall_by_body", "pack_by_body", "decide", "resolve"}  # `review`, `resolve`
    writing -= {each.name for each in OPERATIONS if each.path.startswith(("/sessions", "/tasks"))}
    assert {("http", name) for name in writing} <= named
    tools = {tool.name for tool in TOOLS if tool.writes} - {"session", "task"}
    assert {("mcp", name) for name in tools} <= named


ROWS = [
    *(("deprecated", way) for way in WAYS),
    *(("candidate", way) for way in WAYS if way.startswith(("http", "mcp"))),
    *(
        pytest.param(owners, way, marks=pytest.mark.campaign)
        for owners in WITHDRAWALS
        if owners != "deprecated"
        for way in (
            *("command promote", "command undo", "command restore", "command remember"),
            *("command promote --from", "command switch", "command state", "git commit"),
        )
    ),
]


@pytest.mark.guarantee
@pytest.mark.parametrize(("owners", "way"), ROWS)
def test_no_agent_lets_instruct_again_what_the_owner_took_back(
    world: World, owners: str, way: str
) -> None:
    WITHDRAWALS[owners](world)
    assert not world.instructs()
    WAYS[way](world)
    assert not world.instructs()
    assert not world.instructs("--ref", world.base)


OWNERS_WAYS: dict[str, Callable[[World], object]] = {
    "promote": lambda w: w.run("promote", PATH),
    "undo": lambda w: w.run("undo", "HEAD"),
    "restore": lambda w: w.run("restore", PATH, "--at", w.base),
    "trust": lambda w: (w.save(POLICY), w.run("trust")),
}


@pytest.mark.parametrize("way", OWNERS_WAYS)
def test_the_owner_lets_it_instruct_again(world: World, way: str) -> None:
    WITHDRAWALS["candidate"](world)
    OWNERS_WAYS[way](world)
    assert world.instructs()


def test_a_state_that_the_owner_sets_back_lets_it_instruct_again(world: World) -> None:
    WITHDRAWALS["deprecated"](world)
    world.run("state", PATH, "active")
    assert world.instructs()


def test_an_agents_return_is_a_candidate_and_says_so(world: World) -> None:
    WITHDRAWALS["deprecated"](world)
    assert f"candidate  {PATH}: only a person makes it active" in world.act("undo", "HEAD")
    assert "state: candidate\n" in world.file.read_text()


def test_what_an_agent_did_to_a_note_its_owner_takes_back(world: World) -> None:
    blob = git(world.root, "hash-object", PATH)
    change = {"path": PATH, "old_text": RULE, "new_text": NEW, "blob": blob}
    world.mcp(("update_note", change))
    world.act("checkpoint", "any day")
    assert not world.instructs()
    world.run("undo", "HEAD")
    assert world.instructs()


def test_another_branch_and_back_withdraws_nothing(world: World) -> None:
    world.run("branch", "draft")
    world.run("switch", "draft")
    world.run("state", PATH, "candidate")
    world.run("promote", PATH)
    git(
        world.root,
        "switch",
        "-q",
        "-c",
        "empty",
        git(world.root, "rev-list", "--max-parents=0", "HEAD"),
    )
    world.run("status")
    assert not world.file.exists()
    world.run("switch", "main")
    assert world.instructs()


def test_where_the_trust_record_cannot_be_written_the_text_does_not_count(
    world: World, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (record,) = (home / "config").rglob("trust/*.json")
    kept = record.read_bytes()
    replace = os.replace

    def refuse(source: Any, target: Any, **more: Any) -> None:
        """Replace a file, but none of the trust folder, as in an agent's sandbox."""
        if Path(os.fsdecode(target)).parent.name == "trust":
            raise PermissionError(13, "Permission denied")
        replace(source, target, **more)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", refuse)
        _save_state(world)
        assert record.read_bytes() == kept
        world.save(POLICY)
        assert not world.instructs()
    world.run("status")
    assert json.loads(record.read_bytes())["notes"] == {}
    assert not world.instructs()


@pytest.mark.campaign
def test_a_withdrawal_reaches_every_machine_that_syncs(make_machines: MakeMachines) -> None:
    one, two = make_machines(NOTES).all
    for machine in (one, two):
        assert machine.run("trust").code == 0
        assert _instructs(machine)
    assert one.run("state", PATH, "deprecated", "--reason", "not so any more").code == 0
    assert [each.run("sync").code for each in (one, two)] == [0, 0]
    assert not _instructs(two)
    agent = {"VAULTMEM_AGENT": "claude"}
    two.run("undo", "HEAD", env=agent)
    two.run("promote", PATH, env=agent)
    assert [each.run("sync").code for each in (two, one)] == [0, 0]
    assert not _instructs(one)
    assert not _instructs(two)


def test_an_agents_commit_that_comes_with_the_withdrawal_does_not_count(
    make_machines: MakeMachines,
) -> None:
    one, two = make_machines(NOTES).all
    for machine in (one, two):
        assert machine.run("trust").code == 0
    one.run("state", PATH, "deprecated", "--reason", "not so any more")
    one.write(PATH, POLICY)
    one.git("commit", "-qam", "active", "-m", "Agent-Id: claude\nVault-Event: write")
    assert [each.run("sync").code for each in (one, two)] == [0, 0]
    assert two.read(PATH) == POLICY
    assert not _instructs(two)
    assert not _instructs(one)


def test_a_commit_of_the_owner_that_comes_keeps_it(make_machines: MakeMachines) -> None:
    one, two = make_machines(NOTES).all
    for machine in (one, two):
        assert machine.run("trust").code == 0
    one.run("tag", PATH, "rules")
    one.run("state", PATH, "candidate")
    one.run("promote", PATH)
    assert [each.run("sync").code for each in (one, two)] == [0, 0]
    assert _instructs(two)


def _instructs(machine: Any) -> bool:
    pack = machine.run("pack", "deploys Fridays").out
    return RULE in pack.partition("## Evidence")[0].partition("## Instructions")[2]
