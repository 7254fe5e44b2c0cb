"""Read the exports of ChatGPT, Claude.ai, Letta and Mem0.

ChatGPT has no published schema. The fields are those of `conversations.json` (since 2026 also
`conversations-000.json` and so on): `mapping` from a node's id to message, parent and children,
and `current_node`, the last message of the displayed branch.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from vaultmem.core.imports.item import (
    Conversation,
    Item,
    MarkdownFile,
    MemoryItem,
    digest_text,
    filter_properties,
    find_owner,
    make_talk,
    make_turn,
    parse_export_time,
    read_basic_memory,
    read_claude_memory,
    read_codex_memory,
    read_list,
    read_openclaw,
    read_tags,
    read_text,
    split_text,
)
from vaultmem.core.lifecycle import NoteState
from vaultmem.core.transcripts.event import TranscriptEvent, dict_of, dicts_of

#: Citation marks: private-use characters around text that only the site can show.
_CITATION_MARK = re.compile("\ue200[^\ue201]*\ue201|[\ue200-\ue203]")

_VISIBLE_CONTENT_TYPES = frozenset({"text", "multimodal_text"})

#: Nodes or their messages, by node id.
_ById = dict[str, dict[str, Any]]


def read_chatgpt(value: dict[str, Any]) -> Iterator[Item]:
    """Yield the items of a conversation in an export; other objects have no items."""
    mapping = dict_of(value, "mapping")
    nodes = {name: dict_of(mapping, name) for name in mapping}
    messages = {name: dict_of(node, "message") for name, node in nodes.items()}
    key = read_text(value.get("conversation_id")) or read_text(value.get("id"))
    branch = [messages[name] for name in _walk_back(value.get("current_node"), nodes, messages)]
    times = value.get("create_time"), value.get("update_time")
    url = f"https://chatgpt.com/c/{key}"
    yield from make_talk(key, value.get("title"), map(_read_turn, reversed(branch)), *times, url)
    for name, message in messages.items():
        yield from _read_saved(f"{key}/{name}", message)


def _walk_back(node: object, nodes: _ById, messages: _ById) -> Iterator[str]:
    """Yield the nodes of the displayed branch, last one first."""
    if node not in nodes:
        ends = [name for name, each in nodes.items() if not read_list(each.get("children"))]
        node = max(ends, key=lambda name: _time(messages[name]), default=None)
    seen: set[str] = set()
    while isinstance(node, str) and node in nodes and node not in seen:
        seen.add(node)
        yield node
        node = nodes[node].get("parent")


def _read_turn(message: dict[str, Any]) -> TranscriptEvent | None:
    """Return the visible part of a message, or None."""
    role, content = _role(message), dict_of(message, "content")
    hidden = dict_of(message, "metadata").get("is_visually_hidden_from_conversation") is True
    if hidden or role not in {"user", "assistant"} or message.get("weight") == 0:
        return None
    if (
        message.get("recipient") not in {None, "all"}
        or content.get("content_type") not in _VISIBLE_CONTENT_TYPES
    ):
        return None
    parts = [_read_part(part) for part in read_list(content.get("parts"))]
    names = dicts_of(dict_of(message, "metadata").get("attachments"))
    parts += [f"[attached: {name}]" for each in names if (name := read_text(each.get("name")))]
    text = _CITATION_MARK.sub("", "\n\n".join(filter(None, parts))).strip()
    return make_turn(role, text, message.get("create_time")) if text else None


def _read_part(part: object) -> str:
    if not isinstance(part, dict):
        return read_text(part)
    kind = read_text(part.get("content_type"))
    return read_text(part.get("text")) or (f"[{kind.partition('_')[0]}]" if kind else "")


def _read_saved(origin: str, message: dict[str, Any]) -> Iterator[MemoryItem]:
    """Yield a memory that a message saved to the account, and its custom instructions."""
    content, created = dict_of(message, "content"), parse_export_time(message.get("create_time"))
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
            yield MemoryItem(own, text, title, created=created, speaker="user")


def _role(message: dict[str, Any]) -> str:
    return read_text(dict_of(message, "author").get("role"))


def _time(message: dict[str, Any]) -> float:
    created = parse_export_time(message.get("create_time"))
    return created.timestamp() if created else 0.0


# Claude.ai's export: conversations, projects with their documents, and memories.
#
# There is no published schema. `conversations.json` has `chat_messages` (since 2026 with
# `parent_message_uuid`, including abandoned branches). `projects.json`, or a file per project in
# `projects/`, has `prompt_template` and `docs`. `memories.json` has `conversations_memory`, and
# `project_memories` by project id. Conversations have no link to their project.

#: A bold line used as a heading.
_BOLD = re.compile(r"^\*\*([^*\n]+)\*\*[ \t]*$", re.MULTILINE)

_ROLES = {"human": "user", "user": "user", "assistant": "assistant"}


def read_claude_ai(value: dict[str, Any]) -> Iterator[Item]:
    """Yield the items of an object of an export, from any of its files."""
    key = read_text(value.get("uuid"))
    if isinstance(value.get("chat_messages"), list):
        turns = map(_read_claude_turn, _walk(dicts_of(value["chat_messages"])))
        times = value.get("created_at"), value.get("updated_at")
        url = f"https://claude.ai/chat/{key}"
        yield from make_talk(key, value.get("name"), turns, *times, url)
    elif "prompt_template" in value or isinstance(value.get("docs"), list):
        yield from _read_project(key, value)
    else:
        yield from _read_memory(value)


def _walk(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the branch with the newest message; all messages if there are no parents."""
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


def _read_claude_turn(message: dict[str, Any]) -> TranscriptEvent | None:
    role = _ROLES.get(read_text(message.get("sender")), "")
    blocks = dicts_of(message.get("content"))
    texts = [read_text(each.get("text")) for each in blocks if each.get("type") == "text"]
    parts = list(filter(None, texts)) or [read_text(message.get("text"))]
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
    name, created = read_text(value.get("name")), parse_export_time(value.get("created_at"))
    texts = [read_text(value.get(each)) for each in ("description", "prompt_template")]
    folders = (name or key,)
    if text := "\n\n".join(filter(None, texts)):
        title = f"Project {name}: instructions"
        yield MemoryItem(f"projects/{key}", text, title, folders, created=created, speaker="user")
    for each in dicts_of(value.get("docs")):
        text, file = read_text(each.get("content")), read_text(each.get("filename"))
        doc_created = parse_export_time(each.get("created_at")) or created
        if text:
            origin = f"projects/{key}/{read_text(each.get('uuid')) or file}"
            yield MemoryItem(origin, text, file, folders, created=doc_created)


def _read_memory(value: dict[str, Any]) -> Iterator[MemoryItem]:
    account = read_text(value.get("account_uuid"))
    texts = {f"memory/{account}": value.get("conversations_memory")}
    for key, text in dict_of(value, "project_memories").items():
        texts[f"memory/{account}/{key}"] = text
    for origin, text in texts.items():
        for title, body in split_text(_BOLD.sub(r"## \1", read_text(text))):
            yield MemoryItem(f"{origin}#{title}", body, title, ("memory",))


# Letta's agents: agent files (`.af`), lists of blocks, and MemFS, a folder of markdown.
#
# Sources: letta-ai/letta, letta/schemas/agent_file.py (`agents`, `blocks`), and the older format
# with `core_memory` for one agent. MemFS: https://docs.letta.com/letta-code/memfs,
# `<agent>/memory/**/*.md`.


def read_letta(value: dict[str, Any]) -> Iterator[Item]:
    """Yield the blocks and conversations of an agent file, or one block of a list."""
    agents = dicts_of(value.get("agents")) or ([value] if "core_memory" in value else [])
    owner = read_text(agents[0].get("name")) if len(agents) == 1 else ""
    for field in ("blocks", "core_memory"):
        for block in dicts_of(value.get(field)):
            yield from _read_block(block, owner)
    for agent in agents:
        yield from _read_messages(agent)
    yield from _read_block(value, "")


def read_memfs(file: MarkdownFile) -> Iterator[Item]:
    """Yield the memory in a file of MemFS."""
    owner, below = find_owner(file.parts, "memory")
    if text := read_text(file.body):
        yield MemoryItem(
            "/".join((owner, *below)),
            text,
            title="/".join(below).removesuffix(".md"),
            folders=(owner, *below[:-1]),
            name=file.stem,
            created=file.modified,
            properties=filter_properties(file.properties),
        )


def _read_block(value: dict[str, Any], owner: str) -> Iterator[MemoryItem]:
    label, text = read_text(value.get("label")), read_text(value.get("value"))
    if label and text:
        properties = {"description": value.get("description")}
        created = parse_export_time(value.get("created_at"))
        key = "/".join(filter(None, (owner, read_text(value.get("id")), label)))
        folders = (owner,) if owner else ()
        own = filter_properties(properties)
        yield MemoryItem(key, text, label, folders, created=created, properties=own)


def _read_messages(agent: dict[str, Any]) -> Iterator[Conversation]:
    messages = dicts_of(agent.get("messages"))
    turns = tuple(turn for each in messages for turn in _read_message(each))
    times = [time for each in messages if (time := parse_export_time(each.get("created_at")))]
    name = read_text(agent.get("name"))
    if turns and (key := read_text(agent.get("id")) or name):
        started, ended = (min(times), max(times)) if times else (None, None)
        yield Conversation(key, name, turns, started, ended)


def _read_message(message: dict[str, Any]) -> Iterator[TranscriptEvent]:
    """Yield the turns of the user or the agent; system events and tool calls are not turns."""
    role, created = read_text(message.get("role")), message.get("created_at")
    content = message.get("content", message.get("text"))
    texts = [content] if isinstance(content, str) else [e.get("text") for e in dicts_of(content)]
    text = "\n".join(filter(None, map(read_text, texts)))
    if role == "user":
        event = _read_json(text)
        text = read_text(event.get("message")) if event.get("type") == "user_message" else text
        text = "" if event.get("type") not in {None, "user_message"} else text
    if role in {"user", "assistant"} and text:
        yield make_turn(role, text, created)
    for call in dicts_of(message.get("tool_calls")):
        function = dict_of(call, "function")
        if function.get("name") == "send_message":
            answer = read_text(_read_json(read_text(function.get("arguments"))).get("message"))
            if answer:
                yield make_turn("assistant", answer, created)


def _read_json(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text) if text.startswith("{") else {}
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


# Mem0's memories: the result of `get_all` as JSON, and OpenMemory's export.
#
# `get_all`: https://docs.mem0.ai/cookbooks/essentials/exporting-memories; a page or a list.
# OpenMemory's zip has the memories in `memories.json` (mem0ai/mem0,
# openmemory/api/app/routers/backup.py).

#: OpenMemory's states of memories that are not in use.
_INACTIVE_STATES = frozenset({"archived", "paused"})


def read_mem0(value: dict[str, Any]) -> Iterator[Item]:
    """Yield the memories of an object: itself, or those in its lists."""
    names = {read_text(each.get("id")): each for each in dicts_of(value.get("categories"))}
    for field in ("results", "memories"):
        for each in dicts_of(value.get(field)):
            ids = each.get("category_ids")
            categories = [names.get(str(key), {}).get("name") for key in ids or ()] if ids else []
            yield from _read_mem0_memory(each, read_tags(categories))
    yield from _read_mem0_memory(value, ())


def _read_mem0_memory(value: dict[str, Any], tags: tuple[str, ...]) -> Iterator[MemoryItem]:
    text = next(filter(None, (read_text(value.get(n)) for n in ("memory", "content", "text"))), "")
    key, state = read_text(value.get("id")), read_text(value.get("state"))
    if not text or not key or state == "deleted":
        return
    ids = {name: value[name] for name in ("user_id", "agent_id", "run_id") if value.get(name)}
    changed = parse_export_time(value.get("updated_at"))
    created = parse_export_time(value.get("created_at")) or changed
    own = filter_properties({**ids, **dict_of(value, "metadata")})
    yield MemoryItem(
        key,
        text,
        state=NoteState.ARCHIVED if state in _INACTIVE_STATES else NoteState.CANDIDATE,
        tags=(*tags, *read_tags(value.get("categories"))),
        created=created,
        properties={**own, **({"updated": changed} if changed and changed != created else {})},
    )


# Split a JSON text into items while reading it, because exports can have hundreds of megabytes.

#: Characters of one read, and most characters of an item.
_CHUNK, MAX_ITEM = 256 * 1024, 64 * 1024 * 1024

# A complete string, a bracket, or the start of an incomplete string.
_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{}]|"', re.DOTALL)


def split_objects(read: Callable[[int], str], limit: int = MAX_ITEM) -> Iterator[str | None]:
    """Yield the objects of a JSON array, or consecutive objects, as texts.

    None replaces an object larger than `limit` characters, and a truncated one. Only brackets are
    parsed, so an item can be invalid JSON.
    """
    text, place, begin = "", 0, 0
    depth = floor = 0  # Items are nested in `floor` brackets.
    is_large = False
    while True:
        match = _TOKEN.search(text, place)
        if match is None or match[0] == '"':
            place = len(text) if match is None else match.start()
            is_large = is_large or (depth > floor and len(text) - begin > limit)
            start = begin if depth > floor and not is_large else place
            text, place, begin = text[start:], place - start, 0
            more = "" if len(text) > limit else read(max(_CHUNK, len(text)))
            if not more:
                break
            text += more
            continue
        place = match.end()
        if match[0] in {"[", "{"}:
            if depth == 0:
                floor = int(match[0] == "[")
            if depth == floor:
                begin, is_large = match.start(), False
            depth += 1
        elif match[0] in {"]", "}"} and depth:
            depth -= 1
            if depth == floor:
                yield None if is_large else text[begin:place]
    if depth:
        yield None


# The kinds of imports: agent, files and reader of each.

Object = dict[str, Any]


class ImportKind(NamedTuple):
    """A kind of import: `agent` is the author, `files` matches the files of a folder or zip.

    `read_object` reads an object of a JSON file, `read_file` a markdown file. Without both, the
    file is a client's transcript.
    """

    agent: str
    files: re.Pattern[str]
    read_object: Callable[[Object], Iterator[Item]] | None = None
    read_file: Callable[[MarkdownFile], Iterator[Item]] | None = None


def _files(*forms: str) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{form})$" for form in forms))


#: Every kind by its name in `import`.
KINDS: Mapping[str, ImportKind] = {
    "transcripts": ImportKind("import", _files(r"\.jsonl")),
    "chatgpt": ImportKind("chatgpt", _files(r"/conversations(-\d+)?\.json"), read_chatgpt),
    "claude-ai": ImportKind(
        "claude-ai",
        _files(
            r"/(conversations(-\d+)?|projects|memories)\.json", r"/(projects|memories)/.+\.json"
        ),
        read_claude_ai,
    ),
    "claude-memory": ImportKind(
        "claude-code", _files(r"/memory/.+\.md"), read_file=read_claude_memory
    ),
    "codex-memory": ImportKind(
        "codex",
        _files(
            r"/memories/(MEMORY|memory_summary)\.md", r"/memories/(rollout_summaries|skills)/.+\.md"
        ),
        read_file=read_codex_memory,
    ),
    "mem0": ImportKind("mem0", _files(r"\.json"), read_mem0),
    "basic-memory": ImportKind("basic-memory", _files(r"\.md"), read_file=read_basic_memory),
    "openclaw": ImportKind(
        "openclaw",
        _files(
            r"^/[^/]+(/workspace[^/]*)?/(MEMORY|memory|USER|SOUL)\.md",
            r"^(/[^/]+){0,2}/memory/.+\.md",
        ),
        read_file=read_openclaw,
    ),
    "letta": ImportKind("letta", _files(r"\.af", r"/memory/.+\.md"), read_letta, read_memfs),
}

#: Fields that only objects of one kind have, for `guess_kind`.
_FIELDS: Mapping[str, frozenset[str]] = {
    "chatgpt": frozenset({"mapping"}),
    "claude-ai": frozenset(
        {"chat_messages", "prompt_template", "conversations_memory", "project_memories"}
    ),
    "letta": frozenset({"core_memory", "agents", "blocks", "label"}),
    "transcripts": frozenset({"sessionId", "parentUuid", "payload"}),
    "mem0": frozenset({"results", "memories", "memory"}),
}


def guess_kind(value: Object) -> str:
    """Return the kind of an object of a JSON file by its fields, or ""."""
    return next((name for name, fields in _FIELDS.items() if fields & value.keys()), "")
