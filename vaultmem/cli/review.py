"""The command review: what waits for a decision, side by side, and one key or flag to decide it."""

from __future__ import annotations

import sys
from itertools import zip_longest
from typing import TYPE_CHECKING, Annotated

import typer

from vaultmem.answers.upkeep import decided_json, queue_json
from vaultmem.cli.history_text import say_commits
from vaultmem.cli.opening import open_here
from vaultmem.cli.output import ProgressLine, emit_json, say, say_painted, warn
from vaultmem.cli.shared import Here, takes
from vaultmem.core.counting import count_things
from vaultmem.core.safe_text import one_line
from vaultmem.errors import ConflictError, RefusedError, VaultError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vaultmem.core.upkeep.proposal import Proposal
    from vaultmem.services.upkeep.decide import Decided
    from vaultmem.services.upkeep.review import Item, Side
    from vaultmem.vault import Vault

#: Digits of an id that are shown at least, and lines of a text.
_DIGITS, _LINES = 6, 12

#: The keys of the choices.
_KEYS = {"y": "accept", "o": "other", "n": "reject"}

_HELP = "s skips, q ends, ? explains the keys"

_STOP = frozenset({"q", "\x04", "\x1b"})


def complete_id(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Return the ids that were shown last and begin so, with what each is about."""
    from vaultmem.services.upkeep.review import list_known

    try:
        shown = list_known(open_here(ctx.params.get("vault") or ""))
    except VaultError:
        return []
    wanted = [each for each in shown if each.id.startswith(incomplete)]
    size = _count_digits(shown)
    return [(each.id[:size], f"{_name(each)} {one_line(each.path)}") for each in wanted]


def _option(name: str, told: str) -> object:
    return typer.Option(
        name, metavar="ID", help=f"{told} (repeatable).", autocompletion=complete_id
    )


@takes("vault", "agent", "session", "as_json")
def review(
    here: Here,
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
        str, typer.Option("--reason", metavar="TEXT", help="Why; it stands in git.")
    ] = "",
    only: Annotated[
        str, typer.Option("--only", metavar="KIND", help="Only these, such as contradiction.")
    ] = "",
    everything: Annotated[
        bool, typer.Option("--all", help="Compare all notes, also of a large vault.")
    ] = False,
    limit: Annotated[
        int, typer.Option("-n", "--limit", metavar="N", help="Items at most.", show_default=False)
    ] = 0,
) -> None:
    """Decide what waits: contradictions, duplicates, candidates.

    Proposed branches, quarantined and stale notes wait as well. On a terminal each is shown with
    its evidence, and one key decides it. Elsewhere they are listed; --accept, --other and --reject
    decide. Each decision is one commit, and so is one about all candidates. A large vault shows
    what is known so far, and --all compares the rest.

    Examples:
      vaultmem review
      vaultmem review --only contradiction
      vaultmem review --only candidate --accept-all
    """
    opened = here.open_synced()
    named = [("accept", accept), ("other", other), ("reject", reject)]
    if any(ids for _, ids in named):
        _decide_named(opened, named, reason, here.as_json)
        return
    if accept_all or reject_all:
        if only != "candidate" or (accept_all and reject_all):
            raise typer.BadParameter("give --only candidate with --accept-all or --reject-all")
        _decide_all(opened, accept_all, reason, here.as_json)
        return
    from vaultmem.services.upkeep.review import describe_items

    waiting, is_all = _look(opened, everything)
    chosen = _choose(waiting, only)[: limit or None]
    if here.as_json:
        emit_json(queue_json(describe_items(opened, chosen), len(waiting)))
        return
    _say_counts(waiting)
    if not is_all:
        say("That is known so far; `vaultmem review --all` compares all notes.")
    size = _count_digits(waiting)
    if sys.stdin.isatty() and sys.stdout.isatty() and opened.is_person:
        _ask_each(opened, chosen, size, reason)
        return
    for item in describe_items(opened, chosen):
        _say_item(item, size)
        say()
    if chosen:
        say("Decide with `vaultmem review --accept ID`, --other ID or --reject ID.")


def _decide_all(vault: Vault, is_accepted: bool, reason: str, as_json: bool) -> None:
    """Promote or deprecate all candidates, in one commit."""
    from vaultmem.core.upkeep.choices import Choice
    from vaultmem.services.upkeep.decide import decide_candidates

    choice = Choice.ACCEPT if is_accepted else Choice.REJECT
    decided = decide_candidates(vault, choice, reason)
    if as_json:
        emit_json(decided_json(decided))
        return
    verb = "promoted  " if is_accepted else "deprecated  "
    say_painted(verb, "green" if is_accepted else "yellow", count_things(len(decided), "candidate"))
    say_commits(decided[0].report.commits if decided else ())


def _look(vault: Vault, everything: bool) -> tuple[Sequence[Proposal], bool]:
    """Return what waits, and whether that is all: a large vault is not compared unasked."""
    from vaultmem.services.upkeep.arrivals import WHOLE, take_in
    from vaultmem.services.upkeep.review import COMPARED_AT_ONCE, list_queue, list_waiting

    arrived = take_in(vault, WHOLE)
    if arrived and not everything and vault.view.totals()[0] > COMPARED_AT_ONCE:
        return list_waiting(vault), False
    return list_queue(vault, ProgressLine("comparing notes")).proposals, True


def _choose(waiting: Sequence[Proposal], only: str) -> Sequence[Proposal]:
    from vaultmem.core.upkeep.choices import ORDER, name_action

    if not only:
        return waiting
    names = [name_action(action) for action in ORDER]
    wanted = name_action(only)
    if wanted not in names:
        raise RefusedError(f'"{only}" is nothing that is reviewed; use {", ".join(names)}')
    return [each for each in waiting if _name(each) == wanted]


def _decide_named(
    vault: Vault, named: Sequence[tuple[str, Sequence[str]]], reason: str, as_json: bool
) -> None:
    """Decide what is named by id: all are looked up before the first is decided."""
    from vaultmem.core.upkeep.choices import Choice
    from vaultmem.services.upkeep.decide import decide
    from vaultmem.services.upkeep.review import find_item

    progress = ProgressLine("comparing notes")
    found = [(find_item(vault, name, progress), Choice(c)) for c, ids in named for name in ids]
    if len({proposal.id for proposal, _ in found}) < len(found):
        raise RefusedError("an id is named twice; decide each once")
    decided = []
    for proposal, choice in found:
        decided.append(decide(vault, proposal, choice, reason))
        if not as_json:
            _say_decided(decided[-1])
    if as_json:
        emit_json(decided_json(decided))


def _ask_each(vault: Vault, waiting: Sequence[Proposal], size: int, reason: str) -> None:
    """Show one after the other, and do what the keys say; what was decided before the end is."""
    from vaultmem.core.upkeep.choices import Choice
    from vaultmem.services.upkeep.decide import decide
    from vaultmem.services.upkeep.review import describe_items

    if waiting:
        say_painted(_HELP, "dim")
    numbers = {each.id: number for number, each in enumerate(waiting, 1)}
    for item in describe_items(vault, waiting):  # What was decided has changed notes of others.
        proposal = item.proposal
        say()
        say_painted(f"{numbers[item.id]} of {len(waiting)}  ", "dim")
        _say_item(item, size)
        key = _read_key(proposal)
        if key in _STOP:
            return
        if key in _KEYS:
            try:
                _say_decided(decide(vault, proposal, Choice(_KEYS[key]), reason))
            except (ConflictError, RefusedError) as error:
                warn(str(error))


def _read_key(proposal: Proposal) -> str:
    """Return the key of a choice that there is, `s` to pass it over, or one that ends it all."""
    from click import getchar

    keys = {key for key, name in _KEYS.items() if _tell(proposal, name)} | {"s"} | _STOP
    choices = [f"{key}: {_tell(proposal, _KEYS[key])}" for key in _KEYS if key in keys]
    while True:
        sys.stdout.write("? ")
        sys.stdout.flush()
        try:
            key = getchar().lower()
        except EOFError:
            key = "q"
        except KeyboardInterrupt:
            say()
            raise typer.Exit(130) from None
        say("" if key in _STOP else key)
        if key in keys:
            return key
        if key == "?":
            say("\n".join((*choices, _HELP)))


def _tell(proposal: Proposal, choice: str) -> str:
    from vaultmem.core.upkeep.choices import CHOICES

    return str(getattr(CHOICES[proposal.action], choice))


def _say_counts(waiting: Sequence[Proposal]) -> None:
    counts: dict[str, int] = {}
    for each in waiting:
        counts[_name(each)] = counts.get(_name(each), 0) + 1
    told = ", ".join(f"{count} {name}" for name, count in counts.items())
    say(f"{len(waiting)} to decide: {told}" if waiting else "Nothing waits for a decision.")


def _say_item(item: Item, size: int) -> None:
    proposal = item.proposal
    say_painted(f"{item.id[:size]}  {_name(proposal)}", "yellow", f"  {proposal.reason}")
    for each in proposal.evidence:
        say_painted("  - ", "dim", each)
    is_pair = proposal.action != "proposal" and len(item.sides) < 3
    apart = [item.sides] if is_pair else [(side,) for side in item.sides]
    for sides in apart:
        _say_sides(sides)
    say_painted(f"  {_tell(proposal, 'question')}", "bold")
    for key, name in _KEYS.items():
        if told := _tell(proposal, name):
            say(f"    {key}  --{name:<8}{told}")


def _say_sides(sides: Sequence[Side]) -> None:
    """Print notes side by side where two have room, else one below the other."""
    width = _read_width()
    columns = [_list_lines(side, width // len(sides) - 4) for side in sides]
    for cells in zip_longest(*columns, fillvalue=""):
        row = "  ".join(f"{cell:<{width // len(sides) - 4}}" for cell in cells)
        say(f"  {row}".rstrip())


def _read_width() -> int:
    import shutil

    return max(60, min(160, shutil.get_terminal_size((100, 24)).columns))


def _list_lines(side: Side, width: int) -> list[str]:
    """Return the lines of a note, its head first."""
    from textwrap import wrap

    who = " ".join(filter(None, (f"@{side.agent}" if side.agent else "a person", side.session)))
    facts = ", ".join(filter(None, (side.state, who, side.written, side.commit[:7])))
    lines = [*wrap(one_line(side.path), width), *wrap(one_line(facts), width)]
    text = [line for part in side.text.splitlines() for line in wrap(one_line(part), width)]
    more = [f"... {len(text) - _LINES} more lines"] if len(text) > _LINES else []
    return [*lines, *(f"> {line}" for line in text[:_LINES]), *more]


def _say_decided(decided: Decided) -> None:
    say_painted(f"{one_line(decided.proposal.path)}: ", "green", decided.told)
    say_commits(decided.report.commits)
    if not decided.report.commits:
        say("Nothing had to be changed.")


def _name(proposal: Proposal) -> str:
    from vaultmem.core.upkeep.choices import name_action

    return name_action(proposal.action)


def _count_digits(proposals: Sequence[Proposal]) -> int:
    """Return how many digits tell all ids apart."""
    size = _DIGITS
    while len({each.id[:size] for each in proposals}) < len(proposals) and size < 64:
        size += 1
    return size
