"""Connections to agents, errors in terms of tools, and the texts of resources."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from urllib.parse import unquote

from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from vaultmem.errors import NoteNotFoundError
from vaultmem.mcp_server.tool import Tool, append_stale_reason, truncate_text
from vaultmem.operations.declaration import MAX_RESULT_TOKENS
from vaultmem.storage.watch_socket import GOODBYE, LOST

if TYPE_CHECKING:
    from vaultmem.vault import Vault


#: Maximum bytes of a line; a longer one closes the connection.
_MAX_LINE_BYTES = 1 << 26


_END_LINES = (GOODBYE, LOST)


class LineConnection:
    """A client's connection, which reads and writes lines.

    `at_end` is awaited after the client ended, before the connection is closed. Its argument is the
    client's last line: `GOODBYE`, `LOST` or empty.
    """

    def __init__(
        self, connection: socket.socket, at_end: Callable[[bytes], Awaitable[object]]
    ) -> None:
        self._connection = connection
        self._at_end = at_end
        self._end = b""
        self._is_held = False
        self._task: asyncio.Task[None] | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def serve(self, server: Server[Any]) -> None:
        """Serve until the client ends or `leave` is called."""
        self._task = asyncio.create_task(self._serve(server))
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    def hold(self) -> None:
        """Accept no more requests; those accepted are still answered."""
        self._is_held = True

    async def leave(self) -> None:
        """End the connection; report that all accepted requests are complete."""
        with contextlib.suppress(OSError):
            await self.write(GOODBYE.decode())
        if self._task is not None:
            self._task.cancel()

    async def _serve(self, server: Server[Any]) -> None:
        reader, writer = await asyncio.open_unix_connection(
            sock=self._connection, limit=_MAX_LINE_BYTES
        )
        self._reader, self._writer = reader, writer
        try:
            await self._talk(server)
            await self._at_end(self._end)
        finally:
            writer.close()

    async def _talk(self, server: Server[Any]) -> None:
        stream = cast(Any, self)
        try:
            async with stdio_server(stream, stream) as (reading, writing):
                await server.run(reading, writing, server.create_initialization_options())
        except* (OSError, ValueError):  # The client ended early, or its data is not lines.
            pass

    def __aiter__(self) -> LineConnection:
        """Iterate over the received lines."""
        return self

    async def __anext__(self) -> str:
        """Return the next line."""
        line = await self._reader.readline()
        while self._is_held and line and line not in _END_LINES:  # Repeated to another process.
            line = await self._reader.readline()
        self._end = line if line in _END_LINES else b""
        if not line or self._end:
            raise StopAsyncIteration
        return line.decode("utf-8", "replace")

    async def write(self, line: str) -> None:
        """Send a line, waiting while the client's buffer is full."""
        if self._writer is not None:
            self._writer.write(line.encode())
            await self._writer.drain()

    async def flush(self) -> None:
        """Do nothing: lines are sent immediately."""


# Remedies of errors, translated for callers of tools: errors name shell commands.
#
# A command becomes the equivalent tool call, and an option the argument of the same name. A command
# without an equivalent tool is kept and marked as a command.


class _Step(NamedTuple):
    """A tool, its action, and the argument for a command's positional value."""

    tool: str
    action: str = ""
    argument: str = ""


#: The tool call for each command.
STEPS = {
    "recall": _Step("recall"),
    "list": _Step("recall"),
    "log": _Step("history", "log", "path"),
    "history": _Step("history", "log", "path"),
    "blame": _Step("history", "blame", "path"),
    "review": _Step("history", "review"),
    "resolve": _Step("checkpoint", "resolve", "path"),
    "branch": _Step("checkpoint", "branch", "ref"),
    "checkpoint": _Step("checkpoint", "", "note"),
    "promote": _Step("promote", "", "paths"),
    "session start": _Step("session", "start"),
    "session resume": _Step("session", "resume", "session"),
    "session list": _Step("session", "list"),
    "session close": _Step("session", "close", "session"),
    "task add": _Step("task", "add", "title"),
    "task list": _Step("task", "list"),
}

#: The tool call for commands that list, if they have no argument.
LISTS = {"branch": _Step("history", "branches"), "resolve": _Step("history", "conflicts")}

_COMMAND = re.compile(r"`vaultmem ([^`]+)`")
_OPTION = re.compile(r"(?:^|(?<=[ ,;(]))--([a-z-]+)")


def describe_error(text: str, tools: Mapping[str, Tool], tool_name: str = "") -> str:
    """Return an error's text for a caller of these tools; `tool_name` is the failed tool."""
    argument_names = tools[tool_name].input_schema["properties"] if tool_name else {}
    parts = _COMMAND.split(text)  # Every second part is a command.
    parts[::2] = [
        _OPTION.sub(lambda match: f'"{match[1]}"' if match[1] in argument_names else match[0], each)
        for each in parts[::2]
    ]
    parts[1::2] = [
        _format_call(each, tools) or f"`vaultmem {each}` (in a shell; no tool does it)"
        for each in parts[1::2]
    ]
    return "".join(parts)


def _format_call(command: str, tools: Mapping[str, Tool]) -> str:
    """Return the tool call that is equivalent to a command, or ""."""
    words = command.split(" ")
    count = 2 if " ".join(words[:2]) in STEPS else 1
    step = LISTS.get(command) or STEPS.get(" ".join(words[:count]))
    if step is None or step.tool not in tools:
        return ""
    properties = tools[step.tool].input_schema["properties"]
    arguments: dict[str, Any] = {"action": step.action} if step.action else {}
    positional, *options = map(str.strip, _OPTION.split(" ".join(words[count:])))
    pairs = zip(options[::2], options[1::2], strict=True)
    for name, value in [*([(step.argument, positional)] if positional else []), *pairs]:
        if not value or name not in properties:
            return ""  # The tool has no such argument.
        arguments[name] = [value] if properties[name]["type"] == "array" else value
    arguments_json = json.dumps(arguments, ensure_ascii=False) if arguments else ""
    return f"`{f'{step.tool} {arguments_json}'.strip()}`"


# Texts of resources and prompts, made by a process that does not import the SDK.

PACK = "vaultmem://pack"
NOTE = "vaultmem://note/"

#: Notes per page; each page queries all notes that follow.
PAGE = 1_000

_VISIBLE_CONDITION = "d.state <> 'quarantined'"

#: Maximum tokens of the last session's state, in addition to the pack.
_RESTORE_BUDGET = 2_000


def list_page(after_path: str, vault: Vault) -> tuple[list[tuple[str, str, str]], bool]:
    """Return a page of notes after a path, with title and facts, and whether more follow."""
    from vaultmem.services.projects.scope import view_project

    vault = view_project(vault)
    records = vault.view.records(f"{_VISIBLE_CONDITION} AND d.path > ?", [after_path])
    page = [
        (record.path, record.title, f"{record.kind}, {record.state}") for record in records[:PAGE]
    ]
    return page, len(records) > PAGE


def list_matches(column: str, text: str, vault: Vault) -> list[str]:
    """Return the paths or titles that contain a text; those that start with it come first."""
    from vaultmem.services.projects.scope import view_project

    records = view_project(vault).view.records(
        f"{_VISIBLE_CONDITION} AND instr(lower(d.{column}), lower(?))", [text]
    )
    values = {getattr(record, column) for record in records}
    return sorted(values, key=lambda value: (not value.lower().startswith(text.lower()), value))


def render_resource(uri: str, vault: Vault) -> str:
    """Return the text of a resource.

    Raises:
        NoteNotFoundError: there is no such resource.
    """
    if uri == PACK or uri.startswith(f"{PACK}/"):
        return _render_pack(vault, unquote(uri[len(PACK) + 1 :]))
    if uri.startswith(NOTE):
        from vaultmem.mcp_server.note_tools import read_tool

        return read_tool(
            vault, {"path": unquote(uri[len(NOTE) :]), "budget": MAX_RESULT_TOKENS}
        ).text
    raise NoteNotFoundError(f"{uri}: no such resource; notes are {NOTE}PATH, the pack is {PACK}")


def _render_pack(vault: Vault, query: str) -> str:
    from vaultmem.services.packs.build import AskPack, ask_pack
    from vaultmem.services.projects.scope import view_project

    answer = ask_pack(view_project(vault), AskPack(query, names_tool=True))
    return append_stale_reason(vault, truncate_text(answer.pack.text, 0, MAX_RESULT_TOKENS)[0])


def describe_state(topic: str, vault: Vault) -> str:
    """Return the state of the last session here, if any, and a context pack."""
    from vaultmem.services.packs.build import AskPack, ask_pack
    from vaultmem.services.projects.scope import view_project
    from vaultmem.services.sessions.identify import require_session
    from vaultmem.services.sessions.restore_session import restore_session

    answer = ask_pack(view_project(vault), AskPack(topic, names_tool=True))
    pack_text = append_stale_reason(vault, answer.pack.text)
    try:
        last = restore_session(vault, require_session(vault, or_last=True), _RESTORE_BUDGET)
    except NoteNotFoundError:
        return pack_text
    return f"{last.text.rstrip()}\n\n{pack_text}"
