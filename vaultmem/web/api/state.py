"""Operations on the vault as a whole: how it is, what it cost, and what waits to be decided."""

from __future__ import annotations

from typing import Any

from vaultmem.answers.branches import conflicts_json
from vaultmem.answers.health import checks_json, status_json
from vaultmem.answers.upkeep import queue_json
from vaultmem.core.upkeep.choices import ORDER, name_action
from vaultmem.operations.operation import Given, Moment, Operation
from vaultmem.operations.schemas import STRINGS, choice, record, rows, whole
from vaultmem.operations.usage import RECENT, STATS
from vaultmem.vault import Vault


def _status(vault: Vault, _: Given) -> Any:
    from vaultmem.services.health.status import read_status

    return status_json(vault, read_status(vault))


def _doctor(vault: Vault, _: Given) -> Any:
    from vaultmem.core.check import Verdict
    from vaultmem.services.health.doctor import examine_vault

    checks = examine_vault(vault)
    return checks_json(checks, is_ok=all(each.verdict is not Verdict.PROBLEM for each in checks))


def _review(vault: Vault, given: Given) -> Any:
    from vaultmem.services.upkeep.review import describe_items, list_queue

    waiting = list_queue(vault).proposals
    only = given.get("only")
    chosen = [each for each in waiting if only in {None, name_action(each.action)}]
    return queue_json(describe_items(vault, chosen[: given.get("limit")]), len(waiting))


def _conflicts(vault: Vault, _: Given) -> Any:
    from vaultmem.services.branching.conflicts import list_conflicts

    return conflicts_json(list_conflicts(vault), sorted(vault.history.unmerged()))


STATE = (
    Operation(
        "status",
        "GET /status",
        "Tell what the vault holds, who watches it, what is not committed and by whom.",
        _status,
        gives=record(vault="string", notes="integer", tokens="integer", index="object"),
        moment=Moment.BRANCH,
    ),
    Operation(
        "doctor",
        "GET /doctor",
        "Check the vault, its repository and this machine; nothing is mended.",
        _doctor,
        gives=record(ok="boolean", checks=rows(name="string", verdict="string", told="string")),
        long=True,
    ),
    STATS,
    RECENT,
    Operation(
        "list_review",
        "GET /review",
        "List what waits for a decision, with the notes of each side by side.",
        _review,
        {
            "only": choice("Only these.", [name_action(action) for action in ORDER]),
            "limit": whole("Items at most.", 1, 1_000),
        },
        gives=record(waiting="integer", items=rows(id="string", action="string", notes=rows())),
        long=True,
    ),
    Operation(
        "list_conflicts",
        "GET /conflicts",
        "List what two sides of a merge said differently, and at which files git has stopped.",
        _conflicts,
        gives=record(
            conflicts=rows(path="string", number="integer", ours="string", theirs="string"),
            unmerged=STRINGS,
        ),
    ),
)
