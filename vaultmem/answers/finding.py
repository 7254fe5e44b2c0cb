"""Hits, packs, and what was judged by packs, as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vaultmem.core.json_values import as_named

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vaultmem.core.finding.evaluation import Figure
    from vaultmem.core.finding.hit import Hit
    from vaultmem.core.packs.pack_item import LeftOut, PackItem
    from vaultmem.core.packs.pack_text import Pack
    from vaultmem.core.packs.receipt import Receipt
    from vaultmem.services.finding.ask import QueryResult
    from vaultmem.services.finding.evaluate import Evaluation
    from vaultmem.services.finding.judge import Bisected
    from vaultmem.services.finding.pack import PackAnswer
    from vaultmem.services.finding.question_file import AddedQuestion
    from vaultmem.services.finding.receipts import Replay
    from vaultmem.services.history.diff import ShownCommit

#: The parts of a score besides the words.
_PARTS = ("closeness", "passage", "named", "neighbours", "recency", "semantic")


def answer_json(answer: QueryResult) -> dict[str, Any]:
    """Return the notes that answer a question, and what is to be said of them."""
    return {
        "query": answer.question,
        "terms": answer.terms,
        "searched_instead": answer.replaced,
        "semantic": answer.meaning,
        "rerank": answer.reranked,
        "sureness": answer.sureness,
        "elsewhere": answer.elsewhere or None,
        "too_large": answer.too_large,
        "hits": [hit_json(hit) for hit, _ in answer.shown],
        "left_out": len(answer.hits) - len(answer.shown),
    }


def hit_json(hit: Hit) -> dict[str, Any]:
    """Return a section that was found, why, and what else of its note was."""
    record = hit.record
    return {
        "vault": hit.vault or None,
        "path": record.path,
        "heading": hit.section.heading or None,
        "line": hit.section.line,
        "blob": record.blob,
        "title": record.title,
        "kind": record.kind,
        "state": record.state,
        "pinned": record.pinned,
        "tags": record.tags,
        "context": record.context,
        "confidence": record.confidence,
        "source": record.source or None,
        "agent": record.agent or None,
        "session": record.session or None,
        "refs": hit.refs,
        "linked_from": hit.linked_from or None,
        "replaces": hit.replaces,
        "also": [
            {"heading": each.heading or None, "line": each.line, "score": round(each.score, 6)}
            for each in hit.also
        ],
        "caution": hit.caution or None,
        "score": round(hit.score, 6),
        "text": hit.text,
        "shown_line": hit.shown_line or None,
        "why": _why_json(hit),
    }


def _why_json(hit: Hit) -> dict[str, Any]:
    """Return the parts of a hit's score."""
    matches = [
        {"term": m.shown, "fields": m.fields, "score": round(m.score, 6)} for m in hit.matches
    ]
    return {
        "matches": matches,
        **{name: round(getattr(hit, name), 6) for name in _PARTS},
        "rerank": None if hit.rerank is None else round(hit.rerank, 6),
        "state_weight": round(hit.state_weight, 6),
    }


def pack_answer_json(answer: PackAnswer) -> dict[str, Any]:
    """Return a pack, its receipt, what scored by meaning, and what put the best in order."""
    made = pack_json(answer.pack)
    found = {"semantic": answer.meaning, "rerank": answer.reranked}
    return {**made, "receipt": answer.receipt or None, **found}


def pack_json(made: Pack) -> dict[str, Any]:
    """Return a pack: its text, what it shows, and what it cost."""
    from vaultmem.core.packs.pack_text import price_pack

    account, costs = made.account, price_pack(made)
    return {
        "text": made.text,
        "sureness": made.sureness,
        "items": [_item_json(*each) for each in zip(made.items, costs, strict=True)],
        "unshown": [hit.address for hit in made.unshown],
        "unnamed": made.unnamed,
        "left_out": list(map(_left_json, made.left_out)),
        "searched_instead": dict(made.replaced),
        "tokens": {
            "sent": account.sent,
            "budget": account.budget,
            "flat": account.flat,
            "ratio": round(account.ratio, 2),
        },
    }


def _left_json(left: LeftOut) -> dict[str, Any]:
    """Return a section that was considered for a pack and is not in it."""
    return {
        "vault": left.hit.vault or None,
        "path": left.hit.record.path,
        "heading": left.hit.section.heading or None,
        "blob": left.hit.record.blob,
        "pinned": left.pinned,
        "reason": left.why,
        "instead": left.instead.address if left.instead else None,
        "score": round(left.hit.score, 6),
    }


def _item_json(item: PackItem, cost: int) -> dict[str, Any]:
    from vaultmem.core.packs.labels import name_handle

    return {
        "handle": name_handle(item.hit, item.handle),
        "vault": item.hit.vault or None,
        "path": item.hit.record.path,
        "heading": item.hit.section.heading or None,
        "blob": item.hit.record.blob,
        "refs": item.hit.refs,
        "group": item.part.value,
        "pinned": item.pinned,
        "beside": item.hit.beside or None,
        "shortened": item.shortened,
        "alike": item.alike,
        "caution": item.caution or None,
        "conflict": item.conflict or None,
        "tokens": cost,
        "score": round(item.hit.score, 6),
        "why": _why_json(item.hit),
        "text": item.text,
    }


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
