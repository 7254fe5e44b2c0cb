"""A client's settings as text: our entry and our hooks are put in, renewed, and taken out.

None is no file. What somebody else wrote stays to the byte, and so does what people added to ours
as long as it is there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import PurePath
from typing import Any, NamedTuple

from vaultmem.core.clients import yaml_entry
from vaultmem.core.clients.client import COMMAND, ENTRY, Client, Hooks
from vaultmem.core.clients.jsonc import (
    Path,
    add_item,
    find_node,
    read_jsonc,
    remove_value,
    set_value,
)
from vaultmem.core.clients.marks import (
    fill_entry,
    fill_item,
    is_our_entry,
    is_our_line,
    make_line,
    read_entry,
    renew_words,
)
from vaultmem.core.clients.toml_table import read_toml, remove_table, set_table
from vaultmem.errors import RefusedError


class _Form(NamedTuple):
    """How settings in another language than JSON are read and changed."""

    read: Callable[[str], dict[str, Any]]
    put: Callable[[str | None, tuple[str, str], dict[str, Any]], str]
    remove: Callable[[str, tuple[str, str]], str | None]


_FORMS = {
    ".toml": _Form(read_toml, set_table, remove_table),
    ".yaml": _Form(yaml_entry.read_yaml, yaml_entry.set_entry, yaml_entry.remove_entry),
}


def find_entry(client: Client, name: str, text: str | None) -> Any:
    """Return the entry of our name in the settings, None if there is none.

    Raises:
        RefusedError: the settings cannot be understood.
    """
    form = _FORMS.get(PurePath(name).suffix)
    if form is not None:
        whole: Any = form.read(text or "")
    else:
        whole = read_jsonc(text).value if text and text.strip("\ufeff \t\r\n") else {}
    for key in (*client.key, ENTRY):
        whole = whole.get(key) if isinstance(whole, dict) else None
    return whole


def add_entry(client: Client, name: str, text: str | None, words: Sequence[str]) -> str:
    """Return the settings with our entry; in one that is there, what its owner added stays.

    Raises:
        RefusedError: somebody else wrote an entry of our name, or the settings are not understood.
    """
    old = _find_ours(client, name, text)
    entry = fill_entry(client, words)
    if old is not None:
        renewed = fill_entry(client, renew_words(read_entry(client, old), [*words]))
        # What is no word of ours, as a type or a switch, is the owner's once it is there.
        entry = {k: v for k, v in renewed.items() if k not in old or client.entry[k] != v}
    if (form := _FORMS.get(PurePath(name).suffix)) is not None:
        return _put(form, text, client.key[0], entry)
    if old is None:
        return set_value(text, (*client.key, ENTRY), entry)
    for key, value in entry.items():
        text = set_value(text, (*client.key, ENTRY, key), value)
    return text or ""


def remove_entry(client: Client, name: str, text: str) -> str | None:
    """Return the settings without our entry and what its owner added to it.

    Raises:
        RefusedError: as `add_entry` does.
    """
    if _find_ours(client, name, text) is None:
        return text
    if (form := _FORMS.get(PurePath(name).suffix)) is not None:
        return _remove(form, text, client.key[0])
    return remove_value(text, (*client.key, ENTRY))


def add_hooks(client: Client, hooks: Hooks, text: str | None, words: Sequence[str]) -> str:
    """Return the settings with one command of ours at each event; in one that is there, renewed.

    Raises:
        RefusedError: the settings are not understood.
    """
    for theirs, ours in hooks.events.items():
        line = make_line(client, words, ours)
        path = (*hooks.key, theirs)
        places = _find_lines(hooks, text, path)
        for place in places:
            text = set_value(text, place, line)
        if not places:
            text = add_item(text, path, fill_item(hooks, line), hooks.head)
    return text or ""


def remove_hooks(hooks: Hooks, text: str) -> str | None:
    """Return the settings without the commands of ours, at whatever event they stand."""
    while (path := _find_removable(hooks, text)) is not None:
        left = remove_value(text, path, hooks.head)
        if left is None:
            return None
        text = left
    return text


def _put(form: _Form, text: str | None, key: str, values: dict[str, Any]) -> str:
    before = form.read(text or "")
    inner = before.get(key, {})
    if not isinstance(inner, dict):
        raise _refuse(key)
    entry = {**(inner.get(ENTRY) or {}), **values}
    new = form.put(text, (key, ENTRY), values)
    _check(form, new, key, {**before, key: {**inner, ENTRY: entry}})
    return new


def _remove(form: _Form, text: str, key: str) -> str | None:
    wanted = form.read(text)
    wanted[key].pop(ENTRY)
    new = form.remove(text, (key, ENTRY))
    if new is not None:
        _check(form, new, key, wanted)
    return new


def _check(form: _Form, text: str, key: str, wanted: dict[str, Any]) -> None:
    """Make sure that nothing but our entry changed."""
    try:
        after = form.read(text)
    except RefusedError:
        raise _refuse(key) from None
    # A table that only held ours is not there without it.
    if {key: {}, **after} != {key: {}, **wanted}:
        raise _refuse(key)


def _refuse(key: str) -> RefusedError:
    return RefusedError(
        f'the settings write "{key}.{ENTRY}" in a form of their own; change it by hand'
    )


def _find_ours(client: Client, name: str, text: str | None) -> Any:
    entry = find_entry(client, name, text)
    if entry is not None and not is_our_entry(read_entry(client, entry)):
        raise RefusedError(
            f'there is a server "{ENTRY}" that somebody else wrote; rename or remove it first'
        )
    return entry


def _list_lines(hooks: Hooks, item: Any, path: Path) -> list[dict[Path, Any]]:
    """Return for each command of the item at `path` where its lines stand, and these."""
    nested = next((key for key, value in hooks.item.items() if isinstance(value, list)), None)
    form = hooks.item if nested is None else hooks.item[nested][0]
    keys = [key for key, value in form.items() if value == COMMAND]
    handlers = {path: item}
    if nested is not None:
        inner = item.get(nested) if isinstance(item, dict) else None
        listed = inner if isinstance(inner, list) else []
        handlers = {(*path, nested, number): each for number, each in enumerate(listed)}
    return [
        {(*at, key): each.get(key) for key in keys if isinstance(each, dict)}
        for at, each in handlers.items()
    ]


def _find_lines(hooks: Hooks, text: str | None, path: Path) -> list[Path]:
    """Return where the lines of our commands stand in the list of an event."""
    event = find_node(text, path)
    return [
        place
        for number, item in enumerate(event.items if event else ())
        for lines in _list_lines(hooks, item.value, (*path, number))
        for place, line in lines.items()
        if is_our_line(line)
    ]


def _find_removable(hooks: Hooks, text: str) -> Path | None:
    """Return the path of the first of our commands, or of the item that holds only ours."""
    events = find_node(text, hooks.key)
    for _, event, found in events.members if events else ():
        for number, item in enumerate(found.items):
            path: Path = (*hooks.key, event, number)
            handlers = _list_lines(hooks, item.value, path)
            ours = [lines for lines in handlers if any(map(is_our_line, lines.values()))]
            if ours:
                return path if len(ours) == len(handlers) else next(iter(ours[0]))[:-1]
    return None
