"""HTTP requests to a server: one connection each, with the server's errors raised."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote, urlencode, urlsplit

from vaultmem import errors
from vaultmem.client.values import Answer, Note, NoteRecord, Pack, Remembered, Version
from vaultmem.errors import MergeConflictError, RefusedError, SystemFailureError, VaultError

_BASE = "/api/v1"

_KINDS: dict[str, tuple[type[HTTPConnection], int]] = {
    "http": (HTTPConnection, 80),
    "https": (HTTPSConnection, 443),
}

#: Maximum seconds between two heartbeats of an event stream.
_MAX_HEARTBEAT_SECONDS = 40.0


class Client:
    """A client of one server; threads can share it, because each request has a connection.

    Errors of the server are raised as the `vaultmem.errors` class that it names.
    """

    def __init__(
        self, url: str, token: str, *, agent: str = "api", session: str = "", timeout: float = 60.0
    ) -> None:
        """Prepare requests to `url` in an agent's name; nothing is sent yet.

        `url` is a server (http://127.0.0.1:8421) or a hub's vault (https://hub.example/v/team),
        where the token determines the author.
        """
        parts = urlsplit(url)
        if parts.scheme not in _KINDS or not parts.hostname:
            raise RefusedError(f"{url}: not where a vault is served; name http://127.0.0.1:PORT")
        self._kind, port = _KINDS[parts.scheme]
        self._base = parts.path.rstrip("/") + _BASE
        self.url = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
        self._place = parts.hostname, parts.port or port
        self._timeout = timeout
        author_headers = {
            "Vaultmem-Agent": agent,
            **({"Vaultmem-Session": session} if session else {}),
        }
        self._headers = {"Authorization": f"Bearer {token}", **author_headers}

    @classmethod
    def of(
        cls,
        vault: str | os.PathLike[str],
        *,
        token: str = "",
        agent: str = "api",
        session: str = "",
        timeout: float = 60.0,
    ) -> Client:
        """Return a client of the server that runs for a vault, with its token.

        Raises:
            VaultError: no server runs for it.
        """
        from vaultmem.storage.user_files import find_user_folder
        from vaultmem.storage.watch_socket import socket_path

        root = os.path.realpath(vault)
        folder = Path(socket_path(root, find_user_folder("state", os.environ))).parent
        try:
            address = str(json.loads((folder / "watch.json").read_text("utf-8"))["address"])
            token = token or (folder / "mcp.token").read_text("ascii").strip()
        except (OSError, ValueError, KeyError, TypeError):
            address = ""
        if not address:
            raise VaultError(f"{root}: no server runs; start one with `vaultmem serve`")
        return cls(address, token, agent=agent, session=session, timeout=timeout)

    def notes(self, **filters: Any) -> list[NoteRecord]:
        """Return the notes that match the filters (kind, state, tag, context, since, at, ...)."""
        return cast("list[NoteRecord]", self.get("/notes", **filters)["notes"])

    def note(self, path: str, *, known: Note | None = None, **options: Any) -> Note:
        """Return a note or one section of it (path#Heading), optionally `at` a commit or `ref`.

        If it still has the blob of `known`, return `known`; the server sends no text.
        """
        headers = {"If-None-Match": f'"{known["blob"]}"'} if known else {}
        return cast(
            "Note", self.request("GET", _at("notes", path), options, None, headers) or known
        )

    def recall(self, query: str, **options: Any) -> Answer:
        """Return the hits of a query, best first (limit, budget, kind, at, ...)."""
        return cast("Answer", self._ask("/recall", {"query": query, **options}))

    def pack(self, query: str = "", **options: Any) -> Pack:
        """Return the context pack for a query, or the pinned notes (budget, labels, at, ...)."""
        return cast("Pack", self._ask("/pack", {"query": query, **options}))

    def remember(self, text: str, *, ref: str = "", **memory: Any) -> Remembered:
        """Write a memory (title, context, kind, tags, confidence, cites, pin, force)."""
        body = {"text": text, **memory}
        return cast("Remembered", self.request("POST", "/notes", {"ref": ref}, body))

    def rewrite(self, note: Version, text: str, *, ref: str = "") -> Version:
        """Replace a note's text, if the note still is the given version."""
        return cast("Version", self._change("PUT", "notes", note, {"text": text}, ref=ref))

    def update(
        self,
        note: Version,
        properties: Mapping[str, Any] | None = None,
        *,
        old_text: str | None = None,
        new_text: str | None = None,
        ref: str = "",
    ) -> Version:
        """Set properties of a note (None removes one), or replace one text in it."""
        changes = {"properties": properties, "old_text": old_text, "new_text": new_text}
        body = {name: value for name, value in changes.items() if value is not None}
        return cast("Version", self._change("PATCH", "notes", note, body, ref=ref))

    def forget(self, note: Version, reason: str = "", *, ref: str = "") -> None:
        """Remove a note; git still has what was committed."""
        self._change("DELETE", "notes", note, None, reason=reason, ref=ref)

    def rename(self, note: Version, to: str, *, ref: str = "") -> str:
        """Rename or move a note with all links to it; return its new path."""
        return str(self._change("POST", "rename", note, {"to": to}, ref=ref)["to"])

    def move(self, note: Version, state: str, reason: str = "", *, ref: str = "") -> None:
        """Change the state of a note, and commit it."""
        self._change("POST", "state", note, {"state": state, "reason": reason}, ref=ref)

    def promote(self, note: Version, *, ref: str = "") -> None:
        """Make a candidate active, and commit that."""
        self._change("POST", "promote", note, None, ref=ref)

    def checkpoint(self, note: str = "") -> str | None:
        """Commit all changes; return the commit, None if there were none."""
        return cast("str | None", self.post("/checkpoint", {"note": note})["commit"])

    def blame(self, path: str, **options: Any) -> list[dict[str, Any]]:
        """Return the author, time and event of each line of a note."""
        return cast("list[dict[str, Any]]", self.request("GET", _at("blame", path), options))

    def diff(self, old: str = "", new: str = "", path: str = "") -> list[dict[str, Any]]:
        """Return the differences between two commits or dates, note by note."""
        parameters = {"from": old, "to": new, "path": path}
        return cast("list[dict[str, Any]]", self.request("GET", "/diff", parameters))

    def review(self, **filters: Any) -> list[dict[str, Any]]:
        """Return the proposals that wait for a decision (only, limit)."""
        return cast("list[dict[str, Any]]", self.get("/review", **filters)["items"])

    def decide(self, name: str, choice: str, reason: str = "") -> dict[str, Any]:
        """Accept, reject or reverse (`other`) a proposal; return the result."""
        result = self.post(f"/review/{quote(name, safe='')}", {"choice": choice, "reason": reason})
        return cast("dict[str, Any]", result["decided"][0])

    def events(self) -> Iterator[list[str]]:
        """Yield the paths that might have changed, in batches, until the server ends."""
        with contextlib.closing(
            self._connect(max(self._timeout, _MAX_HEARTBEAT_SECONDS))
        ) as connection:
            answer = self._send(connection, "GET", "/events", None, {})
            while line := self._read_line(answer):
                if line.startswith(b"data:"):
                    yield cast("list[str]", json.loads(line[5:]))

    def get(self, place: str, **parameters: Any) -> Any:
        """Return the result of any operation that reads, such as `get("/log", limit=3)`."""
        return self.request("GET", place, parameters)

    def post(self, place: str, body: Mapping[str, Any] | None = None, **parameters: Any) -> Any:
        """Return the result of any operation that has a body."""
        return self.request("POST", place, parameters, body)

    def request(
        self,
        method: str,
        place: str,
        parameters: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Return the JSON of a response, None if the known version is still current.

        Parameters that are None or "" are omitted.

        Raises:
            VaultError: the server reports an error, as the class that it names, or is not there.
        """
        query = urlencode(list(_write_query(parameters or {})))
        address = f"{place}?{query}" if query else place
        with contextlib.closing(self._connect(self._timeout)) as connection:
            answer = self._send(connection, method, address, body, headers or {})
            data = self._read(answer)
        return json.loads(data) if data else None

    def _ask(self, path: str, fields: Mapping[str, Any]) -> Any:
        """Send a query in a body, because it can be long."""
        body = {name: value for name, value in fields.items() if value is not None}
        parameters = {str(name): body.pop(name) for name in ("at", "ref") if name in body}
        return self.request("POST", path, parameters, body)

    def _change(
        self,
        method: str,
        resource: str,
        note: Version,
        body: Mapping[str, Any] | None,
        **parameters: Any,
    ) -> Any:
        headers = {"If-Match": f'"{note["blob"]}"'}
        return self.request(method, _at(resource, note["path"]), parameters, body, headers)

    def _connect(self, timeout: float) -> HTTPConnection:
        return self._kind(*self._place, timeout=timeout)

    def _send(
        self,
        connection: HTTPConnection,
        method: str,
        address: str,
        body: Mapping[str, Any] | None,
        headers: Mapping[str, str],
    ) -> HTTPResponse:
        data = None if body is None else json.dumps(body).encode()
        kind = {} if body is None else {"Content-Type": "application/json"}
        with self._naming_faults():
            connection.request(
                method, self._base + address, data, {**self._headers, **kind, **headers}
            )
            answer = connection.getresponse()
        if answer.status >= 400:
            raise _as_error(answer.status, self._read(answer))
        return answer

    def _read(self, answer: HTTPResponse) -> bytes:
        with self._naming_faults():
            return answer.read()

    def _read_line(self, answer: HTTPResponse) -> bytes:
        with self._naming_faults():
            return answer.readline()

    @contextlib.contextmanager
    def _naming_faults(self) -> Iterator[None]:
        try:
            yield
        except ConnectionRefusedError:
            raise VaultError(
                f"{self.url}: no server answers there; start one with `vaultmem serve`"
            ) from None
        except TimeoutError:
            reason = (
                f"no answer within {self._timeout:g} s; what was asked may be done all the same"
            )
            raise SystemFailureError(f"{self.url}: {reason}") from None
        except (OSError, HTTPException) as error:
            raise SystemFailureError(f"{self.url}: the answer was cut short ({error})") from None


def _at(resource: str, path: str) -> str:
    return f"/{resource}/{quote(path, safe='/', errors='surrogateescape')}"


def _write_query(parameters: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in parameters.items():
        if value is None or value == "":
            continue
        items = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
        yield from ((name, _write_value(item)) for item in items)


def _write_value(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _as_error(status: int, data: bytes) -> VaultError:
    """Return an error response as the exception class that it names."""
    try:
        problem = json.loads(data)
        message = str(problem["detail"])
    except (ValueError, KeyError, TypeError):
        return VaultError(f"the server answered {status}, and not as vaultmem does")
    kind = getattr(errors, str(problem.get("code", "")), None)
    if kind is MergeConflictError:
        return MergeConflictError(message, problem.get("conflicts", ()))
    if isinstance(kind, type) and issubclass(kind, VaultError):
        return kind(message)
    return RefusedError(message) if status < 500 else VaultError(message)
