"""ChatGPT's export: conversations as trees of messages, what it saved of them, instructions.

There is no published schema. The fields are those that `conversations.json` (since 2026 also
`conversations-000.json` and so on) has in exports: `mapping` from a node's id to message, parent
and children, and `current_node`, the last message of the branch that was shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from vaultmem.core.imports.item import (
    Item,
    MemoryItem,
    digest_text,
    make_talk,
    make_turn,
    read_list,
    read_moment,
    read_text,
)
from vaultmem.core.transcripts.event import Event, dict_of, dicts_of

#: Marks of citations: private characters around what only the site can show.
_CITED = re.compile("\ue200[^\ue201]*\ue201|[\ue200-\ue203]")

_SHOWN = frozenset({"text", "multimodal_text"})

#: Nodes, or their messages, by the nodes' ids.
_ById = dict[str, dict[str, Any]]


def read_chatgpt(value: dict[str, Any]) -> Iterator[Item]:
    """Yield what a conversation of an export holds; other objects hold nothing."""
    mapping = dict_of(value, "mapping")
    nodes = {name: dict_of(mapping, name) for name in mapping}
    messages = {name: dict_of(node, "message") for name, node in nodes.items()}
    key = read_text(value.get("conversation_id")) or read_text(value.get("id"))
    shown = [messages[name] for name in _walk_back(value.get("current_node"), nodes, messages)]
    times = value.get("create_time"), value.get("update_time")
    url = f"https://chatgpt.com/c/{key}"
    yield from make_talk(key, value.get("title"), map(_read_turn, reversed(shown)), *times, url)
    for name, message in messages.items():
        yield from _read_saved(f"{key}/{name}", message)


def _walk_back(node: object, nodes: _ById, messages: _ById) -> Iterator[str]:
    """Yield the nodes from the last one that was shown to the first; other branches are left."""
    if node not in nodes:
        ends = [name for name, each in nodes.items() if not read_list(each.get("children"))]
        node = max(ends, key=lambda name: _time(messages[name]), default=None)
    seen: set[str] = set()
    while isinstance(node, str) and node in nodes and node not in seen:
        seen.add(node)
        yield node
        node = nodes[node].get("parent")


def _read_turn(message: dict[str, Any]) -> Event | None:
    """Return what a person saw of a message; None where that is nothing."""
    role, content = _role(message), dict_of(message, "content")
    hidden = dict_of(message, "metadata").get("is_visually_hidden_from_conversation") is True
    if hidden or role not in {"user", "assistant"} or message.get("weight") == 0:
        return None
    if message.get("recipient") not in {None, "all"} or content.get("content_type") not in _SHOWN:
        return None
    parts = [_read_part(part) for part in read_list(content.get("parts"))]
    names = dicts_of(dict_of(message, "metadata").get("attachments"))
    parts += [f"[attached: {name}]" for each in names if (name := read_text(each.get("name")))]
    text = _CITED.sub("", "\n\n".join(filter(None, parts))).strip()
    return make_turn(role, text, message.get("create_time")) if text else None


def _read_part(part: object) -> str:
    if not isinstance(part, dict):
        return read_text(part)
    kind = read_text(part.get("content_type"))
    return read_text(part.get("text")) or (f"[{kind.partition('_')[0]}]" if kind else "")


def _read_saved(origin: str, message: dict[str, Any]) -> Iterator[MemoryItem]:
    """Yield what was saved to the account's memory by a message, and its custom instructions."""
    content, created = dict_of(message, "content"), read_moment(message.get("create_time"))
    if _role(message) == "assistant" and message.get("recipient") == "bio":
        text = "\n".join(filter(None, map(read_text, read_list(content.get("parts")))))
        if text and not text.startswith("{"):
            yield MemoryItem(origin, text, created=created)
    if content.get("content_type") != "user_editable_context":
        return
    for name in ("user_profile", "user_instructions"):
        if text := read_text(content.get(name)):
            title = "Custom instructions: " + name.removeprefix("user_")
            own = f"{name}/{digest_text(text)}"  # Each conversation has a copy.
            yield MemoryItem(own, text, title, created=created, said_by="user")


def _role(message: dict[str, Any]) -> str:
    return read_text(dict_of(message, "author").get("role"))


def _time(message: dict[str, Any]) -> float:
    at = read_moment(message.get("create_time"))
    return at.timestamp() if at else 0.0
