"""The kinds of what can be imported: whose it is, in which files, and who reads them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from vaultmem.core.imports.chatgpt import read_chatgpt
from vaultmem.core.imports.claude_ai import read_claude_ai
from vaultmem.core.imports.folders import (
    read_basic_memory,
    read_claude_memory,
    read_codex_memory,
    read_openclaw,
)
from vaultmem.core.imports.item import Item
from vaultmem.core.imports.letta import read_letta, read_memfs
from vaultmem.core.imports.markdown import MarkdownFile
from vaultmem.core.imports.mem0 import read_mem0

Object = dict[str, Any]


class ImportKind(NamedTuple):
    """A kind: `agent` is who wrote it, `files` which are taken of a folder or zip, from its name.

    `read_object` reads an object of a JSON file, `read_file` a file of markdown; where there is
    neither, the file is a client's transcript.
    """

    agent: str
    files: re.Pattern[str]
    read_object: Callable[[Object], Iterator[Item]] | None = None
    read_file: Callable[[MarkdownFile], Iterator[Item]] | None = None


def _files(*forms: str) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{form})$" for form in forms))


#: Every kind by the name that `import` takes.
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

#: Fields that only objects of one kind have, as `guess_kind` looks for them.
_FIELDS: Mapping[str, frozenset[str]] = {
    "chatgpt": frozenset({"mapping"}),
    "claude-ai": frozenset(
        {"chat_messages", "prompt_template", "conversations_memory", "project_memories"}
    ),
    "letta": frozenset({"core_memory", "agents", "blocks"}),
    "transcripts": frozenset({"sessionId", "parentUuid", "payload"}),
    "mem0": frozenset({"results", "memories", "memory"}),
}


def guess_kind(value: Object) -> str:
    """Return the kind that an object of a JSON file looks like, "" if like none."""
    return next((name for name, fields in _FIELDS.items() if fields & value.keys()), "")
