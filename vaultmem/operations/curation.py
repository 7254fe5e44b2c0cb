"""Operations that keep a vault small and true: similar, dedup, curate, dream, compact."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from vaultmem.core.text.display import one_line, pluralize
from vaultmem.core.text.json_values import pick
from vaultmem.operations.declaration import Arg, FrontEnd, Line, VersionScope, declare, words
from vaultmem.operations.lines import commit_lines
from vaultmem.operations.notes import nearby_lines
from vaultmem.operations.schemas import STRINGS, fields, record, rows

if TYPE_CHECKING:
    from vaultmem.core.curation.proposal import Proposal, Report
    from vaultmem.services.changes.commit import CommitReport
    from vaultmem.services.curation.compact import CompactResult
    from vaultmem.services.curation.decide import ApplyResult
    from vaultmem.services.curation.dream import Dream
    from vaultmem.services.similarity.known import SimilarText
    from vaultmem.services.views.read_index import Progress
    from vaultmem.vault import Vault

_OWNERS = {FrontEnd.MCP: "the list of tools is at its limit; the owner or the watcher does this"}

_ONE_BY_ONE = {FrontEnd.HTTP: "`POST /review/{id}` makes one change at a time"}

#: Called before changes are made, with the plan and their number in words.
Confirm = Callable[[Any, str], object]


def similar(
    vault: Vault, text: Annotated[str, words("A text, or the path of a note.", 1, "TEXT|PATH...")]
) -> Sequence[SimilarText]:
    """List the notes that state the same as a text, or nearly.

    The path of a note can be given in place of a text. Differences are shown.

    Examples:
      vaultmem similar "Half refunds are rounded up to the next cent."
    """
    from vaultmem.services.similarity.known import describe_similar
    from vaultmem.services.similarity.similar import find_similar, read_asked

    query = read_asked(vault, text)
    return describe_similar(find_similar(vault, query), query.text)


def _similar_lines(matches: Sequence[SimilarText], _: Any) -> Iterator[Line]:
    for each in matches:
        yield from nearby_lines(each)
    if not matches:
        yield Line("No note matches.")


class DedupResult(NamedTuple):
    """The merges of duplicates; without a report, the planned ones."""

    merges: Sequence[Proposal]
    report: CommitReport | None = None


def dedup(
    vault: Vault,
    apply: Annotated[bool, Arg("Merge what is shown.", excused=_ONE_BY_ONE)] = False,
    *,
    progress: Progress | None = None,
    confirm: Confirm = lambda *_: None,
) -> DedupResult:
    """List duplicate notes, or merge them.

    --apply merges them, in one commit. The merged note stays in its place, deprecated, and names
    the note that is kept, so links to it still work. Pinned notes and those of a person are kept.

    Examples:
      vaultmem dedup
    """
    from vaultmem.services.curation.dedup import apply_merges, plan_merges

    merges = plan_merges(vault, progress)
    if not (apply and merges):
        return DedupResult(merges)
    confirm(DedupResult(merges), pluralize(len(merges), "merge"))
    return DedupResult(merges, apply_merges(vault, merges))


def _dedup_data(result: DedupResult) -> dict[str, Any]:
    merges = [pick(each, "keep=into merge=path") for each in result.merges]
    if not result.report:
        return {"would_merge": merges, "commit": None}
    return {"merged": merges, **pick(result.report, "commit?")}


def _dedup_lines(result: DedupResult, request: Any) -> Iterator[Line]:
    if result.report:
        yield from commit_lines(result.report.commits[-1:])
        return
    for each in result.merges:
        yield Line("merge  " if request.apply else "would merge  ", "yellow", each.path)
        yield Line(f"  into  {one_line(each.into)}")
    if not result.merges:
        yield Line("No two notes of one context state the same.")
    elif not request.apply:
        count = len(result.merges)
        yield Line(f"Nothing was changed; --apply merges {count} into others, in one commit.")


class CurateResult(NamedTuple):
    """The report on a vault, and what was applied of it, if that was wanted."""

    report: Report
    applied: ApplyResult | None = None


def curate(
    vault: Vault,
    apply: Annotated[
        bool, Arg("Make the changes that are shown, in one commit.", excused=_ONE_BY_ONE)
    ] = False,
    *,
    report: Report | None = None,
    progress: Progress | None = None,
    confirm: Confirm = lambda *_: None,
) -> CurateResult:
    """Propose notes to merge, archive, check or fix.

    Nothing is changed without --apply, and then exactly what is shown: `curate --save FILE`, look,
    `curate FILE --apply`. Notes that were changed since the report was made are refused.

    Examples:
      vaultmem curate --save ../report.json
      vaultmem curate ../report.json --apply --yes
    """
    from vaultmem.services.curation.curate import curate
    from vaultmem.services.curation.decide import apply_report

    report = report or curate(vault, progress)
    if not apply:
        return CurateResult(report)
    if report.changes:
        confirm(CurateResult(report), pluralize(len(report.changes), "change"))
    return CurateResult(report, apply_report(vault, report))


def _curate_data(result: CurateResult) -> dict[str, Any]:
    data, applied = pick(result.report, "made proposals"), result.applied
    if not applied:
        return {**data, "commit": None}
    counts = {"applied": len(applied.proposals), "already": len(applied.skipped)}
    return {**data, **counts, **pick(applied, "commit?=report.commit")}


def _curate_lines(result: CurateResult, request: Any) -> Iterator[Line]:
    report, applied = result
    if applied is not None and report.changes:
        if applied.skipped:
            yield Line(f"{pluralize(len(applied.skipped), 'change')} had been made already.")
        yield from commit_lines(applied.report.commits)
        return
    if not report.proposals:
        yield Line("Nothing to do: this vault is healthy.")
    action = ""
    for each in report.proposals:
        if each.action != action:
            action = each.action
            yield Line(action.replace("_", " "), "yellow" if each.is_change else "bold")
        yield Line(f"  {one_line(each.path)}")
        yield Line(f"    {one_line(each.reason)}")
        yield from (Line("    - ", "dim", line) for line in each.evidence)
    if report.changes and not request.apply:
        count = pluralize(len(report.changes), "change")
        yield Line(f"Nothing was changed; --apply makes {count}.")


def dream(
    vault: Vault, dry_run: Annotated[bool, Arg("Only show the notes and their scores.")] = False
) -> Dream:
    """Promote what was recalled often; DREAMS.md lists it.

    The notes become active, and MEMORY.md names them. They are not trusted: policies and skills
    instruct only after you promote them.

    Examples:
      vaultmem dream --dry-run
    """
    from vaultmem.services.curation.dream import dream

    return dream(vault, dry_run)


def _dream_data(result: Dream) -> dict[str, Any]:
    return {
        **pick(result, "candidates moves commit?=report.commit"),
        "promoted": [each.path for each in result.promoted],
        "left": [each.path for each in result.remaining],
    }


def _dream_lines(result: Dream, request: Any) -> Iterator[Line]:
    if not result.candidates:
        yield Line("Nothing was recalled yet.")
        return
    candidates = [each for each in result.candidates if request.dry_run or not each.held]
    if candidates:
        yield Line("score  freq  relv  rcnt  dvrs  cons  recalls  note", "dim")
    for each in candidates:
        strength = each.strength
        numbers = "  ".join(f"{part:.2f}" for part in strength[:6])  # The score and its parts.
        outcome = f"({each.held})" if each.held else "promote" if request.dry_run else "promoted"
        note = one_line(f"{each.path}  {outcome}")
        yield Line(f" {numbers}  {strength.recalls:>7}  {note}")
    if not result.promoted:
        yield Line("Nothing to promote.")
    if result.remaining:
        count = pluralize(len(result.remaining), "note")
        yield Line(f"{count} more are left for the next night (dream_limit).")
    for move in result.moves:
        yield Line("may go  ", "yellow", f"MEMORY.md:{move.line}: {move.text}  ({move.reason})")
    yield from commit_lines(result.report.commits)


def compact(
    vault: Vault,
    apply: Annotated[bool, Arg("Make the changes that are shown.")] = False,
    *,
    confirm: Confirm = lambda *_: None,
) -> CompactResult:
    """Summarize unused notes; the full text stays in git.

    A note becomes a summary, later keywords, and then it is archived. A recall restarts a note's
    time. Pinned notes, policies, skills and notes that a person wrote or edited stay as they are.
    `restore NOTE --at COMMIT` brings a full text back; the commits say which.

    Examples:
      vaultmem compact
    """
    from vaultmem.services.curation.compact import compact, plan_compaction

    plan = plan_compaction(vault)
    if not (apply and plan.steps):
        return plan
    confirm(plan, pluralize(len(plan.steps), "step"))
    return compact(vault)


def _compact_data(result: CompactResult) -> dict[str, Any]:
    names = "path step from=before idle_days tokens tokens_left"
    steps = [pick(each, names) for each in result.steps]
    commits = [each.commit for each in result.reports if each.commit]
    return {"steps": steps, "exempt": result.exempt, "commits": commits}


def _compact_lines(result: CompactResult, request: Any) -> Iterator[Line]:
    if result.reports:
        yield from commit_lines(commit for report in result.reports for commit in report.commits)
        return
    for each in result.steps:
        days = pluralize(each.idle_days, "day")
        tokens = f"{each.tokens} to {pluralize(each.tokens_left, 'token')}"
        yield Line(f"{each.step:<9}", "yellow", f" {each.path}  {tokens}, {days}")
    for reason, count in sorted(result.exempt.items()):
        yield Line("stays    ", "dim", f" {pluralize(count, 'note')}: {reason}")
    if not result.steps:
        yield Line("Nothing is due.")
    elif not request.apply:
        yield Line(f"Nothing was changed; --apply makes {pluralize(len(result.steps), 'step')}.")


SIMILAR = declare(
    similar,
    "similar",
    "GET /similar",
    lambda matches: {"similar": matches},
    lines=_similar_lines,
    output_schema=record(similar=rows(**fields("path title state similarity:number"))),
    versions=VersionScope.BRANCH,
    excused={FrontEnd.MCP: "remember names the notes that state the same, or nearly"},
)

_report = partial(declare, long=True, excused=_OWNERS)
_write = partial(declare, writes=True, excused=_OWNERS)

DEDUP = _report(
    dedup,
    "dedup",
    "GET /dedup",
    _dedup_data,
    summary="List duplicate notes, each with the note to merge it into.",
    lines=_dedup_lines,
    output_schema=record(would_merge=rows(keep="string", merge="string")),
)

_PROPOSALS = record(made="string", proposals=rows(**fields("action path reason")))
CURATE = _report(
    curate, "curate", "GET /curate", _curate_data, lines=_curate_lines, output_schema=_PROPOSALS
)

_DREAM = record(candidates=rows(**fields("path held")), promoted=STRINGS, commit="string?")
DREAM = _write(dream, "dream", "POST /dream", _dream_data, lines=_dream_lines, output_schema=_DREAM)

_STEPS = rows(**fields("path step tokens:integer tokens_left:integer"))
_COMPACTION_SCHEMA = record(steps=_STEPS, exempt="object", commits=STRINGS)
COMPACT = _write(
    compact,
    "compact",
    "POST /compact",
    _compact_data,
    lines=_compact_lines,
    output_schema=_COMPACTION_SCHEMA,
)
