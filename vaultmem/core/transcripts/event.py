"""What happened in an agent's session, whichever client wrote it down."""

from __future__ import annotations

import json
import re
from enum import StrEnum
from typing import Any, NamedTuple


class Kind(StrEnum):
    """What an event is.

    A request is the user's own words, a call what the agent has a tool do, a title what the client
    calls the session, a summary what a model made of it. All else is meta.
    """

    REQUEST = "request"
    ANSWER = "answer"
    CALL = "call"
    RESULT = "result"
    SUMMARY = "summary"
    TITLE = "title"
    META = "meta"


class Deed(StrEnum):
    """What a call does to a file; `wrote` is either of the first two."""

    CREATED = "created"
    EDITED = "edited"
    WROTE = "wrote"
    REMOVED = "removed"


class Source(NamedTuple):
    """Whose transcript it is: the client's name and id for it, its folder and branch.

    `is_side` tells that a helper of the agent speaks, not the session itself.
    """

    session: str = ""
    folder: str = ""
    branch: str = ""
    agent: str = ""
    is_side: bool = False


class Event(NamedTuple):
    """One thing that happened; what does not concern its kind is empty.

    `at` is ISO 8601 as written. `call` ties a result to its call (of Gemini CLI's answers it is the
    message, which may be told twice). A call that concerns several files is several events, of
    which the first has the text. `exit` is None where it is not known; `is_error` tells that a
    call failed. `steps` are what a plan has still to do, None where this is no plan.
    """

    kind: Kind
    source: Source
    at: str = ""
    text: str = ""
    tool: str = ""
    call: str = ""
    path: str = ""
    deed: Deed | None = None
    command: str = ""
    exit: int | None = None
    is_error: bool = False
    steps: tuple[str, ...] | None = None


_PATCHED = re.compile(r"^\*\*\* (Add|Update|Delete) File: (.+?)\s*$", re.MULTILINE)
_DEEDS = {"Add": Deed.CREATED, "Update": Deed.EDITED, "Delete": Deed.REMOVED}

#: A block that a client puts into the user's turn: its name has a hyphen or an underscore, as no
#: tag of HTML does.
_NAME = r"([a-z]+(?:[-_][a-z]+)+|skill)"
_OPENS, _CLOSES = re.compile(rf"<{_NAME}\b"), re.compile(rf"</{_NAME}>\Z")
_BLOCKS = 100
_HEAD = re.compile(r"\A# (?:AGENTS\.md|CLAUDE\.md) instructions\b.*", re.DOTALL)
_IDE = re.compile(r"\A# Context from my IDE setup:.*?^## My request for Codex:\s*", re.S | re.M)
_NOT_SAID = ("[Request interrupted by user", "Caveat: The messages below were generated")


def read_patch(text: str) -> list[tuple[str, Deed]]:
    """Return the files of a patch in the form of `apply_patch`, and what it does to each."""
    if "*** Begin Patch" not in text:
        return []
    return [(path, _DEEDS[deed]) for deed, path in _PATCHED.findall(text)]


def strip_added(text: str) -> str:
    """Return what the user said in a turn, without what a client put there; "" if nothing."""
    text = text.strip()
    for _ in range(_BLOCKS):
        if opened := _OPENS.match(text):
            end = text.find(f"</{opened[1]}>")
            rest = text[end + len(opened[1]) + 3 :] if end >= 0 else text
        else:
            closed = _CLOSES.search(text, max(0, len(text) - 80))
            start = text.rfind(f"<{closed[1]}", 0, closed.start()) if closed else -1
            rest = text[:start] if start >= 0 else text
        if rest == text:
            break
        text = rest.strip()
    text = _IDE.sub("", _HEAD.sub("", text)).strip()
    return "" if text.startswith(_NOT_SAID) else text


def as_text(value: object) -> str:
    """Return a value as text: texts as they are, lists of text parts joined, else JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, list) and all(isinstance(part, dict) for part in value):
        texts = [text_of(part, "text") for part in value]
        if any(texts) or not value:
            return "\n".join(filter(None, texts))
    return json.dumps(value, ensure_ascii=False)


def text_of(given: dict[str, Any], *names: str) -> str:
    """Return the first of these values that is a text, "" if none is."""
    return next((value for name in names if isinstance(value := given.get(name), str)), "")


def dict_of(given: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a value that is an object, else an empty one."""
    value = given.get(name)
    return value if isinstance(value, dict) else {}


def dicts_of(value: object) -> list[dict[str, Any]]:
    """Return the objects in a list; of what is none, none."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def steps_of(plan: object) -> tuple[str, ...]:
    """Return what a plan has still to do: items with a text and a status that is not the end."""
    return tuple(
        text
        for item in dicts_of(plan)
        if text_of(item, "status") not in {"completed", "cancelled", "canceled", "deleted"}
        and (text := text_of(item, "step", "content", "description", "subject"))
    )
