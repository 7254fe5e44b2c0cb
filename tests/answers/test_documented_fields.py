"""What `--json` prints has the fields that docs/reference/json.md names, and no more."""

from __future__ import annotations

import ast
import re
import shlex
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from conftest import Make
from in_process import run_here
from support import git

import vaultmem

DOCUMENT = Path(__file__).parents[2] / "docs/reference/json.md"

NOTES = {
    "MEMORY.md": "# Memory\n\nThe harbour is at Husum.\n",
    "notes/pier.md": "---\nstate: candidate\n---\n# Pier\n\nThe pier is of oak. See [[nowhere]].\n",
    "notes/quay.md": "# Quay\n\nThe quay is of stone, and [[pier]] is near.\n",
    "notes/ferry.md": "# Ferry\n\nThe ferry leaves at seven, from the pier.\n",
    "notes/buoy.md": "---\nkind: decision\nsupersedes: '[[raft]]'\n---\n# Buoys\n\nGreen.\n",
    "notes/boat one.md": "# Boat\n\nThe boat of the harbour master is called Gesine.\n",
    "notes/boat two.md": "# Boat\n\nThe boat of the harbour master is called Gesine.\n",
    "notes/broken.md": "---\ntags: [\n---\n# Broken\n",
}

FILES = {
    "questions.jsonl": '{"question": "when does the ferry leave", "notes": ["ferry"]}\n',
    "fleet.txt": "pier ./remote.git side\nquay ./remote.git side\n",
    "document.md": "# Tides\n\n## Spring\n\nHigh.\n",
    "words.txt": "The pier is of oak==>***\n",
    "session.jsonl": '{"type": "user", "sessionId": "a", "message": {"content": "hello"}}\n',
}

#: Commands, in order; a number is the exit code, and `> TEXT` is what a person then writes.
STORY = """
init .
index
1 doctor
context
remember "The ferry leaves at eight, from the pier."
remember "The ferry leaves at eight, from the pier. It waits for nobody."
similar "The ferry leaves at nine, from the pier."
dedup
dedup --apply --yes
show notes/pier.md
list
recall ferry hous
recall zeppelin
pack ferry
eval ../questions.jsonl --against HEAD
links
links notes/quay.md
links --to notes/pier.md
links --orphans
links --repair --dry-run
restore notes/quay.md
edit notes/quay.md --set about=stone
pin notes/quay.md
pin notes/quay.md --remove
tag notes/quay.md stone
pin
queries
stats
status
review
curate
curate --apply --yes
dream --dry-run
compact
reference ../document.md --source tides
reference
reference --remove tides
reference --remove tides --yes
checkpoint "what was remembered"
diff HEAD~1 HEAD
promote notes/pier.md
state notes/pier.md stale
supersede notes/ferry.md notes/quay.md
trace buoys
state notes/buoy.md quarantined --reason "who knows"
log
show
history notes/quay.md
blame notes/quay.md
mv notes/pier.md notes/jetty.md
forget notes/jetty.md --dry-run
forget notes/jetty.md --reason "it sank"
1 check --since HEAD~1
forget notes/jetty.md --purge
1 forget --verify ../words.txt
remember "The ferry to Holm leaves at the quay." --title Holm
remember "ferry to Holm leaves at the quay!" --title Holm
forget notes/inbox/holm.md --last-confirmation
> The quay is of planks.
restore notes/quay.md --at HEAD~2
assert ferry --contains eight
session start --id s1 --goal paint --pid 1
session add note "it rains" --session s1
session add note "for how long?" --question --session s1
session add decision "Paint the buoy red" --session s1
session add file notes/quay.md --session s1
session add turn user hello --session s1
session add summary "half of it is red" --session s1
session mark-restore s1
session resume s1
session show s1
session fork s1 --id s2
session add note "the same rain" --session s2
session list
session search paint
session turns s1
session links s2
session links s1
session stats
session restore s1
session current
session close s1 --learn "Red lasts longer"
undo --session s1
trace --spread s1
checkpoint before
branch side
branch gone
branch --reset gone HEAD~1
branch
> The quay is of sand.
checkpoint sand
undo HEAD
> The quay is of sand.
checkpoint sand
switch side
> The quay is of clay.
checkpoint clay
merge main
resolve
resolve quay --ours
sync ../remote.git
sync --dry-run
status
task add "Paint the quay"
task update --status doing
task show
task list
task history
task handoff
session report
fleet status ..
recall sand --fleet ../fleet.txt
pack sand --fleet ../fleet.txt
stats --fleet ../fleet.txt
assert quay --contains quay --fleet ../fleet.txt
fleet bisect ../fleet.txt quay --contains quay
fleet duplicates ../fleet.txt
fleet contradictions ../fleet.txt
curate --fleet ../fleet.txt
compact --fleet ../fleet.txt
hub init ../hub
hub add harbour --from . --hub ../hub
hub grant ada --person --email ada@ferry.example --admin "*" --hub ../hub
hub grants --hub ../hub
hub log --hub ../hub
hub check --hub ../hub
hub revoke ada --hub ../hub
hub remove harbour --hub ../hub
connect claude-code
connect --status
connect codex --print
skill install
import transcripts ../session.jsonl
export --archive ../vault.tar.gz
export --jsonl ../notes.jsonl
import archive ../vault.tar.gz ../copy --dry-run
1 watch --status
watch --stop
serve --stop
vault list
vault add .
vault remove .
"""

#: Commands whose rows name what follows them, too.
GROUPS = {"fleet", "hub", "projects", "session", "task", "vault"}

#: Rows of which another test compares all that a command prints.
ELSEWHERE = {"trust", "embed", "bisect", "receipt", "task expand", "fleet start"}
ELSEWHERE |= {"projects", "projects rename", "projects move"}

#: What takes months, a model or another process: tests of these commands have it.
_PAIR = {"older", "newer", "similarity", "differences", "kind", "older_notes", "newer_notes"}
RARE = {
    "fleet duplicates": _PAIR,
    "fleet contradictions": _PAIR | {"vault", "path", "title", "agent", "written"},
    "compact": {"path", "step", "from", "idle_days", "tokens", "tokens_left"},
    "eval": {"added"},
    "export": {"folder", "omitted", "pictures", "pages", "commit", "seconds"},
    "session search": {"number", "role", "at", "tool", "command", "files", "failed"},
    "dream": {"line", "text", "reason", "note", "score", "tokens"},
    "review": {"decided", "choice", "message", "other", "reject"},
    "merge": {"would_merge", "value", "other", "authors", "refused"},
    "pack": {"reason", "instead"},
    "recall": {"model", "weight", "embedded", "sections", "problem"},
    "session start": {"path", "status", "left", "commit", "problem"},
    "status": {"pid", "version", "since"},
    "trace": {
        *(
            "place",
            "project",
            "notes",
            "anchors",
            "status",
            "moved_to",
            "message",
            "commits",
            "day",
        ),
        *("sessions", "id", "goal", "decisions", "vault", "receipt", "paths", "writings", "how"),
        *("source", "branches"),
    },
    "watch": {"time", "what", "text", "log"},
    "serve": {"link"},
}

#: Objects whose names are paths, reasons, words: a vault's own.
FREE = {"skipped", "kinds", "states", "to_decide", "exempt", "properties", "kept"}
FREE |= {"problems", "outcomes", "corrections", "statuses", "agents", "workspaces"}
FREE |= {"details", "scopes", "missing", "behind"}


class Row(NamedTuple):
    """A row of the document: its commands, the fields it names, and the rows it refers to."""

    commands: list[str]
    fields: set[str]
    referred: set[str]


@pytest.mark.campaign
def test_each_command_prints_the_fields_that_are_documented(
    make_vault: Make, tmp_path: Path
) -> None:
    root = make_vault(NOTES)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    git(tmp_path, "init", "-q", "--bare", "remote.git")
    printed: dict[str, set[str]] = defaultdict(set)
    for line in STORY.strip().splitlines():
        words = shlex.split(line)
        if words[0] == ">":
            (root / "notes/quay.md").write_text(f"# Quay\n\n{' '.join(words[1:])}\n")
            continue
        code = int(words.pop(0)) if words[0].isdigit() else 0
        done = run_here(*words, "--json", cwd=root)
        assert done.code == code, (line, done)
        depth = 1 + (words[0] in GROUPS) + (words[:2] == ["session", "add"])
        named = [*words[:depth], *(each for each in words if each == "--fleet")]
        printed[" ".join(named)].update(_names(done.json))

    rows = list(_read_rows(DOCUMENT.read_text(encoding="utf-8")))
    known = {command: row for row in rows for command in row.commands}
    assert known.keys() - printed.keys() == ELSEWHERE
    wrong = {}
    for row in rows:
        names = set().union(*(printed[command] for command in row.commands))
        rare = RARE.get(row.commands[0], set())
        documented = row.fields.union(*(_all(known, other) for other in row.referred))
        if names:
            wrong[row.commands[0]] = names - documented, row.fields - names - rare
    assert {command: each for command, each in wrong.items() if any(each)} == {}


def test_no_front_end_puts_json_together() -> None:
    for folder in ("cli", "mcp_server"):
        for file in (Path(vaultmem.__file__).parent / folder).glob("*.py"):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.FunctionDef) and node.name != "emit_json":
                    assert not node.name.endswith("_json"), f"{file}: {node.name}"
                if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "emit_json":
                    given = node.args[0]
                    assert not isinstance(given, ast.Dict) or len(given.keys) == 1, file


def _names(value: Any) -> Iterator[str]:
    """Return the names of an object's fields, and of the objects in it."""
    if isinstance(value, list):
        for item in value:
            yield from _names(item)
    elif isinstance(value, dict):
        for name, item in value.items():
            yield name
            if name not in FREE or isinstance(item, list):
                yield from _names(item)


def _read_rows(text: str) -> Iterator[Row]:
    for commands, cell in re.findall(r"^\| (`.*?) \| (.*) \|$", text, re.MULTILINE):
        names = re.findall(r"`([^`]+)`", commands)
        group = names[0].partition(" ")[0] + " " if " " in names[0] else ""
        told = re.sub(r"\([^()]*\)", "", cell)
        refers = r"(?:as|as in|as for|fields of|commit in) `([a-z ]+)`"
        fields = re.findall(r"`([a-z_]+)(?:\[\])?`", re.sub(refers, "", told))
        whole = [group + name.removeprefix(group) for name in names]
        yield Row(whole, set(fields), set(re.findall(refers, told)))


def _all(known: dict[str, Row], command: str) -> set[str]:
    row = known[command]
    return row.fields.union(*(_all(known, other) for other in row.referred))
