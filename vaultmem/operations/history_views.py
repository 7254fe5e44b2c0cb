"""Operations on git's history: log, show, diff, history, blame, why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from vaultmem.core.text.display import one_line, pad, pluralize, width
from vaultmem.operations.declaration import (
    Arg,
    ArgumentForm,
    FrontEnd,
    Line,
    VersionScope,
    at_most,
    declare,
    word,
)
from vaultmem.operations.lines import align
from vaultmem.operations.note_data import (
    blame_json,
    diff_json,
    format_seconds,
    ground_json,
    log_json,
    shown_json,
    trace_json,
)
from vaultmem.operations.schemas import fields, record, rows

if TYPE_CHECKING:
    from vaultmem.core.notes.changes import PropertyChange
    from vaultmem.services.history.blame import Blame, BlamedLine, NoteCommit, Trace
    from vaultmem.services.history.commits import Log
    from vaultmem.services.history.diff import FileOperation, ShownCommit, VaultDiff
    from vaultmem.services.history.explain import ChangeStep, ExplainedSection
    from vaultmem.storage.git.log import Commit
    from vaultmem.vault import Vault

_WORDS = {"add": ("added", "green"), "remove": ("removed", "red"), "replace": ("changed", "yellow")}

_SHALLOW_CLONE_TEXT = (
    "The history of this clone ends here: it is shallow. `git fetch --unshallow` gets the rest."
)

_MAX_TEXT = (
    "This clone is shallow and its history ends at {}: lines from there might be older than that."
)

_Below = Annotated[str, Arg("Only what changed this note or folder.", most=1_000, metavar="PATH")]
_At = Annotated[str, Arg("As it was then.", takes=ArgumentForm.SHARED)]
_Names = tuple[str, ...]


def log(
    vault: Vault,
    span: Annotated[str, word("Only what B has, and A has not.", most=400, metavar="[A..B]")] = "",
    limit: Annotated[int, at_most("Commits at most.", 1_000)] = 20,
    event: Annotated[_Names, Arg("Only this event (repeatable).", metavar="EVENT")] = (),
    from_agent: Annotated[_Names, Arg("Only by this agent (repeatable).", metavar="ID")] = (),
    session: Annotated[_Names, Arg("Only of this session (repeatable).", metavar="ID")] = (),
    path: _Below = "",
    since: Annotated[str, Arg("Only from this day or time on.", most=40, metavar="DATE")] = "",
    until: Annotated[str, Arg("Only up to this day or time.", most=40, metavar="DATE")] = "",
    all_: Annotated[bool, Arg("Also commits that vaultmem did not make.")] = False,
    follow: Annotated[bool, Arg("Also under the earlier names of the note that --path names.")] = (
        False
    ),
) -> Log:
    """Show what happened in the vault, newest first.

    Examples:
      vaultmem log -n 5
      vaultmem log --path notes/payments
      vaultmem log --path notes/payments/refund-rules --follow
    """
    from vaultmem.core.text.timestamps import parse_timestamp
    from vaultmem.errors import ArgumentError
    from vaultmem.services.history.commits import CommitFilter, list_commits

    if span and ".." not in span:
        raise ArgumentError(f'"{span}" is not A..B; --ref shows one branch, --path one note')
    if follow and not path:
        raise ArgumentError("--follow needs the note: --path NOTE --follow")
    commit_filter = CommitFilter(
        frozenset(event),
        frozenset(from_agent),
        frozenset(session),
        parse_timestamp(since) if since else None,
        parse_timestamp(until, end_of_day=True) if until else None,
        all_,
    )
    return list_commits(vault, commit_filter, limit, path, span, follows=follow)


def _log_lines(result: Log, request: Any) -> Iterator[Line]:
    for commit in result.commits:
        yield Line(commit.commit[:7], "yellow", f"  {format_commit_line(commit)}")
    if result.is_cut:
        yield Line(_SHALLOW_CLONE_TEXT)
    elif not result.commits and request == type(request)(limit=request.limit, all_=request.all_):
        yield Line("No events yet; `vaultmem checkpoint NOTE` makes the first.")
    elif not result.commits:
        yield Line("No event matches.")


def format_commit_line(commit: Commit) -> str:
    """Return a commit's time, author and subject in one line."""
    return f"{short_time(commit)}  {commit.shown[:16]:<16}  {commit.subject}"


def short_time(commit: Commit) -> str:
    """Return a commit's date and minute in its author's time zone."""
    return commit.time[:16].replace("T", " ")


def show(
    vault: Vault,
    commit: Annotated[str, word("Commit, branch, tag or date.  [default: HEAD]", most=200)] = "",
) -> ShownCommit:
    """Show who made a commit, why, and what it changed.

    Examples:
      vaultmem show
      vaultmem show HEAD~1
    """
    from vaultmem.services.history.diff import show_commit

    return show_commit(vault, commit)


def shown_lines(shown_commit: ShownCommit, _: Any) -> Iterator[Line]:
    """Yield a commit's author, time, reason and changes."""
    yield from _commit_lines(shown_commit)
    for operation in shown_commit.operations:
        yield Line("")
        yield from operation_lines(operation)
    if shown_commit.is_end:
        yield Line("")
        yield Line(f"What it changed is not known. {_SHALLOW_CLONE_TEXT}")
    elif not shown_commit.operations:
        yield Line("")
        yield Line("It changed nothing in the vault.")


def _commit_lines(shown_commit: ShownCommit) -> Iterator[Line]:
    commit = shown_commit.commit
    yield Line(f"commit {commit.commit}", "yellow")
    parents = [parent[:7] for parent in commit.parents]
    merged = f"of {' and '.join(parents)}; compared with {parents[0]}" if parents[1:] else ""
    facts = {
        "who": f"{commit.author} <{commit.email}>",
        "agent": commit.who if commit.wrote else commit.agent,
        "claimed by": commit.claimed_by,
        "when": commit.time,
        "event": commit.event,
        "session": commit.session,
        "intent": commit.intent,
        "confidence": commit.confidence,
        "tool call": commit.tool_call,
        "merge": merged,
    }
    for name, value in facts.items():
        if value:
            yield Line(f"{name:<10}  {one_line(value)}")
    yield Line("")
    yield Line(commit.subject)
    if commit.prose:
        yield Line("")
        yield Line(commit.prose)
    if commit.shown_notes:
        yield Line("")
        yield Line("before, its session was shown")
        for each in commit.shown_notes:
            timestamp = format_seconds(each.at)[:16].replace("T", " ")
            yield Line(f"  {timestamp}  {one_line(each.path)}", "dim")


def operation_lines(operation: FileOperation) -> Iterator[Line]:
    """Yield a file's change: properties one by one, then the text as a diff."""
    file, note = operation.file, operation.note
    word, colour = ("renamed", "yellow") if file.previous else _WORDS[file.op]
    was = f"  (was {file.previous})" if file.previous else ""
    yield Line(word, colour, f"  {file.path}{was}")
    if operation.remark:
        yield Line(f"  {operation.remark}")
    if note is None:
        return
    for change in note.properties:
        yield Line(f"  {_property_text(change)}")
    for line in () if note.properties else note.frontmatter_diff:
        yield Line(f"  {line}")
    for line in note.body:
        yield Line(f"  {line}")


def _property_text(change: PropertyChange) -> str:
    old, new = (
        value if isinstance(value, str) else ", ".join(value) for value in (change.old, change.new)
    )
    if change.op == "add":
        return one_line(f"+ {change.name}: {new}")
    if change.op == "remove":
        return one_line(f"- {change.name}: {old}")
    return one_line(f"{change.name}: {old} -> {new}")


def diff(
    vault: Vault,
    from_: Annotated[
        str,
        word(
            "Commit, branch, tag or date, A..B or A...B.  [default: HEAD]", most=400, metavar="[A]"
        ),
    ] = "",
    to: Annotated[
        str, word("Commit to compare with.  [default: the folder]", most=200, metavar="[B]")
    ] = "",
    path: _Below = "",
    brief: Annotated[
        bool, Arg("One line for each note.", excused={FrontEnd.HTTP: "the data has all"})
    ] = False,
) -> VaultDiff:
    """Show what changed in the notes between two commits.

    Name them as A B or A..B; A...B is what B has since the two parted. Changed properties are shown
    as such.

    Examples:
      vaultmem diff HEAD~1 HEAD
      vaultmem diff
    """
    from vaultmem.services.history.diff import diff_vault

    return diff_vault(vault, from_, to, path)


def diff_lines(result: VaultDiff, request: Any) -> Iterator[Line]:
    """Yield each changed note, with its changes or in one line."""
    if not result.operations:
        yield Line("Nothing differs.")
    if request.brief:
        yield from _brief_lines(result.operations)
        return
    for number, operation in enumerate(result.operations):
        if number:
            yield Line("")
        yield from operation_lines(operation)


def _diff_warnings(result: VaultDiff) -> Iterator[str]:
    for name, reason in result.skipped.items():
        yield f"left out {name}: {reason}"


def _brief_lines(operations: Sequence[FileOperation]) -> Iterator[Line]:
    """Yield one line for each file's change."""
    from vaultmem.services.history.diff import summarise_operation

    paths = [one_line(operation.file.path) for operation in operations]
    columns = min(max(map(width, paths), default=0), 60)
    for operation, path in zip(operations, paths, strict=True):
        renamed = bool(operation.file.previous)
        word, colour = ("renamed", "yellow") if renamed else _WORDS[operation.file.op]
        yield Line(
            f"{word:<7}", colour, f"  {pad(path, columns)}  {summarise_operation(operation)}"
        )


def history(
    vault: Vault,
    path: Annotated[str, word("The note, as it is called now or was once.", 1)],
    limit: Annotated[int, at_most("Changes at most.", 10_000)] = 0,
    at: _At = "",
) -> Trace:
    """Show what each commit did to a note, newest first.

    The note is followed through renames and removals.

    Examples:
      vaultmem history refund-rules
    """
    from vaultmem.services.history.blame import trace_note
    from vaultmem.services.history.commits import resolve_commit

    return trace_note(vault, path, limit, resolve_commit(vault, at) if at else "")


def _history_lines(trace: Trace, _: Any) -> Iterator[Line]:
    yield from version_lines(trace)
    if any(each.is_end for each in trace.versions):
        yield Line(_SHALLOW_CLONE_TEXT)


def version_lines(trace: Trace) -> Iterator[Line]:
    """Yield each commit's changes to a note, and the note's path then if it differs."""
    from vaultmem.services.history.diff import summarise_operation

    rows = [
        [
            each.commit.commit[:7] if each.commit else "",
            short_time(each.commit) if each.commit else "",
            format_writer(each),
            one_line(each.commit.event) if each.commit else "not committed",
            one_line(each.session),
        ]
        for each in trace.versions
    ]
    for line, each in zip(align(rows), trace.versions, strict=True):
        other = each.operation.file.path != trace.path
        name = f"  ({one_line(each.operation.file.path)})" if other else ""
        shown_count = len(each.commit.shown_notes) if each.commit else 0
        suffix = f"  after {pluralize(shown_count, 'note')} shown" if shown_count else ""
        yield Line(f"{line}  {one_line(summarise_operation(each.operation))}{name}{suffix}")


def format_writer(origin: BlamedLine | ChangeStep | NoteCommit) -> str:
    """Return the author, and the machine that claims the authorship if it is not confirmed here."""
    claimed = f", claimed by {origin.claimed_by}" if origin.claimed_by else ""
    return one_line(origin.author + claimed)


def blame(
    vault: Vault,
    path: Annotated[str, word("The note, or one section of it (PATH#Heading).", 1)],
    at: _At = "",
) -> Blame:
    """Show who wrote each line of a note, and when.

    Examples:
      vaultmem blame refund-rules
    """
    from vaultmem.services.history.blame import blame_note

    return blame_note(vault, path, at)


def _blame_lines(result: Blame, _: Any) -> Iterator[Line]:
    width = len(str(result.lines[-1].number)) if result.lines else 0
    for line, origin in zip(result.lines, align(list(map(_origin, result.lines))), strict=True):
        text = line.text.removesuffix("\r").expandtabs(4)
        yield Line(f"{origin}  {line.number:>{width}}  {text}".rstrip())
    if result.ends:
        yield Line(_MAX_TEXT.format(", ".join(sorted(commit[:7] for commit in result.ends))))


def _origin(line: BlamedLine | ChangeStep) -> list[str]:
    commit, stated = line.commit, getattr(line, "confidence", "")
    if commit is None:
        return ["", "", one_line(line.author), "not committed", one_line(line.session), "", stated]
    trailers = (commit.event, commit.session, commit.intent, commit.confidence or stated)
    return [commit.commit[:7], commit.time[:10], format_writer(line), *map(one_line, trailers)]


def why(
    vault: Vault,
    query: Annotated[
        str,
        Arg("What it is about.", "", 1, 1_000_000, takes=ArgumentForm.WORDS, metavar="TEXT"),
    ],
    limit: Annotated[int, at_most("Sections at most.", 50)] = 5,
) -> tuple[str, Sequence[ExplainedSection]]:
    """Show which notes mention a text, and who wrote them when.

    Facts and decisions come with what they rest on.
    """
    from vaultmem.services.history.explain import explain_text

    return query, explain_text(vault, query, limit)


def why_data(result: tuple[str, Sequence[ExplainedSection]]) -> dict[str, Any]:
    """Return the facts and decisions that mention the query."""
    return {"query": result[0], "grounds": list(map(ground_json, result[1]))}


def _why_lines(result: tuple[str, Sequence[ExplainedSection]], _: Any) -> Iterator[Line]:
    grounds = result[1]
    if not grounds:
        yield Line("No fact and no decision in this vault mentions that.")
    for number, ground in enumerate(grounds, 1):
        yield from _ground_lines(number, ground)
    ends = sorted({commit[:7] for ground in grounds for commit in ground.ends})
    if ends:
        yield Line(_MAX_TEXT.format(", ".join(ends)))


def _ground_lines(number: int, ground: ExplainedSection) -> Iterator[Line]:
    from vaultmem.core.packs.pack_item import plain_label
    from vaultmem.core.packs.pack_text import label_hit
    from vaultmem.core.packs.passages import show_line

    hit = ground.hit
    yield Line(f"{number:>2}. {plain_label(hit.name)}", "bold")
    yield Line(f"    {plain_label(hit.address)}   {label_hit(hit)}")
    yield Line(f"    {show_line(hit)}")
    for origin, step in zip(align(list(map(_origin, ground.steps))), ground.steps, strict=True):
        yield Line(f"    {origin}  {step.lines} {'line' if step.lines == 1 else 'lines'}")
    for link in ground.supersedes:
        missing = "" if link.path else "  (no such note)"
        yield Line(f"    supersedes  {one_line(link.path or link.name)}{missing}")
    for link in ground.superseded_by:
        yield Line(f"    superseded by  {one_line(link.path)}")


_COMMIT = fields("commit time author subject event agent session")
_OPERATIONS = rows(**fields("operation path blob? old_blob?"))

_read = partial(
    declare,
    versions=VersionScope.BRANCH,
    syncs=False,
    excused={FrontEnd.MCP: "the tool history answers with rows within a budget"},
)
_trace = partial(_read, versions=VersionScope.ASKED, syncs=True)

LOG = _read(
    log,
    "log",
    "GET /log",
    log_json,
    lines=_log_lines,
    output_schema=record(commits=rows(**_COMMIT), shallow="boolean"),
)

SHOW = _read(
    show,
    "show_commit",
    "GET /commits/{commit}",
    shown_json,
    lines=shown_lines,
    output_schema=record(**_COMMIT, operations=_OPERATIONS),
)

DIFF = _read(
    diff,
    "diff",
    "GET /diff",
    diff_json,
    lines=diff_lines,
    warnings=_diff_warnings,
    output_schema=_OPERATIONS,
)

HISTORY = _trace(
    history,
    "trace_note",
    "GET /history/{path}",
    trace_json,
    lines=_history_lines,
    output_schema=record(path="string", versions=rows(who="string", summary="string")),
)

BLAME = _trace(
    blame,
    "blame",
    "GET /blame/{path}",
    blame_json,
    lines=_blame_lines,
    output_schema=rows(**fields("line:integer text commit? committed:boolean time? who")),
)

WHY = _read(
    why,
    "why",
    "GET /why",
    why_data,
    lines=_why_lines,
    output_schema=record(query="string", grounds=rows(path="string", text="string")),
    versions=VersionScope.SEEN,
    syncs=True,
)

#: All history views, in the order of the reference page.
HISTORY_VIEWS = (LOG, SHOW, DIFF, BLAME, HISTORY, WHY)
