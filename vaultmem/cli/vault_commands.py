"""Commands on a whole vault: init, index, trust, demo."""

from __future__ import annotations

import shlex
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vaultmem.cli.opening import CommandContext
from vaultmem.cli.output import emit_json, following, print_line, print_styled, warn
from vaultmem.cli.shared import takes
from vaultmem.cli.vault_list import register_here
from vaultmem.config import CONFIG_NAME
from vaultmem.core.text.display import clean_text, format_names, pluralize
from vaultmem.errors import RefusedError
from vaultmem.operations.vault_data import indexed_json, init_json, trusted_json

if TYPE_CHECKING:
    from vaultmem.services.memory.create_vault import CreateResult, InitPlan
    from vaultmem.vault import Vault


#: Maximum number of lines with credentials that `init` prints before it asks.
_MAX_LISTED_CREDENTIALS = 20


@takes("agent", "as_json")
def init(
    context: CommandContext,
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="[DIR]", help="The folder, the current one if none is given."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would change.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    allow_secrets: Annotated[
        bool,
        typer.Option(
            "--allow-secrets",
            help="Commit notes with lines that look like credentials, too. Otherwise git does not "
            "get them; they are indexed all the same.",
        ),
    ] = False,
    commit_edits: Annotated[
        bool | None,
        typer.Option(
            "--commit-edits/--no-commit-edits",
            help="Whether `vaultmem watch` commits your edits after ten minutes without a save.",
        ),
    ] = None,
) -> None:
    """Make a folder a vault; existing files are not changed.

    It first lists what it will add, commit and leave out. A folder outside git becomes a repository
    with a first commit; where files are there, you are asked. In an existing repository nothing is
    committed. The vault is put on your list of vaults.

    Examples:
      vaultmem init
      vaultmem init ~/notes
    """
    from vaultmem.environment import read_settings
    from vaultmem.services.memory.create_vault import (
        CreateOptions,
        allow_leaks,
        create_vault,
        plan_vault,
    )
    from vaultmem.services.views.update_index import sync_vault

    plan = plan_vault(_choose_folder(folder))
    is_asked = sys.stdin.isatty() and not (yes or dry_run)
    if allow_secrets:
        plan = allow_leaks(plan)
    if not context.as_json:
        _print_plan(plan)
    elif dry_run:
        emit_json(init_json(plan))
    if dry_run:
        return
    if is_asked and plan.kept_out and plan.repository is None and _ask_to_allow(plan):
        plan, allow_secrets = allow_leaks(plan), True
    _ask_to_commit(plan, yes, is_asked)
    if is_asked and commit_edits is None:
        commit_edits = _ask_about_edits(plan)
    options = CreateOptions(allow_secrets, commit_edits)
    created = create_vault(plan.root, options, **read_settings(context.agent))
    with following(created.vault) as progress:
        sync_vault(created.vault, progress)
    name = register_here(created.vault)
    if context.as_json:
        emit_json(init_json(plan, created, name))
        return
    _print_created(created, name)
    if commit_edits:
        print_line("`vaultmem watch` commits your edits after ten minutes without a save.")
    elif plan.suggests_edits and commit_edits is None:
        _suggest_edits(created.vault)
    _print_problems(created.vault.manifest.problems())


def _suggest_edits(vault: Vault) -> None:
    if not vault.config.commit_edits_after_seconds:
        print_line(
            "hint: `vaultmem init --commit-edits` has `vaultmem watch` commit what you write"
        )


def _print_created(created: CreateResult, name: str) -> None:
    """Print the result of `init`, and hints for the owner."""
    settings = [pluralize(len(created.excluded), "line")] if created.excluded else []
    settings = [f"{each} of its exclude file" for each in settings]
    settings += ["a merge driver for notes"] if created.configured else []
    if settings:
        print_line(f"Set in the repository's own settings: {', '.join(settings)}.")
    if created.report.commit:
        action = "Made a repository, committed" if created.new_repository else "Committed"
        print_line(f"{action} as {created.report.commit[:7]}.")
    notes, _ = created.vault.view.totals()
    list_name = f", listed as {name}" if name else ""
    print_line(f"{pluralize(notes, 'note')} in {created.vault.root}{list_name}.")
    if created.kept_out:
        print_line(f"Kept out of git, and indexed: {format_names(created.kept_out)}.")
        print_line("hint: `vaultmem init --allow-secrets` there lets git have them")
    if created.released:
        print_line(f"No longer kept out of git: {format_names(created.released)}.")
        print_line("hint: the next `vaultmem checkpoint` commits them")
    if created.person_problem:
        print_line(f"Note: {created.person_problem}.")


def _choose_folder(folder: Path | None) -> Path:
    """Return the folder for a new vault.

    Raises:
        RefusedError: it is the home folder; or no folder is named, and the current one is a code
            project without a vault.
    """
    from vaultmem.environment import current_environment, current_folder
    from vaultmem.services.memory.create_vault import find_project_file

    cwd = Path(current_folder())
    name = "" if folder or (cwd / CONFIG_NAME).is_file() else find_project_file(cwd)
    if name:
        raise RefusedError(
            f"this is a project of code ({name}); give its memory a folder of its own with "
            "`vaultmem init memory`, or make the project itself the vault with `vaultmem init .`"
        )
    place = cwd / (folder or Path()).expanduser()
    home = current_environment().get("HOME", "")
    if home and place.resolve() == Path(home).resolve():
        raise RefusedError(
            "this is your home folder, all of which would be memory; give memory a folder of its "
            "own with `vaultmem init ~/memory`"
        )
    return place


def _ask_to_allow(plan: InitPlan) -> bool:
    """Print the lines that look like credentials; return whether to commit them.

    Raises:
        typer.Abort: the user stopped.
    """
    from vaultmem.services.memory.create_vault import show_leaks

    notes = pluralize(len(plan.kept_out), "file")
    typer.echo(f"\nThese lines look like credentials, in {notes}:", err=True)
    for place, line in show_leaks(plan.root, plan.credentials[:_MAX_LISTED_CREDENTIALS]):
        typer.echo(clean_text(f"  {place}{f'  {line}' if line else ''}"), err=True)
    if len(plan.credentials) > _MAX_LISTED_CREDENTIALS:
        typer.echo(f"  and {len(plan.credentials) - _MAX_LISTED_CREDENTIALS:,} more", err=True)
    question = "[k]eep these files out of git, [c]ommit them anyway, or [s]top?"
    answers = {"k": False, "keep": False, "c": True, "commit": True}
    while (reply := typer.prompt(question, "k", err=True).strip().lower()) not in answers:
        if reply in {"s", "stop"}:
            raise typer.Abort
    return answers[reply]


def _ask_to_commit(plan: InitPlan, yes: bool, is_asked: bool) -> None:
    """Ask for confirmation of the first commit; without a terminal, continue.

    Raises:
        RefusedError: there is no terminal, and some names look private.
        typer.Abort: the user declined.
    """
    if not plan.files or yes:
        return
    if is_asked:
        files = pluralize(len(plan.files), "file")
        if plan.private and not sys.stdout.isatty():
            typer.echo(f"These look private: {clean_text(format_names(plan.private))}", err=True)
        typer.confirm(f"Commit {files} of {clean_text(str(plan.root))}?", abort=True, err=True)
    elif plan.private:
        raise RefusedError(
            f"these would be committed and look private: {format_names(plan.private)}; "
            "say --yes, or `git init` there and commit what you want"
        )


def _ask_about_edits(plan: InitPlan) -> bool | None:
    """Ask whether the watcher commits edits; None for an existing vault or an empty folder."""
    if CONFIG_NAME not in plan.added or not (plan.files or plan.suggests_edits):
        return None
    question = (
        "Commit what you edit, after ten minutes without a save, while `vaultmem watch` runs?"
    )
    return typer.confirm(question, plan.suggests_edits, err=True)


def _print_plan(plan: InitPlan) -> None:
    """Print the plan of `init`, one step a line."""
    if plan.is_vault and not plan.added:
        print_line(f"{plan.root} is a vault already; it lacks nothing.")
        return
    print_line(str(plan.root))
    if plan.repository is None:
        _print_step("makes", "a git repository")
    elif plan.repository == plan.root:
        _print_step("uses", "the git repository that is here; nothing is committed")
    else:
        _print_step("uses", f"the git repository at {plan.repository}; nothing is committed")
    if plan.added:
        _print_step("adds", _format_added(plan.added))
    if plan.files:
        count = "1 file that is" if len(plan.files) == 1 else f"{len(plan.files):,} files that are"
        size = f"{plan.size / 1e6:,.1f} MB" if plan.size >= 1e5 else f"{plan.size:,} bytes"
        _print_step("commits", f"{count} here, {size}: {format_names(plan.files)}")
    if plan.kept_out:
        count = pluralize(len(plan.kept_out), "file")
        text = (
            f"{count} from git, for lines look like credentials: {format_names(plan.credentials)}"
        )
        _print_step("excludes", text, "yellow")
    if plan.private:
        _print_step("private?", format_names(plan.private), "yellow")
    if plan.omitted_counts:
        _print_step(
            "leaves", ", ".join(f"{reason}: {n:,}" for reason, n in plan.omitted_counts.items())
        )


def _print_step(word: str, text: str, colour: str = "green") -> None:
    first, *others = textwrap.wrap(text, 69, break_long_words=False, break_on_hyphens=False)
    print_styled(f"  {word:<9}", colour, first)
    for line in others:
        print_line(f"{'':<11}{line}")


def _format_added(paths: Sequence[str]) -> str:
    """Return the added files as text; files in one folder are counted."""
    folders: dict[str, list[str]] = {}
    for path in paths:
        folders.setdefault(path.rpartition("/")[0], []).append(path)
    own = folders.pop("", [])
    inside = [f"{len(each)} templates in {folder}/" for folder, each in folders.items()]
    return ", ".join([*own, *inside])


@takes("vault", "as_json")
def index(context: CommandContext) -> None:
    """Update the index, and list notes with problems.

    Other commands update the index by themselves.

    Examples:
      vaultmem index
    """
    from vaultmem.services.views.update_index import sync_vault

    vault = context.open()
    with following(vault) as progress:
        report = sync_vault(vault, progress)
    if context.as_json:
        emit_json(indexed_json(vault, report))
        return
    notes, _ = vault.view.totals()
    print_line(
        f"{pluralize(notes, 'note')}, {report.added:,} new, {report.changed:,} changed, "
        f"{report.removed:,} gone  ({report.seconds:.1f} s)"
    )
    _print_problems(vault.manifest.problems())


@takes("vault", "as_json")
def trust(
    context: CommandContext,
    place: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="DIR",
            help="Trust only what you trusted there: the same repository, moved, or another "
            "worktree.",
        ),
    ] = "",
    sign: Annotated[
        bool,
        typer.Option(
            "--sign", help="Sign what is trusted here with your SSH key, for your other machines."
        ),
    ] = False,
    key: Annotated[
        str,
        typer.Option(
            "--key", metavar="FILE", help="SSH key.  [default: git's, or ~/.ssh/id_ed25519]"
        ),
    ] = "",
    signer: Annotated[
        str,
        typer.Option(
            "--allow-signer",
            metavar="FILE",
            help='Let what this key signs count on this machine: a .pub file, or "NAME KEY".',
        ),
    ] = "",
    drop: Annotated[
        list[str] | None,
        typer.Option(
            "--drop",
            metavar="NOTE",
            help="Withdraw the trust in a note; it stays active, as evidence. Can be repeated.",
        ),
    ] = None,
) -> None:
    """Trust this vault: its active policies may instruct.

    So do its active skills and preferences. A vault from another person is evidence only, until
    you trust it.

    Examples:
      vaultmem trust
      vaultmem trust --drop no-friday-deploys
    """
    from vaultmem.services.search.trusted import drop_trust, import_trust, sign_trusted, trust_vault
    from vaultmem.services.vaults.companions import find_companions

    if bool(place) + (sign or bool(key)) + bool(signer) + bool(drop) > 1:
        raise typer.BadParameter("give one of --from, --sign, --allow-signer and --drop")
    vault = context.open()
    if drop:
        _print_dropped(drop_trust(vault, drop), context.as_json)
    elif signer:
        _allow_signer(vault, signer, context.as_json)
    elif sign or key:
        name, paths = sign_trusted(vault, key)
        _print_trusted(paths, context.as_json, name)
    else:
        companions = find_companions(vault)
        trusted_paths = (
            import_trust(vault, place) if place else trust_vault(vault, companions.values())
        )
        _print_trusted(trusted_paths, context.as_json)
        if companions and not (place or context.as_json):
            print_line(f"Asked together with it from now on: {', '.join(companions)}.")
        _print_unknown(vault)


def _print_dropped(paths: list[str], as_json: bool) -> None:
    if as_json:
        emit_json({"dropped": paths})
        return
    for path in paths:
        print_line(f"no longer trusted  {path}")
    if not paths:
        print_line("Nothing changed: these notes were not trusted.")


def _allow_signer(vault: Vault, signer: str, as_json: bool) -> None:
    from vaultmem.services.search.trusted import allow_key, list_trusted

    name = allow_key(vault, signer)
    _print_trusted(list_trusted(vault), as_json, allowed=name)


def _print_trusted(paths: list[str], as_json: bool, signer: str = "", allowed: str = "") -> None:
    if as_json:
        emit_json(trusted_json(paths, signer, allowed))
        return
    for path in paths:
        print_styled("signed   " if signer else "trusted  ", "green", path)
    count = f"{len(paths)} active policies, skills and preferences"
    if signer:
        print_line(
            f"{count} are signed by {signer}; `vaultmem sync` takes that to your other machines,"
        )
        print_line("and `vaultmem trust --allow-signer` there makes your key count.")
    elif allowed:
        print_line(f"What {allowed} signs counts on this machine; {count} are trusted now.")
    else:
        print_line(f"{count} are trusted from now on.")


def _print_unknown(vault: Vault) -> None:
    from vaultmem.services.search.trusted import verify_signed

    if unknown := verify_signed(vault):
        lists = "a list was" if unknown == 1 else f"{unknown} lists were"
        warn(
            f"{lists} signed with a key that does not count here; if it is yours, "
            "run `vaultmem trust --allow-signer FILE`"
        )


def _print_problems(problems: list[tuple[str, str]]) -> None:
    from vaultmem.core.notes.problems import describe_group, group_problems

    if not problems:
        return
    files = len({path for path, _ in problems})
    were = "1 file was" if files == 1 else f"{files:,} files were"
    print_line(f"\n{were} not read, or not fully (none was changed):")
    for group in group_problems(problems):
        print_styled("  ", "yellow", describe_group(group))
    print_line("  `vaultmem doctor` shows what repairs them.")


# The command that shows a copy of the sample vault: demo.

#: Interesting commands.
_COMMANDS = (
    'vaultmem pack "how are refunds handled?" --budget 600',
    "vaultmem log",
    'vaultmem bisect --good HEAD~4 -- "staging database" --contains "PostgreSQL 16"',
)


def demo(
    keep: Annotated[
        str,
        typer.Option("--keep", metavar="DIR", help="Folder for the copy; it is not removed."),
    ] = "",
    no_open: Annotated[
        bool, typer.Option("--no-open", help="Show the history in the terminal, not in a browser.")
    ] = False,
) -> None:
    """Show a sample vault, with a week of history, in a browser.

    In it, an agent believes something wrong: find the commit that taught it. Without a screen, the
    link is printed; without the extra `web` or a terminal, you see the history here. The copy and
    its state are removed when you press Ctrl-C.

    Examples:
      vaultmem demo
      vaultmem demo --no-open --keep ferrylane
    """
    from vaultmem.environment import choose_own, current_environment
    from vaultmem.services.vaults.demo_vault import forget_demo, lay_demo
    from vaultmem.vault import find_user_folders, open_vault

    temp_dir = None if keep else tempfile.TemporaryDirectory(prefix="vaultmem-demo-")
    root = (
        Path(keep).expanduser().absolute() if temp_dir is None else Path(temp_dir.name, "ferrylane")
    )
    own = choose_own(current_environment())
    environment = {name: value for name, value in own.items() if not name.startswith("VAULTMEM_")}
    folders = find_user_folders(environment)
    try:
        lay_demo(root, folders, time.time())
        _show(open_vault(root, by_person=True, folders=folders, environment=environment), no_open)
    finally:
        if temp_dir is not None:
            forget_demo(root, folders)
            temp_dir.cleanup()
            print_line("\nThe copy is gone again; `vaultmem demo --keep DIR` leaves you one.")


def _show(vault: Vault, no_open: bool) -> None:
    """Serve the page, or run the commands here and print why there is no page."""
    from vaultmem.environment import has_screen
    from vaultmem.services.views.update_index import sync_vault

    sync_vault(vault)
    notes, _ = vault.view.totals()
    print_line(f"{notes} notes of a ferry operator's ticketing project, with a week of history, in")
    print_line(f"{vault.root}\n")
    opens = has_screen()
    reason = "" if no_open else _find_reason_against(opens)
    if not (no_open or reason):
        from vaultmem.cli.serve_commands import serve_here

        print_line("Look at the page, or try in another terminal:")
        print_line(f"  cd {shlex.quote(str(vault.root))}")
        print_line("".join(f"  {line}\n" for line in _COMMANDS))
        token = vault.state_folder / "mcp.token"
        serve_here(vault, (0, "127.0.0.1", ()), True, False, token, opens, False)
        return
    vault.close()
    for line in _COMMANDS:
        print_line(f"$ {line}")
        sys.stdout.flush()
        command = [sys.executable, "-P", "-m", *shlex.split(line)]
        subprocess.run(command, cwd=vault.root, env=vault.environment, check=False)
        print_line("")
    if reason:
        print_line(reason)


def _find_reason_against(has_screen: bool) -> str:
    """Return why no page can be shown here, or ""."""
    from vaultmem.storage.user_files import describe_missing

    try:
        import vaultmem.serve.http  # noqa: F401
    except ModuleNotFoundError as error:
        return f"For the page: {describe_missing(error.name, 'web')}."
    lack = "This is neither a screen nor a terminal; in a terminal, `vaultmem demo` prints a link."
    return "" if has_screen or sys.stdout.isatty() else lack
