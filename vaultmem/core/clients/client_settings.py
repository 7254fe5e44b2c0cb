"""Add, update and remove vaultmem's entry and hooks in a client's settings.

A text of None means no file. All other bytes stay, and so do the user's additions to our entry
while it exists.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath, PureWindowsPath
from typing import Any, NamedTuple

from vaultmem.core.clients import settings_formats
from vaultmem.core.clients.agent_client import (
    ARGUMENTS,
    CLIENTS,
    COMMAND,
    ENTRY,
    MILLISECONDS,
    PROGRAM,
    SECONDS,
    WORDS,
    AgentClient,
    AutoMemory,
    Hooks,
)
from vaultmem.core.clients.auto_memory import is_memory_folder
from vaultmem.core.clients.settings_formats import (
    Path,
    add_item,
    find_node,
    read_jsonc,
    read_toml,
    remove_table,
    remove_value,
    set_table,
    set_value,
)
from vaultmem.errors import RefusedError

# Our entry in a client's settings, and how it is recognized later: by our words in our order, with
# any program: `mcp --vault ROOT --agent NAME`, `hook EVENT --vault ROOT --agent CLIENT`. Earlier
# versions named no agent in a hook, and users remove it from an entry; then the program must be
# vaultmem.

#: Characters of shell operators between commands.
_SHELL = set("();<>|&")

#: Timeouts of a hook in seconds, and of a hook that runs at each tool call.
_TIMEOUT_SECONDS, _TOOL_TIMEOUT_SECONDS = 30, 5


def make_words(client: AgentClient, command: Sequence[str], root: str) -> list[str]:
    """Return the words that start the server, with the agent's name."""
    return [*command, "mcp", "--vault", root, "--agent", client.name]


def make_line(client: AgentClient, words: Sequence[str], event: str) -> str:
    """Return the command line for one of our events; `words` are the server's."""
    index = words.index("mcp")
    hook_words = [
        *words[:index],
        "hook",
        event,
        *words[index + 1 : index + 3],
        "--agent",
        client.name,
    ]
    return shlex.join(hook_words)


def fill_entry(client: AgentClient, words: Sequence[str]) -> dict[str, Any]:
    """Return an entry in a client's format."""
    values = {PROGRAM: words[0], ARGUMENTS: [*words[1:]], WORDS: [*words]}
    entry: dict[str, Any] = _fill(client.entry, values)
    return entry


def fill_item(hooks: Hooks, line: str, event: str) -> Any:
    """Return the item of one command in the list of a client's event, with its timeout."""
    seconds = _TOOL_TIMEOUT_SECONDS if event in hooks.matchers else _TIMEOUT_SECONDS
    values = {COMMAND: line, SECONDS: seconds, MILLISECONDS: seconds * 1_000}
    item = _fill(hooks.item, values)
    return {"matcher": hooks.matchers[event], **item} if event in hooks.matchers else item


def read_entry(client: AgentClient, entry: Any) -> list[str]:
    """Return the words of an entry in a client's format; none if it has another format."""
    words: list[Any] = []
    for key, kind in client.entry.items() if isinstance(entry, dict) else ():
        if kind in (PROGRAM, ARGUMENTS, WORDS):
            value = entry.get(key)
            words += value if isinstance(value, list) else [value]
    return words if all(isinstance(word, str) for word in words) else []


def is_our_entry(words: list[str]) -> bool:
    """Return whether the words of an entry with our name are ours; users can add others."""
    index = words.index("mcp") if "mcp" in words else 0
    arguments = words[index:]
    return (
        index > 0
        and "--vault" in arguments[:-1]
        and ("--agent" in arguments or _is_vaultmem(words[index - 1]))
    )


def renew_words(old: list[str], new: list[str]) -> list[str]:
    """Return new words with the user's options and agent from the old ones."""
    arguments = old[old.index("mcp") :]
    arguments[arguments.index("--vault") + 1] = new[new.index("--vault") + 1]
    return new[: new.index("mcp")] + arguments


def is_our_line(line: Any) -> bool:
    """Return whether a hook's command line is one of our commands, and nothing else."""
    if not isinstance(line, str) or "\n" in line:
        return False
    try:
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        lexer.commenters = ""
        words = list(lexer)
    except ValueError:
        return False
    index = words.index("hook") if "hook" in words else 0
    if (
        not index
        or words[index + 2 : index + 3] != ["--vault"]
        or any(set(each) <= _SHELL for each in words)
    ):
        return False
    agent = words[index + 4 : index + 6]
    return (agent[:1] == ["--agent"] and agent[-1] in CLIENTS) or _is_vaultmem(words[index - 1])


def _is_vaultmem(program: str) -> bool:
    """Return whether the word before ours is vaultmem's script, or the name of its module."""
    name = PureWindowsPath(program).name  # It reads both kinds of slashes.
    return name in {ENTRY, f"{ENTRY}.exe"}


def _fill(form: Any, values: Mapping[str, Any]) -> Any:
    if isinstance(form, Mapping):
        return {key: _fill(value, values) for key, value in form.items()}
    if isinstance(form, list):
        return [_fill(value, values) for value in form]
    return values.get(form, form) if isinstance(form, str) else form


class _Form(NamedTuple):
    """Functions to read and edit settings in a format other than JSON."""

    read: Callable[[str], dict[str, Any]]
    put: Callable[[str | None, tuple[str, str], dict[str, Any]], str]
    remove: Callable[[str, tuple[str, str]], str | None]


_FORMS = {
    ".toml": _Form(read_toml, set_table, remove_table),
    ".yaml": _Form(
        settings_formats.read_yaml, settings_formats.set_entry, settings_formats.remove_entry
    ),
}


def find_entry(client: AgentClient, name: str, text: str | None) -> Any:
    """Return the entry with our name in the settings, or None if it is missing.

    Raises:
        RefusedError: the settings cannot be parsed.
    """
    form = _FORMS.get(PurePath(name).suffix)
    if form is not None:
        whole: Any = form.read(text or "")
    else:
        whole = read_jsonc(text).value if text and text.strip("\ufeff \t\r\n") else {}
    for key in (*client.key, ENTRY):
        whole = whole.get(key) if isinstance(whole, dict) else None
    return whole


def add_entry(client: AgentClient, name: str, text: str | None, words: Sequence[str]) -> str:
    """Return the settings with our entry; the user's additions to an existing one stay.

    Raises:
        RefusedError: the entry with our name is not ours, or the settings cannot be parsed.
    """
    old = _find_ours(client, name, text)
    entry = fill_entry(client, words)
    if old is not None:
        renewed = fill_entry(client, renew_words(read_entry(client, old), [*words]))
        # Values other than our words, such as a type or a switch, belong to the user once they
        # exist.
        entry = {k: v for k, v in renewed.items() if k not in old or client.entry[k] != v}
    if (form := _FORMS.get(PurePath(name).suffix)) is not None:
        return _put(form, text, client.key[0], entry)
    if old is None:
        return set_value(text, (*client.key, ENTRY), entry)
    for key, value in entry.items():
        text = set_value(text, (*client.key, ENTRY, key), value)
    return text or ""


def remove_entry(client: AgentClient, name: str, text: str) -> str | None:
    """Return the settings without our entry and the user's additions to it.

    Raises:
        RefusedError: as `add_entry` does.
    """
    if _find_ours(client, name, text) is None:
        return text
    if (form := _FORMS.get(PurePath(name).suffix)) is not None:
        return _remove(form, text, client.key[0])
    return remove_value(text, (*client.key, ENTRY))


def add_hooks(client: AgentClient, hooks: Hooks, text: str | None, words: Sequence[str]) -> str:
    """Return the settings with our command at each event; existing ones are updated.

    Raises:
        RefusedError: the settings cannot be parsed.
    """
    for client_event, our_event in hooks.events.items():
        line = make_line(client, words, our_event)
        path = (*hooks.key, client_event)
        places = _find_lines(hooks, text, path)
        for place in places:
            text = set_value(text, place, line)
        if not places:
            text = add_item(text, path, fill_item(hooks, line, client_event), hooks.head)
    return text or ""


def remove_hooks(hooks: Hooks, text: str) -> str | None:
    """Return the settings without our commands, at any event."""
    while (path := _find_removable(hooks, text)) is not None:
        new_text = remove_value(text, path, hooks.head)
        if new_text is None:
            return None
        text = new_text
    return text


def add_memory(memory: AutoMemory, client: str, text: str | None, folder: str) -> str:
    """Return the settings with a folder as the client's memory.

    Raises:
        RefusedError: they name another folder already, or cannot be parsed.
    """
    node = find_node(text, (memory.key,))
    if node is not None and not _is_our_memory(node.value, client):
        raise RefusedError(f'"{memory.key}" is {node.value!r} already; remove it first')
    return set_value(text, (memory.key,), folder)


def remove_memory(memory: AutoMemory, client: str, text: str) -> str | None:
    """Return the settings without the folder that `add_memory` wrote."""
    node = find_node(text, (memory.key,))
    is_ours = node is not None and _is_our_memory(node.value, client)
    return remove_value(text, (memory.key,)) if is_ours else text


def _is_our_memory(value: Any, client: str) -> bool:
    return isinstance(value, str) and is_memory_folder(value, client)


def _put(form: _Form, text: str | None, key: str, values: dict[str, Any]) -> str:
    settings = form.read(text or "")
    inner = settings.get(key, {})
    if not isinstance(inner, dict):
        raise _reject(key)
    entry = {**(inner.get(ENTRY) or {}), **values}
    new = form.put(text, (key, ENTRY), values)
    _check(form, new, key, {**settings, key: {**inner, ENTRY: entry}})
    return new


def _remove(form: _Form, text: str, key: str) -> str | None:
    expected = form.read(text)
    expected[key].pop(ENTRY)
    new = form.remove(text, (key, ENTRY))
    if new is not None:
        _check(form, new, key, expected)
    return new


def _check(form: _Form, text: str, key: str, expected: dict[str, Any]) -> None:
    """Check that nothing but our entry changed."""
    try:
        settings = form.read(text)
    except RefusedError:
        raise _reject(key) from None
    # A table with only our entry is removed with it.
    if {key: {}, **settings} != {key: {}, **expected}:
        raise _reject(key)


def _reject(key: str) -> RefusedError:
    return RefusedError(
        f'the settings write "{key}.{ENTRY}" in a form of their own; change it by hand'
    )


def _find_ours(client: AgentClient, name: str, text: str | None) -> Any:
    entry = find_entry(client, name, text)
    if entry is not None and not is_our_entry(read_entry(client, entry)):
        raise RefusedError(
            f'there is a server "{ENTRY}" that vaultmem did not write; rename or remove it first'
        )
    return entry


def _list_lines(hooks: Hooks, item: Any, path: Path) -> list[dict[Path, Any]]:
    """Return the lines of each command in the item at `path`, by their paths."""
    nested = next((key for key, value in hooks.item.items() if isinstance(value, list)), None)
    form = hooks.item if nested is None else hooks.item[nested][0]
    keys = [key for key, value in form.items() if value == COMMAND]
    handlers = {path: item}
    if nested is not None:
        inner = item.get(nested) if isinstance(item, dict) else None
        items = inner if isinstance(inner, list) else []
        handlers = {(*path, nested, number): each for number, each in enumerate(items)}
    return [
        {(*handler_path, key): each.get(key) for key in keys if isinstance(each, dict)}
        for handler_path, each in handlers.items()
    ]


def _find_lines(hooks: Hooks, text: str | None, path: Path) -> list[Path]:
    """Return the paths of our commands' lines in the list of an event."""
    event = find_node(text, path)
    return [
        place
        for number, item in enumerate(event.items if event else ())
        for lines in _list_lines(hooks, item.value, (*path, number))
        for place, line in lines.items()
        if is_our_line(line)
    ]


def _find_removable(hooks: Hooks, text: str) -> Path | None:
    """Return the path of the first of our commands, or of an item with only ours."""
    events = find_node(text, hooks.key)
    for _, event, node in events.members if events else ():
        for number, item in enumerate(node.items):
            path: Path = (*hooks.key, event, number)
            handlers = _list_lines(hooks, item.value, path)
            our_handlers = [lines for lines in handlers if any(map(is_our_line, lines.values()))]
            if our_handlers:
                return (
                    path if len(our_handlers) == len(handlers) else next(iter(our_handlers[0]))[:-1]
                )
    return None
