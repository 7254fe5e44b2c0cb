"""What came of a run: all of the event or none, by whom it is committed, and what was said."""

from __future__ import annotations

import contextlib
import json
import re
from collections import Counter
from typing import Any, NamedTuple

#: What a message has to say that ends a command of which everything was written, or nothing.
WRITTEN = re.compile(
    r"\b(?:is|are|was|were) (?:written|removed|saved|committed|safe|done)|on disk", re.I
)
UNWRITTEN = re.compile(
    r"nothing|no \w+ was |\bnot \w+(?:ed|en)\b|could not be|cannot be (?:made|used|read|printed)"
)


class Ended(NamedTuple):
    """How a command ended, what it printed, and at how many calls, of all kinds and of each."""

    code: int
    out: str
    err: str
    calls: int
    told: str = ""
    each: tuple[int, ...] = ()


class State(NamedTuple):
    """What is there after the commands that came next, and what they said."""

    files: dict[str, str]
    authors: list[list[str]]
    hand: list[str]


def judge(event: Any, ended: Ended, state: State, absent: State, whole: State) -> dict[str, Any]:
    """Say whether all of the event is there or none, and what is wrong: by name of the trouble."""
    troubles: dict[str, list[str]] = {}
    sides, paths = set(), {*state.files, *absent.files, *whole.files}
    if event.saves is not None:
        paths.discard("CONTEXT.md")  # A watcher renders it later, and again.
    for path in sorted(paths):
        now, before, after = (each.files.get(path) for each in (state, absent, whole))
        if before == after:
            if now != before:
                troubles.setdefault("lost", []).append(f"{path}: {(now or 'gone')[:300]}")
        elif now in (before, after):
            sides.add("whole" if now == after else "absent")
        elif event.once or not is_between(now, before, after):
            troubles.setdefault("half", []).append(f"{path}: {(now or 'gone')[:300]}")
        else:
            sides.add("between")
    if event.once and len(sides) > 1:
        troubles.setdefault("half", []).append("some notes are as they were, others are not")
    known = [*absent.authors, *whole.authors]
    if others := [row for row in state.authors if row not in known]:
        troubles.setdefault("half", []).append(f"committed by somebody else: {others}")
    told = bool(ended.out) and re.search(event.acknowledged or ".", ended.out) is not None
    is_server = event.saves is not None  # Which ends well whatever it met.
    acknowledged = told if is_server else ended.code == 0 or (ended.code < 0 and told)
    if acknowledged and sides - {"whole"}:
        troubles.setdefault("lost", []).append(f"it said: {ended.out[:200]}")
    if state.hand:
        troubles["hand"] = state.hand
    return {"troubles": troubles, "sides": sorted(sides)}


def is_between(now: str | None, before: str | None, after: str | None) -> bool:
    """Tell whether a note holds all that it held in both, and no line that it never held."""
    lines = [set((text or "").splitlines()) for text in (now, before, after)]
    return lines[1] & lines[2] <= lines[0] <= lines[1] | lines[2]


def read_answer(ended: Ended) -> Ended:
    """Return what a server answered to a tool's call as how a command would have ended."""
    for line in ended.out.splitlines():
        with contextlib.suppress(ValueError, KeyError, TypeError):
            row = json.loads(line)
            if row["id"] == 2:
                result = row["result"]
                told = f"vaultmem: error: {result['content'][0]['text']}\n"
                failed = bool(result.get("isError"))
                return ended._replace(code=int(failed), err=told if failed else ended.err)
    return ended


def read_error(text: str) -> str:
    """Return what a command's errors say, those that `--json` prints as JSON as the others."""
    lines = []
    for line in text.splitlines():
        with contextlib.suppress(ValueError, KeyError, TypeError):
            line = f"vaultmem: error: {json.loads(line)['error']}"
        lines.append(line)
    return "\n".join(lines)


def judge_words(event: Any, ended: Ended, sides: list[str]) -> dict[str, list[str]]:
    """Say what is wrong with how a command that met a fault ended, and with what it said."""
    troubles: dict[str, list[str]] = {}
    if event.saves is not None:  # A watcher says it on its own lines, and goes on.
        return {"traceback": [ended.err[-1500:]]} if "Traceback" in ended.err else {}
    said = read_error(ended.err)
    if "Traceback" in ended.err or ended.code < 0 or ended.code == 120:
        troubles["traceback"] = [ended.err[-1500:]]
    elif ended.code and not (re.search(r"^vaultmem: error: \S.*\S", said, re.M) or ended.out):
        troubles["empty"] = [f"{ended.code} {ended.err!r}"]
    elif ended.code and sides in (["whole"], ["absent"]):
        err = re.sub(r"(nothing|no \w+) (?:is|was) \w+", "nothing", said)
        told = bool(WRITTEN.search(err)), bool(UNWRITTEN.search(err))
        if not told[sides == ["absent"]] or (sides == ["absent"] and told[0]):
            troubles["untold"] = [f"{sides} {ended.code} {ended.err}"]
    return troubles


def tabulate(rows: list[dict[str, Any]], kind: str) -> str:
    """Return the campaign's table: for each event its calls, runs and troubles."""
    is_kill = kind == "kills"
    names = (
        ("lost", "half", "hand")
        if is_kill
        else ("traceback", "empty", "untold", "lost", "half", "hand")
    )
    head = ("event", "calls", kind, *(() if not is_kill else ("whole", "absent")), *names)
    lines = [head]
    for event in dict.fromkeys(row["event"] for row in rows if "event" in row):
        mine = [row for row in rows if row.get("event") == event]
        calls = max([row["calls"] for row in mine if "calls" in row], default=0)
        runs = [r for r in mine if r.get("hit") and (r["fault"] == "kill") == is_kill]
        troubles = Counter(name for row in runs for name in row["troubles"])
        sides = Counter("/".join(row["sides"]) for row in runs)
        shown = (sides["whole"], sides["absent"]) if is_kill else ()
        lines.append((event, calls, len(runs), *shown, *(troubles[name] for name in names)))
    sums = [sum(line[n] for line in lines[1:]) for n in range(1, len(head))]
    lines.append(("all", *sums))
    return "\n".join(
        f"| {' | '.join(f'{cell:<20}' if not n else f'{cell:>9}' for n, cell in enumerate(line))} |"
        for line in lines
    )
