"""Commands about notes that say the same: similar, dedup."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from vaultmem.answers.upkeep import merged_json
from vaultmem.cli.history_text import say_commits
from vaultmem.cli.options import YesOption
from vaultmem.cli.output import ProgressLine, confirm, emit_json, say, say_lines, say_painted
from vaultmem.cli.shared import Here, takes
from vaultmem.core.counting import count_things
from vaultmem.core.safe_text import one_line
from vaultmem.operations.notes import nearby_lines

if TYPE_CHECKING:
    from vaultmem.services.upkeep.dedup import Merge


@takes("vault", "ref", "as_json")
def similar(
    here: Here,
    text: Annotated[
        list[str], typer.Argument(metavar="TEXT|PATH", help="A text, or the path of a note.")
    ],
) -> None:
    """List the notes that say the same as a text, or nearly.

    In place of a text, the path of a note can be given. What differs is shown.

    Examples:
      vaultmem similar "Half refunds are rounded up to the next cent."
    """
    from vaultmem.services.likeness.known import describe_similar
    from vaultmem.services.likeness.similar import find_similar, read_asked

    opened = here.open_view(reads=True)
    asked = read_asked(opened, " ".join(text))
    found = describe_similar(find_similar(opened, asked), asked.text)
    if here.as_json:
        emit_json({"similar": found})
        return
    for each in found:
        say_lines(nearby_lines(each))
    if not found:
        say("No note matches.")


@takes("vault", "agent", "as_json")
def dedup(
    here: Here,
    apply: Annotated[bool, typer.Option("--apply", help="Merge what is shown.")] = False,
    yes: YesOption = False,
) -> None:
    """List the notes that say the same as another, or merge them.

    --apply merges them, in one commit. The note that is merged stays where it is, deprecated, and
    names the one that counts, so that links to it lead on. Pinned notes and those of a person are
    kept.

    Examples:
      vaultmem dedup
    """
    from vaultmem.services.upkeep.dedup import apply_merges, plan_merges

    opened = here.open_synced(reads=not apply)
    merges = plan_merges(opened, ProgressLine("comparing notes"))
    if not here.as_json:
        _say_merges(merges, apply)
    if apply and merges:
        confirm(count_things(len(merges), "merge"), yes)
    report = apply_merges(opened, merges) if apply and merges else None
    if here.as_json:
        emit_json(merged_json(merges, report))
    elif report:
        say_commits(report.commits[-1:])


def _say_merges(merges: Sequence[Merge], is_asked: bool) -> None:
    for merge in merges:
        say_painted("merge  " if is_asked else "would merge  ", "yellow", merge.drop)
        say(f"  into  {one_line(merge.keep)}")
    if not merges:
        say("No two notes of one context state the same.")
    elif not is_asked:
        say(f"Nothing was changed; --apply merges {len(merges)} into others, in one commit.")
