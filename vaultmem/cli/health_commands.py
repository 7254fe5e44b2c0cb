"""Commands on a vault's health and use: context, status, doctor, check, queries, stats."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from vaultmem.cli.assert_commands import CANNOT_JUDGE
from vaultmem.cli.opening import open_here
from vaultmem.cli.options import FleetOption
from vaultmem.cli.output import (
    emit_json,
    following,
    print_line,
    print_stale_reason,
    print_styled,
    warn,
)
from vaultmem.cli.shared import CommandContext, make_command, offers, print_answer, takes
from vaultmem.core.text.display import format_names, one_line, pluralize
from vaultmem.errors import NoVaultError, VaultError
from vaultmem.operations.checks import CHECK, CheckRequest
from vaultmem.operations.history_views import format_commit_line
from vaultmem.operations.usage_stats import RECENT, STATS, StatsRequest
from vaultmem.operations.vault_data import checks_json, contexts_json, status_json

if TYPE_CHECKING:
    from vaultmem.core.text.timestamps import Check
    from vaultmem.services.health.status import GitStatus, Uncommitted, VaultStatus
    from vaultmem.services.syncing.sync_place import SyncState
    from vaultmem.vault import Vault


_SHOWN = 3
_PATHS = 10

#: Notes that a new vault has: MEMORY.md and USER.md.
_TEMPLATES = 2

_COLOURS = {"ok": "green", "warning": "yellow", "problem": "red"}


@takes("vault", "as_json")
def context(here: CommandContext) -> None:
    """Update CONTEXT.md and other generated files.

    vaultmem.yaml lists these files. `vaultmem watch` does this after each change.

    Examples:
      vaultmem context
    """
    from vaultmem.services.watching.generated_context import render_contexts

    rendered = render_contexts(here.open_synced())
    if here.as_json:
        emit_json(contexts_json(rendered))
    else:
        for each in rendered:
            if each.problem:
                warn(f"error: {each.path} was not written: {each.problem}")
            else:
                print_line(f"{'wrote    ' if each.changed else 'same     '}{one_line(each.path)}")
    if any(each.problem for each in rendered):
        raise typer.Exit(1)


@takes("vault", "ref", "agent", "session", "as_json")
def status(
    here: CommandContext, next_: Annotated[bool, typer.Option("--next", hidden=True)] = False
) -> None:
    """Show what the vault holds, and what is not committed.

    It also shows who watches the vault, and ends with the last events of its history.

    Examples:
      vaultmem status
    """
    from vaultmem.services.health.status import read_status

    opened, problem = _open_anyway(here.vault, here.agent, here.session, here.ref)
    with following(opened) as progress:
        found = read_status(opened, progress, problem)
    print_stale_reason(opened.notices.stale)
    if here.as_json:
        emit_json(status_json(opened, found))
        return
    _print_doubtful(found)
    _print_location(opened, found)
    _print_notes(found)
    if found.git is not None and not (found.git.problem or found.settings_problem):
        _print_uncommitted(found.git, opened.is_person)
    if found.trust_problem:
        _print_fact("trust", found.trust_problem)
    for subject in found.waiting:
        _print_fact("waits", f"{subject}  (committed with the next checkpoint or promote)")
    _print_problems(found)
    if found.git is not None and found.git.events:
        print_line()
        for commit in found.git.events:
            print_styled(commit.commit[:7], "yellow", f"  {format_commit_line(commit)}")
    if next_:
        print_line()
        _print_fact("next", _find_next_step(found))


@takes("vault", "as_json")
def doctor(
    here: CommandContext,
    fix: Annotated[
        bool, typer.Option("--fix", help="Repair what can be repaired without loss.")
    ] = False,
    store_data: Annotated[
        str,
        typer.Option(
            "--keep-data",
            metavar="here|there",
            help="Of a copied vault: which folder keeps counts and receipts.",
        ),
    ] = "",
) -> None:
    """Check the vault, its repository and this machine.

    The exit code is 1 if there is a problem.

    Examples:
      vaultmem doctor
    """
    from vaultmem.services.health.doctor import examine_vault

    opened, problem = _open_anyway(here.vault, reads=not (fix or store_data))
    if store_data:
        _store_data(opened, store_data)
    with following(opened) as progress:
        checks = examine_vault(opened, fix, progress, settings_problem=problem)
    print_stale_reason(opened.notices.stale)
    show_checks(checks, here.as_json)


def _store_data(vault: Vault, choice: str) -> None:
    """Let one of two copies of a vault keep the counts and receipts."""
    from vaultmem.errors import RefusedError
    from vaultmem.services.usage import store_data

    if choice not in {"here", "there"}:
        raise RefusedError(f'doctor: --keep-data is here or there, not "{choice}"')
    warn(f"{store_data(vault, choice == 'here')} keeps the counts and receipts")


def _open_anyway(
    vault: str, agent: str = "", session: str = "", ref: str = "", reads: bool = True
) -> tuple[Vault, str]:
    """Open the vault; where only vaultmem.yaml is in the way, also return what is wrong with it."""
    try:
        return open_here(vault, agent, session, ref, reads), ""
    except NoVaultError:
        raise
    except VaultError as error:
        from vaultmem.config import Config

        return open_here(vault, agent, session, ref, reads, Config()), str(error)


def show_checks(checks: Sequence[Check], as_json: bool) -> None:
    """Print what was checked; the exit code is 1 if there is a problem."""
    from vaultmem.core.text.timestamps import Verdict

    has_problems = any(check.verdict is Verdict.PROBLEM for check in checks)
    if as_json:
        emit_json(checks_json(checks, is_ok=not has_problems))
    else:
        for check in checks:
            _print_check(check)
    if has_problems:
        raise typer.Exit(1)


def _print_check(check: Check) -> None:
    """Print what one check found, and what helps."""
    rest = f" {check.name:<20}{check.told}".rstrip()
    print_styled(f"{check.verdict:<8}", _COLOURS[check.verdict], rest)
    for path in check.paths[:_PATHS]:
        print_line(f"         {one_line(path)}")
    if len(check.paths) > _PATHS:
        print_line(f"         and {len(check.paths) - _PATHS:,} more")
    for each in check.fixed:
        print_styled("         fixed: ", "green", each)
    if check.remedy:
        print_styled("         remedy: ", "dim", check.remedy)


def _print_fact(name: str, text: str) -> None:
    print_styled(f"{name:<12}", "dim", text)


def _print_doubtful(found: VaultStatus) -> None:
    """Print what has to be mended before all else."""
    if not found.in_doubt:
        return
    count = len(found.in_doubt)
    told = f"{pluralize(count, 'note')}; `vaultmem doctor` names them, and what repairs them"
    print_styled(f"{'in doubt':<12}", "red", told)
    _print_groups(found.in_doubt, "red")


def _print_groups(problems: Sequence[tuple[str, str]], colour: str) -> None:
    """Print the most frequent problems, a line for each."""
    from vaultmem.core.notes.problems import describe_group, group_problems

    for group in group_problems(problems)[:_SHOWN]:
        print_styled("  ", colour, describe_group(group, _SHOWN))


def _print_location(vault: Vault, found: VaultStatus) -> None:
    _print_fact("vault", str(vault.root))
    if found.settings_problem:
        print_styled(f"{'settings':<12}", "red", found.settings_problem)
    git = found.git
    if git is None:
        _print_fact("git", "none; `vaultmem init` makes a repository")
    elif git.problem:
        _print_fact("git", git.problem)
    else:
        branch = git.head.branch or "(detached)"
        _print_fact("branch", f"{branch} at {git.head.commit[:7] or 'no commit yet'}")
        if git.obstacle:
            _print_fact("commits", f"none now: {git.obstacle}")
        if git.person_problem:
            _print_fact("your name", git.person_problem)
        if git.sync is not None:
            _print_fact("sync", _describe_sync(git.sync))
    author = found.author
    named = f"{author.agent} ({author.session})" if author.session else author.agent
    person = f"you, {git.person}" if git is not None and git.person else "you"
    _print_fact("author", f"agent {named}" if author.agent else person)
    if found.ref:
        _print_fact("ref", found.ref)
    watcher = found.watcher
    if watcher is None:
        _print_fact("watcher", "none; `vaultmem watch` starts one")
    else:
        since = time.strftime("%Y-%m-%d %H:%M", time.localtime(watcher.since))
        _print_fact("watcher", f"process {watcher.pid} since {since}, version {watcher.version}")


def _describe_sync(sync: SyncState) -> str:
    if sync.problem:
        return sync.problem
    if not sync.at:
        return f"never with {sync.remote}; `vaultmem sync` does"
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(sync.at))
    waits = f"; commits waiting: {sync.waiting:,}" if sync.waiting else ""
    how = f" {sync.outcome}" + f": {one_line(sync.told)}" * bool(sync.told)
    return f"with {sync.remote}, {when}{how if sync.outcome != 'synced' else ''}{waits}"


def _print_notes(found: VaultStatus) -> None:
    _print_fact("notes", f"{found.notes:,}, in all {found.tokens:,} tokens")
    for name, counts in (("kinds", found.kinds), ("states", found.states)):
        if counts:
            _print_fact(f"  {name}", ", ".join(f"{n:,} {value}" for value, n in counts.items()))
    if found.proposed:
        told = f"{found.proposed:,} standing {'wish' if found.proposed == 1 else 'wishes'}"
        _print_fact("  proposed", f"{told}; `vaultmem list --kind preference --state candidate`")
    if found.to_decide:
        kinds = ", ".join(f"{n:,} {kind}" for kind, n in found.to_decide.items())
        _print_fact("to decide", f"{sum(found.to_decide.values()):,}: {kinds}; `vaultmem review`")
    if found.settings_problem:
        _print_fact("index", "as it was; nothing is looked at before the settings are correct")
        return
    if found.sync_problem:
        _print_fact("index", f"as it was; {found.sync_problem}")
        return
    sync = found.sync
    taken = [(sync.added, "new"), (sync.changed, "changed"), (sync.removed, "gone")]
    since = ", ".join(f"{count:,} {name}" for count, name in taken if count)
    state = "in sync" if found.is_in_sync else "out of date; run `vaultmem index`"
    _print_fact("index", f"{state}{f' ({since} since the last look)' if since else ''}")


def _print_uncommitted(git: GitStatus, is_person: bool) -> None:
    from vaultmem.services.changes.ownership import (
        describe_skipped,
        describe_too_large,
        find_too_large,
    )
    from vaultmem.services.memory.rename import HOW_TO_REPAIR

    parts = [f"{_describe_author(each, is_person)}: {_count(each)}" for each in git.uncommitted]
    _print_fact("uncommitted", ", ".join(parts) or "nothing")
    large = find_too_large(git.left_out)
    others = {path: why for path, why in git.left_out.items() if path not in large}
    for line in (*describe_skipped(others), *describe_too_large(large)):
        _print_fact("left out", line)
    if git.kept_out:
        told = "; `vaultmem init --allow-secrets` lets git have them"
        _print_fact("kept out", f"{format_names(git.kept_out)}: lines look like credentials{told}")
    if git.moved_links:
        told = pluralize(git.moved_links, "link")
        _print_fact("moved", f"{told} to files that were moved; {HOW_TO_REPAIR}")
    if git.credentials:
        from vaultmem.services.changes.ownership import HOW_TO_ALLOW

        for place in git.credentials[:_PATHS]:
            print_styled(f"{'credential':<12}", "red", f"{one_line(place)}; commits wait for it")
        _print_fact("", HOW_TO_ALLOW)


def _find_next_step(found: VaultStatus) -> str:
    """Return the command that helps most now, and why."""
    git = found.git
    steps = (
        (git is None, "`vaultmem init` makes a repository, so that there is a history"),
        (found.settings_problem, "correct vaultmem.yaml; `vaultmem help settings` helps"),
        (found.in_doubt or (git and git.problem), "`vaultmem doctor` shows how to repair this"),
        (git and git.credentials, "decide on the lines above, so that commits can be made"),
        (found.to_decide, "`vaultmem review` shows what waits for your decision"),
        (git and git.uncommitted, '`vaultmem checkpoint "what I did"` commits what is not'),
        (git and git.sync and git.sync.waiting, "`vaultmem sync` brings commits to the remote"),
        (found.notes <= _TEMPLATES, '`vaultmem remember "..."` writes the first memory'),
    )
    return next((told for holds, told in steps if holds), '`vaultmem recall "..."` asks the vault')


def _describe_author(each: Uncommitted, is_person: bool) -> str:
    if not each.agent:
        return "you" if is_person else "people"
    return f"{each.agent} ({each.session})" if each.session else each.agent


def _count(each: Uncommitted) -> str:
    counted = ((len(each.notes), "note"), (len(each.files), "other file"))
    return " and ".join(pluralize(n, name) for n, name in counted if n)


def _print_problems(found: VaultStatus) -> None:
    if found.passed_over:
        told = ", ".join(f"{reason}: {n:,}" for reason, n in found.passed_over.items())
        _print_fact("not notes", told)
    if not found.problems:
        return
    _print_fact("problems", f"{len(found.problems):,}; run `vaultmem doctor` to see what to do")
    _print_groups(found.problems, "yellow")


@offers(CHECK)
@takes("vault", "as_json")
def check(here: CommandContext, asked: CheckRequest) -> None:
    """Report what a change introduces or breaks in notes."""
    try:
        found = CHECK.run(here.open_view(reads=True), asked)
    except VaultError as error:
        warn(f"cannot be checked: {error}")
        raise typer.Exit(CANNOT_JUDGE) from None
    print_answer(CHECK, here, asked, found)
    raise typer.Exit(0 if found.is_ok else 1)


# Commands about what memory shows and costs: queries, stats.

queries = make_command(RECENT, "queries")


@offers(STATS)
@takes("vault", "as_json")
def stats(
    here: CommandContext,
    asked: StatsRequest,
    plot: Annotated[
        bool, typer.Option("--plot", help="Plot the size of packs against that of the vault.")
    ] = False,
    fleet: FleetOption = "",
) -> None:
    """Print what a vault's recalls and packs cost, or what a fleet's vaults hold."""
    if fleet:
        from vaultmem.cli.fleet_work import reject_with_fleet, stats_fleet

        reject_with_fleet(session=asked.session, plot=plot)
        stats_fleet(fleet, here.vault, here.as_json)
        return
    opened = here.open_synced(reads=True)
    print_answer(STATS, here, asked, STATS.run(opened, asked))
    if plot and not here.as_json:
        from vaultmem.core.text.display import plot_lines
        from vaultmem.services.health.economics import read_pack_sizes

        packs, flat = read_pack_sizes(opened, asked.session)
        print_line()
        shape = plot_lines(
            [(".", flat), ("o", packs)],
            "tokens in the vault",
            "tokens sent: o a pack, . flat memory",
        )
        print_line(shape or "No pack was counted yet.")
