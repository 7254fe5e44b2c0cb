"""What an error recommends, said for who calls tools: errors name commands, as for a shell.

A command becomes the call of the tool that does the same, and an option the argument of its name.
What no tool does stays a command, and is called one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from vaultmem.mcp_server.tool import Tool


class _Step(NamedTuple):
    """A tool, its action, and the argument for what a command names without an option."""

    tool: str
    action: str = ""
    named: str = ""


#: What commands are as tools.
STEPS = {
    "recall": _Step("recall"),
    "list": _Step("recall"),
    "log": _Step("history", "log", "path"),
    "history": _Step("history", "log", "path"),
    "blame": _Step("history", "blame", "path"),
    "review": _Step("history", "review"),
    "resolve": _Step("checkpoint", "resolve", "path"),
    "branch": _Step("checkpoint", "branch", "ref"),
    "checkpoint": _Step("checkpoint", "", "note"),
    "promote": _Step("promote", "", "paths"),
    "session start": _Step("session", "start"),
    "session resume": _Step("session", "resume", "session"),
    "session list": _Step("session", "list"),
    "task add": _Step("task", "add", "title"),
}

#: And what those are that list, if nothing is named.
LISTS = {"branch": _Step("history", "branches"), "resolve": _Step("history", "conflicts")}

_COMMAND = re.compile(r"`vaultmem ([^`]+)`")
_OPTION = re.compile(r"(?:^|(?<=[ ,;(]))--([a-z-]+)")


def tell_caller(text: str, tools: Mapping[str, Tool], called: str = "") -> str:
    """Return an error's text for who may call these tools, and has called one of them."""
    known = tools[called].takes["properties"] if called else {}
    parts = _COMMAND.split(text)  # Every second one is a command.
    parts[::2] = [
        _OPTION.sub(lambda found: f'"{found[1]}"' if found[1] in known else found[0], each)
        for each in parts[::2]
    ]
    parts[1::2] = [
        _name_call(each, tools) or f"`vaultmem {each}` (in a shell; no tool does it)"
        for each in parts[1::2]
    ]
    return "".join(parts)


def _name_call(command: str, tools: Mapping[str, Tool]) -> str:
    """Return the call that does what a command does, "" if there is none."""
    words = command.split(" ")
    count = 2 if " ".join(words[:2]) in STEPS else 1
    step = LISTS.get(command) or STEPS.get(" ".join(words[:count]))
    if step is None or step.tool not in tools:
        return ""
    takes = tools[step.tool].takes["properties"]
    given: dict[str, Any] = {"action": step.action} if step.action else {}
    named, *options = map(str.strip, _OPTION.split(" ".join(words[count:])))
    pairs = zip(options[::2], options[1::2], strict=True)
    for name, value in [*([(step.named, named)] if named else []), *pairs]:
        if not value or name not in takes:
            return ""  # It goes on in a way that the tool does not.
        given[name] = [value] if takes[name]["type"] == "array" else value
    told = json.dumps(given, ensure_ascii=False) if given else ""
    return f"`{f'{step.tool} {told}'.strip()}`"
