"""Each operation of the table is the same in the shell, over HTTP and for agents."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest
from conftest import Make
from in_process import run_here
from serving import call, play
from visiting import Served

from vaultmem.cli.app import build_commands
from vaultmem.core.curation.proposal import Action, Proposal
from vaultmem.core.text.blob import blob_id
from vaultmem.mcp_server.tool_server import TOOLS
from vaultmem.operations.branch_changes import SWITCH, SYNC
from vaultmem.operations.declaration import (
    Argument,
    ArgumentForm,
    FrontEnd,
    Operation,
    list_arguments,
    offer,
)
from vaultmem.operations.links import REPAIR
from vaultmem.web.api.routes import OPERATIONS

NOTES = {
    "MEMORY.md": "# Memory\n\nThe harbour is at Husum. See [[pier]].\n",
    "notes/pier.md": "---\ntags: [harbour/wood]\npinned: true\n---\n# Pier\n\nOf oak.\n",
    "notes/quay.md": "---\nkind: decision\n---\n# Quay\n\n## Stone\n\nOf stone. [[no]]\n",
    "notes/old.md": "---\nstate: archived\n---\n# Old\n\nThe old lighthouse stood here.\n",
    "sessions/s-0.md": "---\nstatus: ok\nagent: ada\nstarted: 2026-11-01\n---\n# Measure\n",
    "sessions/s-1.md": (
        "---\nstatus: open\nagent: claude\nstarted: 2026-11-02T09:00\ncontinues: s-0\n---\n"
        "# Mend the pier\n\n## Summary\n\nThe west end is rotten.\n"
    ),
    "tasks/mend.md": "---\nstatus: open\nnext: buy oak\n---\n# Mend the pier\n",
    "primed/manual/ink.md": "# Ink\n\nThe printer takes black ink.\n",
    "notes/weir.md": (
        "# Weir\n\nThe weir is of stone.\n\n> [!conflict] Also said by ada on 2026-11-01\n"
        "> The weir is of oak.\n"
    ),
    "notes/bell.md": "---\nagent: ada\n---\n# Bell\n\nThe bell rings at seven.\n",
    "notes/chime.md": "---\nagent: ada\n---\n# Bell\n\nThe bell rings at seven.\n",
    "notes/boat.md": "---\nstate: candidate\n---\n# Boat\n\nThe boat at the pier leaks.\n",
}

#: The id of the candidate as it is once it has its tag.
_TAGGED = NOTES["notes/boat.md"].replace("candidate\n", "candidate\ntags:\n  - wet\n")
_BOAT = Proposal(Action.CANDIDATE, "notes/boat.md", blob_id(_TAGGED.encode()), "").id

#: The command and the tool of each operation, and what else the tool is given.
OFFERED: dict[str, tuple[str, str, dict[str, Any]]] = {
    "recall": ("recall", "recall", {}),
    "get_note": ("show", "read_note", {}),
    "list_notes": ("list", "", {}),
    "list_sources": ("reference", "history", {"action": "reference"}),
    "list_source_notes": ("reference", "history", {"action": "reference"}),
    "stats": ("stats", "history", {"action": "stats"}),
    "recent": ("queries", "history", {"action": "queries"}),
    "remember": ("remember", "remember", {}),
    "promote_notes": ("promote", "promote", {}),
    "promote_note": ("promote", "", {}),
    "forget_notes": ("forget", "", {}),
    "forget_note": ("forget", "forget", {}),
    "update_note": ("edit", "update_note", {"property": "about", "value": "wood"}),
    "rewrite_note": ("edit", "", {}),
    "list_pinned": ("pin", "", {}),
    "pin_note": ("pin", "", {}),
    "tag_note": ("tag", "", {}),
    "list_review": ("review", "", {}),
    "decide": (f"review --accept={_BOAT}", "", {}),
    "move_note": ("state", "", {}),
    "supersede_note": ("supersede", "", {}),
    "restore_note": ("restore", "", {}),
    "checkpoint": ("checkpoint", "checkpoint", {"action": "commit"}),
    "undo": ("undo", "", {}),
    "log": ("log", "", {}),
    "show_commit": ("show", "", {}),
    "diff": ("diff", "", {}),
    "trace_note": ("history", "", {}),
    "blame": ("blame", "", {}),
    "why": ("trace", "", {}),
    "pack": ("pack", "context_pack", {}),
    "list_links": ("links", "", {}),
    "list_backlinks": ("links --to", "", {}),
    "list_broken_links": ("links", "", {}),
    "list_orphans": ("links --orphans", "", {}),
    "rename_note": ("mv", "", {}),
    "repair_links": ("links --repair", "", {}),
    "start_session": ("session start", "session", {"action": "start"}),
    "resume_session": ("session resume", "session", {"action": "resume"}),
    "fork_session": ("session fork", "session", {"action": "fork"}),
    "mark_restore": ("session mark-restore", "", {}),
    "close_session": ("session close", "session", {"action": "close"}),
    "note_in_session": ("session add note", "session", {"action": "note"}),
    "decide_in_session": ("session add decision", "session", {"action": "decide"}),
    "touch_files": ("session add file", "session", {"action": "touch"}),
    "add_turn": ("session add turn", "", {}),
    "summarize_session": ("session add summary", "session", {"action": "summarize"}),
    "get_session": ("session show", "", {}),
    "list_sessions": ("session list", "session", {"action": "list"}),
    "search_sessions": ("session search", "session", {"action": "search"}),
    "list_turns": ("session turns", "", {}),
    "follow_session": ("session links", "session", {"action": "chain"}),
    "count_sessions": ("session stats", "", {}),
    "restore_session": ("session restore", "session", {"action": "restore"}),
    "view_sessions": ("session report", "", {}),
    "add_task": ("task add", "task", {"action": "add"}),
    "set_task": ("task update", "task", {"action": "set"}),
    "list_tasks": ("task list", "task", {"action": "list"}),
    "get_task": ("task show", "", {}),
    "view_task": ("task history", "task", {"action": "show"}),
    "hand_off_task": ("task handoff", "task", {"action": "handoff"}),
    "expand_artifact": ("task expand", "", {}),
    "list_projects": ("projects", "", {}),
    "status": ("status", "", {}),
    "doctor": ("doctor", "", {}),
    "list_branches": ("branch", "checkpoint", {"action": "branch"}),
    "sync": ("sync", "", {}),
    "switch_branch": ("switch", "", {}),
    "plan_merge": ("merge --dry-run", "checkpoint", {"action": "merge", "dry_run": True}),
    "merge": ("merge", "checkpoint", {"action": "merge"}),
    "list_conflicts": ("resolve", "", {}),
    "resolve": ("resolve --theirs", "checkpoint", {"action": "resolve"}),
    "similar": ("similar", "", {}),
    "dedup": ("dedup --yes", "", {}),
    "curate": ("curate --yes", "", {}),
    "dream": ("dream", "", {}),
    "compact": ("compact --yes", "", {}),
}

#: What is asked, of what the request declares.
ASKED: list[tuple[str, dict[str, Any]]] = [
    ("recall", {"query": "oak pier"}),
    ("recall", {"query": "pier", "limit": 1, "offset": 1}),
    ("recall", {"query": "lighthouse", "include_archived": True}),
    ("recall", {"query": "pier stone", "kind": ["decision"], "since": "2020-01-01"}),
    ("recall", {"query": "pier", "at": "first", "include_refs": ["first"]}),
    ("get_note", {"path": "pier"}),
    ("get_note", {"path": "notes/quay.md#Stone", "full": True}),
    ("list_notes", {}),
    ("list_notes", {"pinned": True, "tag": ["harbour"]}),
    ("list_notes", {"pinned": False, "path": ["notes"], "state": ["active", "archived"]}),
    ("list_notes", {"limit": 2}),
    ("list_sources", {}),
    ("list_source_notes", {"source": "manual"}),
    ("stats", {}),
    ("stats", {"session": "s-1"}),
    ("recent", {}),
    ("recent", {"note": "pier", "limit": 2, "since": "2020-01-01"}),
    ("remember", {"text": "The ferry leaves at seven.", "tags": ["ferry"], "cites": ["a", "b"]}),
    ("remember", {"text": "Of oak.", "title": "Oak", "context": "wood", "kind": "decision"}),
    ("remember", {"text": "The crane lifts ten tons.", "confidence": 0.5, "force": True}),
    ("remember", {"text": "Of steel since May.", "supersedes": "quay"}),
    ("promote_notes", {"paths": ["boat", "quay"]}),
    ("promote_notes", {"paths": ["boat"], "from": "first"}),
    ("promote_note", {"path": "boat"}),
    ("forget_notes", {"paths": ["boat"], "reason": "It sank."}),
    ("forget_notes", {"tag": "harbour", "query": "oak", "yes": True}),
    ("forget_notes", {"older_than": "1y", "from_session": "s-1", "dry_run": True}),
    ("forget_note", {"path": "boat", "reason": "It sank."}),
    ("update_note", {"path": "quay", "properties": {"about": "wood"}}),
    ("list_pinned", {}),
    ("list_pinned", {"at": "first"}),
    ("pin_note", {"path": "boat"}),
    ("pin_note", {"path": "notes/quay.md", "remove": True}),
    ("tag_note", {"path": "quay", "add": ["oak", "old"], "remove": ["harbour/wood"]}),
    ("list_review", {}),
    ("list_review", {"only": "candidate", "limit": 1, "all": True}),
    ("decide", {"id": _BOAT, "choice": "accept", "reason": "It floats."}),
    ("move_note", {"path": "boat", "state": "deprecated", "reason": "It sank."}),
    ("supersede_note", {"path": "notes/quay.md", "by": "boat", "partial": True}),
    ("supersede_note", {"path": "quay", "by": "boat", "reason": "No quay."}),
    ("restore_note", {"path": "boat", "at": "first"}),
    ("checkpoint", {"note": "nothing new"}),
    ("undo", {"commit": "HEAD"}),
    ("log", {"limit": 3, "span": "first..HEAD"}),
    ("log", {"from_agent": ["x"], "event": ["checkpoint"], "all": True, "since": "2020-01-01"}),
    ("show_commit", {"commit": "HEAD"}),
    ("diff", {"from": "first", "to": "HEAD", "path": "notes/boat.md"}),
    ("trace_note", {"path": "boat", "limit": 1}),
    ("trace_note", {"path": "boat", "at": "first"}),
    ("blame", {"path": "quay#Stone", "at": "first"}),
    ("why", {"query": "of stone", "limit": 2}),
    ("pack", {}),
    ("pack", {"query": "oak pier", "budget": 300, "labels": "full"}),
    ("pack", {"query": "pier", "at": "first"}),
    ("list_links", {"path": "quay"}),
    ("list_backlinks", {"path": "pier"}),
    ("list_broken_links", {}),
    ("list_orphans", {}),
    ("rename_note", {"path": "notes/quay.md", "to": "notes/jetty.md"}),
    ("repair_links", {"dry_run": True}),
    ("start_session", {"session": "s-2", "goal": "Paint it"}),
    ("resume_session", {"session": "s-1", "budget": 400}),
    ("fork_session", {"session": "s-1", "goal": "Of steel", "related": ["s-0"]}),
    ("mark_restore", {"session": "s-1"}),
    ("close_session", {"session": "s-1", "status": "error", "summary": "No", "learned": ["Wet."]}),
    ("note_in_session", {"session": "s-1", "text": "The printer is loud."}),
    ("note_in_session", {"session": "s-1", "text": "Who pays?", "question": True}),
    ("decide_in_session", {"session": "s-1", "text": "Oak only.", "title": "Oak", "tags": ["o"]}),
    ("touch_files", {"session": "s-1", "files": ["MEMORY.md", "gone.md"]}),
    ("add_turn", {"session": "s-1", "role": "user", "text": "Why so long?"}),
    ("summarize_session", {"session": "s-1", "text": "It is decided."}),
    ("get_session", {"session": "s-1"}),
    ("list_sessions", {}),
    ("list_sessions", {"status": "ok", "from_agent": "ada", "limit": 3}),
    ("search_sessions", {"query": "rotten", "limit": 3}),
    ("search_sessions", {"file": "pier.py", "command": "saw", "until": "2026-11-03"}),
    ("list_turns", {"session": "s-1", "from": 1, "failed": True}),
    ("follow_session", {"session": "s-1", "depth": 2}),
    ("count_sessions", {}),
    ("restore_session", {"session": "s-1", "budget": 2_000}),
    ("view_sessions", {"session": "s-1", "from": "2026-11-01", "budget": 400}),
    ("add_task", {"title": "Paint the pier", "next": "Buy paint", "text": "Blue."}),
    ("set_task", {"task": "mend", "status": "doing", "next": "Saw it"}),
    ("list_tasks", {"all": True}),
    ("get_task", {"task": "mend"}),
    ("view_task", {"task": "mend", "budget": 300}),
    ("hand_off_task", {"task": "mend", "text": "The saw is in the shed."}),
    ("status", {}),
    ("doctor", {}),
    ("list_branches", {}),
    ("list_branches", {"branch": "second", "from": "first"}),
    ("switch_branch", {"branch": "new", "create": True}),
    ("plan_merge", {"branch": "side"}),
    ("merge", {"branch": "side"}),
    ("list_conflicts", {}),
    ("resolve", {"path": "weir", "choice": "theirs", "number": 1}),
    ("similar", {"text": "The boat at the pier leaks."}),
    ("similar", {"text": "notes/pier.md"}),
    ("dedup", {}),
    ("dedup", {"apply": True}),
    ("curate", {}),
    ("curate", {"apply": True}),
    ("dream", {}),
    ("dream", {"dry_run": True}),
    ("compact", {}),
    ("compact", {"apply": True}),
]

#: Words of notes, which a tool says in its text alone, and what each call has of its own; what is
#: written says when.
_LEFT_OUT = {"text", "told", "commit", "commits", "receipt", "id"}
_WRITTEN = {"blob", "started", "ended", "created", "updated", "pending_restore_at", "artifact"}
_WRITTEN |= {"rendered", "support"}

#: What is another's, by operation: an id that is made up, how old a source is, when a report was
#: made, a score that falls with time, what is left of a tool's budget, and what a tool answers by a
#: text of its own.
_OTHERS = {
    "fork_session": {"session", "path"},
    "restore_session": {"budget"},
    "view_sessions": {"support"},
    "view_task": {"support", "tasks"},
    "hand_off_task": {"tasks"},
    "curate": {"made"},
    "dream": {"strength"},
}

#: Operations of which a tool has but a text.
_TEXT_ALONE = {"follow_session", "view_task", "hand_off_task"}

#: What another tool lists, in rows.
_LISTED: list[tuple[str, dict[str, Any]]] = [("list_branches", {})]

#: Operations that HTTP does not offer.
_ALONE = (REPAIR, SWITCH, SYNC)

TABLE = {
    each.name: each
    for each in (*OPERATIONS, *_ALONE)
    if each.request and not each.name.endswith("_by_body")
}


class World(NamedTuple):
    """A vault that is asked, and the same once more for each front end that writes."""

    root: Path
    folder: Path

    def copy(self, front: str) -> Path:
        """Return the folder of a copy."""
        root = self.folder / front / "vault"
        shutil.copytree(self.root, root, symlinks=True)
        return root


@pytest.fixture
def world(make_vault: Make, tmp_path: Path) -> World:
    return World(make_vault(NOTES, prepare=_prepare), tmp_path / "copies")


def _prepare(root: Path) -> None:
    committed = (("checkpoint", "first"), ("branch", "first"), ("tag", "boat", "wet"))
    on_side = (("branch", "side"), ("remember", "Moles are of stone.", "--ref", "side"))
    for words in (*committed, ("checkpoint", "second"), ("recall", "oak pier"), *on_side):
        done = run_here(*words, cwd=root)
        assert done.code == 0, done.err


@pytest.mark.parametrize("name", sorted(TABLE))
def test_every_front_end_offers_each_argument_or_the_table_excuses_it(name: str) -> None:
    operation, (command, tool, _) = TABLE[name], OFFERED[name]
    takes = next((each.input_schema["properties"] for each in TOOLS if each.name == tool), {})
    offered = {
        FrontEnd.SHELL: {param.name.removesuffix("_") for param in _find_command(command).params},
        FrontEnd.HTTP: {*operation.input_schema["properties"]},
        FrontEnd.MCP: {*takes},
    }
    if command == "show":  # Its one argument is a note or a commit.
        offered[FrontEnd.SHELL] |= {"path", "commit"}
    for argument in list_arguments(operation.request):
        for front, names in offered.items():
            if front in operation.excused:
                continue
            is_excused = front in argument.arg.excused
            name = argument.name_for(front)
            assert (name in names) is not is_excused, (name, front)


@pytest.mark.parametrize(("name", "given"), ASKED, ids=lambda value: str(value)[:60])
def test_the_same_request_has_the_same_answer_everywhere(
    name: str, given: dict[str, Any], world: World
) -> None:
    operation, (command, tool, more) = TABLE[name], OFFERED[name]
    writes = operation.writes or (name == "list_branches" and bool(given))
    roots = {
        front: world.copy(front) if writes else world.root for front in ("shell", "http", "mcp")
    }
    if name == "decide":  # What a review has listed can be decided.
        for root in roots.values():
            assert _BOAT[:6] in run_here("review", cwd=root).out
    for root in roots.values() if name == "dream" else ():  # What is recalled often is promoted.
        for word in ("bell", "seven", "ring"):
            assert run_here("recall", word, cwd=root).code == 0
    left_out = _LEFT_OUT | (_WRITTEN if writes else set()) | _OTHERS.get(name, set())
    shell = _strip(_run(roots["shell"], command, operation, given), left_out)
    if FrontEnd.HTTP not in operation.excused and all(
        _front(operation, each, FrontEnd.HTTP) for each in given
    ):
        http = _request(roots["http"], world.folder, operation, given)
        assert _strip(http, left_out) == shell
    if FrontEnd.MCP in operation.excused or name in _TEXT_ALONE or (name, given) in _LISTED:
        return
    offered = {
        each.name_for(FrontEnd.MCP): given[each.name]
        for each in offer(operation.request, FrontEnd.MCP)
        if each.name in given
    }

    async def scene(client: Any) -> dict[str, Any]:
        return await call(client, tool, **more, **offered, detail=True)

    if operation is TABLE["note_in_session"] and given.get("question"):
        more = {"action": "question"}
    with contextlib.chdir(roots["mcp"]):
        answer = _strip(play(roots["mcp"], scene), left_out)
    if name in {"add_task", "set_task"}:
        (answer,) = answer["tasks"]
    if tool in {"session", "task"}:  # The words of notes are told, and no data.
        shell = _share(shell, answer)
        answer = _share(answer, shell)
    common = {*answer} & {*shell}
    assert common or name == "fork_session", "the tool's data has nothing of the answer"
    assert {key: answer[key] for key in common} == {key: shell[key] for key in common}


def _share(value: Any, other: Any) -> Any:
    """Return of a value what another one has by the same names, lists row by row."""
    if isinstance(value, dict) and isinstance(other, dict):
        return {name: _share(value[name], other[name]) for name in value if name in other}
    if isinstance(value, list) and isinstance(other, list) and len(value) == len(other):
        return [_share(*each) for each in zip(value, other, strict=True)]
    return value


def _front(operation: Operation, name: str, front: FrontEnd) -> bool:
    return all(
        front not in each.arg.excused
        for each in list_arguments(operation.request)
        if each.name == name
    )


def _find_command(words: str) -> Any:
    found = build_commands()
    for word in words.split():
        found = found if word.startswith("-") else found.commands[word]
    return found


def _run(root: Path, command: str, operation: Operation, given: dict[str, Any]) -> Any:
    """Return the JSON that the command of an operation prints for a request."""
    offered = offer(operation.request, FrontEnd.SHELL)
    words = [word for each in offered for word in _write(each, given)]
    done = run_here("--agent", "claude", *command.split(), *words, "--json", cwd=root)
    assert done.code == 0, done.err
    return done.json


def _write(argument: Argument, given: dict[str, Any]) -> Iterator[str]:
    """Yield an argument as words of a command line."""
    if argument.name not in given or FrontEnd.SHELL in argument.arg.excused:
        return
    value, arg = given[argument.name], argument.arg
    flag = (arg.flags or (f"--{argument.name.replace('_', '-')}",))[-1]
    if arg.takes in {ArgumentForm.WORD, ArgumentForm.WORDS, ArgumentForm.INPUT, ArgumentForm.MEANT}:
        yield from value if isinstance(value, list) else [str(value)]
    elif argument.kind is bool:
        on, _, off = flag.partition("/")
        yield on if value else off
    elif arg.takes is ArgumentForm.VALUES:
        yield from (f"{flag}={name}={each}" for name, each in value.items())
    elif arg.takes is ArgumentForm.COMMAS:
        yield f"{flag}={','.join(value)}"
    else:
        yield from (f"{flag}={each}" for each in (value if isinstance(value, list) else [value]))


def _request(root: Path, folder: Path, operation: Operation, given: dict[str, Any]) -> Any:
    """Return the JSON of an operation's address for a request."""
    served = Served(root, folder, may_write=True)
    try:
        place = (
            f"/api/v1{operation.path.format(**{**given, 'path': quote(str(given.get('path')))})}"
        )
        left = {name: value for name, value in given.items() if name not in operation.parts}
        body = {name: left.pop(name) for name in operation.body if name in left}
        query = {
            name: str(value).lower() if isinstance(value, bool) else value
            for name, value in left.items()
        }
        headers = {"Vaultmem-Agent": "claude"}
        headers |= {"If-Match": "*"} if operation.changes else {}
        with contextlib.chdir(root):
            answer = served.connect().request(
                operation.method, place, params=query, json=body or None, headers=headers
            )
        assert answer.status_code < 300, answer.text
        return answer.json()
    finally:
        served.workers.close()


def _strip(value: Any, left_out: set[str]) -> Any:
    """Return an answer without what is not compared."""
    if isinstance(value, dict):
        return {
            name: _strip(each, left_out) for name, each in value.items() if name not in left_out
        }
    if isinstance(value, list):
        # The room on a disk changes while the tests run.
        kept = [x for x in value if not (isinstance(x, dict) and x.get("name") == "disk")]
        return [_strip(each, left_out) for each in kept]
    return value
