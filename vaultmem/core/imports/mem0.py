"""mem0's memories: what `get_all` returns, saved as JSON, and OpenMemory's export.

`get_all`: https://docs.mem0.ai/cookbooks/essentials/exporting-memories; of a page or a list alike.
OpenMemory's zip has them in `memories.json` (mem0ai/mem0, openmemory/api/app/routers/backup.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from vaultmem.core.imports.item import (
    Item,
    MemoryItem,
    keep_properties,
    read_moment,
    read_tags,
    read_text,
)
from vaultmem.core.lifecycle import State
from vaultmem.core.transcripts.event import dict_of, dicts_of

#: What OpenMemory says of a memory that is not in use.
_PUT_AWAY = frozenset({"archived", "paused"})


def read_mem0(value: dict[str, Any]) -> Iterator[Item]:
    """Yield the memories of an object: itself, or those that it lists."""
    names = {read_text(each.get("id")): each for each in dicts_of(value.get("categories"))}
    for field in ("results", "memories"):
        for each in dicts_of(value.get(field)):
            ids = each.get("category_ids")
            named = [names.get(str(key), {}).get("name") for key in ids or ()] if ids else []
            yield from _read_memory(each, read_tags(named))
    yield from _read_memory(value, ())


def _read_memory(value: dict[str, Any], tags: tuple[str, ...]) -> Iterator[MemoryItem]:
    text = next(filter(None, (read_text(value.get(n)) for n in ("memory", "content", "text"))), "")
    key, state = read_text(value.get("id")), read_text(value.get("state"))
    if not text or not key or state == "deleted":
        return
    named = {name: value[name] for name in ("user_id", "agent_id", "run_id") if value.get(name)}
    changed = read_moment(value.get("updated_at"))
    created = read_moment(value.get("created_at")) or changed
    own = keep_properties({**named, **dict_of(value, "metadata")})
    yield MemoryItem(
        key,
        text,
        state=State.ARCHIVED if state in _PUT_AWAY else State.CANDIDATE,
        tags=(*tags, *read_tags(value.get("categories"))),
        created=created,
        own={**own, **({"updated": changed} if changed and changed != created else {})},
    )
