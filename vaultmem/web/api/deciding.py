"""Operations that commit: checkpoint, undo, and what waits to be decided."""

from __future__ import annotations

from functools import partial
from typing import Any

from vaultmem.answers.branches import merge_json, resolved_json
from vaultmem.answers.notes import report_json, undone_json
from vaultmem.answers.upkeep import decided_json
from vaultmem.core.upkeep.choices import Choice
from vaultmem.operations.operation import Given, Moment, Operation
from vaultmem.operations.schemas import STRINGS, choice, record, rows, text, whole
from vaultmem.vault import Vault


def _checkpoint(vault: Vault, given: Given) -> Any:
    from vaultmem.services.writing.commit import save_checkpoint

    return report_json(save_checkpoint(vault, given.get("note", "")))


def _merge(vault: Vault, given: Given) -> Any:
    from vaultmem.services.branching.merge import merge_branch

    return merge_json(merge_branch(vault, given["branch"]))


def _undo(vault: Vault, given: Given) -> Any:
    from vaultmem.services.history.undo import undo_commit

    return undone_json(undo_commit(vault, given["commit"]))


def _decide(vault: Vault, given: Given) -> Any:
    from vaultmem.services.upkeep.decide import decide
    from vaultmem.services.upkeep.review import find_item

    proposal = find_item(vault, given["id"], looks=False)
    return decided_json([decide(vault, proposal, Choice(given["choice"]), given.get("reason", ""))])


def _resolve(vault: Vault, given: Given) -> Any:
    from vaultmem.core.merging.text import Choice as Words
    from vaultmem.services.branching.conflicts import resolve_conflicts

    chosen = Words(given["choice"])
    return resolved_json(resolve_conflicts(vault, given["path"], chosen, given.get("number", 0)))


_COMMITS = rows(commit="string", subject="string")

_write = partial(Operation, writes=True)

DECIDING = (
    _write(
        "checkpoint",
        "POST /checkpoint",
        "Commit everything that changed, each author's changes under their own name.",
        _checkpoint,
        fields={"note": text("The subject of your own changes; else it names the files.", 500)},
        gives=record(commit="string?", commits=_COMMITS, paths=STRINGS, skipped="object"),
        moment=Moment.BRANCH,
    ),
    _write(
        "merge",
        "POST /merge",
        "Merge a branch; what both sides changed is settled, and told.",
        _merge,
        fields={"branch": text("The branch, tag or commit to merge.", 200, 1)},
        required=("branch",),
        gives=record(
            merged="boolean", commit="string?", into="string", paths=STRINGS, conflicts=rows()
        ),
        moment=Moment.BRANCH,
    ),
    _write(
        "undo",
        "POST /undo",
        "Take back what one commit did to its notes, as a new commit.",
        _undo,
        fields={"commit": text("The commit.", 200, 1)},
        required=("commit",),
        gives=record(undone="string", paths=STRINGS, commit="string?"),
    ),
    _write(
        "decide",
        "POST /review/{id}",
        "Decide what waits, as `GET /review` listed it; one decision is one commit.",
        _decide,
        fields={
            "choice": choice("What to do.", [each.value for each in Choice]),
            "reason": text("Why, for the record.", 1_000),
        },
        required=("choice",),
        gives=record(decided=rows(id="string", path="string", choice="string", told="string")),
    ),
    _write(
        "resolve",
        "POST /conflicts",
        "Decide what two sides said differently in a note, in one commit.",
        _resolve,
        fields={
            "path": text("The note.", 1_000, 1),
            "choice": choice("Whose words stay.", ["ours", "theirs", "both"]),
            "number": whole("Which conflict of the note; else all of them.", 1, 1_000),
        },
        required=("path", "choice"),
        gives=record(resolved="string", decided="integer", removed="boolean", commit="string?"),
    ),
)
