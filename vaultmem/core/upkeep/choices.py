"""What can be decided of each proposal, as a person is asked: yes, no, and the other way round."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from vaultmem.core.upkeep.proposal import Action


class Choice(StrEnum):
    """A decision: do what is proposed, do it the other way round, or do not."""

    ACCEPT = "accept"
    OTHER = "other"
    REJECT = "reject"


class Choices(NamedTuple):
    """What is asked of a proposal, and what comes of each choice; "" where there is no such."""

    question: str
    accept: str
    reject: str
    other: str = ""


_NEWER = "the newer one replaces the older"
_OLDER = "the older one replaces the newer"

#: What comes of it where the note that gives way says more than that.
PART = "it holds where they differ; the other says more, and stays"

_KEPT = "it is kept, and counts as used now"

#: What is asked of each proposal that waits for a decision; their order is that of the queue: what
#: may mislead first, what only takes room last.
CHOICES: Mapping[Action, Choices] = {
    Action.PROPOSAL: Choices("Shall it be merged?", "it is merged", "it is rejected"),
    Action.UPDATE: Choices("Is the newer one so now?", _NEWER, "both hold", _OLDER),
    Action.CONTRADICTION: Choices("Does the newer one hold?", _NEWER, "both hold", _OLDER),
    Action.VALUE_GROUP: Choices(
        "Does the newest one hold?", "the newest one replaces the others", "all hold"
    ),
    Action.REVIEW_QUARANTINED: Choices(
        "Can it be trusted?", "it is active", "it stays in quarantine"
    ),
    Action.UNREADABLE: Choices("Take it out of sight as it is?", "it is quarantined", ""),
    Action.MERGE_DUPLICATES: Choices(
        "Do they say the same?", "the first is merged into the second", "they stay apart"
    ),
    Action.NEAR_DUPLICATE: Choices(
        "Does the longer one say it all?",
        "the longer one replaces the shorter",
        "they stay apart",
        "the shorter one replaces the longer",
    ),
    Action.REVALIDATE: Choices("Does it still hold?", "it is confirmed", "it is deprecated"),
    Action.CANDIDATE: Choices("Shall it count?", "it is promoted", "it is deprecated"),
    Action.DEPRECATE: Choices("Is it of the past?", "it is deprecated", _KEPT),
    Action.DEMOTE_STALE: Choices("Is it out of use?", "it is stale", _KEPT),
    Action.ARCHIVE: Choices("Is it out of use?", "it is archived", _KEPT),
}

#: The queue's order.
ORDER = tuple(CHOICES)


def name_action(action: str) -> str:
    """Return what people call an action: contradiction, near duplicate, quarantined."""
    return action.removeprefix("review_").replace("_", " ")
