"""Commands that evaluate recall and compute vectors: eval, embed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vaultmem.cli.opening import CommandContext
from vaultmem.cli.output import ProgressLine, emit_json, print_line, print_styled, warn
from vaultmem.cli.shared import takes
from vaultmem.core.text.display import one_line, pluralize
from vaultmem.operations.vault_data import added_question_json, evaluation_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vaultmem.core.search.evaluation import Question
    from vaultmem.services.packs.evaluate import Evaluation, Run


#: Maximum number of listed questions.
_MAX_LISTED_QUESTIONS = 20

#: Other notes listed for a note that was not found.
_MAX_OTHER_NOTES = 3


@takes("vault", "ref", "as_json")
def eval_(
    context: CommandContext,
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="A markdown table | question | notes |, or JSON lines with these names.",
        ),
    ],
    notes: Annotated[
        list[str],
        typer.Argument(
            metavar="NOTE", help="With --add: notes that answer.  [default: all it showed]"
        ),
    ] = [],  # noqa: B006
    against: Annotated[
        str,
        typer.Option("--against", metavar="WHEN", help="Also at a commit, branch, tag or date."),
    ] = "",
    settings: Annotated[
        list[str],
        typer.Option("--set", metavar="KEY=VALUE", help="Also with this setting (repeatable)."),
    ] = [],  # noqa: B006
    add: Annotated[
        str,
        typer.Option("--add", metavar="RECEIPT", help="Add this receipt's question to the file."),
    ] = "",
    depth: Annotated[int, typer.Option("-k", metavar="N", help="Results that count.")] = 10,
    budget: Annotated[
        list[str],
        typer.Option(
            "--budget",
            metavar="TOKENS",
            help="Budget of a pack (repeatable).  [default: 500, 1000 and 2000]",
        ),
    ] = [],  # noqa: B006
) -> None:
    """Measure how well recall and packs answer your queries.

    Nothing is counted or written. With --against or --set, each query runs twice, and the results
    are compared.

    Examples:
      vaultmem eval ../questions.md
      vaultmem eval ../questions.md --against HEAD~20 --set semantic=static
    """
    from vaultmem.services.packs.evaluate import EvaluationOptions, evaluate

    place = Path(file).expanduser()
    if add:
        _add(context, place, add, notes)
        return
    if notes:
        raise typer.BadParameter("Notes are named with --add; the file of questions is one.")
    options = EvaluationOptions(depth, _read_budgets(budget), against, tuple(settings))
    evaluation = evaluate(context.open_synced(reads=True), place, options, ProgressLine)
    for run in evaluation.runs:
        if run.problem_summary:
            warn(f"without a model that was to decide, {_name(run)}: {run.problem_summary}")
    if context.as_json:
        emit_json(evaluation_json(evaluation))
        return
    _print_figures(evaluation)
    if len(evaluation.runs) == 1:
        _print_strength(evaluation.runs[0])
        _print_missing(evaluation, place.name)
    else:
        _print_changed(evaluation, place.name)
    if evaluation.omitted_note:
        print_line()
        print_line(
            f"{one_line(evaluation.omitted_note)} is a note of this vault. It was left out here, "
            "but else recall and packs find it: move it, or list it under `ignore` in "
            "vaultmem.yaml."
        )


def _read_budgets(texts: list[str]) -> tuple[int, ...]:
    if not all(each.isdecimal() for each in texts):
        raise typer.BadParameter("--budget takes a number of tokens.")
    return tuple(sorted(set(map(int, texts)))) or (500, 1_000, 2_000)


def _add(context: CommandContext, file: Path, receipt: str, notes: list[str]) -> None:
    from vaultmem.services.packs.question_file import add_from_receipt

    result = add_from_receipt(context.open_synced(reads=True), file, receipt, notes)
    question = result.question
    if context.as_json:
        emit_json(added_question_json(result))
        return
    if not result.is_new:
        print_line(f"{file.name}:{question.line} has this question already; nothing was added.")
        return
    print_styled("added  ", "green", f"{question.text}  ({', '.join(question.notes)})")


def _print_figures(evaluation: Evaluation) -> None:
    """Print a table of all figures with their confidence intervals."""
    count = len(evaluation.questions)
    heads = [f"recall@{evaluation.options.depth}", f"nDCG@{evaluation.options.depth}"]
    heads += [f"{'in packs of ' * (not n)}{b:,}" for n, b in enumerate(evaluation.options.budgets)]
    rows = [[pluralize(count, "question"), *heads]]
    rows += [[_name(run), *(f"{each.mean:.3f}" for each in run.figures)] for run in evaluation.runs]
    rows += [["difference", *(f"{each.mean:+.3f}" for each in evaluation.difference)]]
    rows = rows if evaluation.difference else rows[:-1]
    sign = "+" if evaluation.difference else ""
    ends = [(each.low, each.high) for each in evaluation.difference or evaluation.runs[0].figures]
    rows.append(
        ["  95 % interval", *(f"{low:{sign}.2f} to {high:{sign}.2f}" for low, high in ends)]
    )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, *cells in rows:
        padded_cells = (
            cell.rjust(width + 2) for cell, width in zip(cells, widths[1:], strict=True)
        )
        print_line(name.ljust(widths[0]) + "".join(padded_cells))


def _name(run: Run) -> str:
    """Return a run's label: "now", or its version and settings."""
    version = run.at if run.commit.startswith(run.at) else f"{run.at} ({run.commit[:7]})"
    parts = [f"at {version}"] if run.at else []
    parts += [f"with {', '.join(run.settings)}"] if run.settings else []
    return one_line(", ".join(parts)) or "now"


def _print_strength(run: Run) -> None:
    """Print how often results contained an expected note, by match strength."""
    parts = []
    for level in ("strong", "weak", "none"):
        if matches := [any(each.places) for each in run.judged if each.match_strength == level]:
            parts.append(f"{level} {sum(matches):,} of {len(matches):,}")
    print_line(f"with such a note, by how sure recall was: {', '.join(parts)}")


def _print_missing(evaluation: Evaluation, file: str) -> None:
    """Print the questions with missing notes, and the notes that were found instead."""
    pairs = zip(evaluation.questions, evaluation.runs[0].judged, strict=True)
    failures = [(question, each) for question, each in pairs if 0 in each.places]
    print_line()
    if not failures:
        print_line(f"Each question's notes are among the first {evaluation.options.depth} results.")
        return
    print_line(
        f"{len(failures):,} not answered among the first {evaluation.options.depth} results:"
    )
    for question, each in failures[:_MAX_LISTED_QUESTIONS]:
        print_styled(_describe_question(file, question), "bold", f"  ({each.match_strength})")
        for address, place, state in zip(question.notes, each.places, each.states, strict=True):
            if not place:
                print_line(f"    not found  {one_line(address)}{_describe_state(state)}")
        for path in [each for each in each.found if each not in question.notes][:_MAX_OTHER_NOTES]:
            print_styled("    instead    ", "dim", path)
    _print_rest(failures)


def _print_changed(evaluation: Evaluation, file: str) -> None:
    """Print the questions whose results differ between the two runs."""
    own_run, other_run = evaluation.runs
    rows = zip(evaluation.questions, own_run.judged, other_run.judged, strict=True)
    differences = [(question, a, b) for question, a, b in rows if a.values != b.values]
    print_line()
    if not differences:
        print_line("Each question is answered just as well there.")
        return
    print_line(
        f"{len(differences):,} of {len(evaluation.questions):,} questions "
        "are answered otherwise there:"
    )
    for question, a, b in differences[:_MAX_LISTED_QUESTIONS]:
        delta = sum(b.values) - sum(a.values)
        word, style = ("better", "green") if delta > 0 else ("worse ", "red")
        print_styled(word, style, f"  {_describe_question(file, question)}")
        for address, *places, state in zip(
            question.notes, a.places, b.places, b.states, strict=True
        ):
            if places[0] != places[1]:
                own_place, other_place = (f"place {n}" if n else "not found" for n in places)
                print_line(
                    f"    {one_line(address)}: {own_place}, "
                    f"there {other_place}{_describe_state(state)}"
                )
        for budget, first, second in zip(evaluation.options.budgets, a.packs, b.packs, strict=True):
            if first != second:
                print_line(f"    evidence in a pack of {budget:,}: {first:.2f}, there {second:.2f}")
    _print_rest(differences)


def _describe_question(file: str, question: Question) -> str:
    return f"{file}:{question.line}  {question.text}"


def _describe_state(state: str) -> str:
    """Return why a note was not found, if it is missing or its state hides it."""
    if not state:
        return " (not there)"
    return "" if state in {"active", "candidate", "stale"} else f" ({state})"


def _print_rest(listed: Sequence[object]) -> None:
    if len(listed) > _MAX_LISTED_QUESTIONS:
        print_line(f"... and {len(listed) - _MAX_LISTED_QUESTIONS:,} more; --json has all")


# The command that computes vectors for semantic recall.


@takes("vault", "as_json")
def embed(
    context: CommandContext,
    model: Annotated[
        str,
        typer.Option(
            "--model",
            metavar="NAME",
            help="static, onnx or endpoint.  [default: from vaultmem.yaml]",
            show_default=False,
        ),
    ] = "",
) -> None:
    """Compute the vectors that semantic recall lacks.

    It can be interrupted at any time, and goes on where it was.

    Examples:
      vaultmem embed --model static
    """
    from vaultmem.services.semantic.embed import drop_garbage, embed_sections
    from vaultmem.services.semantic.meaning import choose_model, open_meaning

    vault = context.open_synced()
    meaning = open_meaning(vault, choose_model(vault, model))
    result = embed_sections(vault, meaning, progress=ProgressLine("embedding sections"))
    drop_garbage(vault, meaning)
    if context.as_json:
        emit_json(result)
        return
    rate = f", {result.added / result.seconds:,.0f} a second" if result.added else ""
    print_line(f"{result.embedded:,} of {result.sections:,} sections have vectors ({result.model})")
    print_line(f"{result.added:,} new{rate}")
