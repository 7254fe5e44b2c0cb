"""What is killed or failed at each of its calls: each command that writes, as users give it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from prepare import (
    berths,
    candidates,
    forget_index,
    name_item,
    prepare_archive,
    prepare_branch,
    prepare_confirmed,
    prepare_dedup,
    prepare_dream,
    prepare_editor,
    prepare_empty,
    prepare_export,
    prepare_merge,
    prepare_move,
    prepare_primed,
    prepare_restore,
    prepare_review,
    prepare_session,
    prepare_source,
    prepare_sync,
    prepare_take,
    prepare_task,
    prepare_transcript,
    prepare_undo,
    some,
    write,
)

from vaultmem.core.curation.proposal import Action

#: Lines to a server of MCP, before any tool is called.
GREETING = (
    '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",'
    '"capabilities":{},"clientInfo":{"name":"campaign","version":"1"}}}\n'
    '{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
)


class Event(NamedTuple):
    """An event: what it needs, and the command that makes it.

    `once` events are whole or absent; of the others, each note is. With `tidy`, nothing waits to be
    committed when it begins. `saves` are files that somebody saves while the command, a watcher,
    runs. `given` is its standard input, and `acknowledged` is what says on its output that it is
    done.
    """

    words: Sequence[str]
    prepare: Callable[[Path], object] = lambda _: None
    agent: str = "keeper"
    once: bool = True
    tidy: bool = False
    given: str = ""
    acknowledged: str = ""
    saves: Callable[[Path], object] | None = None
    first: Sequence[Sequence[str]] = ()
    beside: bool = False


def save(root: Path) -> None:
    write(root, {"notes/saved.md": "# Saved\n\nSomebody saved this.\n"})


def save_state(root: Path) -> None:
    file = root / berths(1)[0]
    file.write_text(file.read_text().replace("state: candidate", "state: active"))


def call(tool: str, **given: Any) -> str:
    asked = {"name": tool, "arguments": given}
    row = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": asked}
    return GREETING + json.dumps(row) + "\n"


MEMORY = "The bollard at pier 9 is loose, and the harbour master knows."

#: Given from the folder above the vault.
TAKE = ["import", "archive", "kept.tar.gz", "vault"]

#: Two notes that contradict each other.
PAIR = name_item(Action.CONTRADICTION, "notes/few.md", "notes/many.md")

#: A line that says which commit was made.
COMMITTED = r"(?m)^[0-9a-f]{7}  "

EVENTS: dict[str, Event] = {
    "remember": Event(["remember", MEMORY, "--json"]),
    "remember on a branch": Event(["remember", MEMORY, "--branch", "side"], prepare_branch),
    "edit": Event(["edit", berths(1)[0]], prepare_editor, agent=""),
    "tag": Event(["tag", berths(1)[0], "wet"], some),
    "tag on a branch": Event(["tag", berths(1)[0], "wet", "--ref", "side"], prepare_take),
    "pin": Event(["pin", berths(1)[0]], some, agent=""),
    "quarantine": Event(["state", berths(1)[0], "quarantined", "--reason", "a forgery"], some),
    "state": Event(["state", berths(1)[0], "stale"], some),
    "checkpoint": Event(["checkpoint", "what there is"]),
    "promote": Event(["promote", *berths(0, 1, 2)], candidates, agent=""),
    "supersede": Event(["supersede", *berths(0, 1)], some),
    "mv": Event(["mv", "old", "notes/z/new.md"], prepare_move),
    "forget": Event(["forget", berths(1)[0]], some),
    "forget several": Event(
        ["forget", *berths(0, 1, 2), "--yes", "--reason", "the harbour is closed"], some
    ),
    "forget --purge": Event(["forget", berths(1)[0], "--purge"], some),
    "forget --last-confirmation": Event(
        ["forget", "--last-confirmation", "notes/inbox/the-harbour-bell-rings-at-seven.md"],
        prepare_confirmed,
        agent="",
    ),
    "review yes": Event(["review", "--accept", PAIR], prepare_review, agent=""),
    "review no": Event(
        ["review", "--reject", PAIR, "--reason", "both hold"], prepare_review, agent=""
    ),
    "review several": Event(
        [
            *("review", "--accept", name_item(Action.REVALIDATE, "notes/claim.md")),
            *("--reject", name_item(Action.CANDIDATE, "notes/hmac.md")),
            *("--reject", name_item(Action.REVIEW_QUARANTINED, "notes/trick.md")),
            *("--reject", name_item(Action.DEMOTE_STALE, "notes/rooks.md")),
        ],
        prepare_review,
        agent="",
        once=False,
    ),
    "merge": Event(["merge", "side"], prepare_merge, tidy=True),
    "sync": Event(["sync"], prepare_sync, agent="", once=False, first=[["sync"]]),
    "switch": Event(["switch", "side"], prepare_merge, agent="", tidy=True),
    "branch": Event(["branch", "other"], agent=""),
    "branch --reset": Event(
        ["branch", "--reset", "main", "side"], prepare_merge, agent="", tidy=True
    ),
    "take": Event(["promote", "--from", "side", *berths(0, 1, 2)], prepare_take, agent=""),
    "session start": Event(["session", "start", "--id", "s-keeper", "--goal", "berths"]),
    "session start on a branch": Event(
        ["session", "start", "--id", "s-side", "--ref", "side"], prepare_branch, once=False
    ),
    "session add note": Event(["session", "add", "note", "Pier 9 is slippery."], prepare_session),
    "session add decision": Event(
        ["session", "add", "decision", "Rope is bought at Kai's.", "--title", "Rope"],
        prepare_session,
        once=False,
    ),
    "session close": Event(
        ["session", "close", "--summary", "All done.", "--learn", "Piers are wet."],
        prepare_session,
        once=False,
    ),
    "undo a session": Event(
        ["undo", "--session", "s-keeper", "--apply"], prepare_undo, agent="", acknowledged=COMMITTED
    ),
    "import": Event(["import", "transcripts", "../t.jsonl"], prepare_transcript, agent=""),
    "import memories": Event(
        ["import", "mem0", "../mem0.json"], prepare_export, agent="", once=False
    ),
    "export an archive": Event(["export", "--archive", "../fresh.tar.gz"], some, agent=""),
    "import an archive": Event(
        TAKE, prepare_archive, agent="", tidy=True, first=[TAKE], beside=True
    ),
    "prime": Event(["reference", "../book.md", "--source", "book"], prepare_source),
    "unprime": Event(["reference", "--remove", "book", "--yes"], prepare_primed, agent=""),
    "restore": Event(["restore", "notes/old.md", "--at", "then"], prepare_restore),
    "curate": Event(["curate", "--apply", "--yes"], some, acknowledged=COMMITTED),
    "dream": Event(["dream"], prepare_dream, acknowledged=COMMITTED),
    "compact": Event(["compact", "--apply", "--yes"], some, acknowledged=COMMITTED),
    "dedup": Event(["dedup", "--apply", "--yes"], prepare_dedup, agent=""),
    "task add": Event(["task", "add", "Paint the bollards"]),
    "task update": Event(
        ["task", "update", "paint-the-bollards", "--next", "Buy paint"], prepare_task
    ),
    "index": Event(["index"], forget_index, agent=""),
    "context": Event(["context"], some),
    "init": Event(["init", "--yes"], prepare_empty, agent="", tidy=True, first=[["init", "--yes"]]),
    "watch a save": Event(
        ["watch"], some, agent="", once=False, saves=save, acknowledged=r"(?s)indexed.*indexed"
    ),
    "watch a state": Event(
        ["watch"],
        candidates,
        agent="",
        once=False,
        saves=save_state,
        acknowledged="committed .* promote",
    ),
    "mcp remember": Event(
        ["mcp", "--agent", "claude"],
        given=call("remember", text=MEMORY),
        acknowledged='"id":2',
    ),
    "mcp update": Event(
        ["mcp", "--agent", "claude"],
        some,
        given=call("update_note", path=berths(1)[0], property="tags", value=["wet"]),
        acknowledged='"id":2',
    ),
    "mcp forget": Event(
        ["mcp", "--agent", "claude"],
        some,
        given=call("forget", path=berths(1)[0]),
        acknowledged='"id":2',
    ),
}
