"""Commands of curation: review, dedup, curate, dream, compact."""

from __future__ import annotations

import sys
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vaultmem.cli.history_commands import print_commits
from vaultmem.cli.opening import CommandContext
from vaultmem.cli.options import FleetOption, YesOption
from vaultmem.cli.output import ProgressLine, confirm, emit_json, print_line, print_styled, warn
from vaultmem.cli.shared import offers, print_answer, takes
from vaultmem.core.curation.proposal import CHOICES, ProposalChoice, format_action
from vaultmem.core.text.display import one_line, pluralize
from vaultmem.errors import ConflictError, NoteNotFoundError, RefusedError, VaultError
from vaultmem.operations.curation import COMPACT, CURATE, DEDUP, DREAM
from vaultmem.operations.review_queue import DECIDE, LIST_REVIEW, list_review

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vaultmem.core.curation.proposal import Proposal, Report
    from vaultmem.operations.declaration import Operation
    from vaultmem.operations.review_queue import ReviewQueue
    from vaultmem.services.curation.decide import DecisionResult
    from vaultmem.services.curation.review import Item, ReviewSide
    from vaultmem.vault import Vault


#: Minimum digits of a displayed id, and maximum lines of a text.
_DIGITS, _LINES = 6, 12

#: The key of each choice.
_KEYS = {"y": "accept", "o": "other", "n": "reject"}

_HELP = "s skips, q ends, ? explains the keys"

_STOP = frozenset({"q", "\x04", "\x1b"})


def complete_id(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Return the ids in the last list that start with `incomplete`, with their subjects."""
    from vaultmem.services.curation.review import list_known

    try:
        proposals = list_known(CommandContext(ctx.params.get("vault") or "").open())
    except VaultError:
        return []
    matches = [each for each in proposals if each.id.startswith(incomplete)]
    size = _count_digits(proposals)
    return [(each.id[:size], f"{_name(each)} {one_line(each.path)}") for each in matches]


def _option(name: str, text: str) -> object:
    return typer.Option(
        name, metavar="ID", help=f"{text} (repeatable).", autocompletion=complete_id
    )


@offers(LIST_REVIEW.request)
@takes("vault", "agent", "session", "as_json")
def review(
    context: CommandContext,
    request: Any,
    accept: Annotated[list[str], _option("--accept", "Do what is proposed")] = [],  # noqa: B006
    other: Annotated[list[str], _option("--other", "Do it the other way round")] = [],  # noqa: B006
    reject: Annotated[list[str], _option("--reject", "Do not, and do not propose it again")] = [],  # noqa: B006
    accept_all: Annotated[
        bool, typer.Option("--accept-all", help="Promote all, with --only candidate.")
    ] = False,
    reject_all: Annotated[
        bool, typer.Option("--reject-all", help="Deprecate all, with --only candidate.")
    ] = False,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Reason; the commit records it.")
    ] = "",
) -> None:
    """Decide on contradictions, duplicates and candidates.

    Proposed branches, quarantined and stale notes wait as well. On a terminal each is shown with
    its evidence, and one key decides it. Elsewhere they are listed; --accept, --other and --reject
    decide. Each decision is one commit, and so is one about all candidates. A large vault shows
    what is known so far, and --all compares the rest.

    Examples:
      vaultmem review
      vaultmem review --only contradiction
      vaultmem review --only candidate --accept-all
    """
    vault = context.open_synced()
    choices = [("accept", accept), ("other", other), ("reject", reject)]
    if any(ids for _, ids in choices):
        _decide_named(vault, choices, reason, context.as_json)
        return
    if accept_all or reject_all:
        if request.only != "candidate" or (accept_all and reject_all):
            raise typer.BadParameter("give --only candidate with --accept-all or --reject-all")
        _decide_all(vault, accept_all, reason, context.as_json)
        return
    from vaultmem.services.curation.incoming_notes import REVIEW_COMPARE_SECONDS, compare_incoming

    compare_incoming(vault, REVIEW_COMPARE_SECONDS)
    queue = list_review(vault, *request, progress=ProgressLine("comparing notes"))
    if context.as_json:
        emit_json(LIST_REVIEW.data(queue))
        return
    _print_counts(queue.waiting)
    if not queue.is_all:
        print_line("That is known so far; `vaultmem review --all` compares all notes.")
    size = _count_digits(queue.waiting)
    if sys.stdin.isatty() and sys.stdout.isatty() and vault.is_person:
        _ask_each(vault, queue, size, reason)
        return
    for item in queue.items:
        _print_item(item, size)
        print_line()
    if queue.chosen:
        print_line("Decide with `vaultmem review --accept ID`, --other ID or --reject ID.")


def _decide_all(vault: Vault, is_accepted: bool, reason: str, as_json: bool) -> None:
    """Promote or deprecate all candidates, in one commit."""
    from vaultmem.services.curation.decide import decide_candidates

    choice = ProposalChoice.ACCEPT if is_accepted else ProposalChoice.REJECT
    decided = decide_candidates(vault, choice, reason)
    if as_json:
        emit_json(DECIDE.data(decided))
        return
    verb = "promoted  " if is_accepted else "deprecated  "
    print_styled(verb, "green" if is_accepted else "yellow", pluralize(len(decided), "candidate"))
    print_commits(decided[0].report.commits if decided else ())


def _decide_named(
    vault: Vault, choices: Sequence[tuple[str, Sequence[str]]], reason: str, as_json: bool
) -> None:
    """Decide on items given by id, after all ids have been resolved."""
    from vaultmem.services.curation.decide import decide
    from vaultmem.services.curation.review import find_item

    progress = ProgressLine("comparing notes")
    pairs = [
        (find_item(vault, name, progress), ProposalChoice(c)) for c, ids in choices for name in ids
    ]
    if len({proposal.id for proposal, _ in pairs}) < len(pairs):
        raise RefusedError("an id is named twice; decide each once")
    decided = []
    for proposal, choice in pairs:
        decided.append(decide(vault, proposal, choice, reason))
        if not as_json:
            _print_decided(decided[-1])
    if as_json:
        emit_json(DECIDE.data(decided))


def _ask_each(vault: Vault, queue: ReviewQueue, size: int, reason: str) -> None:
    """Show the items one by one and read a key for each; earlier decisions stay after an abort."""
    from vaultmem.services.curation.decide import decide

    if queue.chosen:
        print_styled(_HELP, "dim")
    numbers = {each.id: number for number, each in enumerate(queue.chosen, 1)}
    for item in queue.items:  # An earlier decision can change later notes.
        proposal = item.proposal
        print_line()
        print_styled(f"{numbers[item.id]} of {len(numbers)}  ", "dim")
        _print_item(item, size)
        key = _read_key(proposal)
        if key in _STOP:
            return
        if key in _KEYS:
            try:
                _print_decided(decide(vault, proposal, ProposalChoice(_KEYS[key]), reason))
            except (ConflictError, RefusedError) as error:
                warn(str(error))


def _read_key(proposal: Proposal) -> str:
    """Return the key of an available choice, `s` to skip, or a key that ends the review."""
    from click import getchar

    keys = {key for key, name in _KEYS.items() if _describe(proposal, name)} | {"s"} | _STOP
    choices = [f"{key}: {_describe(proposal, _KEYS[key])}" for key in _KEYS if key in keys]
    while True:
        sys.stdout.write("? ")
        sys.stdout.flush()
        try:
            key = getchar().lower()
        except EOFError:
            key = "q"
        except KeyboardInterrupt:
            print_line()
            raise typer.Exit(130) from None
        print_line("" if key in _STOP else key)
        if key in keys:
            return key
        if key == "?":
            print_line("\n".join((*choices, _HELP)))


def _describe(proposal: Proposal, choice: str) -> str:
    return str(getattr(CHOICES[proposal.action], choice))


def _print_counts(waiting: Sequence[Proposal]) -> None:
    counts: dict[str, int] = {}
    for each in waiting:
        counts[_name(each)] = counts.get(_name(each), 0) + 1
    summary = ", ".join(f"{count} {name}" for name, count in counts.items())
    print_line(
        f"{len(waiting)} to decide: {summary}" if waiting else "Nothing waits for a decision."
    )


def _print_item(item: Item, size: int) -> None:
    proposal = item.proposal
    print_styled(f"{item.id[:size]}  {_name(proposal)}", "yellow", f"  {proposal.reason}")
    for each in proposal.evidence:
        print_styled("  - ", "dim", each)
    is_pair = proposal.action != "proposal" and len(item.sides) < 3
    apart = [item.sides] if is_pair else [(side,) for side in item.sides]
    for sides in apart:
        _print_sides(sides)
    print_styled(f"  {_describe(proposal, 'question')}", "bold")
    for key, name in _KEYS.items():
        if outcome := _describe(proposal, name):
            print_line(f"    {key}  --{name:<8}{outcome}")


def _print_sides(sides: Sequence[ReviewSide]) -> None:
    """Print two notes side by side if they fit, otherwise below each other."""
    width = _read_width()
    columns = [_list_lines(side, width // len(sides) - 4) for side in sides]
    for cells in zip_longest(*columns, fillvalue=""):
        row = "  ".join(f"{cell:<{width // len(sides) - 4}}" for cell in cells)
        print_line(f"  {row}".rstrip())


def _read_width() -> int:
    import shutil

    return max(60, min(160, shutil.get_terminal_size((100, 24)).columns))


def _list_lines(side: ReviewSide, width: int) -> list[str]:
    """Return the lines of a note, starting with its path and facts."""
    from textwrap import wrap

    author = " ".join(filter(None, (f"@{side.agent}" if side.agent else "a person", side.session)))
    facts = ", ".join(filter(None, (side.state, author, side.written, side.commit[:7])))
    lines = [*wrap(one_line(side.path), width), *wrap(one_line(facts), width)]
    parts = side.changed or [f"> {part}" for part in side.text.splitlines()]
    text = [line for part in parts for line in wrap(one_line(part), width)]
    more = [f"... {len(text) - _LINES} more lines"] if len(text) > _LINES else []
    return [*lines, *text[:_LINES], *more]


def _print_decided(decided: DecisionResult) -> None:
    print_styled(f"{one_line(decided.proposal.path)}: ", "green", decided.message)
    print_commits(decided.report.commits)
    if not decided.report.commits:
        print_line("Nothing had to be changed.")


def _name(proposal: Proposal) -> str:
    return format_action(proposal.action)


def _count_digits(proposals: Sequence[Proposal]) -> int:
    """Return how many digits make all ids unique."""
    size = _DIGITS
    while len({each.id[:size] for each in proposals}) < len(proposals) and size < 64:
        size += 1
    return size


# Commands of curation: dedup, curate, dream, compact.


def _run_planned(
    operation: Operation, context: CommandContext, request: Any, yes: bool, vault: Vault, **own: Any
) -> None:
    """Run an operation that plans changes; with --apply, print the plan and ask before them."""

    def ask(plan: Any, changes: str) -> None:
        if not context.as_json:
            print_answer(operation, context, request, plan)
        confirm(changes, yes)

    print_answer(operation, context, request, operation.run(vault, request, confirm=ask, **own))


@offers(DEDUP)
@takes("vault", "agent", "as_json")
def dedup(context: CommandContext, request: Any, yes: YesOption = False) -> None:
    """List duplicate notes, or merge them after confirmation."""
    vault = context.open_synced(reads=not request.apply)
    _run_planned(DEDUP, context, request, yes, vault, progress=ProgressLine("comparing notes"))


@offers(CURATE)
@takes("vault", "ref", "agent", "as_json")
def curate(
    context: CommandContext,
    request: Any,
    report: Annotated[
        str, typer.Argument(metavar="[REPORT]", help="A saved report, to be shown or applied.")
    ] = "",
    yes: YesOption = False,
    save: Annotated[
        str, typer.Option("--save", metavar="FILE", help="Write the report to a new file, as JSON.")
    ] = "",
    fleet: FleetOption = "",
) -> None:
    """Propose changes of a vault or a fleet, save the report, or apply one after confirmation."""
    if fleet:
        from vaultmem.cli.fleet_work import curate_fleet, reject_with_fleet

        reject_with_fleet(ref=context.ref, apply=request.apply, report=report, save=save)
        curate_fleet(fleet, context.vault, context.as_json)
        return
    vault = context.open_synced(reads=not request.apply)
    if report:
        plan = _read_report(report)
    else:
        progress = ProgressLine("comparing notes")
        plan = CURATE.run(vault, CURATE.request(), progress=progress).report
    if save:
        _save_report(save, plan)
    _run_planned(CURATE, context, request, yes, vault, report=plan)


@offers(DREAM)
@takes("vault", "ref", "agent", "as_json")
def dream(context: CommandContext, request: Any) -> None:
    """Promote what was recalled often."""
    print_answer(DREAM, context, request, DREAM.run(context.open_synced(), request))


@offers(COMPACT)
@takes("vault", "ref", "agent", "as_json")
def compact(
    context: CommandContext, request: Any, yes: YesOption = False, fleet: FleetOption = ""
) -> None:
    """Plan the compaction of a vault or a fleet; make it in a vault after confirmation."""
    if fleet:
        from vaultmem.cli.fleet_work import compact_fleet, reject_with_fleet

        reject_with_fleet(ref=context.ref, apply=request.apply)
        compact_fleet(fleet, context.vault, context.as_json)
        return
    _run_planned(COMPACT, context, request, yes, context.open_synced(reads=not request.apply))


def _read_report(name: str) -> Report:
    from vaultmem.core.curation.proposal import MAX_REPORT, parse_report

    try:
        with open(name, encoding="utf-8") as file:
            return parse_report(file.read(MAX_REPORT))
    except FileNotFoundError:
        raise NoteNotFoundError(f"{name}: there is no such report") from None
    except (OSError, UnicodeDecodeError) as error:
        raise RefusedError(f"{name}: the report cannot be read ({error})") from None


def _save_report(name: str, report: Report) -> None:
    from vaultmem.core.curation.proposal import format_report

    try:
        with open(Path(name), "x", encoding="utf-8") as file:
            file.write(format_report(report))
    except FileExistsError:
        raise RefusedError(f"{name}: exists already; name a new file") from None
    except OSError as error:
        raise RefusedError(f"{name}: cannot be written ({error.strerror})") from None
