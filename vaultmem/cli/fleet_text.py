"""What all vaults of a fleet said, as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from vaultmem.cli.output import say, say_painted
from vaultmem.core.counting import count_things
from vaultmem.core.safe_text import one_line

if TYPE_CHECKING:
    from vaultmem.services.fleetwork.beliefs import Believers
    from vaultmem.services.fleetwork.compare import Comparison, Differing, Side
    from vaultmem.services.pools.status import VaultStats


def say_judged(judged: Mapping[str, Sequence[str]]) -> None:
    """Print which packs are not as expected, and how many are."""
    bad = {name: reasons for name, reasons in judged.items() if reasons}
    width = max(map(len, bad), default=0)
    for name, reasons in bad.items():
        say_painted(f"{name:<{width}}", "red", f"  {one_line('; '.join(reasons))}")
    say(f"{len(judged) - len(bad):,} of {count_things(len(judged), 'vault')} as expected")


def say_believers(found: Believers) -> None:
    """Print who says something, the first before the others."""
    rows = [
        (_tell_time(each.at), name, each.who, each.session or "-", each.path, each.source)
        for name, each in found.believers
    ]
    _say_table(("since", "vault", "who", "session", "note", "source"), rows)
    of = count_things(len(rows) + len(found.others), "vault")
    if not rows:
        say(f"None of {of} says so.")
        return
    name, first = found.believers[0]
    say(f"{len(rows):,} of {of} say so; {name} was the first:")
    say(f"  {_shorten(first.says, 76)}")
    about = [first.event, first.commit[:7], one_line(first.subject)]
    say_painted(f"  {'  '.join(filter(None, about))}", "dim")


def say_alike(found: Comparison, limit: int) -> None:
    """Print what is stated in several vaults, then what is nearly the same."""
    for group in found.same[:limit]:
        say_painted("same  ", "dim", _shorten(group.notes[0].title))
        _say_sides(group.notes)
    for pair in found.near[: max(0, limit - len(found.same))]:
        say_painted("near  ", "dim", f"{pair.similarity:.0%} alike, and no difference is known")
        _say_sides((pair.older, pair.newer))
    told = f"{count_things(len(found.same), 'statement')} in several vaults"
    told += f", {count_things(len(found.near), 'pair')} nearly the same"
    _say_sum(found, told, len(found.same) + len(found.near) - limit)


def say_contradictions(found: Comparison, limit: int) -> None:
    """Print what contradicts what."""
    for pair in found.contradicting[:limit]:
        is_update = any(kind == "update" for kind, _, _ in pair.differences)
        say_painted("update  " if is_update else "contradicts  ", "yellow", _tell_values(pair))
        _say_sides((pair.older, pair.newer), titled=True)
    told = count_things(len(found.contradicting), "contradiction")
    _say_sum(found, told, len(found.contradicting) - limit)


def _tell_values(pair: Differing) -> str:
    told = [
        f"{'' if kind == 'update' else f'{kind}: '}{older or 'nothing'}, then {newer or 'nothing'}"
        for kind, older, newer in pair.differences
        if kind != "wording"
    ]
    return _shorten("; ".join(told), 150)


def _say_sides(sides: Sequence[Side], titled: bool = False) -> None:
    for each in sides[:8]:
        about = [_tell_time(each.written)[:10], f"{each.vault}:{one_line(each.path)}"]
        about += [each.agent] if each.agent else []
        about += [f'"{_shorten(each.title)}"'] if titled else []
        say(f"  {'  '.join(about)}")
    if (more := len(sides) - 8) > 0:
        say(f"  and {count_things(more, 'more note')}")


def _say_sum(found: Comparison, told: str, more: int) -> None:
    if more > 0:
        say(f"{more:,} more are not shown; -n N shows as many, --json all.")
    say(f"{told}; {count_things(found.notes, 'note')} of {count_things(found.vaults, 'vault')}.")


def say_proposals(found: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """Print what would be proposed: in all, then by vault."""
    sums: Counter[str] = Counter()
    vaults: Counter[str] = Counter()
    rows = []
    for name, proposals in found.items():
        counts = Counter(str(each["action"]).replace("_", " ") for each in proposals)
        sums.update(counts)
        vaults.update(counts.keys())
        if counts:
            rows.append((name, _tell_counts(counts)))
    _say_table(("vault", "proposals"), rows)
    for action, count in sums.most_common():
        say_painted(
            f"{action:<20}", "bold", f" {count:>7,} in {count_things(vaults[action], 'vault')}"
        )
    if sums:
        say("Nothing was changed; `vaultmem curate` in a vault shows each, with reasons.")
    else:
        say("Nothing to do: these vaults are healthy.")


def say_compactions(found: Mapping[str, Mapping[str, Any]]) -> None:
    """Print what would be shortened: by vault, then in all."""
    rows = []
    before = left = 0
    for name, done in found.items():
        steps = done["steps"]
        counts = Counter(str(each["step"]) for each in steps)
        tokens = [sum(each[key] for each in steps) for key in ("tokens", "tokens_left")]
        before, left = before + tokens[0], left + tokens[1]
        if steps:
            rows.append((name, _tell_counts(counts), f"{tokens[0]:,} to {tokens[1]:,} tokens"))
    _say_table(("vault", "steps", ""), rows)
    exempt = sum((Counter(done["exempt"]) for done in found.values()), Counter[str]())
    for reason, count in exempt.most_common():
        say_painted("stays  ", "dim", f"{count_things(count, 'note')}: {reason}")
    if rows:
        say(f"Nothing was changed; {before:,} tokens would become {left:,}.")
    else:
        say("Nothing is due.")


def say_stats(found: Mapping[str, VaultStats]) -> None:
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
    _say_table(("vault", "notes", "tokens", "disk", "commit", "heard of", ""), rows)
    notes = sum(each.notes for each in found.values())
    say(f"{count_things(notes, 'note')} of {count_things(len(found), 'vault')}")


def _say_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows below their heads, each column as wide as it has to be."""
    if not rows:
        return
    cleaned = [tuple(map(one_line, row)) for row in (heads, *rows)]
    widths = [max(map(len, column)) for column in zip(*cleaned, strict=True)]
    for number, row in enumerate(cleaned):
        line = "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        (say if number else partial(say_painted, style="dim"))(line.rstrip())


def _tell_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {what}" for what, count in counts.items())


def _tell_time(at: float) -> str:
    return datetime.fromtimestamp(at).isoformat(" ", "minutes")


def _shorten(text: str, most: int = 70) -> str:
    line = one_line(text)
    return line if len(line) <= most else f"{line[: most - 3]}..."
