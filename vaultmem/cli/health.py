"""Commands that look after a vault: context, status, doctor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from vaultmem.cli.changes import commit_json, short_time
from vaultmem.cli.options import (
    AgentOption,
    JsonOption,
    RefOption,
    SessionOption,
    VaultOption,
    open_here,
    open_synced,
)
from vaultmem.cli.output import ProgressLine, emit_json, say, say_painted
from vaultmem.cli.plain import PlainCommand
from vaultmem.core.plain_text import one_line

if TYPE_CHECKING:
    from vaultmem.core.check import Check
    from vaultmem.services.health.status import GitStatus, Uncommitted, VaultStatus
    from vaultmem.vault import Vault

_SHOWN = 3
_PATHS = 10

_COLOURS = {"ok": "green", "warning": "yellow", "problem": "red"}


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.command("context", cls=PlainCommand)(context)
    app.command("status", cls=PlainCommand)(status)
    app.command("doctor", cls=PlainCommand)(doctor)


def context(vault: VaultOption = "", as_json: JsonOption = False) -> None:
    """Bring CONTEXT.md, and what else vaultmem.yaml has generated, up to date.

    `vaultmem watch` does this after each change.
    """
    from vaultmem.services.watching.context import render_contexts

    rendered = render_contexts(open_synced(vault))
    if as_json:
        emit_json({"contexts": rendered})
    else:
        for each in rendered:
            if each.problem:
                say_painted("problem  ", "red", f"{each.path}: {each.problem}")
            else:
                say(f"{'wrote    ' if each.changed else 'same     '}{one_line(each.path)}")
    if any(each.problem for each in rendered):
        raise typer.Exit(1)


def status(
    vault: VaultOption = "",
    ref: RefOption = "",
    agent: AgentOption = "",
    session: SessionOption = "",
    as_json: JsonOption = False,
) -> None:
    """Show what the vault holds, what is not committed and by whom, and what waits."""
    from vaultmem.services.health.status import read_status

    opened = open_here(vault, agent, session, ref)
    found = read_status(opened, ProgressLine("reading notes"))
    if as_json:
        emit_json(_status_json(opened, found))
        return
    _say_where(opened, found)
    _say_notes(found)
    if found.git is not None and not found.git.problem:
        _say_uncommitted(found.git, opened.is_person)
    for subject in found.waiting:
        _say_fact("waits", f"{subject}  (committed with the next checkpoint or promote)")
    _say_problems(found)
    if found.git is not None and found.git.events:
        say()
        for commit in found.git.events:
            rest = f"  {short_time(commit)}  {commit.author[:16]:<16}  {commit.subject}"
            say_painted(commit.commit[:7], "yellow", rest)


def doctor(
    fix: Annotated[
        bool, typer.Option("--fix", help="Mend what can be mended without losing anything.")
    ] = False,
    vault: VaultOption = "",
    as_json: JsonOption = False,
) -> None:
    """Check the vault, its repository and this machine; exit code 1 if there is a problem."""
    from vaultmem.core.check import Verdict
    from vaultmem.services.health.doctor import examine_vault

    checks = examine_vault(open_here(vault), fix, ProgressLine("reading notes"))
    has_problems = any(check.verdict is Verdict.PROBLEM for check in checks)
    if as_json:
        emit_json({"ok": not has_problems, "checks": checks})
    else:
        for check in checks:
            _say_check(check)
    if has_problems:
        raise typer.Exit(1)


def _say_check(check: Check) -> None:
    rest = f" {check.name:<20}{check.told}".rstrip()
    say_painted(f"{check.verdict:<8}", _COLOURS[check.verdict], rest)
    for path in check.paths[:_PATHS]:
        say(f"         {one_line(path)}")
    if len(check.paths) > _PATHS:
        say(f"         and {len(check.paths) - _PATHS:,} more")
    for each in check.fixed:
        say_painted("         fixed: ", "green", each)
    if check.remedy:
        say(f"         {one_line(check.remedy)}")


def _say_fact(name: str, text: str) -> None:
    say_painted(f"{name:<12}", "dim", text)


def _say_where(vault: Vault, found: VaultStatus) -> None:
    _say_fact("vault", str(vault.root))
    git = found.git
    if git is None:
        _say_fact("git", "none; `vaultmem init` makes a repository")
    elif git.problem:
        _say_fact("git", git.problem)
    else:
        branch = git.head.branch or "(detached)"
        _say_fact("branch", f"{branch} at {git.head.commit[:7] or 'no commit yet'}")
        if git.obstacle:
            _say_fact("commits", f"none now: {git.obstacle}")
    author = found.author
    named = f"{author.agent} ({author.session})" if author.session else author.agent
    _say_fact("author", f"agent {named}" if author.agent else "you")
    if found.ref:
        _say_fact("ref", found.ref)
    if found.watcher is None:
        _say_fact("watcher", "none; `vaultmem watch` starts one")
    else:
        _say_fact("watcher", f"process {found.watcher.pid}")


def _say_notes(found: VaultStatus) -> None:
    _say_fact("notes", f"{found.notes:,} of {found.tokens:,} tokens")
    for name, counts in (("kinds", found.kinds), ("states", found.states)):
        if counts:
            _say_fact(f"  {name}", ", ".join(f"{n:,} {value}" for value, n in counts.items()))
    sync = found.sync
    taken = [(sync.added, "new"), (sync.changed, "changed"), (sync.removed, "gone")]
    since = ", ".join(f"{count:,} {name}" for count, name in taken if count)
    state = "in sync" if found.is_in_sync else "behind; run `vaultmem sync`"
    _say_fact("index", f"{state}{f' ({since} since the last look)' if since else ''}")


def _say_uncommitted(git: GitStatus, is_person: bool) -> None:
    parts = [f"{_describe_author(each, is_person)}: {_count(each)}" for each in git.uncommitted]
    _say_fact("uncommitted", ", ".join(parts) or "nothing")
    for path, reason in git.left_out.items():
        _say_fact("left out", f"{path}: {reason}")


def _describe_author(each: Uncommitted, is_person: bool) -> str:
    if not each.agent:
        return "you" if is_person else "people"
    return f"{each.agent} ({each.session})" if each.session else each.agent


def _count(each: Uncommitted) -> str:
    counted = ((len(each.notes), "note"), (len(each.files), "other file"))
    return " and ".join(f"{n:,} {name}{'s' * (n != 1)}" for n, name in counted if n)


def _say_problems(found: VaultStatus) -> None:
    if found.passed_over:
        told = ", ".join(f"{reason}: {n:,}" for reason, n in found.passed_over.items())
        _say_fact("not notes", told)
    if not found.problems:
        return
    _say_fact("problems", f"{len(found.problems):,}; `vaultmem sync` lists all")
    for path, problem in found.problems[:_SHOWN]:
        say_painted(f"  {path}", "yellow", f": {problem}")


def _status_json(vault: Vault, found: VaultStatus) -> dict[str, Any]:
    git = found.git
    return {
        "vault": str(vault.root),
        "git": None if git is None else _git_json(git),
        "agent": found.author.agent or None,
        "session": found.author.session or None,
        "ref": found.ref or None,
        "watcher": found.watcher,
        "notes": found.notes,
        "tokens": found.tokens,
        "kinds": found.kinds,
        "states": found.states,
        "index": {
            "in_sync": found.is_in_sync,
            "added": found.sync.added,
            "changed": found.sync.changed,
            "removed": found.sync.removed,
        },
        "waiting": found.waiting,
        "problems": [{"path": path, "problem": problem} for path, problem in found.problems],
        "passed_over": found.passed_over,
    }


def _git_json(git: GitStatus) -> dict[str, Any]:
    return {
        "problem": git.problem or None,
        "branch": git.head.branch or None,
        "commit": git.head.commit or None,
        "obstacle": git.obstacle or None,
        "uncommitted": git.uncommitted,
        "skipped": git.left_out,
        "events": list(map(commit_json, git.events)),
    }
