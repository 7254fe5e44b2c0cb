"""Events of an agent's transcript, and the record of a session made from them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from vaultmem.core.secrets.scan import mask_secrets
from vaultmem.core.text.json_values import as_typed
from vaultmem.core.text.patterns import compile_later
from vaultmem.core.transcripts.dead_ends import (
    TrialHistory,
    add_command,
    add_edit,
    add_restored,
    is_denied,
    list_restored,
)


class EventKind(StrEnum):
    """The kind of an event.

    A request is the user's text, a call runs a tool, a title is the client's name for the session,
    a summary is written by a model. All others are meta.
    """

    REQUEST = "request"
    ANSWER = "answer"
    CALL = "call"
    RESULT = "result"
    SUMMARY = "summary"
    TITLE = "title"
    META = "meta"


class FileEffect(StrEnum):
    """The effect of a call on a file; `wrote` means created or edited."""

    CREATED = "created"
    EDITED = "edited"
    WROTE = "wrote"
    REMOVED = "removed"


class TranscriptSource(NamedTuple):
    """The source of a transcript: the client's name and session id, the folder and branch.

    `is_side` is true for a subagent of the session.
    """

    session: str = ""
    folder: str = ""
    branch: str = ""
    agent: str = ""
    is_side: bool = False


class TranscriptEvent(NamedTuple):
    """An event; fields that do not apply to its kind are empty.

    `at` is ISO 8601 as written. `call` links a result to its call; in Gemini CLI's answers it is
    the message, which can occur twice. A call on several files becomes several events; only the
    first has the text. An unknown `exit` is missing (None); `is_error` marks a failed call. `steps`
    are a plan's open items, None for other calls. `change` is an edit's old and new text.
    """

    kind: EventKind
    source: TranscriptSource
    at: str = ""
    text: str = ""
    tool: str = ""
    call: str = ""
    path: str = ""
    deed: FileEffect | None = None
    command: str = ""
    exit: int | None = None
    is_error: bool = False
    steps: tuple[str, ...] | None = None
    change: tuple[str, str] | None = None


_PATCHED = compile_later(r"^\*\*\* (Add|Update|Delete) File: (.+?)\s*$", re.MULTILINE)
_REMOVED, _ADDED = (compile_later(rf"^\{sign}(.*)$", re.MULTILINE) for sign in "-+")
_PATCH_DEEDS = {
    "Add": FileEffect.CREATED,
    "Update": FileEffect.EDITED,
    "Delete": FileEffect.REMOVED,
}

#: A block that a client adds to the user's turn; unlike HTML tags, its name has a hyphen or
#: underscore.
_NAME = r"([a-z]+(?:[-_][a-z]+)+|skill)"
_OPENING_TAG, _CLOSING_TAG = compile_later(rf"<{_NAME}\b"), compile_later(rf"</{_NAME}>\Z")
_BLOCKS = 100
_HEAD = compile_later(r"\A# (?:AGENTS\.md|CLAUDE\.md) instructions\b.*", re.DOTALL)
_IDE = compile_later(r"\A# Context from my IDE setup:.*?^## My request for Codex:\s*", re.S | re.M)
_CLIENT_NOTICES = ("[Request interrupted by user", "Caveat: The messages below were generated")


def read_patch(text: str) -> list[tuple[str, FileEffect]]:
    """Return the files of an `apply_patch` patch, and its effect on each."""
    if "*** Begin Patch" not in text:
        return []
    return [(path, _PATCH_DEEDS[deed]) for deed, path in _PATCHED.findall(text)]


def read_patch_changes(text: str) -> dict[str, tuple[str, str]]:
    """Return the removed and added lines of a patch, by updated file."""
    parts = _PATCHED.split(text)[1:]
    return {
        path: ("\n".join(_REMOVED.findall(body)), "\n".join(_ADDED.findall(body)))
        for deed, path, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True)
        if deed == "Update"
    }


def strip_added(text: str) -> str:
    """Return the user's own text of a turn, without the client's additions, or ""."""
    text = text.strip()
    for _ in range(_BLOCKS):
        if opening := _OPENING_TAG.match(text):
            end = text.find(f"</{opening[1]}>")
            rest = text[end + len(opening[1]) + 3 :] if end >= 0 else text
        else:
            closing = _CLOSING_TAG.search(text, max(0, len(text) - 80))
            start = text.rfind(f"<{closing[1]}", 0, closing.start()) if closing else -1
            rest = text[:start] if start >= 0 else text
        if rest == text:
            break
        text = rest.strip()
    text = _IDE.sub("", _HEAD.sub("", text)).strip()
    return "" if text.startswith(_CLIENT_NOTICES) else text


def as_text(value: object) -> str:
    """Return a value as text: strings unchanged, lists of text parts joined, others as JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, list) and all(isinstance(part, dict) for part in value):
        texts = [text_of(part, "text") for part in value]
        if any(texts) or not value:
            return "\n".join(filter(None, texts))
    return json.dumps(value, ensure_ascii=False)


def text_of(values: dict[str, Any], *names: str) -> str:
    """Return the first of these values that is a string, or ""."""
    return next((value for name in names if isinstance(value := values.get(name), str)), "")


def dict_of(values: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a value if it is a dict, else an empty one."""
    value = values.get(name)
    return value if isinstance(value, dict) else {}


def dicts_of(value: object) -> list[dict[str, Any]]:
    """Return the dicts in a list; empty for other values."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def steps_of(plan: object) -> tuple[str, ...]:
    """Return a plan's open steps: items with a text, and a status that is not final."""
    return tuple(
        text
        for item in dicts_of(plan)
        if text_of(item, "status") not in {"completed", "cancelled", "canceled", "deleted"}
        and (text := text_of(item, "step", "content", "description", "subject"))
    )


# Commands of a session: whether they are worth recording, and their results.

#: Programs and git commands that only read, or whose effect is recorded elsewhere.
_READ_ONLY_PROGRAM_LIST = """
awk basename cat cd column cut date df diff dirname du echo env exa false fd file find grep head
hexdump id jq less ls nl open ps pwd read realpath rg sed sleep sort stat tail tee test tr tree true
type uname uniq wc wait whereis which whoami xargs xxd yq [
"""
_READ_ONLY_GIT_LIST = """
add blame branch cat-file commit diff fetch grep log ls-files ls-tree rev-parse rm show status
"""
_READ_ONLY_PROGRAMS = frozenset(_READ_ONLY_PROGRAM_LIST.split())
_READ_ONLY_GIT_COMMANDS = frozenset(_READ_ONLY_GIT_LIST.split())
_PARTS = compile_later(r"\s*(?:&&|\|\||;|\||\n)\s*")
_COMMAND_PREFIX = compile_later(
    r"^(?:cd [^&;|\n]+(?:&&|;)\s*|[A-Z_][A-Z0-9_]*=\S*\s+|(?:sudo|time|command)\s+)+"
)
_COMMAND_SUFFIX = compile_later(
    r"(?:\s*2>&1|\s*\|\s*(?:tail|head|cat|tee|grep|sed)\b[^|;&]*|\s*<<.*)+$", re.S
)
_SUBJECT = compile_later(r"""\bcommit\b[^\n]*?\s-a?m\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)')""")
_COMMITTED = compile_later(r"^\[[^\]\n]*?\b([0-9a-f]{7,40})\] (.+)$", re.MULTILINE)
_RM_COMMAND = compile_later(r"(?:^|&&|;|\n)\s*(?:git )?rm\s+([^&;|\n]+)")
#: Signs of failure in the output of a command that ended well.
_FAILURE_SIGN = compile_later(
    r"^(?:FAILED |FAIL |E {3}|ERROR\b)|\b[1-9]\d* (?:failed|failures?|errors?)\b|\berror\b", re.M
)
_FAILED_TEST_NAME = compile_later(r"^(?:FAILED|FAIL|ERROR)[: ]+(\S+)", re.MULTILINE)
_CAUSE = compile_later(r"(?i)\b(?:error|failed|fatal|not found|no such|cannot)\b|\b[EWF]\d{3}\b")
_MAX_DISPLAY_CHARS = 160


def format_command(command: str) -> str:
    """Return a command for display: its first line, without parts that only shape its output."""
    bare = _COMMAND_SUFFIX.sub("", _COMMAND_PREFIX.sub("", command.strip())).strip()
    line = next((each for each in bare.splitlines() if each.strip()[:1] not in {"", "#"}), "")
    return " ".join(line.split())[:_MAX_DISPLAY_CHARS]


def is_worth_telling(command: str) -> bool:
    """Return whether a command does more than read."""
    parts = (_COMMAND_PREFIX.sub("", part).split() for part in _PARTS.split(command.strip()))
    return any(
        words
        and words[0] not in _READ_ONLY_PROGRAMS
        and not (words[0] == "git" and (words[1:2] or [""])[0] in _READ_ONLY_GIT_COMMANDS)
        for words in parts
    )


def find_commits(command: str, output: str) -> list[tuple[str, str]]:
    """Return a command's commits as (hash, subject); the hash is "" if git did not print it."""
    if not re.search(r"\bgit\b.*\bcommit\b", command):
        return []
    commits = [(commit, subject.strip()) for commit, subject in _COMMITTED.findall(output)]
    subject_match = _SUBJECT.search(command)
    if not commits and subject_match and re.search(r"\s(?:-q|--quiet)\b", command):
        commits = [("", (subject_match[1] or subject_match[2]).split("\n")[0].strip())]
    return [(commit[:10], subject) for commit, subject in commits if subject]


def find_removed(command: str) -> list[str]:
    """Return the files that a command removes by name."""
    words = (word for arguments in _RM_COMMAND.findall(command) for word in arguments.split())
    return [word.strip("\"'") for word in words if not re.search(r"^-|[*?$`(){}<>]", word)]


def find_trouble(result: TranscriptEvent) -> str:
    """Return the output line that shows the failure, or "" if no failure is visible."""
    text = result.text
    tail = text[-4_000:]
    is_bad = result.is_error or bool(result.exit)
    if not is_bad and not _FAILURE_SIGN.search(tail):
        return ""
    names = list(dict.fromkeys(_FAILED_TEST_NAME.findall(tail)))
    if names:
        return " ".join(names[:3])[:_MAX_DISPLAY_CHARS] + (
            f" and {len(names) - 3} more" * (len(names) > 3)
        )
    lines = [" ".join(line.split()) for line in tail.splitlines() if line.strip()]
    if not is_bad:
        counts = [each for each in lines[-6:] if re.search(r"\b[1-9]\d* (?:failed|fail|err)", each)]
        return counts[-1][:_MAX_DISPLAY_CHARS] if counts else ""
    cause = next((each for each in lines if _CAUSE.search(each)), lines[-1] if lines else "")
    return cause[:_MAX_DISPLAY_CHARS] or "it failed"


# Shorten an answer: choose from its own sentences, without a model.

_FENCED_CODE = compile_later(
    r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1[^\n]*$|\Z)", re.DOTALL | re.MULTILINE
)
_TABLE = compile_later(r"^[ \t]*\|.*$", re.MULTILINE)
_MARKS = compile_later(
    r"^[ \t]*(?:#{1,6}[ \t]+|>[ \t]?|[-*+][ \t]+(?:\[.\][ \t]+)?|\d{1,3}[.)][ \t]+)"
)
_END = compile_later(r"(?<=[.!?:])[*_\"')\]]*\s+(?=[\"'(\[`*_]*[^\Wa-zß-ÿ])|\n+")
#: Words about the current state: open work, failures and reasons, next steps.
_SIGNS = compile_later(
    r"(?i)\b(?:fail\w*|still|yet|next|remain\w*|todo|missing|not (?:committed|done|tested|run)|"
    r"uncommitted|blocked|open|left|because|cause[ds]?|instead|must|never|only|broken|wait\w*|"
    r"noch|nicht|fehl\w*|schl[aä]gt|offen|weil|Ursache|n[aä]chste\w*|bleib\w*|statt|nur)\b"
)
_WORD = compile_later(r"[^\W\d_]{4,}")
_YES = 4


#: Words that unrelated questions and replies often share.
_STOP_WORD_LIST = """
about also and another back does done else from have here into just like make more only shall should
some than that them then there they this want were what when where which will with would your yours
soll wird oder auch noch nicht eine einen
"""
_STOP_WORD_PREFIXES = frozenset(each[:5] for each in _STOP_WORD_LIST.split())


def split_prose(text: str) -> list[str]:
    """Return the sentences of a markdown text, without code, tables and list marks."""
    plain = _TABLE.sub("", _FENCED_CODE.sub("", text))
    lines = (_MARKS.sub("", line).strip() for line in plain.splitlines())
    sentences = (each.strip() for line in lines if line for each in _END.split(line))
    return [each for each in sentences if re.search(r"\w", each)]


def shorten_answer(text: str, limit: int) -> str:
    """Return the sentences of an answer about the current state, in order.

    The first sentence is preferred, then sentences about open work, then later ones. `limit` is
    in characters. Questions are omitted, because they are recorded separately.
    """
    sentences = [each for each in split_prose(text) if not each.endswith("?")]
    if not sentences:
        return ""
    count = len(sentences)

    def weigh(place: int) -> tuple[bool, int, int]:
        signs = {each.lower() for each in _SIGNS.findall(sentences[place])}
        return (place != 0, -len(signs), -place)

    places: list[int] = []
    room = limit
    for place in sorted(range(count), key=weigh):
        if len(sentences[place]) < room:
            places.append(place)
            room -= len(sentences[place]) + 1
    if not places:
        return sentences[0][: limit - 4].rsplit(" ", 1)[0] + " ..."
    return " ".join(sentences[place] for place in sorted(places))


def find_questions(text: str) -> list[str]:
    """Return up to 4 questions of an answer, the last ones."""
    return [each for each in split_prose(text) if each.endswith("?") and len(each) > _YES * 2][-4:]


def is_answered(question: str, reply: str) -> bool:
    """Return whether a reply answers a question: it is very short, or shares a word with it."""
    if len(reply.split()) <= _YES:
        return True
    question_words, reply_words = (
        set(map(str.lower, _WORD.findall(each))) for each in (question, reply)
    )
    return bool(
        {each[:5] for each in question_words}
        & {each[:5] for each in reply_words} - _STOP_WORD_PREFIXES
    )


# Build the record of a session from its transcript as it grows, without a model.

#: Most items of each list; the oldest are removed.
_REQUESTS, _FILES, _COMMANDS, _COMMITS, _QUESTIONS, _CALLS = 60, 200, 80, 60, 6, 100

#: Most characters of a request, of an answer's first sentence, of an answer, and of a command.
_LINE, _OUTCOME, _ANSWER, _COMMAND = 240, 140, 1_200, 4_000

#: Most characters of an edit whose revert is recognized.
_CHANGE = 20_000


@dataclass
class RequestSummary:
    """A request's first line, and the first sentence of its answer."""

    at: str
    text: str
    outcome: str = ""


@dataclass
class CommandRun:
    """A command: its runs, and the exit code, failure and time of the last run."""

    runs: int = 0
    exit: int | None = None
    trouble: str = ""
    at: str = ""


@dataclass
class FileEffects:
    """The changes of a file."""

    is_made: bool = False
    edits: int = 0
    is_gone: bool = False


@dataclass
class PendingCall:
    """A call without a result yet; `changes` are files with their text before and after it."""

    command: str = ""
    files: list[tuple[str, str]] = field(default_factory=list)
    changes: list[tuple[str, str, str]] = field(default_factory=list)


@dataclass
class TranscriptRecord:
    """The outcome of a session so far; files by path, commands by display text.

    `answer` is the last answer of this turn, and `is_over` is true if no call followed it. `stood`
    is the shortened answer of the previous turn.
    """

    goal: str = ""
    title: str = ""
    asked: list[RequestSummary] = field(default_factory=list)
    files: dict[str, FileEffects] = field(default_factory=dict)
    commands: dict[str, CommandRun] = field(default_factory=dict)
    commits: list[tuple[str, str]] = field(default_factory=list)
    answer: str = ""
    stood: str = ""
    is_over: bool = False
    questions: list[str] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)
    waiting: dict[str, PendingCall] = field(default_factory=dict)
    trials: TrialHistory = field(default_factory=TrialHistory)


def add_event(record: TranscriptRecord, event: TranscriptEvent) -> None:
    """Add an event to a record; subagents' events are ignored."""
    add = _ADDERS.get(event.kind)
    if add is not None and not event.source.is_side:
        add(record, event)


def dump_record(record: TranscriptRecord) -> str:
    """Return a record as JSON for `load_record`."""
    return json.dumps(asdict(record), ensure_ascii=False)


def load_record(text: str) -> TranscriptRecord:
    """Return a record from its JSON; an empty one if invalid."""
    try:
        record: TranscriptRecord = as_typed(json.loads(text), TranscriptRecord)
        return record
    except (ValueError, TypeError):
        return TranscriptRecord()


def list_questions(record: TranscriptRecord) -> list[str]:
    """Return the unanswered questions to the user, the last one last."""
    return [*dict.fromkeys([*record.questions, *find_questions(record.answer)])][-_QUESTIONS:]


def describe_answer(record: TranscriptRecord) -> str:
    """Return the shortened last answer, or the previous turn's if this turn's is not final."""
    answer = shorten_answer(record.answer, _ANSWER)
    return answer if record.is_over or not record.stood else record.stood


def _add_title(record: TranscriptRecord, event: TranscriptEvent) -> None:
    record.title = _plain(event.text, _LINE)


def _add_request(record: TranscriptRecord, event: TranscriptEvent) -> None:
    lines = [line for line in event.text.splitlines() if line.strip()]
    text = _plain(lines[0], _LINE)
    if not record.goal or len(record.goal.split()) < 3:  # "hi" is not a goal.
        record.goal = text
    questions = list_questions(record)
    record.questions = [each for each in questions if not is_answered(each, event.text)]
    record.stood = describe_answer(record)
    record.answer, record.is_over = "", False
    record.asked.append(RequestSummary(event.at, text))
    if len(record.asked) > _REQUESTS:
        del record.asked[1]  # The first is the goal.


def _add_answer(record: TranscriptRecord, event: TranscriptEvent) -> None:
    record.answer, record.is_over = mask_secrets(event.text)[-8 * _ANSWER :], True
    if record.asked:
        sentences = [each for each in split_prose(record.answer) if not each.endswith("?")]
        record.asked[-1].outcome = _slice(sentences[0], _OUTCOME) if sentences else ""


def _add_call(record: TranscriptRecord, event: TranscriptEvent) -> None:
    record.is_over = False
    if record.asked:
        record.asked[-1].outcome = ""  # The text before a call was not the answer.
    if event.steps is not None:
        record.steps = [_plain(each, _LINE) for each in event.steps]
    if not event.command and not event.deed:
        return
    command = mask_secrets(event.command)[:_COMMAND]
    pending_call = record.waiting.setdefault(event.call, PendingCall())
    pending_call.command = command or pending_call.command
    if event.deed:
        pending_call.files.append((_join(event), event.deed.value))
        if event.change and sum(map(len, event.change)) <= _CHANGE:
            before, after = map(mask_secrets, event.change)
            pending_call.changes.append((_join(event), before, after))
    elif event.command:
        pending_call.files += [
            (_join(event, each), FileEffect.REMOVED) for each in find_removed(command)
        ]
    _bound(record.waiting, _CALLS)


def _add_result(record: TranscriptRecord, event: TranscriptEvent) -> None:
    call = record.waiting.pop(event.call, None)
    if call is None or (event.is_error and is_denied(event.text)):
        return
    if not event.is_error and not event.exit:
        for path, deed in call.files:
            _touch(record, path, event.deed or FileEffect(deed))
        for commit, subject in find_commits(call.command, event.text):
            others = [each for each in record.commits if each[1] != subject]  # An amended commit.
            record.commits = [*others, (commit, _plain(subject, _LINE))][-_COMMITS:]
        for change in call.changes:
            add_edit(record.trials, *change)
        add_restored(record.trials, [_join(event, each) for each in list_restored(call.command)])
    if is_worth_telling(call.command):
        name = format_command(call.command)
        last_run = record.commands.pop(name, CommandRun())  # The last run moves to the end.
        trouble = _plain(find_trouble(event), _LINE)
        record.commands[name] = CommandRun(last_run.runs + 1, event.exit, trouble, event.at)
        add_command(record.trials, name, trouble, event.exit)
        _bound(record.commands, _COMMANDS)


def _touch(record: TranscriptRecord, path: str, deed: FileEffect) -> None:
    file = record.files.pop(path, FileEffects())
    file.is_gone = deed is FileEffect.REMOVED
    if deed is FileEffect.CREATED:
        file.is_made = True
    elif deed is not FileEffect.REMOVED:
        file.edits += 1
    record.files[path] = file
    _bound(record.files, _FILES)


def _join(event: TranscriptEvent, path: str = "") -> str:
    """Return a file's path, joined to the session's folder unless absolute."""
    path = path or event.path
    is_full = path.startswith(("/", "~")) or path[1:3] in {":\\", ":/"}
    return path if is_full or not event.source.folder else f"{event.source.folder}/{path}"


def _bound(items: dict[str, Any], limit: int) -> None:
    while len(items) > limit:
        del items[next(iter(items))]


def _plain(text: str, limit: int) -> str:
    """Return text in one line, without credentials, at most `limit` characters."""
    return _slice(" ".join(mask_secrets(text[: 8 * limit]).split()), limit)


def _slice(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 4].rsplit(' ', 1)[0]} ..."


_ADDERS: dict[EventKind, Callable[[TranscriptRecord, TranscriptEvent], None]] = {
    EventKind.REQUEST: _add_request,
    EventKind.ANSWER: _add_answer,
    EventKind.CALL: _add_call,
    EventKind.RESULT: _add_result,
    EventKind.TITLE: _add_title,
}
