"""Commands that look after a vault: curate, dream, compact."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vaultmem.answers.upkeep import compacted_json, curated_json, dream_json
from vaultmem.cli.history_text import say_commits
from vaultmem.cli.options import FleetOption, YesOption
from vaultmem.cli.output import ProgressLine, confirm, emit_json, say, say_painted
from vaultmem.cli.shared import Here, takes
from vaultmem.core.counting import count_things
from vaultmem.core.safe_text import one_line
from vaultmem.errors import NoteNotFoundError, RefusedError

if TYPE_CHECKING:
    from vaultmem.core.upkeep.proposal import Proposal, Report
    from vaultmem.services.upkeep.apply import Applied
    from vaultmem.services.upkeep.compact import Compacted
    from vaultmem.services.upkeep.dream import Dream
    from vaultmem.vault import Vault


@takes("vault", "ref", "agent", "as_json")
def curate(
    here: Here,
    report: Annotated[
        str, typer.Argument(metavar="[REPORT]", help="A saved report, to be shown or applied.")
    ] = "",
    apply: Annotated[
        bool, typer.Option("--apply", help="Make the changes that are shown, in one commit.")
    ] = False,
    yes: YesOption = False,
    save: Annotated[
        str, typer.Option("--save", metavar="FILE", help="Write the report to a new file, as JSON.")
    ] = "",
    fleet: FleetOption = "",
) -> None:
    """Propose what to merge, archive, check or mend, with reasons.

    Nothing is changed without --apply, and then exactly what is shown: `curate --save FILE`, look,
    `curate FILE --apply`. Notes that were changed since the report was made are refused.

    Examples:
      vaultmem curate --save ../report.json
      vaultmem curate ../report.json --apply --yes
    """
    if fleet:
        from vaultmem.cli.fleet_work import curate_fleet, refuse_with_fleet

        refuse_with_fleet(ref=here.ref, apply=apply, report=report, save=save)
        curate_fleet(fleet, here.vault, here.as_json)
        return
    opened = here.open_synced(reads=not apply)
    found = _read_report(report) if report else _look_through(opened)
    if save:
        _save_report(save, found)
    if not here.as_json:
        _say_report(found, is_asked=apply)
    done = _apply(opened, found, yes) if apply else None
    if here.as_json:
        emit_json(curated_json(found, done))
    elif done is not None:
        if done.already:
            say(f"{count_things(len(done.already), 'change')} had been made already.")
        say_commits(done.report.commits)


@takes("vault", "ref", "agent", "as_json")
def dream(
    here: Here,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what was weighed, change nothing.")
    ] = False,
) -> None:
    """Promote what was recalled often, and write it in DREAMS.md.

    The notes become active, and are named in MEMORY.md. It gives no trust: policies and skills
    instruct nobody before you promote them.

    Examples:
      vaultmem dream --dry-run
    """
    from vaultmem.services.upkeep.dream import dream as promote_strongest

    done = promote_strongest(here.open_synced(), is_dry=dry_run)
    if here.as_json:
        emit_json(dream_json(done))
        return
    _say_dream(done, dry_run)
    say_commits(done.report.commits)


@takes("vault", "ref", "agent", "as_json")
def compact(
    here: Here,
    apply: Annotated[bool, typer.Option("--apply", help="Make the steps that are shown.")] = False,
    yes: YesOption = False,
    fleet: FleetOption = "",
) -> None:
    """Shorten what nobody asks for; the full text stays in git.

    First to a summary, then to keywords, then the note is archived. A recall starts a note's time
    anew. Pinned notes, policies, skills and what a person wrote or edited stay. `restore NOTE --at
    COMMIT` brings a full text back; the commits say which.

    Examples:
      vaultmem compact
    """
    from vaultmem.services.upkeep.compact import compact as shorten
    from vaultmem.services.upkeep.compact import plan_compaction

    if fleet:
        from vaultmem.cli.fleet_work import compact_fleet, refuse_with_fleet

        refuse_with_fleet(ref=here.ref, apply=apply)
        compact_fleet(fleet, here.vault, here.as_json)
        return
    opened = here.open_synced(reads=not apply)
    done = plan_compaction(opened)
    if not here.as_json:
        _say_compacted(done, apply)
    if apply and done.steps:
        confirm(count_things(len(done.steps), "step"), yes)
        done = shorten(opened)
    if here.as_json:
        emit_json(compacted_json(done))
        return
    for report in done.reports:
        say_commits(report.commits)


def _read_report(name: str) -> Report:
    from vaultmem.core.upkeep.proposal import MAX_REPORT, parse_report

    try:
        with open(name, encoding="utf-8") as file:
            return parse_report(file.read(MAX_REPORT))
    except FileNotFoundError:
        raise NoteNotFoundError(f"{name}: there is no such report") from None
    except (OSError, UnicodeDecodeError) as error:
        raise RefusedError(f"{name}: the report cannot be read ({error})") from None


def _save_report(name: str, report: Report) -> None:
    from vaultmem.core.upkeep.proposal import format_report

    try:
        with open(Path(name), "x", encoding="utf-8") as file:
            file.write(format_report(report))
    except FileExistsError:
        raise RefusedError(f"{name}: exists already; name a new file") from None
    except OSError as error:
        raise RefusedError(f"{name}: cannot be written ({error.strerror})") from None


def _look_through(vault: Vault) -> Report:
    from vaultmem.services.upkeep.curate import curate as look_through

    return look_through(vault, ProgressLine("comparing notes"))


def _apply(vault: Vault, report: Report, yes: bool) -> Applied:
    """Make a report's changes, once the person has said yes."""
    from vaultmem.services.upkeep.apply import apply_report

    if report.changes:
        confirm(count_things(len(report.changes), "change"), yes)
    return apply_report(vault, report)


def _say_report(report: Report, is_asked: bool) -> None:
    if not report.proposals:
        say("Nothing to do: this vault is healthy.")
    action = ""
    for each in report.proposals:
        if each.action != action:
            action = each.action
            say_painted(f"{action.replace('_', ' ')}", "yellow" if each.is_change else "bold")
        _say_proposal(each)
    if report.changes and not is_asked:
        say(f"Nothing was changed; --apply makes {count_things(len(report.changes), 'change')}.")


def _say_proposal(proposal: Proposal) -> None:
    say(f"  {one_line(proposal.path)}")
    say(f"    {one_line(proposal.reason)}")
    for each in proposal.evidence:
        say_painted("    - ", "dim", each)


def _say_dream(done: Dream, is_dry: bool) -> None:
    if not done.candidates:
        say("Nothing was recalled yet.")
        return
    shown = [each for each in done.candidates if is_dry or not each.held]
    if shown:
        say_painted("score  freq  relv  rcnt  dvrs  cons  recalls  note", "dim")
    for each in shown:
        s = each.strength
        parts = (s.frequency, s.relevance, s.recency, s.diversity, s.consolidation)
        numbers = "  ".join(f"{part:.2f}" for part in parts)
        said = f"  ({each.held})" if each.held else "  promoted" if not is_dry else "  promote"
        name = one_line(each.path)
        say(f" {s.score:.2f}  {numbers}  {s.recalls:>7}  {name}{one_line(said)}")
    if not done.promoted:
        say("Nothing to promote.")
    if done.left:
        count = count_things(len(done.left), "note")
        say(f"{count} more are left for the next night (dream_limit).")
    for move in done.moves:
        told = f"MEMORY.md:{move.line}: {move.text}"
        say_painted("may go  ", "yellow", f"{told}  ({move.reason})")


def _say_compacted(done: Compacted, is_applied: bool) -> None:
    for each in done.steps:
        days = count_things(each.idle_days, "day")
        told = f"{each.path}  {each.tokens} to {count_things(each.tokens_left, 'token')}, {days}"
        say_painted(f"{each.step:<9}", "yellow", f" {told}")
    for reason, count in sorted(done.exempt.items()):
        say_painted("stays    ", "dim", f" {count_things(count, 'note')}: {reason}")
    if not done.steps:
        say("Nothing is due.")
    elif not is_applied:
        say(f"Nothing was changed; --apply makes {count_things(len(done.steps), 'step')}.")
