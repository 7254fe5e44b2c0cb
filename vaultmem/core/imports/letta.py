"""Letta's agents: agent files (`.af`), lists of blocks, and MemFS, a folder of markdown.

The file: letta-ai/letta, letta/schemas/agent_file.py (`agents`, `blocks`), and before it one agent
with `core_memory`. MemFS: https://docs.letta.com/letta-code/memfs, `<agent>/memory/**/*.md`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from vaultmem.core.imports.item import (
    Conversation,
    Item,
    MemoryItem,
    keep_properties,
    make_turn,
    read_moment,
    read_text,
)
from vaultmem.core.imports.markdown import MarkdownFile, find_owner
from vaultmem.core.transcripts.event import Event, dict_of, dicts_of


def read_letta(value: dict[str, Any]) -> Iterator[Item]:
    """Yield the blocks of an agent file, or one block of a list, and what was last said."""
    agents = dicts_of(value.get("agents")) or ([value] if "core_memory" in value else [])
    owner = read_text(agents[0].get("name")) if len(agents) == 1 else ""
    for field in ("blocks", "core_memory"):
        for block in dicts_of(value.get(field)):
            yield from _read_block(block, owner)
    for agent in agents:
        yield from _read_messages(agent)
    yield from _read_block(value, "")


def read_memfs(file: MarkdownFile) -> Iterator[Item]:
    """Yield the memory that a file of MemFS is."""
    owner, below = find_owner(file.parts, "memory")
    if text := read_text(file.body):
        yield MemoryItem(
            "/".join((owner, *below)),
            text,
            title="/".join(below).removesuffix(".md"),
            folders=(owner, *below[:-1]),
            name=file.stem,
            created=file.modified,
            own=keep_properties(file.properties),
        )


def _read_block(value: dict[str, Any], owner: str) -> Iterator[MemoryItem]:
    label, text = read_text(value.get("label")), read_text(value.get("value"))
    if label and text:
        named = {"description": value.get("description")}
        created = read_moment(value.get("created_at"))
        key = "/".join(filter(None, (owner, read_text(value.get("id")), label)))
        folders = (owner,) if owner else ()
        own = keep_properties(named)
        yield MemoryItem(key, text, label, folders, created=created, own=own)


def _read_messages(agent: dict[str, Any]) -> Iterator[Conversation]:
    messages = dicts_of(agent.get("messages"))
    turns = tuple(turn for each in messages for turn in _read_message(each))
    times = [at for each in messages if (at := read_moment(each.get("created_at")))]
    name = read_text(agent.get("name"))
    if turns and (key := read_text(agent.get("id")) or name):
        started, ended = (min(times), max(times)) if times else (None, None)
        yield Conversation(key, name, turns, started, ended)


def _read_message(message: dict[str, Any]) -> Iterator[Event]:
    """Yield what a user or the agent said; events and tools that it runs are nobody's words."""
    role, at = read_text(message.get("role")), message.get("created_at")
    content = message.get("content", message.get("text"))
    texts = [content] if isinstance(content, str) else [e.get("text") for e in dicts_of(content)]
    text = "\n".join(filter(None, map(read_text, texts)))
    if role == "user":
        told = _read_json(text)
        text = read_text(told.get("message")) if told.get("type") == "user_message" else text
        text = "" if told.get("type") not in {None, "user_message"} else text
    if role in {"user", "assistant"} and text:
        yield make_turn(role, text, at)
    for call in dicts_of(message.get("tool_calls")):
        function = dict_of(call, "function")
        if function.get("name") == "send_message":
            said = read_text(_read_json(read_text(function.get("arguments"))).get("message"))
            if said:
                yield make_turn("assistant", said, at)


def _read_json(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text) if text.startswith("{") else {}
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
