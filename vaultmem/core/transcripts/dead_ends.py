"""Dead ends of a session: failed commands and reverted edits, and what worked instead of them.

They are found as the events of a transcript arrive, without a model. A failure is a dead end only
if an alternative worked: another command with the same target, or the code without the edit. A
test that fails until the code is right does not count, nor does a mistyped path.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from vaultmem.core.text.patterns import compile_later

#: Most failures, edits that might be reverted, and dead ends.
_MAX_FAILURES, _MAX_EDITS, _MAX_DEAD_ENDS = 6, 40, 12

#: Most characters of a line of an edit, and of a command in a title.
_MAX_EDIT_CHARS, _MAX_TITLE_CHARS = 100, 60

#: Programs whose failure is the usual way to a correct program: tests, builds and linters.
_LOOP = compile_later(
    r"(?:^|[\s/])(?:pytest|tox|nox|jest|vitest|mocha|ruff|mypy|eslint|tsc|flake8|pylint|black|rspec"
    r"|phpunit|pre-commit|gcc|g\+\+|clang|ctest)\b"
    r"|^(?:cargo|go|dotnet|mvn|gradle|bazel|swift)\b.*\b(?:test|build|check|clippy|vet|run|verify)\b"
    r"|^(?:npm|pnpm|yarn|bun|deno)\b.*\b(?:test|lint|build|check|typecheck)\b"
    r"|^make(?:$| (?:all|test|check|lint|build)\b)|^git commit\b|\bunittest\b|\bmanage\.py test\b"
)
#: Output of a shell that could not run a program at all.
_MISSING_PROGRAM = compile_later(
    r"(?i)command not found|not recognized as|executable file not found|missing script"
)
_NO_MODULE = compile_later(r"No module named '?([\w.]+)")
#: Mistakes that the next call corrects, and calls that the user did not allow.
_TRIVIAL = compile_later(r"(?i)no such file or directory|can't open file|is a directory")
_DENIAL_PATTERN = compile_later(
    r"(?i)\A\W*(?:error: )?(?:the user does(?:n't| not) want|request interrupted|aborted by user"
    r"|user (?:rejected|denied|declined|cancell?ed)|permission to use |claude requested permissions"
    r"|this command requires approval)"
)
#: Commands that only show or check, and commands whose text is a program.
_NO_TRIAL = compile_later(r" (?:--help|-h|--version|--dry-run|--check|-[ce])(?: |$)")
_DEBUG = compile_later(
    r"\b(?:print|println!?|printf|puts|dbg!|debugger|breakpoint|pdb|pprint|console\.\w+"
    r"|log(?:ger|ging)?\.\w+|fmt\.Print\w*|System\.out)\b"
)
_GIT_RESTORE = compile_later(
    r"\bgit (?:checkout (?!-b)(?:\S+ )?-- |checkout (?=\S*[./])|restore )([^&;|\n]+)"
)
_FLAG = compile_later(r"(?:^|\s)-\S*")
_WORD = compile_later(r"[a-z0-9]+")
#: Words that do not identify a command's target: program launchers, folders and endings.
_PLAIN_WORD_LIST = """
npm npx pnpm yarn bun node deno python python3 pip pip3 uv poetry pipx sudo env time bash sh zsh
make cargo go docker podman kubectl gh aws git run exec bin src lib scripts script tests py js ts
yml yaml json toml local usr the
"""
_PLAIN_WORDS = frozenset(_PLAIN_WORD_LIST.split())

#: Smallest share of the shorter command's words in common for the same target.
_SAME_TARGET = 0.6

#: A shell's exit code for a missing program.
_MISSING_PROGRAM_EXIT = 127


@dataclass
class FailedCommand:
    """A failed command: its number of runs, and the last failure."""

    command: str
    trouble: str
    runs: int = 1


@dataclass
class AppliedEdit:
    """An edit: digests of the text before and after it, and its first new line.

    `command` failed after it with `trouble`; both are "" until then. For a reverted edit,
    `next_path` and `next_line` are those of the last edit since.
    """

    path: str
    before: str
    after: str
    line: str
    command: str = ""
    trouble: str = ""
    next_path: str = ""
    next_line: str = ""


@dataclass
class DeadEnd:
    """A failed attempt and its alternative.

    `command` failed `runs` times, last with `trouble`. The attempt is the command or `edit`.
    `worked` is the command that then succeeded; for an edit, after the next edit or without any.
    """

    command: str
    trouble: str
    worked: str
    runs: int = 1
    edit: AppliedEdit | None = None


@dataclass
class TrialHistory:
    """Failures and edits with an unknown outcome, and the dead ends."""

    failures: list[FailedCommand] = field(default_factory=list)
    edits: list[AppliedEdit] = field(default_factory=list)
    reverted: list[AppliedEdit] = field(default_factory=list)
    ends: list[DeadEnd] = field(default_factory=list)


def format_dead_end(end: DeadEnd, name: Callable[[str], str]) -> tuple[str, str]:
    """Return title and text of a dead end's note; `name` formats a path."""
    reverted_edit = end.edit
    if reverted_edit is None:
        times = f"{end.runs} times, last with " if end.runs > 1 else ""
        parts = (f"`{end.command}`", f"{times}{end.trouble}", f"`{end.worked}`")
        title = f"{end.command[:_MAX_TITLE_CHARS]} fails"
    else:
        edit = (
            f"edit of `{name(reverted_edit.next_path)}`: `{reverted_edit.next_line}`"
            if reverted_edit.next_line
            else ""
        )
        title, success = f"Reverted edit of {name(reverted_edit.path)}", f"`{end.worked}` passed"
        parts = (
            f"edit of `{name(reverted_edit.path)}`: `{reverted_edit.line}`",
            f"`{end.command}`: {end.trouble}",
            f"{edit}; then {success}" if edit else f"without it, {success}",
        )
    return title, "Tried: {}\nFailed: {}\nResolved: {}".format(*parts)


def sort_ends(ends: Sequence[DeadEnd]) -> list[DeadEnd]:
    """Return the dead ends sorted by failures, most first, then latest first."""
    order = sorted(range(len(ends)), key=lambda place: (-ends[place].runs, -place))
    return [ends[place] for place in order]


def is_denied(output: str) -> bool:
    """Return whether the user or a rule rejected a call."""
    return bool(_DENIAL_PATTERN.match(output[:200]))


def add_command(
    trials: TrialHistory, command: str, trouble: str, exit_code: int | None = None
) -> None:
    """Add a command's result; it succeeded if `trouble` is empty."""
    if trouble:
        _add_failure(trials, command, trouble, exit_code)
        return
    trials.failures = [each for each in trials.failures if each.command != command]
    # A command that works in the end was not a dead end.
    trials.ends = [each for each in trials.ends if each.edit or each.command != command]
    edits = [each for each in trials.reverted if each.command == command]
    ends = [DeadEnd(command, each.trouble, command, edit=each) for each in edits]
    trials.reverted = [each for each in trials.reverted if each.command != command]
    if not _NO_TRIAL.search(command):
        related = [each for each in trials.failures if _has_same_target(each.command, command)]
        trials.failures = [each for each in trials.failures if each not in related]
        ends += [DeadEnd(e.command, e.trouble, command, e.runs) for e in related]
    trials.ends = [*trials.ends, *ends][-_MAX_DEAD_ENDS:]


def add_edit(trials: TrialHistory, path: str, before: str, after: str) -> None:
    """Add an edit that replaced a text of a file by another.

    An edit that restores an earlier text reverts the edit of that text.
    """
    trials.failures = []  # The edited code might be the cause of earlier failures.
    old, new = _digest(before), _digest(after)
    reverted_edits = [e for e in trials.edits if (e.path, e.after, e.before) == (path, old, new)]
    if reverted_edits:
        _revert(trials, reverted_edits)
        return
    line = _find_new_line(before, after)
    for each in trials.reverted:
        each.next_path, each.next_line = path, line
    if line and not _DEBUG.search(line):
        trials.edits = [*trials.edits, AppliedEdit(path, old, new, line)][-_MAX_EDITS:]


def add_restored(trials: TrialHistory, paths: Sequence[str]) -> None:
    """Revert the edits of files that were restored to their committed version."""
    _revert(trials, [each for each in trials.edits if each.path in paths])


def list_restored(command: str) -> list[str]:
    """Return the files that a git command restores to their committed version."""
    arguments = (word for words in _GIT_RESTORE.findall(command) for word in words.split())
    return [word.strip("\"'") for word in arguments if not word.startswith("-")]


def _add_failure(trials: TrialHistory, command: str, trouble: str, exit_code: int | None) -> None:
    for each in trials.edits:
        if not each.command:
            each.command, each.trouble = command, trouble
    module = _NO_MODULE.search(trouble)
    is_absent = exit_code == _MISSING_PROGRAM_EXIT or bool(_MISSING_PROGRAM.search(trouble))
    is_absent = is_absent or bool(module and module[1] in command)
    is_usual = bool(_LOOP.search(command) or _TRIVIAL.search(trouble))
    if (is_usual and not is_absent) or _NO_TRIAL.search(command):
        return
    runs = [each.runs for each in trials.failures if each.command == command]
    others = [each for each in trials.failures if each.command != command]
    trials.failures = [*others, FailedCommand(command, trouble, sum(runs) + 1)][-_MAX_FAILURES:]


def _revert(trials: TrialHistory, edits: Sequence[AppliedEdit]) -> None:
    """Move edits that had a failure to `reverted`, and drop the others."""
    trials.edits = [each for each in trials.edits if each not in edits]
    trials.reverted = [*trials.reverted, *(e for e in edits if e.command)][-_MAX_EDITS:]


def _has_same_target(failed_command: str, working_command: str) -> bool:
    """Return whether two commands have the same program and verb with other options, or most words.

    Program launchers, folders and options do not count as words.
    """
    if _split_options(failed_command) == _split_options(working_command):  # Only a value differs.
        return False
    lead, _ = _split_options(failed_command)
    if len(lead) > 1 and lead == _split_options(working_command)[0]:
        return True
    targets, other_targets = _list_targets(failed_command), _list_targets(working_command)
    if not targets or not other_targets:
        return False
    return len(targets & other_targets) / min(len(targets), len(other_targets)) >= _SAME_TARGET


def _split_options(command: str) -> tuple[list[str], frozenset[str]]:
    """Return the words before the first option, and the options."""
    words = command.split()
    options = [word for word in words if word.startswith("-")]
    lead = words[: words.index(options[0])] if options else words
    return lead, frozenset(options)


def _list_targets(command: str) -> frozenset[str]:
    words = _WORD.findall(_FLAG.sub(" ", command.casefold()))
    return frozenset(words) - _PLAIN_WORDS


def _find_new_line(before: str, after: str) -> str:
    """Return the first line that an edit adds, or ""."""
    old_lines = {line.strip() for line in before.splitlines()}
    new_lines = (line.strip() for line in after.splitlines())
    return next(
        (line[:_MAX_EDIT_CHARS] for line in new_lines if line and line not in old_lines), ""
    )


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).hexdigest()
