"""Change one property of a note's text; every other byte stays.

Each edit is checked by reading the result. If an edit by position would change other properties
(in a block such as `{a: b}`), it is rejected.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import date, datetime
from pathlib import PurePosixPath

from vaultmem.core.lifecycle import NoteKind, NoteState
from vaultmem.core.notes.frontmatter import (
    Frontmatter,
    read_frontmatter,
    read_state_lines,
    replace_said_states,
    split_text,
)
from vaultmem.core.notes.note import Note, is_managed, parse_note
from vaultmem.core.notes.problems import NEEDS_QUOTES, quote_value
from vaultmem.core.notes.properties import Property
from vaultmem.core.notes.sections import is_named_for
from vaultmem.errors import RefusedError

PropertyValue = str | bool | int | float | date | tuple[str, ...]

_NAME = re.compile(r"[A-Za-z_][\w -]{0,63}")
_PLAIN_TEXT = re.compile(r"(?:[A-Za-z]|\d{4}-\d\d-\d\d-\d)[\w/.()+'-]*(?: [\w/.()+'-]+)*")
#: Most values of one note that get quotes.
_MAX_QUOTED = 100
_NOT_TEXT = frozenset(["true", "false", "yes", "no", "on", "off", "y", "n", "null", "none"])


def add_quotes(text: str) -> str:
    """Return a note's text with quotes around the property values that need them.

    The text is unchanged if quotes do not make all properties readable.
    """
    changed = text
    for _ in range(_MAX_QUOTED):
        problem = read_frontmatter(changed).problem
        if not problem:
            return changed
        line = re.search(rf"line (\d+): .*{NEEDS_QUOTES}$", problem)
        if line is None:
            return text
        number = int(line[1])
        lines = [
            quote_value(each) if position == number else each
            for position, each in enumerate(changed.split("\n"), 1)
        ]
        changed = "\n".join(lines)
    return text


def set_property(text: str, name: str, value: PropertyValue) -> str:
    """Return `text` with the property set; only its lines change, or a line is added.

    Raises:
        RefusedError: the name is invalid, or the frontmatter cannot be read or edited by position.
    """
    if not _NAME.fullmatch(name):
        raise RefusedError(f'"{name}" is not a property\'s name; use letters, digits, - and _')
    frontmatter = _editable(text)
    eol = find_eol(text)
    prop = frontmatter.get(name)
    if not frontmatter.body:
        return _checked(text, _add_block(text, format_property(name, value), eol), name, value)
    block = text[frontmatter.start : frontmatter.end]
    if prop is None:
        indent = " " * (frontmatter.properties[0].indent if frontmatter.properties else 0)
        lines = [f"{indent}{line}{eol}" for line in format_property(name, value)]
        changed = block + "".join(lines)
    else:
        changed = _replace(block, prop, value, eol)
    return _checked(
        text, text[: frontmatter.start] + changed + text[frontmatter.end :], name, value
    )


def quarantine_unread(text: str) -> str:
    """Return the text of an invalid note with `quarantined` as its state.

    Each state line is replaced. Without one, a line is added after the first line, or a new block
    at the start.
    """
    value = NoteState.QUARANTINED.value
    text = replace_said_states(text, read_frontmatter(text), value)
    if value in read_state_lines(text, read_frontmatter(text)):
        return text
    line = f"state: {value}{find_eol(text)}"
    opening = re.match(r"\ufeff?---[ \t]*\r?\n", text)
    if opening is None:
        return _add_block(text, [f"state: {value}"], find_eol(text))
    return text[: opening.end()] + line + text[opening.end() :]


def mark_as_memory(path: PurePosixPath, text: str, kind: NoteKind) -> str:
    """Return the text of a note marked as managed; the user's own `kind` stays."""
    frontmatter = read_frontmatter(text)
    if frontmatter.problem or is_managed(path, frontmatter):
        return text
    if frontmatter.get("kind"):
        return set_property(text, "state_reason", "set by vaultmem")
    return set_property(text, "kind", kind.value)


def write_state(text: str, state: NoteState, reason: str = "") -> str:
    """Return a note's text with a state, and its reason if given.

    An existing state line is kept, so that `blame` shows who made the note active. Without one,
    `active` is not written.

    Raises:
        RefusedError: as for `set_property`.
    """
    if state is not NoteState.ACTIVE or _editable(text).get("state") is not None:
        text = set_property(text, "state", state.value)
    if reason:
        return set_property(text, "state_reason", reason)
    return remove_property(text, "state_reason")


def remove_property(text: str, name: str) -> str:
    """Return `text` without the lines of the property; unchanged if it has none.

    Raises:
        RefusedError: as for `set_property`.
    """
    frontmatter = _editable(text)
    prop = frontmatter.get(name)
    if prop is None:
        return text
    lines = text[frontmatter.start : frontmatter.end].splitlines(keepends=True)
    changed = "".join(lines[: prop.first] + lines[prop.last :])
    return _checked(text, text[: frontmatter.start] + changed + text[frontmatter.end :], name, None)


def format_note(properties: Mapping[str, PropertyValue | None], body: str) -> str:
    """Return the text of a new note with a frontmatter; properties that are None are omitted."""
    lines = [
        line
        for name, value in properties.items()
        if value is not None
        for line in format_property(name, value)
    ]
    return "\n".join(["---", *lines, "---", body])


def format_property(name: str, value: PropertyValue) -> list[str]:
    """Return the lines of a property as Obsidian writes them, without line ends."""
    if value == ():
        return [f"{name}: []"]
    if isinstance(value, tuple):
        return [f"{name}:", *(f"  - {format_value(item)}" for item in value)]
    return [f"{name}: {format_value(value)}"]


def format_value(value: str | bool | int | float | date) -> str:
    """Return a value as one line of YAML; text is quoted only if necessary."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat(timespec="seconds")
    if isinstance(value, (int, float, date)):
        return str(value)
    if _PLAIN_TEXT.fullmatch(value) and value.lower() not in _NOT_TEXT:
        return value
    quoted = json.dumps(value, ensure_ascii=False)
    return re.sub(
        r"[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]",
        lambda match: f"\\u{ord(match.group()):04x}",
        quoted,
    )


def _editable(text: str) -> Frontmatter:
    frontmatter = read_frontmatter(text)
    if frontmatter.problem:
        raise RefusedError(f"{frontmatter.problem}; fix it in an editor, it is never rewritten")
    if any("occurs twice" in warning for warning in frontmatter.warnings):
        raise RefusedError(f"{frontmatter.warnings[0]}; fix it in an editor, it is never rewritten")
    if frontmatter.warnings and not frontmatter.body:
        raise RefusedError(f"{frontmatter.warnings[0]}; fix it in an editor first")
    return frontmatter


def find_eol(text: str) -> str:
    """Return the line end of a text's first line, for new lines in the note."""
    newline = text.find("\n")
    return "\r\n" if newline > 0 and text[newline - 1] == "\r" else "\n"


def _add_block(text: str, lines: list[str], eol: str) -> str:
    offset = 1 if text.startswith("\ufeff") else 0
    block = eol.join(["---", *lines, "---", ""])
    return text[:offset] + block + text[offset:]


def _replace(block: str, prop: Property, value: PropertyValue, eol: str) -> str:
    start, end = prop.span
    lines = block.splitlines(keepends=True)
    if isinstance(value, tuple):
        if _can_edit_items(prop, value):
            return _edit_items(lines, prop, value, eol)
        if block[start : start + 1] == "[" and block[end - 1 : end] == "]":
            inside = ", ".join(map(format_value, value))
            return f"{block[:start]}[{inside}]{block[end:]}"
    elif prop.kind not in {"seq", "map"} and "\n" not in block[start:end]:
        gap = "" if block[start - 1 : start] in {" ", "\t"} else " "
        return f"{block[:start]}{gap}{format_value(value)}{block[end:]}"
    indent = " " * prop.indent
    new_lines = [f"{indent}{line}{eol}" for line in format_property(prop.name, value)]
    return "".join(lines[: prop.first] + new_lines + lines[prop.last :])


def _can_edit_items(prop: Property, value: tuple[str, ...]) -> bool:
    """Return whether removing lines and adding some after them gives exactly these items."""
    if not value or not prop.items or len(prop.items) != len(prop.value):
        return False
    old_items = [item for item in prop.value if item in value]
    return [*old_items, *(item for item in value if item not in prop.value)] == list(value)


def _edit_items(lines: list[str], prop: Property, value: tuple[str, ...], eol: str) -> str:
    """Remove the lines of missing items, and add lines for new items after the last."""
    old_items = list(prop.value)
    removals = {line for item, line in zip(old_items, prop.items, strict=True) if item not in value}
    new_items = [item for item in value if item not in old_items]
    model = lines[prop.items[0]]
    lead = model[: model.index("-") + 1]
    lead = lead if not lead.strip("- \t") else "  -"
    new_lines = [f"{lead} {format_value(item)}{eol}" for item in new_items]
    old_lines = [line for number, line in enumerate(lines[: prop.last]) if number not in removals]
    return "".join(old_lines + new_lines + lines[prop.last :])


def _checked(before: str, after: str, name: str, value: PropertyValue | None) -> str:
    """Return `after` if its properties are those of `before` with only this change.

    Raises:
        RefusedError: the edit by position changed something else.
    """
    expected = {item.name: item.value for item in read_frontmatter(before).properties}
    if value is None:
        expected.pop(name, None)
    else:
        expected[name] = value if isinstance(value, (str, tuple)) else format_value(value)
    frontmatter = read_frontmatter(after)
    if (
        frontmatter.problem
        or {item.name: item.value for item in frontmatter.properties} != expected
    ):
        raise RefusedError(
            f'the property "{name}" cannot be changed without touching others; '
            "write the frontmatter as plain lines"
        )
    return after


def add_to_list(text: str, note: Note, name: str, items: tuple[str, ...], limit: int = 0) -> str:
    """Return `text`, an edited version of the note's, with items added to a list property.

    Each item occurs once; only the last `limit` items stay (0: no limit).
    """
    old_items = list_items(note, name)
    new_items = tuple(dict.fromkeys([*old_items, *items]))[-limit:]
    return text if new_items == old_items else set_property(text, name, new_items)


def drop_from_list(text: str, note: Note, name: str, *items: str) -> str:
    """Return `text`, an edited version of the note's, without these items of a list property."""
    old_items = list_items(note, name)
    new_items = tuple(each for each in old_items if each not in items)
    if new_items == old_items:
        return text
    return set_property(text, name, new_items) if new_items else remove_property(text, name)


def get_title(text: str, path: PurePosixPath, title: str) -> str:
    """Return the text of a note changed to have this title.

    The title becomes the first alias if the file name is a short form of it, else the property
    `title`. A note that has this title already is unchanged.
    """
    note = parse_note(path, text.encode("utf-8"))
    if note.title == title:
        return text
    if note.frontmatter.get("title") is None and is_named_for(path.stem, title, is_given=True):
        return set_property(text, "aliases", tuple(dict.fromkeys((title, *note.aliases))))
    return set_property(text, "title", title)


def list_items(note: Note, name: str) -> tuple[str, ...]:
    """Return the items of a list property, also if they are written in one line."""
    prop = note.frontmatter.get(name)
    value = prop.value if prop is not None and prop.kind != "null" else ()
    return value if isinstance(value, tuple) else split_text(name, value)
