"""What was judged by packs, and receipts, as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vaultmem.core.json_values import as_named

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vaultmem.core.finding.evaluation import Figure
    from vaultmem.core.packs.receipt import Receipt
    from vaultmem.services.finding.evaluate import Evaluation
    from vaultmem.services.finding.judge import Bisected
    from vaultmem.services.finding.question_file import AddedQuestion
    from vaultmem.services.finding.receipts import Replay
    from vaultmem.services.history.diff import ShownCommit


def bisected_json(done: Bisected, first_bad: Iterable[ShownCommit]) -> dict[str, Any]:
    """Return the steps of a bisection, and what the commits changed that it ended at."""
    from vaultmem.answers.history import commit_json, operation_json

    found = [
        {**commit_json(each.commit), "operations": list(map(operation_json, each.operations))}
        for each in first_bad
    ]
    return {"first_bad": found, "untested": done.untested, "steps": done.steps}


def judged_json(reasons: Sequence[str]) -> dict[str, Any]:
    """Return whether a pack is as expected, and if not why."""
    return {"as_expected": not reasons, "reasons": reasons}


def evaluation_json(made: Evaluation) -> dict[str, Any]:
    """Return what an evaluation measured, and how each question was answered."""
    budgets = made.asked.budgets
    return {
        "depth": made.asked.depth,
        "budgets": budgets,
        "left_out": made.left_out or None,
        "runs": [
            {
                "at": run.at or None,
                "commit": run.commit or None,
                "settings": run.settings,
                "lacks": run.lacks or None,
                **_figures_json(run.figures),
            }
            for run in made.runs
        ],
        "difference": _figures_json(made.difference) if made.difference else None,
        "questions": [
            {
                "line": question.line,
                "question": question.text,
                "at": question.at or None,
                "notes": question.notes,
                "says": question.says,
                "answers": [run.judged[number] for run in made.runs],
            }
            for number, question in enumerate(made.questions)
        ],
    }


def _figures_json(figures: Sequence[Figure]) -> dict[str, Any]:
    recall, ndcg, *packs = figures
    return {"recall": recall, "ndcg": ndcg, "packs": packs}


def added_question_json(done: AddedQuestion) -> dict[str, Any]:
    """Return a question that was taken from a receipt, and whether it is new in its file."""
    question = done.question
    return {"question": question.text, "notes": question.notes, "added": done.is_new}


def receipts_json(receipts: Iterable[Receipt]) -> dict[str, Any]:
    """Return a list of receipts."""
    return {"receipts": list(map(receipt_json, receipts))}


def replayed_json(replay: Replay) -> dict[str, Any]:
    """Return a receipt, the text of the pack that it stands for, and what of it git has lost."""
    gone = [
        {"path": each.path, "heading": each.heading or None, "blob": each.blob}
        for each in replay.gone
    ]
    return {**receipt_json(replay.receipt), "text": replay.text, "gone": gone}


def receipt_json(receipt: Receipt) -> dict[str, Any]:
    """Return a receipt without the texts that it keeps."""
    content: dict[str, Any] = as_named(receipt)
    del content["texts"]
    return content
