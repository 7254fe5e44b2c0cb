"""Match notes with the files that a tool call changes and the commands that it runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from vaultmem.core.text.patterns import compile_later
from vaultmem.core.transcripts.event import format_command, is_worth_telling

_SEPARATOR = compile_later(r"\s*(?:&&|\|\||;|\n)\s*")
_FOLDER = compile_later(r"(?<![\w./~-])(?:[\w.~-]*/)+(?=[\w.-]+)")

#: Words before a program that do not change its meaning, and programs that run another one.
_PREFIXES = frozenset({"sudo", "time", "command", "env", "npx", "uv", "run", "poetry", "exec"})

#: Verbs whose meaning depends on the next word: `npm run lint`, `docker compose up`.
_LEADING_VERBS = frozenset({"run", "exec", "compose"})

#: Most characters of a command that are searched.
_MAX_COMMAND_CHARS = 2_000


def split_commands(command: str) -> tuple[str, ...]:
    """Return the commands of a line that do more than read, without folder changes and pipes."""
    parts = (format_command(part) for part in _SEPARATOR.split(command[:_MAX_COMMAND_CHARS]))
    return tuple(dict.fromkeys(part for part in parts if part and is_worth_telling(part)))


def list_phrases(command: str) -> tuple[str, ...]:
    """Return the phrases by which notes name a command: all of it, or its program and verb.

    A program alone is a phrase only if it is the whole command; then a note must quote it.
    """
    words = command.casefold().split()
    while len(words) > 1 and (words[0] in _PREFIXES or "=" in words[0]):
        words = words[1:]
    if not words:
        return ()
    words[0] = words[0].rpartition("/")[2]
    if len(words) == 1:
        return (f"`{words[0]}`",)
    count = 3 if words[1] in _LEADING_VERBS and len(words) > 2 else 2
    is_verb = re.compile(r"[a-z][\w:.-]*|[\w.-]*/[\w./-]+|[\w-]+\.\w+").fullmatch
    verbs = (" ".join(words[:count]),) if all(map(is_verb, words[1:count])) else ()
    return (" ".join(words), *verbs)


def is_same_command(first: str, second: str) -> bool:
    """Return whether two commands are equal without options, or one continues the other."""
    word_lists = [
        [each for each in command.split() if each[:1] != "-"] for command in (first, second)
    ]
    short, long = sorted(word_lists, key=len)
    return short == long or (len(short) > 1 and long[: len(short)] == short)


def names_command(text: str, command: str) -> bool:
    """Return whether a text names a command, or its program and verb."""
    flat = flatten(text)
    return any(_has_words(flat, phrase) for phrase in list_phrases(command))


def names_file(text: str, path: str) -> bool:
    """Return whether a text names a file by its path in a repository."""
    return path.casefold() in text.casefold() and _has_words(_fold(text), path.casefold())


def list_files(command: str) -> Iterator[str]:
    """Yield the words of a command that can be paths of files."""
    for word in command.split():
        bare = word.strip("\"'")
        if re.fullmatch(r"[\w./~-]*[\w-]\.\w{1,8}", bare) and not bare.startswith("-"):
            yield bare


@lru_cache(maxsize=1_024)
def flatten(text: str) -> str:
    """Return a text in lower case, in one line, with programs without their folders."""
    return _FOLDER.sub(lambda match: _drop_folder(match[0]), _fold(text))


def _drop_folder(folder: str) -> str:
    """Return "" for a folder of programs, so `.venv/bin/pytest` becomes `pytest`."""
    return "" if folder.endswith("bin/") else folder


@lru_cache(maxsize=1_024)
def _fold(text: str) -> str:
    return " ".join(text.casefold().split())


def _has_words(flat: str, phrase: str) -> bool:
    start = flat.find(phrase)
    while start >= 0:
        end = start + len(phrase)
        before, after = flat[start - 1 : start], flat[end : end + 2]
        is_open = not before or not (before.isalnum() or before in "_-/.")
        is_closed = not re.match(r"[\w/-]|\.\w", after) or phrase[-1:] == "`"
        if is_open and is_closed:
            return True
        start = flat.find(phrase, start + 1)
    return False
