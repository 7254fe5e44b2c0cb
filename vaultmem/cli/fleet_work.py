"""Run commands with `--fleet FILE`, and print their results, as text and as JSON."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from vaultmem.cli.output import ProgressLine, emit_json, print_line, print_styled, warn
from vaultmem.cli.shared import needing
from vaultmem.core.text.display import one_line, pluralize
from vaultmem.errors import RefusedError
from vaultmem.operations.vault_data import (
    fleet_compacted_json,
    fleet_curated_json,
    fleet_judged_json,
    fleet_stats_json,
)

if TYPE_CHECKING:
    from vaultmem.core.packs.receipt import Expectation
    from vaultmem.services.fleet.clone import VaultSource, VaultStats
    from vaultmem.services.fleet.jobs import (
        Differing,
        FleetComparison,
        FleetNote,
        JobOptions,
        JobResults,
        Mentions,
    )
    from vaultmem.services.fleet.pool import Pool
    from vaultmem.services.packs.build import AskPack, PackAnswer
    from vaultmem.services.search.run_query import Query, QueryResult, Show
    from vaultmem.services.search.vault_set import VaultSet

#: What stands before the address of a cluster.
_RAY = "ray:"

#: Seconds for which the vaults of a question are waited for, and one vault of a job.
_QUESTION, JOB_SECONDS = 60.0, 120.0

#: Vaults that did not answer, as many as are named; JSON has all.
_NAMED = 20


@contextlib.contextmanager
def open_fleet(fleet: str, folder: str = "") -> Iterator[Pool]:
    """Open the vaults that a file or folder names, or the fleet of a cluster, for a `with`.

    Raises:
        RefusedError: a file says something else.
        VaultError: there is none; or the extra `fleet` is not installed.
    """
    from vaultmem.services.fleet.pool import LocalPool

    if fleet.startswith(_RAY):
        with needing("fleet", "--fleet"):
            from vaultmem.ray_fleet.ray_pool import RayPool
        pool: Pool = RayPool(fleet.removeprefix(_RAY))
    else:
        pool = LocalPool(read_fleet(fleet), find_folder(folder))
    with contextlib.closing(pool):
        yield pool


def read_fleet(fleet: str) -> list[VaultSource]:
    """Return the vaults that a file or folder names."""
    from vaultmem.services.fleet.clone import read_sources

    return read_sources(Path(fleet).expanduser())


def find_folder(folder: str = "") -> Path:
    """Return the folder of the clones: this one, else one in the state folder."""
    from vaultmem.environment import current_environment
    from vaultmem.vault import find_user_folders

    if folder:
        return Path(folder).expanduser().absolute()
    return find_user_folders(current_environment()).state / "fleet"


@contextlib.contextmanager
def open_job(
    fleet: str, seconds: float = JOB_SECONDS, again: bool = False
) -> Iterator[tuple[Pool, JobOptions]]:
    """Open a fleet for a job over it, with what was done before, for a `with`.

    Where Ctrl-C stops it, it is said that what is done stays.
    """
    from vaultmem.services.fleet.jobs import JobOptions
    from vaultmem.storage.kept import KeptWork

    kept = KeptWork(find_folder(), time.time())
    with open_fleet(fleet) as pool:
        try:
            yield pool, JobOptions(kept, seconds, again, ProgressLine)
        except KeyboardInterrupt:
            warn("stopped; what vaults did is kept, and the same command goes on with the rest")
            raise


def reject_with_fleet(**given: object) -> None:
    """Refuse options of a command that are for one vault.

    Raises:
        RefusedError: one is given.
    """
    for name, value in given.items():
        if value:
            option = f"--{name.replace('_', '-')}"
            raise RefusedError(f"{option}: is for one vault; leave it out with --fleet")


def recall_fleet(
    fleet: str, vaults: Sequence[str], asked: Query, show: Show
) -> tuple[QueryResult, dict[str, str]]:
    """Return what answers a question in a fleet, and why some vaults have no part in it."""
    with open_fleet(fleet) as pool:
        answer, missing = pool.recall(vaults or None, asked, seconds=_QUESTION)
    no_vault = cast("VaultSet", None)  # Texts are at hand; none is looked at.
    return answer._replace(shown=show(no_vault, answer) or ()), missing


def pack_fleet(
    fleet: str, vaults: Sequence[str], asked: AskPack
) -> tuple[PackAnswer, dict[str, str]]:
    """Return a pack of a fleet, and why some vaults have no part in it."""
    with open_fleet(fleet) as pool:
        return pool.pack(vaults or None, asked, seconds=_QUESTION)


def stats_fleet(fleet: str, vault: str, as_json: bool) -> None:
    """Print what each vault holds, and at which commit it is."""
    with open_fleet(fleet) as pool:
        names = [vault] if vault else None
        missing = pool.refresh(names).missing
        found = pool.stats(names)
    missing = {name: why for name, why in missing.items() if not found.results[name].problem}
    if as_json:
        emit_json(fleet_stats_json(found.results, {**missing, **found.missing}))
        return
    print_stats(found.results)
    warn_missing({**missing, **found.missing})


def assert_fleet(fleet: str, vault: str, expected: Expectation, as_json: bool) -> bool | None:
    """Print which vaults' packs are not as expected; return whether all are, None if unknown."""
    from vaultmem.services.fleet.jobs import judge_all

    judge = partial(judge_all, expected=expected)
    given = (judge, fleet_judged_json, print_judged)
    judged, done = _run_each(fleet, vault, as_json, *given)
    if any(judged.values()):
        return False
    return None if done.missing else True


def curate_fleet(fleet: str, vault: str, as_json: bool) -> None:
    """Print what `curate` would propose in each vault."""
    from vaultmem.services.fleet.jobs import curate_all

    given = (curate_all, fleet_curated_json, print_proposals)
    _run_each(fleet, vault, as_json, *given)


def compact_fleet(fleet: str, vault: str, as_json: bool) -> None:
    """Print what `compact` would shorten in each vault."""
    from vaultmem.services.fleet.jobs import compact_all

    given = (compact_all, fleet_compacted_json, print_compactions)
    _run_each(fleet, vault, as_json, *given)


def _run_each(
    fleet: str,
    vault: str,
    as_json: bool,
    work: Callable[..., JobResults],
    to_json: Callable[[dict[str, Any], JobResults], object],
    say_found: Callable[[dict[str, Any]], None],
) -> tuple[dict[str, Any], JobResults]:
    """Do a job with each vault, print what it made of them, and return that."""
    with open_job(fleet) as (pool, options):
        done = work(pool, [vault] if vault else [], options)
        found = dict(done.items())
    if as_json:
        emit_json(to_json(found, done))
    else:
        say_found(found)
        warn_missing(done.missing, done.behind)
    return found, done


def warn_missing(missing: Mapping[str, str], behind: Mapping[str, str] | None = None) -> None:
    """Name the vaults that have no part in an answer, or not as their remotes are."""
    for name, why in list(missing.items())[:_NAMED]:
        warn(f"{name}: not asked: {why}")
    if (more := len(missing) - _NAMED) > 0:
        warn(f"and {pluralize(more, 'more vault')} not asked")
    if behind:
        some = ", ".join(list(behind)[:_NAMED])
        warn(f"as their clones were, for their remotes were not read: {some}")


def print_judged(judged: Mapping[str, Sequence[str]]) -> None:
    """Print which packs are not as expected, and how many are."""
    bad = {name: reasons for name, reasons in judged.items() if reasons}
    width = max(map(len, bad), default=0)
    for name, reasons in bad.items():
        print_styled(f"{name:<{width}}", "red", f"  {one_line('; '.join(reasons))}")
    print_line(f"{len(judged) - len(bad):,} of {pluralize(len(judged), 'vault')} as expected")


def print_mentions(found: Mentions) -> None:
    """Print who says something, the first before the others."""
    rows = [
        (_describe_time(each.at), name, each.who, each.session or "-", each.path, each.source)
        for name, each in found.believers
    ]
    _print_table(("since", "vault", "who", "session", "note", "source"), rows)
    of = pluralize(len(rows) + len(found.others), "vault")
    if not rows:
        print_line(f"No vault of {of} has it.")
        return
    name, first = found.believers[0]
    print_line(f"{len(rows):,} of {of} have it; {name} was the first:")
    print_line(f"  {_shorten(first.says, 76)}")
    about = [first.event, first.commit[:7], one_line(first.subject)]
    print_styled(f"  {'  '.join(filter(None, about))}", "dim")


def print_duplicates(found: FleetComparison, limit: int) -> None:
    """Print what is stated in several vaults, then what is nearly the same."""
    for group in found.same[:limit]:
        print_styled("same  ", "dim", _shorten(group[0].title))
        _print_sides(group)
    for pair in found.near[: max(0, limit - len(found.same))]:
        print_styled("near  ", "dim", f"{pair.similarity:.0%} alike, and no difference is known")
        _print_sides((pair.older, pair.newer))
    told = f"{pluralize(len(found.same), 'statement')} in several vaults"
    told += f", {pluralize(len(found.near), 'pair')} nearly the same"
    _print_sum(found, told, len(found.same) + len(found.near) - limit)


def print_contradictions(found: FleetComparison, limit: int) -> None:
    """Print what contradicts what."""
    for pair in found.contradicting[:limit]:
        is_update = any(kind == "update" for kind, _, _ in pair.differences)
        print_styled("update  " if is_update else "contradicts  ", "yellow", _describe_values(pair))
        _print_sides((pair.older, pair.newer), titled=True)
    told = pluralize(len(found.contradicting), "contradiction")
    _print_sum(found, told, len(found.contradicting) - limit)


def _describe_values(pair: Differing) -> str:
    told = [
        f"{'' if kind == 'update' else f'{kind}: '}{older or 'nothing'}, then {newer or 'nothing'}"
        for kind, older, newer in pair.differences
        if kind != "wording"
    ]
    return _shorten("; ".join(told), 150)


def _print_sides(sides: Sequence[FleetNote], titled: bool = False) -> None:
    for each in sides[:8]:
        about = [_describe_time(each.written)[:10], f"{each.vault}:{one_line(each.path)}"]
        about += [each.agent] if each.agent else []
        about += [f'"{_shorten(each.title)}"'] if titled else []
        print_line(f"  {'  '.join(about)}")
    if (more := len(sides) - 8) > 0:
        print_line(f"  and {pluralize(more, 'more note')}")


def _print_sum(found: FleetComparison, told: str, more: int) -> None:
    if more > 0:
        print_line(f"{more:,} more are not shown; -n N shows as many, --json all.")
    print_line(f"{told}; {pluralize(found.notes, 'note')} of {pluralize(found.vaults, 'vault')}.")


def print_proposals(found: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """Print what would be proposed: in all, then by vault."""
    sums: Counter[str] = Counter()
    vaults: Counter[str] = Counter()
    rows = []
    for name, proposals in found.items():
        counts = Counter(str(each["action"]).replace("_", " ") for each in proposals)
        sums.update(counts)
        vaults.update(counts.keys())
        if counts:
            rows.append((name, _describe_counts(counts)))
    _print_table(("vault", "proposals"), rows)
    for action, count in sums.most_common():
        print_styled(
            f"{action:<20}", "bold", f" {count:>7,} in {pluralize(vaults[action], 'vault')}"
        )
    if sums:
        print_line("Nothing was changed; `vaultmem curate` in a vault shows each, with reasons.")
    else:
        print_line("Nothing to do: these vaults are healthy.")


def print_compactions(found: Mapping[str, Mapping[str, Any]]) -> None:
    """Print what would be shortened: by vault, then in all."""
    rows = []
    before = left = 0
    for name, done in found.items():
        steps = done["steps"]
        counts = Counter(str(each["step"]) for each in steps)
        tokens = [sum(each[key] for each in steps) for key in ("tokens", "tokens_left")]
        before, left = before + tokens[0], left + tokens[1]
        if steps:
            rows.append((name, _describe_counts(counts), f"{tokens[0]:,} to {tokens[1]:,} tokens"))
    _print_table(("vault", "steps", ""), rows)
    exempt = sum((Counter(done["exempt"]) for done in found.values()), Counter[str]())
    for reason, count in exempt.most_common():
        print_styled("stays  ", "dim", f"{pluralize(count, 'note')}: {reason}")
    if rows:
        print_line(f"Nothing was changed; {before:,} tokens would become {left:,}.")
    else:
        print_line("Nothing is due.")


def print_stats(found: Mapping[str, VaultStats]) -> None:
    """Print what each vault holds."""
    rows = [
        (
            *(name, f"{each.notes:,}", f"{each.tokens:,}"),
            f"{(each.clone_bytes + each.index_bytes) / 1e6:.1f} MB",
            *(each.commit[:7] or "-", f"{each.age:,.0f} s" if each.age >= 0 else "-"),
            one_line(each.problem),
        )
        for name, each in found.items()
    ]
    _print_table(("vault", "notes", "tokens", "disk", "commit", "heard of", ""), rows)
    notes = sum(each.notes for each in found.values())
    print_line(f"{pluralize(notes, 'note')} of {pluralize(len(found), 'vault')}")


def _print_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows below their heads, each column as wide as it has to be."""
    if not rows:
        return
    cleaned = [tuple(map(one_line, row)) for row in (heads, *rows)]
    widths = [max(map(len, column)) for column in zip(*cleaned, strict=True)]
    for number, row in enumerate(cleaned):
        line = "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        (print_line if number else partial(print_styled, style="dim"))(line.rstrip())


def _describe_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {what}" for what, count in counts.items())


def _describe_time(at: float) -> str:
    return datetime.fromtimestamp(at).isoformat(" ", "minutes")


def _shorten(text: str, most: int = 70) -> str:
    line = one_line(text)
    return line if len(line) <= most else f"{line[: most - 3]}..."
