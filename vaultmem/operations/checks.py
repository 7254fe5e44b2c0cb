"""Operations on a vault's health and a change's effects: status, doctor, check."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from vaultmem.core.text.display import format_names, one_line, pluralize
from vaultmem.core.text.json_values import pick
from vaultmem.core.text.timestamps import Verdict
from vaultmem.operations.declaration import Arg, FrontEnd, Line, VersionScope, declare
from vaultmem.operations.history_views import format_commit_line
from vaultmem.operations.note_data import commit_json
from vaultmem.operations.schemas import record, rows

if TYPE_CHECKING:
    from vaultmem.core.text.timestamps import Check
    from vaultmem.services.health.check_changes import ChangeFinding, ChangeReport
    from vaultmem.services.health.status import GitStatus, Uncommitted, VaultStatus
    from vaultmem.services.syncing.sync_place import SyncState
    from vaultmem.services.views.read_index import Progress
    from vaultmem.vault import Vault


_MAX_LISTED_PROBLEMS = 3
_PATHS = 10

#: Notes of a new vault: MEMORY.md and USER.md.
_TEMPLATES = 2

_OWNER = "the owner repairs in a terminal"

_COLOURS = {"ok": "green", "warning": "yellow", "problem": "red"}


def status(
    vault: Vault, *, progress: Progress | None = None, settings_problem: str = ""
) -> VaultStatus:
    """Show what the vault holds, and what is not committed.

    It also shows who watches the vault, and ends with the last events of its history.

    Examples:
      vaultmem status
    """
    from vaultmem.services.health.status import read_status

    return read_status(vault, progress, settings_problem)


def _status_data(result: VaultStatus) -> dict[str, Any]:
    return {
        "vault": result.folder,
        "git": _git_data(result.git) if result.git else None,
        **pick(
            result, "settings_problem? agent?=author.agent session?=author.session ref? watcher"
        ),
        **pick(result, "notes tokens kinds states proposed to_decide waiting trust_problem?"),
        "skipped": result.skipped_files,
        "index": {
            **pick(result, "in_sync=is_in_sync problem?=sync_problem"),
            **pick(result.sync, "added changed removed"),
        },
        "in_doubt": problems_data(result.invalid_notes),
        "problems": problems_data(result.problems),
    }


def _git_data(git: GitStatus) -> dict[str, Any]:
    names = (
        "problem? branch?=head.branch commit?=head.commit obstacle? person_problem? uncommitted "
        "skipped credentials kept_out proposals moved_links"
    )
    sync = git.sync and pick(
        git.sync, "remote every=interval at good_at outcome message waiting problem"
    )
    return {**pick(git, names), "sync": sync, "events": list(map(commit_json, git.events))}


def problems_data(problems: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    """Return the notes that cannot be read, each with the reason."""
    return [{"path": path, "problem": problem} for path, problem in problems]


def _status_lines(result: VaultStatus, _: Any) -> Iterator[Line]:
    if result.invalid_notes:
        count = pluralize(len(result.invalid_notes), "note")
        names = "`vaultmem doctor` names them, and what repairs them"
        yield Line(f"{'in doubt':<12}", "red", f"{count}; {names}")
        yield from _group_lines(result.invalid_notes, "red")
    yield from _place_lines(result)
    yield from _note_lines(result)
    if result.git is not None and not (result.git.problem or result.settings_problem):
        yield from _uncommitted_lines(result.git, not result.author.agent)
    if result.trust_problem:
        yield _fact("trust", result.trust_problem)
    for subject in result.waiting:
        yield _fact("waits", f"{subject}  (committed with the next checkpoint or promote)")
    if result.skipped_files:
        reasons = ", ".join(f"{reason}: {n:,}" for reason, n in result.skipped_files.items())
        yield _fact("not notes", reasons)
    if result.problems:
        yield _fact(
            "problems", f"{len(result.problems):,}; run `vaultmem doctor` to see what to do"
        )
        yield from _group_lines(result.problems, "yellow")
    if result.git is not None and result.git.events:
        yield Line("")
        for commit in result.git.events:
            yield Line(commit.commit[:7], "yellow", f"  {format_commit_line(commit)}")


def _fact(name: str, text: str) -> Line:
    return Line(f"{name:<12}", "dim", text)


def _group_lines(problems: Sequence[tuple[str, str]], colour: str) -> Iterator[Line]:
    """Yield one line for each of the most frequent problems."""
    from vaultmem.core.notes.problems import describe_group, group_problems

    groups = group_problems(problems)
    for group in groups[:_MAX_LISTED_PROBLEMS]:
        yield Line("  ", colour, describe_group(group, _MAX_LISTED_PROBLEMS))
    if more := sum(len(group.places) for group in groups[_MAX_LISTED_PROBLEMS:]):
        yield Line(f"  and {more:,} more")


def _place_lines(result: VaultStatus) -> Iterator[Line]:
    yield _fact("vault", result.folder)
    if result.settings_problem:
        yield Line(f"{'settings':<12}", "red", result.settings_problem)
    git = result.git
    if not git:
        yield _fact("git", "none; `vaultmem init` makes a repository")
    elif git.problem:
        yield _fact("git", git.problem)
    else:
        branch = git.head.branch or "(detached)"
        yield _fact("branch", f"{branch} at {git.head.commit[:7] or 'no commit yet'}")
        if git.obstacle:
            yield _fact("commits", f"none now: {git.obstacle}")
        if git.person_problem:
            yield _fact("your name", git.person_problem)
        if git.sync is not None:
            yield _fact("sync", _describe_sync(git.sync))
    author = result.author
    agent_name = f"{author.agent} ({author.session})" if author.session else author.agent
    person = f"you, {git.person}" if git is not None and git.person else "you"
    yield _fact("author", f"agent {agent_name}" if author.agent else person)
    if result.ref:
        yield _fact("ref", result.ref)
    watcher = result.watcher
    if not watcher:
        yield _fact("watcher", "none; `vaultmem watch` starts one")
    else:
        start_time = time.strftime("%Y-%m-%d %H:%M", time.localtime(watcher.since))
        yield _fact(
            "watcher", f"process {watcher.pid} since {start_time}, version {watcher.version}"
        )


def _describe_sync(sync: SyncState) -> str:
    if sync.problem:
        return sync.problem
    if not sync.at:
        return f"never with {sync.remote}; `vaultmem sync` does"
    timestamp = time.strftime("%Y-%m-%d %H:%M", time.localtime(sync.at))
    waits = f"; commits waiting: {sync.waiting:,}" if sync.waiting else ""
    outcome = f" {sync.outcome}" + f": {one_line(sync.message)}" * bool(sync.message)
    return f"with {sync.remote}, {timestamp}{outcome if sync.outcome != 'synced' else ''}{waits}"


def _note_lines(result: VaultStatus) -> Iterator[Line]:
    yield _fact("notes", f"{result.notes:,}, in all {result.tokens:,} tokens")
    for name, counts in (("kinds", result.kinds), ("states", result.states)):
        if counts:
            yield _fact(f"  {name}", ", ".join(f"{n:,} {value}" for value, n in counts.items()))
    if result.proposed:
        wishes = f"{result.proposed:,} standing {'wish' if result.proposed == 1 else 'wishes'}"
        yield _fact("  proposed", f"{wishes}; `vaultmem list --kind preference --state candidate`")
    if result.to_decide:
        kinds = ", ".join(f"{n:,} {kind}" for kind, n in result.to_decide.items())
        yield _fact("to decide", f"{sum(result.to_decide.values()):,}: {kinds}; `vaultmem review`")
    if result.settings_problem:
        yield _fact("index", "as it was; nothing is looked at before the settings are correct")
        return
    if result.sync_problem:
        yield _fact("index", f"as it was; {result.sync_problem}")
        return
    sync = result.sync
    changes = [(sync.added, "new"), (sync.changed, "changed"), (sync.removed, "gone")]
    summary = ", ".join(f"{count:,} {name}" for count, name in changes if count)
    state = "in sync" if result.is_in_sync else "out of date; run `vaultmem index`"
    yield _fact("index", f"{state}{f' ({summary} since the last look)' if summary else ''}")


def _uncommitted_lines(git: GitStatus, is_person: bool) -> Iterator[Line]:
    from vaultmem.services.changes import ownership
    from vaultmem.services.memory.rename import HOW_TO_REPAIR

    parts = [_describe_uncommitted(each, is_person) for each in git.uncommitted]
    yield _fact("uncommitted", ", ".join(parts) or "nothing")
    large = ownership.find_too_large(git.skipped)
    others = {path: reason for path, reason in git.skipped.items() if path not in large}
    for line in (*ownership.describe_skipped(others), *ownership.describe_too_large(large)):
        yield _fact("left out", line)
    if git.kept_out:
        reason = "lines look like credentials; `vaultmem init --allow-secrets` lets git have them"
        yield _fact("kept out", f"{format_names(git.kept_out)}: {reason}")
    if git.moved_links:
        links = pluralize(git.moved_links, "link")
        yield _fact("moved", f"{links} to files that were moved; {HOW_TO_REPAIR}")
    if git.credentials:
        for place in git.credentials[:_PATHS]:
            yield Line(f"{'credential':<12}", "red", f"{one_line(place)}; commits wait for it")
        yield _fact("", ownership.HOW_TO_ALLOW)


def _describe_uncommitted(each: Uncommitted, is_person: bool) -> str:
    author = f"{each.agent} ({each.session})" if each.session else each.agent
    counts = ((len(each.notes), "note"), (len(each.files), "other file"))
    files = " and ".join(pluralize(n, name) for n, name in counts if n)
    return f"{author if each.agent else 'you' if is_person else 'people'}: {files}"


def next_lines(result: VaultStatus) -> Iterator[Line]:
    """Yield the most useful next command, with its reason."""
    git = result.git
    steps = (
        (not git, "`vaultmem init` makes a repository, so that there is a history"),
        (result.settings_problem, "correct vaultmem.yaml; `vaultmem help settings` helps"),
        (
            result.invalid_notes or (git and git.problem),
            "`vaultmem doctor` shows how to repair this",
        ),
        (git and git.credentials, "decide on the lines above, so that commits can be made"),
        (result.to_decide, "`vaultmem review` shows what waits for your decision"),
        (git and git.uncommitted, '`vaultmem checkpoint "what I did"` commits what is not'),
        (git and git.sync and git.sync.waiting, "`vaultmem sync` brings commits to the remote"),
        (result.notes <= _TEMPLATES, '`vaultmem remember "..."` writes the first memory'),
    )
    step = next(
        (step for is_needed, step in steps if is_needed), '`vaultmem recall "..."` asks the vault'
    )
    yield Line("")
    yield _fact("next", step)


def doctor(
    vault: Vault,
    fix: Annotated[
        bool, Arg("Repair what can be repaired without loss.", excused={FrontEnd.HTTP: _OWNER})
    ] = False,
    *,
    progress: Progress | None = None,
    settings_problem: str = "",
) -> list[Check]:
    """Check the vault, its repository and this machine.

    The exit code is 1 if there is a problem.

    Examples:
      vaultmem doctor
    """
    from vaultmem.services.health.doctor import examine_vault

    return examine_vault(vault, fix, progress, settings_problem=settings_problem)


def is_healthy(checks: Iterable[Check]) -> bool:
    """Return whether no check found a problem."""
    return all(each.verdict is not Verdict.PROBLEM for each in checks)


def _doctor_data(checks: Sequence[Check]) -> dict[str, Any]:
    check_rows = [pick(each, "name verdict message paths remedy fixed") for each in checks]
    return {"ok": is_healthy(checks), "checks": check_rows}


def _doctor_lines(checks: Sequence[Check], _: Any) -> Iterator[Line]:
    for check in checks:
        rest = f" {check.name:<20}{check.message}".rstrip()
        yield Line(f"{check.verdict:<8}", _COLOURS[check.verdict], rest)
        for path in check.paths[:_PATHS]:
            yield Line(f"         {one_line(path)}")
        if len(check.paths) > _PATHS:
            yield Line(f"         and {len(check.paths) - _PATHS:,} more")
        for each in check.fixed:
            yield Line("         fixed: ", "green", each)
        if check.remedy:
            yield Line("         remedy: ", "dim", check.remedy)


def check(
    vault: Vault,
    since: Annotated[
        str, Arg("Branch, tag or commit that the change starts from.", "", 1, 200, metavar="BASE")
    ],
    github: Annotated[bool, Arg("Print annotations for GitHub Actions.")] = False,
) -> ChangeReport:
    """Report what a change introduces or breaks in notes.

    The exit code is 0 if nothing is found, 1 if something is, 125 if it cannot decide. In a code
    repository with a vault elsewhere, only anchors to this code are checked.

    Examples:
      vaultmem check --since origin/main
      vaultmem check --since HEAD --json
    """
    from vaultmem.services.health.check_changes import check_changes

    return check_changes(vault, since)


def _check_data(report: ChangeReport) -> dict[str, Any]:
    return {
        "ok": report.is_ok,
        **pick(report, "base files"),
        "findings": [
            {
                "kind": each.kind.value,
                "problem": each.is_problem,
                **pick(each, "path line message"),
            }
            for each in report.findings
        ],
    }


def _check_lines(report: ChangeReport, request: Any) -> Iterator[Line]:
    if request.github:
        yield from (Line(annotate(each)) for each in report.findings)
        return
    for each in report.findings:
        colour = "red" if each.is_problem else "dim"
        yield Line(f"{each.kind:<13}", colour, f" {each.path}:{each.line}: {each.message}")
    problems = sum(each.is_problem for each in report.findings)
    yield Line(f"{pluralize(problems, 'finding')} since {report.base[:7]}")


def annotate(each: ChangeFinding) -> str:
    """Return a finding as a GitHub workflow command."""
    level = "error" if each.is_problem else "notice"
    places = {"file": each.path, "line": str(each.line), "title": f"vaultmem: {each.kind}"}
    properties = ",".join(f"{name}={_escape(value, ':,')}" for name, value in places.items())
    return f"::{level} {properties}::{_escape(each.message)}"


def _escape(text: str, marks: str = "") -> str:
    """Return a text with "%", line ends and `marks` escaped for GitHub."""
    for mark in f"%\r\n{marks}":
        text = text.replace(mark, f"%{ord(mark):02X}")
    return text


STATUS = declare(
    status,
    "status",
    "GET /status",
    _status_data,
    lines=_status_lines,
    output_schema=record(vault="string", notes="integer", tokens="integer", index="object"),
    versions=VersionScope.BRANCH,
    excused={FrontEnd.MCP: "each answer of a tool names what its caller must know"},
)

DOCTOR = declare(
    doctor,
    "doctor",
    "GET /doctor",
    _doctor_data,
    lines=_doctor_lines,
    output_schema=record(
        ok="boolean", checks=rows(name="string", verdict="string", message="string")
    ),
    long=True,
    excused={FrontEnd.MCP: _OWNER},
)

CHECK = declare(
    check,
    "check_change",
    "",
    _check_data,
    lines=_check_lines,
    output_schema=record(
        ok="boolean",
        base="string",
        files="integer",
        findings=rows(
            kind="string", problem="boolean", path="string", line="integer", message="string"
        ),
    ),
    excused={
        FrontEnd.HTTP: "a pull request is checked where its work tree is",
        FrontEnd.MCP: "a pull request is checked by a workflow or a hook",
    },
)
