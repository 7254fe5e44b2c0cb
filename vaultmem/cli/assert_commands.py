"""Commands that test packs and print receipts: assert, bisect, receipt."""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from vaultmem.cli.opening import CommandContext
from vaultmem.cli.options import FleetOption
from vaultmem.cli.output import emit_json, print_line, print_lines, print_styled, warn
from vaultmem.cli.quick_typer import PlainCommand, add_commands
from vaultmem.cli.shared import offers, takes
from vaultmem.core.text.display import one_line, pluralize
from vaultmem.errors import NoteNotFoundError, VaultError
from vaultmem.operations.declaration import Arg, ArgumentForm
from vaultmem.operations.history_views import format_commit_line, operation_lines, short_time
from vaultmem.operations.note_data import bisected_json, judged_json, receipts_json, replayed_json

if TYPE_CHECKING:
    from vaultmem.services.history.diff import ShownCommit
    from vaultmem.services.packs.evaluate import JudgedCommit
    from vaultmem.vault import Vault


#: The exit code by which `git bisect run` skips a commit.
CANNOT_JUDGE = 125

ContainsNote = Annotated[
    tuple[str, ...],
    Arg("The pack shows this note (repeatable).", flags=("--contains-note",), metavar="PATH"),
]
Contains = Annotated[
    tuple[str, ...],
    Arg("The pack contains this text (repeatable).", flags=("--contains",), metavar="TEXT"),
]
PackBudget = Annotated[int, Arg("Tokens of the pack.  [default: 2000]", metavar="TOKENS")]


class PackAssertion(NamedTuple):
    """A query, and the expected content of its pack."""

    query: Annotated[str, Arg("What the pack is for.", takes=ArgumentForm.WORDS, metavar="QUERY")]
    finds: ContainsNote = ()
    says: Contains = ()
    absent: Annotated[bool, Arg("Expect that it contains none of them.")] = False
    budget: PackBudget = 0


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    add_commands(app, assert_)
    app.command("bisect", cls=_BisectCommand)(bisect)
    add_commands(app, receipt)


@offers(PackAssertion)
@takes("vault", "ref", "at", "as_json")
def assert_(context: CommandContext, request: PackAssertion, fleet: FleetOption = "") -> None:
    """Test what a pack contains, for `git bisect run`.

    The exit code is 0 if the pack is as expected, 1 if not, 125 if that is unknown. For a fleet,
    each vault's pack is tested.

    Examples:
      vaultmem assert "how are refunds handled?" --contains "through the queue"
      git bisect run vaultmem assert "session tokens" --contains opaque
    """
    from vaultmem.core.packs.receipt import expect
    from vaultmem.services.packs.evaluate import judge_vault

    if fleet:
        from vaultmem.cli.fleet_work import assert_fleet, reject_with_fleet

        reject_with_fleet(ref=context.ref, at=context.at)
        is_good = assert_fleet(fleet, context.vault, expect(*request), context.as_json)
        raise typer.Exit(CANNOT_JUDGE if is_good is None else int(not is_good))
    try:
        expectation = expect(*request)
        reasons = judge_vault(context.open_view(reads=True), expectation)
    except VaultError as error:
        warn(f"cannot be judged: {error}")
        raise typer.Exit(CANNOT_JUDGE) from None
    if context.as_json:
        emit_json(judged_json(reasons))
    elif not reasons:
        print_line("as expected")
    else:
        print_line("\n".join(reasons))
    raise typer.Exit(1 if reasons else 0)


class _BisectCommand(PlainCommand):
    """A command that ignores a `--` before QUERY, so that options can follow it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments without the first `--`."""
        if "--" in args:
            place = args.index("--")
            args = args[:place] + args[place + 1 :]
        return super().parse_args(ctx, args)


@offers(PackAssertion)
@takes("vault", "ref", "as_json")
def bisect(
    context: CommandContext,
    request: PackAssertion,
    good: Annotated[
        str, typer.Option("--good", metavar="A", help="A commit, tag or date with a good pack.")
    ],
    bad: Annotated[
        str, typer.Option("--bad", metavar="B", help="A later one, where it is bad.")
    ] = "HEAD",
) -> None:
    """Find the first commit whose pack is not as expected.

    Nothing is checked out.

    Examples:
      vaultmem bisect --good 2026-10-01 -- tokens --contains RS256
      vaultmem bisect --good v1 "refund limits" --contains "429 above 120" --absent
    """
    from vaultmem.core.packs.receipt import expect
    from vaultmem.services.history.diff import show_commit
    from vaultmem.services.packs.evaluate import bisect_history

    vault = context.open_synced(reads=True)
    expectation = expect(*request)
    last = vault.ref if bad == "HEAD" and vault.ref else bad
    print_step = None if context.as_json else partial(_print_step, vault)
    result = bisect_history(vault, good, last, expectation, print_step)
    commits = [show_commit(vault, commit) for commit in result.first_bad]
    if context.as_json:
        emit_json(bisected_json(result, commits))
        return
    if len(commits) > 1:
        print_line("The first bad commit is one of these; those between could not be judged.")
    for each in commits:
        _print_found(each)
    if result.untested:
        print_line()
        number = pluralize(result.untested, "commit")
        print_line(
            f"Not tested: {number} that merges brought, which do not descend from the good one."
        )


def _print_found(shown_commit: ShownCommit) -> None:
    commit = shown_commit.commit
    print_line()
    print_styled("first bad commit", "red", f"  {commit.commit}")
    session = f", session {commit.session}" if commit.session else ""
    event = f", {commit.event}" if commit.event else ""
    print_line(f"  {short_time(commit)}  {commit.who}{session}{event}")
    print_line(f"  {commit.subject}")
    for operation in shown_commit.operations:
        print_line()
        print_lines(operation_lines(operation))


def _print_step(vault: Vault, step: JudgedCommit, left: int) -> None:
    from vaultmem.storage.git.log import read_commit

    style = {"good": "green", "bad": "red"}.get(step.verdict, "yellow")
    text = format_commit_line(read_commit(vault.history, step.commit))
    print_styled(f"{step.verdict:<4}", style, f"  {step.commit[:7]}  {text}")
    for reason in step.reasons:
        print_line(f"      {reason}")


@takes("vault", "agent", "session", "as_json")
def receipt(
    context: CommandContext,
    receipt: Annotated[
        str,
        typer.Argument(
            metavar="[RECEIPT]",
            help="Id, its beginning, or a file; without it, receipts are listed.",
        ),
    ] = "",
    limit: Annotated[
        int, typer.Option("-n", "--limit", metavar="N", help="Receipts at most, in the list.")
    ] = 20,
) -> None:
    """List the packs that agents got, or print one again.

    Receipts are listed newest first, with caller, query and tokens; --agent and --session filter
    them. A pack is rendered from git. If git has lost a note that was shown, the rest is printed,
    the missing notes are named, and the exit code is 4.

    Examples:
      vaultmem receipt
      vaultmem receipt 9c41e07b
    """
    from vaultmem.services.packs.receipts import replay_receipt

    vault = context.open()
    if not receipt:
        _list_receipts(vault, context.agent, context.session, limit, context.as_json)
        return
    replay = replay_receipt(vault, receipt)
    if context.as_json:
        emit_json(replayed_json(replay))
    else:
        print_line(replay.text.rstrip("\n"))
    for each in replay.missing_sections:
        place = f"{each.path}#{each.heading}" if each.heading else each.path
        warn(f"{place}: gone from git, so it is left out here (blob {each.blob[:12]})")
    if replay.missing_sections:
        raise typer.Exit(NoteNotFoundError.exit_code)


def _list_receipts(vault: Vault, agent: str, session: str, limit: int, as_json: bool) -> None:
    from vaultmem.services.packs.receipts import list_receipts

    receipts = list(islice(list_receipts(vault, agent, session), limit))
    if as_json:
        emit_json(receipts_json(receipts))
        return
    if not receipts:
        print_line(
            "No receipts yet; `vaultmem pack --receipt` keeps one, and each pack of an agent does."
        )
    for receipt in receipts:
        caller = " ".join(filter(None, (receipt.agent or "person", receipt.session)))
        cost = f"{pluralize(len(receipt.shown), 'section'):>12} {receipt.account.sent:>6} tokens"
        query = one_line(receipt.query) or "(no question)"
        print_styled(receipt.id, "yellow", f"  {caller[:24]:<24}  {cost}  {query[:60]}")
