"""What we write into a client's settings, and what tells later that it is ours.

It is told by our words in our order, whatever the program is called: `mcp --vault ROOT --agent
NAME`, `hook EVENT --vault ROOT --agent CLIENT`. Earlier versions named no agent in a hook, and
people leave it out of an entry; there the program has to be vaultmem.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import PureWindowsPath
from typing import Any

from vaultmem.core.clients.client import (
    ARGUMENTS,
    CLIENTS,
    COMMAND,
    ENTRY,
    PROGRAM,
    WORDS,
    Client,
    Hooks,
)

#: Of a word that consists of these, the shell makes another command.
_SHELL = set("();<>|&")


def make_words(client: Client, command: Sequence[str], root: str) -> list[str]:
    """Return the words that start the server, and say under whose name it writes."""
    return [*command, "mcp", "--vault", root, "--agent", client.name]


def make_line(client: Client, words: Sequence[str], event: str) -> str:
    """Return the command line that answers one of our events; `words` are those of the server."""
    at = words.index("mcp")
    told = [*words[:at], "hook", event, *words[at + 1 : at + 3], "--agent", client.name]
    return shlex.join(told)


def fill_entry(client: Client, words: Sequence[str]) -> dict[str, Any]:
    """Return an entry in a client's form."""
    told = {PROGRAM: words[0], ARGUMENTS: [*words[1:]], WORDS: [*words]}
    entry: dict[str, Any] = _fill(client.entry, told)
    return entry


def fill_item(hooks: Hooks, line: str) -> Any:
    """Return what stands in the list of an event for one command."""
    return _fill(hooks.item, {COMMAND: line})


def read_entry(client: Client, entry: Any) -> list[str]:
    """Return the words of an entry in a client's form; none if it is not of that form."""
    words: list[Any] = []
    for key, kind in client.entry.items() if isinstance(entry, dict) else ():
        if kind in (PROGRAM, ARGUMENTS, WORDS):
            given = entry.get(key)
            words += given if isinstance(given, list) else [given]
    return words if all(isinstance(word, str) for word in words) else []


def is_our_entry(words: list[str]) -> bool:
    """Tell whether the words of an entry of our name are ours; its owner may have added some."""
    at = words.index("mcp") if "mcp" in words else 0
    told = words[at:]
    return at > 0 and "--vault" in told[:-1] and ("--agent" in told or _is_vaultmem(words[at - 1]))


def renew_words(old: list[str], new: list[str]) -> list[str]:
    """Return new words with the options and the agent that an owner gave to the old ones."""
    kept = old[old.index("mcp") :]
    kept[kept.index("--vault") + 1] = new[new.index("--vault") + 1]
    return new[: new.index("mcp")] + kept


def is_our_line(line: Any) -> bool:
    """Tell whether a command line of a hook is one command of ours and nothing else."""
    if not isinstance(line, str) or "\n" in line:
        return False
    try:
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        lexer.commenters = ""
        words = list(lexer)
    except ValueError:
        return False
    at = words.index("hook") if "hook" in words else 0
    if (
        not at
        or words[at + 2 : at + 3] != ["--vault"]
        or any(set(each) <= _SHELL for each in words)
    ):
        return False
    agent = words[at + 4 : at + 6]
    return (agent[:1] == ["--agent"] and agent[-1] in CLIENTS) or _is_vaultmem(words[at - 1])


def _is_vaultmem(program: str) -> bool:
    """Tell whether the last word before ours is vaultmem's script, or the name of its module."""
    name = PureWindowsPath(program).name  # It reads both kinds of slashes.
    return name in {ENTRY, f"{ENTRY}.exe"}


def _fill(form: Any, told: Mapping[str, Any]) -> Any:
    if isinstance(form, Mapping):
        return {key: _fill(value, told) for key, value in form.items()}
    if isinstance(form, list):
        return [_fill(value, told) for value in form]
    return told.get(form, form) if isinstance(form, str) else form
