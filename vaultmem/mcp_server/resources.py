"""Notes and packs as resources, subscriptions to their changes, and prompts."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any
from urllib.parse import quote as quote_url
from urllib.parse import unquote

import mcp_types as types
from mcp.server.session import ServerSession
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ResourcesListChanged,
    ResourceUpdated,
)
from mcp.shared.exceptions import MCPError

from vaultmem.mcp_server.session_tools import HeldSessions
from vaultmem.mcp_server.tool_text import (
    NOTE,
    PACK,
    describe_state,
    list_matches,
    list_page,
    render_resource,
)
from vaultmem.storage.watcher import EVERYTHING
from vaultmem.workers import Work

#: Runs a read for the connection that requests it.
Read = Callable[[Work[Any]], Awaitable[Any]]

#: Seconds of quiet before subscribers are notified, so that one save is one notice.
_DEBOUNCE_SECONDS = 0.2

_NO_CURSOR = "no such cursor; leave it out to begin, then give nextCursor of the page before"

_NOTE_FORM = "vaultmem://note/{+path}"
_PACK_FORM = "vaultmem://pack/{+query}"


async def list_resources(read: Read, cursor: str | None) -> types.ListResourcesResult:
    """Return one page of the resources: the pack, then notes by path.

    A cursor is the address of the last resource of the page before.

    Raises:
        MCPError: the cursor is invalid.
    """
    if cursor and not cursor.startswith(NOTE):
        raise MCPError(types.INVALID_PARAMS, _NO_CURSOR)
    notes, has_more = await read(partial(list_page, unquote((cursor or NOTE)[len(NOTE) :])))
    resources = [
        types.Resource(
            uri=note_uri(path), name=path, title=title, description=facts, mime_type="text/markdown"
        )
        for path, title, facts in notes
    ]
    if not cursor:
        resources.insert(0, _PACK_RESOURCE)
    next_cursor = note_uri(notes[-1][0]) if has_more else None
    return types.ListResourcesResult(resources=resources, next_cursor=next_cursor)


def check_one_page(params: types.PaginatedRequestParams | None) -> None:
    """Reject a cursor for a list that has one page.

    Raises:
        MCPError: a cursor is given.
    """
    if params and params.cursor:
        raise MCPError(types.INVALID_PARAMS, _NO_CURSOR)


def list_templates() -> types.ListResourceTemplatesResult:
    """Return the URI templates of notes and packs."""
    return types.ListResourceTemplatesResult(
        resource_templates=[
            types.ResourceTemplate(
                uri_template=_NOTE_FORM,
                name="note",
                title="A note",
                description="One note of the vault, by its path.",
                mime_type="text/markdown",
            ),
            types.ResourceTemplate(
                uri_template=_PACK_FORM,
                name="pack",
                title="A context pack",
                description="What is pinned plus what is relevant to a question.",
                mime_type="text/markdown",
            ),
        ]
    )


async def read_resource(read: Read, uri: str) -> types.ReadResourceResult:
    """Return the text of a resource, with evidence labelled.

    Raises:
        VaultError: there is no such resource.
    """
    text = await read(partial(render_resource, uri))
    contents = types.TextResourceContents(uri=uri, mime_type="text/markdown", text=text)
    return types.ReadResourceResult(contents=[contents])


async def complete(
    read: Read,
    ref: types.ResourceTemplateReference | types.PromptReference,
    argument: types.CompletionArgument,
) -> types.CompleteResult:
    """Return completions of an argument: paths for a note, titles for a pack or prompt.

    Raises:
        MCPError: there is no such template or prompt.
    """
    name = ref.uri if isinstance(ref, types.ResourceTemplateReference) else ref.name
    if name not in _COMPLETED:
        raise MCPError(types.INVALID_PARAMS, f"{name}: no such template or prompt")
    argument_name, column = _COMPLETED[name]
    values: list[str] = []
    if argument.name == argument_name:
        values = await read(partial(list_matches, column, argument.value))
    completion = types.Completion(
        values=values[:_COMPLETIONS], total=len(values), has_more=len(values) > _COMPLETIONS
    )
    return types.CompleteResult(completion=completion)


def note_uri(path: str) -> str:
    """Return a note's resource address."""
    return NOTE + quote_url(path)


class Subscribers:
    """The clients that are notified of changes to resources.

    Older clients subscribe by address and are notified over their connection; newer ones listen to
    the `bus`. `held` are the sessions that clients hold open over HTTP.
    """

    def __init__(self) -> None:
        self.held = HeldSessions()
        self.bus = InMemorySubscriptionBus()
        self._subscriptions: dict[str, set[ServerSession]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._servers = 0
        self._waiting: set[str] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @contextlib.contextmanager
    def sending(self) -> Iterator[None]:
        """Send notices from the current event loop, until its last server ends."""
        self._loop = asyncio.get_running_loop()
        self._servers += 1
        try:
            yield
        finally:
            self._servers -= 1
            if not self._servers:
                self._loop = None
                if self._timer is not None:
                    self._timer.cancel()

    def add(self, uri: str, session: ServerSession) -> None:
        """Subscribe a connection to a resource."""
        self._subscriptions.setdefault(uri, set()).add(session)

    def remove(self, uri: str, session: ServerSession) -> None:
        """Unsubscribe a connection from a resource."""
        self._subscriptions.get(uri, set()).discard(session)

    def notice(self, path: str) -> None:
        """Record that a note might have changed; another thread calls it."""
        if (loop := self._loop) is not None:
            with contextlib.suppress(RuntimeError):  # The server is ending.
                loop.call_soon_threadsafe(self._collect, loop, path)

    def _collect(self, loop: asyncio.AbstractEventLoop, path: str) -> None:
        if self._loop is None:
            return
        self._waiting.add(path)
        if self._timer is not None:
            self._timer.cancel()
        self._timer = loop.call_later(_DEBOUNCE_SECONDS, self._describe, loop)

    def _describe(self, loop: asyncio.AbstractEventLoop) -> None:
        paths, self._waiting = self._waiting, set()
        uris = {PACK} | {note_uri(path) for path in paths if path != EVERYTHING}
        if EVERYTHING in paths:
            uris |= set(self._subscriptions)
        task = loop.create_task(self._send(sorted(uris)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send(self, uris: list[str]) -> None:
        for uri in uris:
            await self.bus.publish(ResourceUpdated(uri=uri))
            for session in list(self._subscriptions.get(uri, ())):
                try:
                    await session.send_resource_updated(uri)
                except Exception:  # noqa: BLE001  The connection is gone.
                    self.remove(uri, session)
        await self.bus.publish(ResourcesListChanged())


_PACK_RESOURCE = types.Resource(
    uri=PACK,
    name="pack",
    title="Context pack",
    description="What is pinned and what is most recent, within the vault's token budget.",
    mime_type="text/markdown",
)


_RESUME = """\
Below is what this memory holds for going on with the work{about}. It is evidence: check what you \
rely on against the repository. Sum up the current state and the next step in a few lines, \
then ask before you begin.

{pack}"""

_CURATE = """\
Look after this memory{about}. Use recall to find notes that repeat or contradict each other, are \
out of date, or name files that are gone. Propose each change in one line, with the note's path \
and your reason; change nothing before it is approved. Then use update_note, forget and promote, \
and end with a checkpoint."""

_END = """\
The session ends{about}. For each decision, lesson or fact that the next session will need and \
this memory does not have yet, call remember once, in words that need no context. Then close the \
session with the session tool, with a summary and what is still open."""

_PROMPTS = {
    "resume": ("Resume", "Go on with earlier work from what the memory holds.", _RESUME),
    "curate": (
        "Curate",
        "Propose what to tidy up in the memory, then do what is approved.",
        _CURATE,
    ),
    "end-session": ("End session", "Keep what was learned, and close the session.", _END),
}

#: For each template and prompt, the completed argument and the note field that completes it.
_COMPLETED = {_NOTE_FORM: ("path", "path"), _PACK_FORM: ("query", "title")}
_COMPLETED |= dict.fromkeys(_PROMPTS, ("about", "title"))

#: MCP's limit of values in a completion.
_COMPLETIONS = 100

_ABOUT_ARGUMENT = types.PromptArgument(
    name="about", description="What it is about; everything if not given.", required=False
)


def list_prompts() -> types.ListPromptsResult:
    """Return the prompts, always in the same order."""
    prompts = [
        types.Prompt(name=name, title=title, description=description, arguments=[_ABOUT_ARGUMENT])
        for name, (title, description, _) in _PROMPTS.items()
    ]
    return types.ListPromptsResult(prompts=prompts)


async def get_prompt(
    read: Read, name: str, arguments: dict[str, str] | None
) -> types.GetPromptResult:
    """Return a prompt as one user message.

    Raises:
        MCPError: there is no such prompt.
    """
    if name not in _PROMPTS:
        raise MCPError(types.INVALID_PARAMS, f"no such prompt; there are {', '.join(_PROMPTS)}")
    topic = " ".join((arguments or {}).get("about", "").split())[:1_000]
    pack = await read(partial(describe_state, topic)) if name == "resume" else ""
    text = _PROMPTS[name][2].format(about=f": {topic}" if topic else "", pack=pack)
    message = types.PromptMessage(role="user", content=types.TextContent(type="text", text=text))
    return types.GetPromptResult(description=_PROMPTS[name][1], messages=[message])
