"""Ten days of a vault: the sample's notes, and what people and agents made of them since."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from support import git, write_notes

SAMPLE = Path(__file__).parents[2] / "sample-vault"

#: A note that has everything that Obsidian shows, with a picture beside it.
FEATURES = "notes/deploy/harbour-day.md"
_PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)

_FILES: dict[str, str | bytes] = {
    "notes/deploy/slip.png": _PIXEL,
    FEATURES: """---
title: A day at the harbour
aliases: [harbour checklist]
tags: [deploy, harbour/visit]
kind: procedural_skill
state: active
created: 2026-11-13T09:00:00
---
What a **release day** at the harbour needs, from [[blue-green-on-two-vms|both machines]] to the
counter. #harbour/visit #release

> [!warning] Not on Fridays
> See [[no-friday-deploys#Why|why]], and [[no-such-note]] for the exception.

> [!tip]- Folded
> `just check` first.

## Before

- [x] Backup restored, as in [[restore-a-backup]]
- [ ] Scanner charged
  - [ ] and its spare

| sailing | machine | done |
|---|---|:-:|
| 07:40 | blue | yes |
| 09:10 | green | ~~no~~ |

```python
def sail(leg: str) -> int:
    return len(leg)  # a <b> & more
```

![[slip.png]]

![[lint-before-commit]]

Money is $10, and ==marked== text has a footnote.[^1]

[^1]: The slip of the counter.
""",
    # A note that is cut off, as a crash of an editor leaves it.
    "notes/inbox/cut-off.md": "---\ntitle: [cut off\nstate: active\n",
    # A note in which a merge kept what both sides said.
    "notes/inbox/tugboat.md": (
        "# Tugboat\n\nThe tugboat is green.\n\n"
        "> [!conflict] Also said by maren on 2026-11-12 (laptop)\n> The tugboat is blue.\n"
    ),
}


class Said(NamedTuple):
    """A command, when it is given, and by which agent and session ("agent session"), if any."""

    when: str
    who: str
    words: tuple[str, ...]


def say(when: str, who: str, *words: str) -> Said:
    """Return a command with when it is given, and by whom."""
    return Said(when, who, words)


_CLAUDE, _CODEX = "claude s-0502", "codex s-0510"
_LIMIT = "Holmpay answers 429 above 120 refunds a minute; the queue waits 30 seconds and goes on."

BEFORE = [
    say("2026-11-12T08:00", "", "init", "--yes"),
    say("2026-11-12T08:01", "", "trust"),
    say("2026-11-12T08:02", "", "recall", "refunds", "-n", "1"),
]

STORY = [
    say("2026-11-13T09:30", "", "checkpoint", "the day at the harbour"),
    *(
        say("2026-11-14T10:00", _CLAUDE, *words)
        for words in (
            ("session", "start", "--id", "s-0502", "--goal", "Find why refunds stall at noon"),
            ("pack", "how are refunds handled?", "--budget", "1200"),
            ("remember", _LIMIT, "--title", "Holmpay limits refunds", "--context", "payments"),
            ("task", "add", "Raise the refund limit with Holmpay", "--next", "Write to Ilse"),
            ("task", "add", "Show the limit in Admin"),
            (
                "session",
                "add",
                "decision",
                "Refunds wait in the queue at noon; nobody retries by hand.",
            ),
            ("session", "add", "note", "Does the limit count for each merchant?", "--question"),
            ("session", "close", "s-0502", "--summary", "The limit is 120 a minute."),
        )
    ),
    say("2026-11-16T15:00", "", "promote", "half-refunds-round-up"),
    *(
        say("2026-11-18T11:00", _CODEX, *words)
        for words in (
            ("session", "start", "--id", "s-0510", "--goal", "Prepare the winter timetable"),
            ("pack", "what did we decide about session tokens?", "--budget", "1200"),
            ("remember", "The staging database runs PostgreSQL 15.", "--context", "data"),
            ("remember", "The crew's radio channel is 12.", "--state", "candidate", "--force"),
            ("checkpoint", "the winter timetable"),
        )
    ),
    say(
        "2026-11-19T11:00",
        _CODEX,
        "remember",
        "The staging database runs PostgreSQL 16.",
        "--force",
    ),
    say("2026-11-19T11:01", _CODEX, "checkpoint", "staging was upgraded"),
    say(
        "2026-11-20T09:00",
        "",
        "quarantine",
        "admin-list-refetch-on-focus",
        "--reason",
        "copied from a web page",
    ),
    say("2026-11-21T09:00", "", "branch", "winter"),
    say("2026-11-21T09:05", _CLAUDE, "pack", "how do I roll back a deploy?", "--budget", "1200"),
]


def lay_story(root: Path) -> Path:
    """Lay down the sample vault and ten days of its history; return its folder."""
    shutil.copytree(SAMPLE, root)
    give(root, BEFORE)
    write_notes(root, _FILES)
    rules = root / "notes/payments/refund-rules.md"
    rules.write_text(rules.read_text().replace("Above €200", "Above €150"))
    give(root, STORY)
    assert git(root, "status", "--porcelain") == ""
    return root


def give(root: Path, story: list[Said]) -> None:
    """Run commands in a vault, each at its time."""
    lines = []
    for said in story:
        agent, _, session = said.who.partition(" ")
        named = {"VAULTMEM_AGENT": agent, "VAULTMEM_SESSION_ID": session} if agent else {}
        at = datetime.fromisoformat(said.when).timestamp()
        lines.append(json.dumps([at, {**named, "VAULTMEM_VAULT": str(root)}, said.words]))
    program = Path(__file__).parent / "at_times.py"
    done = subprocess.run(
        [sys.executable, program],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(program.parents[1])},
        input="\n".join(lines),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
