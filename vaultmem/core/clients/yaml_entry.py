"""One entry of a mapping in a YAML file, changed by position: every other byte stays.

Ours is one line, in JSON, which is YAML too. `settings` sees to it that nothing else changed.
"""

from __future__ import annotations

import json
from typing import Any

from vaultmem.errors import RefusedError


def read_yaml(text: str) -> dict[str, Any]:
    """Return what a YAML text says.

    Raises:
        RefusedError: it is no YAML, or no mapping.
    """
    import yaml

    try:
        whole = yaml.safe_load(text) or {}
    except (yaml.YAMLError, ValueError, RecursionError):
        whole = None
    if not isinstance(whole, dict):
        raise RefusedError("the settings are not YAML of names and values; correct them by hand")
    return whole


def set_entry(text: str | None, name: tuple[str, str], values: dict[str, Any]) -> str:
    """Return the text with these values in the entry; what else it has stays.

    A new one is the first line of its mapping. A new mapping comes last, behind one line end.
    None is no file, and nothing comes before it. The mapping, where there is one, is a mapping; one
    in a form of its own stays as it is.
    """
    inner = read_yaml(text or "").get(name[0], {})
    entry = {**(inner.get(name[1]) or {}), **values}
    if inner.get(name[1]) == entry:
        return text or ""
    eol = "\r\n" if "\r\n" in (text or "") else "\n"
    line = f"{name[1]}: {json.dumps(entry, ensure_ascii=False)}"
    key, ours = _find(text or "", name)
    if text is None or key is None:
        return f"{'' if text is None else text + eol}{name[0]}:{eol}  {line}{eol}"
    if ours is not None:
        start, end = ours[0].start_mark.index, _end(ours[1])
        return text[:start] + line + text[end:]
    if key[1].flow_style and not key[1].value:
        at = key[1].start_mark.index + 1
        return text[:at] + line + text[at:]
    if not key[1].flow_style and key[1].value:
        first = key[1].value[0][0].start_mark
        indent: str = " " * first.column
        return text[: first.index] + line + eol + indent + text[first.index :]
    return text


def remove_entry(text: str, name: tuple[str, str]) -> str | None:
    """Return the text without the entry, and without a mapping that has nothing else.

    None if that is all of the file.
    """
    key, ours = _find(text, name)
    if key is None or ours is None:
        return text
    if key[1].flow_style:
        return text[: ours[0].start_mark.index] + text[_end(ours[1]) :]
    is_alone = len(key[1].value) == 1
    start = text.rfind("\n", 0, (key if is_alone else ours)[0].start_mark.index) + 1
    end = _end(ours[1])
    if text[end - 1] != "\n":  # A text in lines of its own ends behind its last one.
        end = text.find("\n", end) + 1 or len(text)
    before, after = text[:start], text[end:]
    if is_alone and not before + after:
        return None
    shorter = before.removesuffix("\n").removesuffix("\r") if is_alone else before
    # The line end before the mapping is ours, unless what is left would come into one line.
    return (shorter if shorter[-1:] in ("", "\n") or not after else before) + after


def _find(text: str, name: tuple[str, str]) -> tuple[Any, Any]:
    """Return the mapping and the entry, each as its key's node and its value's; None for none."""
    import yaml

    found: list[Any] = [None, None]
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    for place, wanted in enumerate(name):
        pairs = node.value if isinstance(node, yaml.MappingNode) else []
        pair = next((each for each in reversed(pairs) if each[0].value == wanted), None)
        if pair is None:
            break
        found[place], node = pair, pair[1]
    return found[0], found[1]


def _end(node: Any) -> int:
    """Return where a value ends, without the blank lines and comments behind it."""
    if node.value and isinstance(node.value, list) and not node.flow_style:
        last = node.value[-1]
        return _end(last[1] if isinstance(last, tuple) else last)
    return int(node.end_mark.index)
