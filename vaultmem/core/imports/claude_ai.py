"""Claude.ai's export: conversations, projects with their documents, and what it remembers.

There is no published schema. `conversations.json` has `chat_messages` (since 2026 with
`parent_message_uuid`, abandoned branches among them); `projects.json`, or a file each in
`projects/`, has `prompt_template` and `docs`; `memories.json` has `conversations_memory` and
`project_memories` by the project's id. Nothing says which conversation is of which project.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from vaultmem.core.imports.item import (
    Item,
    MemoryItem,
    make_talk,
    make_turn,
    read_moment,
    read_text,
)
from vaultmem.core.imports.markdown import divide_text
from vaultmem.core.transcripts.event import Event, dict_of, dicts_of

#: A line that stands in bold for a heading.
_BOLD = re.compile(r"^\*\*([^*\n]+)\*\*[ \t]*$", re.MULTILINE)

_ROLES = {"human": "user", "user": "user", "assistant": "assistant"}


def read_claude_ai(value: dict[str, Any]) -> Iterator[Item]:
    """Yield what an object of an export holds, whichever of its files it stands in."""
    key = read_text(value.get("uuid"))
    if isinstance(value.get("chat_messages"), list):
        said = map(_read_turn, _walk(dicts_of(value["chat_messages"])))
        times = value.get("created_at"), value.get("updated_at")
        url = f"https://claude.ai/chat/{key}"
        yield from make_talk(key, value.get("name"), said, *times, url)
    elif "prompt_template" in value or isinstance(value.get("docs"), list):
        yield from _read_project(key, value)
    else:
        yield from _read_memory(value)


def _walk(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the branch that ends in the newest message; all, where no message names another."""
    by_id = {read_text(each.get("uuid")): each for each in messages}
    parents = {read_text(each.get("parent_message_uuid")) for each in messages} - {""}
    if not parents & by_id.keys():
        return messages
    leaves = [each for name, each in by_id.items() if name not in parents]
    node = max(leaves, key=lambda each: read_text(each.get("created_at")), default=None)
    branch: list[dict[str, Any]] = []
    while node is not None and len(branch) < len(messages):
        branch.append(node)
        node = by_id.get(read_text(node.get("parent_message_uuid")))
    return branch[::-1]


def _read_turn(message: dict[str, Any]) -> Event | None:
    role = _ROLES.get(read_text(message.get("sender")), "")
    blocks = dicts_of(message.get("content"))
    said = [read_text(each.get("text")) for each in blocks if each.get("type") == "text"]
    parts = list(filter(None, said)) or [read_text(message.get("text"))]
    for each in dicts_of(message.get("attachments")):
        name = read_text(each.get("file_name"))
        content = read_text(each.get("extracted_content"))
        parts.append(f"[attached: {name or 'text'}]" + (f"\n{content}" if content else ""))
    parts += [
        f"[attached: {name}]"
        for each in dicts_of(message.get("files"))
        if (name := read_text(each.get("file_name")))
    ]
    text = "\n\n".join(filter(None, parts))
    return make_turn(role, text, message.get("created_at")) if role and text else None


def _read_project(key: str, value: dict[str, Any]) -> Iterator[MemoryItem]:
    name, created = read_text(value.get("name")), read_moment(value.get("created_at"))
    told = [read_text(value.get(each)) for each in ("description", "prompt_template")]
    folders = (name or key,)
    if text := "\n\n".join(filter(None, told)):
        title = f"Project {name}: instructions"
        yield MemoryItem(f"projects/{key}", text, title, folders, created=created, said_by="user")
    for each in dicts_of(value.get("docs")):
        text, file = read_text(each.get("content")), read_text(each.get("filename"))
        at = read_moment(each.get("created_at")) or created
        if text:
            origin = f"projects/{key}/{read_text(each.get('uuid')) or file}"
            yield MemoryItem(origin, text, file, folders, created=at)


def _read_memory(value: dict[str, Any]) -> Iterator[MemoryItem]:
    account = read_text(value.get("account_uuid"))
    texts = {f"memory/{account}": value.get("conversations_memory")}
    for key, text in dict_of(value, "project_memories").items():
        texts[f"memory/{account}/{key}"] = text
    for origin, text in texts.items():
        for title, body in divide_text(_BOLD.sub(r"## \1", read_text(text))):
            yield MemoryItem(f"{origin}#{title}", body, title, ("memory",))
