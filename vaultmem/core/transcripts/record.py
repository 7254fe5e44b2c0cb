"""What a session came to, gathered from its transcript as that grows, without a model."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from vaultmem.core.secrets.scan import mask_secrets
from vaultmem.core.transcripts.commands import (
    find_commits,
    find_removed,
    find_trouble,
    is_worth_telling,
    name_command,
)
from vaultmem.core.transcripts.event import Deed, Event, Kind
from vaultmem.core.transcripts.prose import find_questions, is_answered, shorten_answer, split_prose

#: How much of each is kept; the oldest go.
_REQUESTS, _FILES, _COMMANDS, _COMMITS, _QUESTIONS, _CALLS = 60, 200, 80, 60, 6, 100

#: Characters of a request, of an answer's first sentence, of an answer, and of a command.
_LINE, _OUTCOME, _ANSWER, _COMMAND = 240, 140, 1_200, 4_000


@dataclass
class Asked:
    """A request by its first line, and the first sentence of the answer to it."""

    at: str
    text: str
    outcome: str = ""


@dataclass
class Ran:
    """A command: how often it ran, the exit that it last had, and what went wrong then."""

    runs: int = 0
    exit: int | None = None
    trouble: str = ""


@dataclass
class Touched:
    """What was done to a file."""

    is_made: bool = False
    edits: int = 0
    is_gone: bool = False


@dataclass
class Waiting:
    """A call that has no result yet."""

    command: str = ""
    files: list[tuple[str, str]] = field(default_factory=list)


@dataclass
class Record:
    """What a session came to so far; files by their path, commands by how they are told.

    `answer` is the last that was said in this turn, and `is_over` that nothing was done since;
    `stood` is how things stood at the end of the turn before.
    """

    goal: str = ""
    title: str = ""
    asked: list[Asked] = field(default_factory=list)
    files: dict[str, Touched] = field(default_factory=dict)
    commands: dict[str, Ran] = field(default_factory=dict)
    commits: list[tuple[str, str]] = field(default_factory=list)
    answer: str = ""
    stood: str = ""
    is_over: bool = False
    questions: list[str] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)
    waiting: dict[str, Waiting] = field(default_factory=dict)


def add_event(record: Record, event: Event) -> None:
    """Add what happened to a record; what helpers did is no part of it."""
    add = _ADDERS.get(event.kind)
    if add is not None and not event.source.is_side:
        add(record, event)


def dump_record(record: Record) -> str:
    """Return a record as JSON that `load_record` reads."""
    return json.dumps(asdict(record), ensure_ascii=False)


def load_record(text: str) -> Record:
    """Return a record from its JSON; an empty one where that cannot be read."""
    try:
        given: dict[str, Any] = json.loads(text)
        return Record(
            **{
                **given,
                "asked": [Asked(**each) for each in given["asked"]],
                "files": {path: Touched(**each) for path, each in given["files"].items()},
                "commands": {name: Ran(**each) for name, each in given["commands"].items()},
                "commits": [(commit, subject) for commit, subject in given["commits"]],
                "waiting": {call: Waiting(**each) for call, each in given["waiting"].items()},
            }
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        return Record()


def list_questions(record: Record) -> list[str]:
    """Return the questions to the user that nobody has answered, the last one last."""
    return [*dict.fromkeys([*record.questions, *find_questions(record.answer)])][-_QUESTIONS:]


def describe_answer(record: Record) -> str:
    """Return how things stand by the last answer that ended a turn, or else by the last one."""
    told = shorten_answer(record.answer, _ANSWER)
    return told if record.is_over or not record.stood else record.stood


def _add_title(record: Record, event: Event) -> None:
    record.title = _plain(event.text, _LINE)


def _add_request(record: Record, event: Event) -> None:
    lines = [line for line in event.text.splitlines() if line.strip()]
    text = _plain(lines[0], _LINE)
    if not record.goal or len(record.goal.split()) < 3:  # "hi" is no goal.
        record.goal = text
    asked = list_questions(record)
    record.questions = [each for each in asked if not is_answered(each, event.text)]
    record.stood = describe_answer(record)
    record.answer, record.is_over = "", False
    record.asked.append(Asked(event.at, text))
    if len(record.asked) > _REQUESTS:
        del record.asked[1]  # The first is the goal.


def _add_answer(record: Record, event: Event) -> None:
    record.answer, record.is_over = mask_secrets(event.text)[-8 * _ANSWER :], True
    if record.asked:
        said = [each for each in split_prose(record.answer) if not each.endswith("?")]
        record.asked[-1].outcome = _cut(said[0], _OUTCOME) if said else ""


def _add_call(record: Record, event: Event) -> None:
    record.is_over = False
    if record.asked:
        record.asked[-1].outcome = ""  # What was said before was not the answer.
    if event.steps is not None:
        record.steps = [_plain(each, _LINE) for each in event.steps]
    if not event.command and not event.deed:
        return
    command = mask_secrets(event.command)[:_COMMAND]
    waiting = record.waiting.setdefault(event.call, Waiting())
    waiting.command = command or waiting.command
    if event.deed:
        waiting.files.append((_join(event), event.deed.value))
    elif event.command:
        waiting.files += [(_join(event, each), Deed.REMOVED) for each in find_removed(command)]
    _bound(record.waiting, _CALLS)


def _add_result(record: Record, event: Event) -> None:
    call = record.waiting.pop(event.call, None)
    if call is None:
        return
    if not event.is_error and not event.exit:
        for path, deed in call.files:
            _touch(record, path, event.deed or Deed(deed))
        for commit, subject in find_commits(call.command, event.text):
            told = [each for each in record.commits if each[1] != subject]  # It was amended.
            record.commits = [*told, (commit, _plain(subject, _LINE))][-_COMMITS:]
    if is_worth_telling(call.command):
        name = name_command(call.command)
        ran = record.commands.pop(name, Ran())  # What ran last stands last.
        trouble = _plain(find_trouble(event), _LINE)
        record.commands[name] = Ran(ran.runs + 1, event.exit, trouble)
        _bound(record.commands, _COMMANDS)


def _touch(record: Record, path: str, deed: Deed) -> None:
    touched = record.files.pop(path, Touched())
    touched.is_gone = deed is Deed.REMOVED
    if deed is Deed.CREATED:
        touched.is_made = True
    elif deed is not Deed.REMOVED:
        touched.edits += 1
    record.files[path] = touched
    _bound(record.files, _FILES)


def _join(event: Event, path: str = "") -> str:
    """Return where a file is: from the session's folder, where it is not said in full."""
    path = path or event.path
    is_full = path.startswith(("/", "~")) or path[1:3] in {":\\", ":/"}
    return path if is_full or not event.source.folder else f"{event.source.folder}/{path}"


def _bound(kept: dict[str, Any], limit: int) -> None:
    while len(kept) > limit:
        del kept[next(iter(kept))]


def _plain(text: str, limit: int) -> str:
    """Return text in one line, without credentials and not too long."""
    return _cut(" ".join(mask_secrets(text[: 8 * limit]).split()), limit)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 4].rsplit(' ', 1)[0]} ..."


_ADDERS: dict[Kind, Callable[[Record, Event], None]] = {
    Kind.REQUEST: _add_request,
    Kind.ANSWER: _add_answer,
    Kind.CALL: _add_call,
    Kind.RESULT: _add_result,
    Kind.TITLE: _add_title,
}
