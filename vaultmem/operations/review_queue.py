"""Operations on the review queue: list it, and decide one item."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from vaultmem.core.curation.proposal import CHOICES, ORDER, Proposal, ProposalChoice, format_action
from vaultmem.core.text.json_values import pick
from vaultmem.errors import RefusedError
from vaultmem.operations.declaration import Arg, FrontEnd, at_most, declare
from vaultmem.operations.schemas import record, rows

if TYPE_CHECKING:
    from vaultmem.services.curation.decide import DecisionResult
    from vaultmem.services.curation.review import Item
    from vaultmem.vault import Vault

_NAMES = [format_action(action) for action in ORDER]
_FLAGS = {FrontEnd.SHELL: "--accept, --other and --reject name ids"}


class ReviewQueue(NamedTuple):
    """The waiting proposals, whether they are complete, and the chosen ones.

    A large vault with earlier findings is compared only on request. `items` reads notes lazily.
    """

    waiting: Sequence[Proposal]
    is_all: bool
    chosen: Sequence[Proposal]
    items: Iterable[Item]


def list_review(
    vault: Vault,
    only: Annotated[
        str, Arg("Only this kind, such as contradiction.", words=_NAMES, metavar="KIND")
    ] = "",
    all_: Annotated[bool, Arg("Compare all notes, also of a large vault.")] = False,
    limit: Annotated[int, at_most("Items at most.", 1_000)] = 0,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> ReviewQueue:
    """List what waits for a decision, with the notes of each side by side."""
    from vaultmem.services.curation import review
    from vaultmem.services.curation.incoming_notes import list_arrived

    wanted = format_action(only)
    if wanted and wanted not in _NAMES:
        raise RefusedError(f'"{only}" is nothing that is reviewed; use {", ".join(_NAMES)}')
    is_large = vault.view.totals()[0] > review.MAX_COMPARED_NOTES
    is_all = all_ or not (is_large and list_arrived(vault))
    found = review.list_queue(vault, progress).proposals if is_all else review.list_waiting(vault)
    waiting = review.drop_foreign(vault, found)
    chosen = [each for each in waiting if wanted in {"", format_action(each.action)}]
    chosen = chosen[: limit or None]
    return ReviewQueue(waiting, is_all, chosen, review.describe_items(vault, chosen))


def queue_data(items: Iterable[Item], count: int) -> dict[str, Any]:
    """Return proposals with their notes; `count` is the number of all that wait."""
    return {"waiting": count, "items": list(map(_item_data, items))}


def _item_data(item: Item) -> dict[str, Any]:
    choices = CHOICES[item.proposal.action]
    offered = {name: getattr(choices, name) for name in ("accept", "other", "reject")}
    names = "path title state agent? session? written? commit? text changed"
    return {
        "id": item.id,
        "action": item.proposal.action,
        "question": choices.question,
        "choices": {name: text for name, text in offered.items() if text},
        **pick(item.proposal, "reason evidence"),
        "notes": [pick(side, names) for side in item.sides],
    }


def decide_item(
    vault: Vault,
    id_: Annotated[str, Arg("Id of the item, or its beginning.", most=64, excused=_FLAGS)],
    choice: Annotated[str, Arg("What to do.", words=list(ProposalChoice), excused=_FLAGS)],
    reason: Annotated[str, Arg("Reason; the commit records it.", most=1_000)] = "",
) -> list[DecisionResult]:
    """Decide what waits, as `GET /review` listed it; one decision is one commit."""
    from vaultmem.services.curation.decide import decide
    from vaultmem.services.curation.review import find_item

    proposal = find_item(vault, id_, looks=False)
    return [decide(vault, proposal, ProposalChoice(choice), reason)]


def _decided_data(decided: Iterable[DecisionResult]) -> dict[str, Any]:
    names = (
        "id=proposal.id action=proposal.action path=proposal.path choice message "
        "commit?=report.commit"
    )
    return {"decided": [pick(each, names) for each in decided]}


LIST_REVIEW = declare(
    list_review,
    "list_review",
    "GET /review",
    lambda found: queue_data(found.items, len(found.waiting)),
    output_schema=record(waiting="integer", items=rows(id="string", action="string", notes=rows())),
    long=True,
    excused={FrontEnd.MCP: "history lists what an agent can decide"},
)

DECIDE = declare(
    decide_item,
    "decide",
    "POST /review/{id}",
    _decided_data,
    output_schema=record(
        decided=rows(id="string", path="string", choice="string", message="string")
    ),
    writes=True,
    excused={FrontEnd.MCP: "an agent decides by promote and update_note"},
)
