"""Which memories have to be checked before they are used: old claims about the environment.

"The tests cannot run here" was true on one machine on one day. Such a claim is one of kind
`working_context`, one with the tag `environment`, or a fact, trace or reflection with a sentence
that says of a machine, network or tool that something is not there or does not work.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from vaultmem.core.finding.hit import Hit
from vaultmem.core.lifecycle import Kind
from vaultmem.core.notes.record import has_tag
from vaultmem.core.notes.values import read_timestamp

#: Days after which a claim about the environment is old.
OLD_DAYS = 60

_KINDS = frozenset(
    {Kind.SEMANTIC_FACT, Kind.EPISODIC_TRACE, Kind.REFLECTION, Kind.PROCEDURAL_SKILL}
)
_LACK = re.compile(
    r"(?i)\b(?:can(?:no|')t|can not|could ?n[o']t|does(?: not|n't)|do(?: not|n't)|did(?: not|n't)|"
    r"is(?: not|n't)|are(?: not|n't)|wo(?:n't)|will not|unable to|fails?|failing|broken|missing|"
    r"unavailable|unreachable|offline|blocked|no (?:longer|network|internet|access|permissions?|"
    r"root|sudo|gpu|docker)|without|only (?:works?|runs?)|hangs?|times? out|needs?|requires?)\b"
)
_PLACE = re.compile(
    r"(?i)\b(?:here|locally|this (?:machine|host|box|laptop|container|sandbox|environment|"
    r"computer|server|runner)|(?:the )?(?:sandbox|container|laptop|ci|runner|vpn|network|internet|"
    r"docker|firewall|proxy|gpu)|installed|in this environment|on (?:my|our) machine)\b"
)
#: One of these is in whatever `_PLACE` finds; to look for them first saves most searches.
_PLACE_WORDS = frozenset(
    [
        b"here",
        b"locally",
        b"machine",
        b"host",
        b"box",
        b"laptop",
        b"container",
        b"sandbox",
        b"environment",
        b"computer",
        b"server",
        b"runner",
        b"ci",
        b"vpn",
        b"network",
        b"internet",
        b"docker",
        b"firewall",
        b"proxy",
        b"gpu",
        b"installed",
    ]
)
#: Makes all but small letters blanks.
_LETTERS = bytes(code if 97 <= code <= 122 else 32 for code in range(256))
_SENTENCE = re.compile(r"[.!?]\s+|\n+")


def is_environment_claim(hit: Hit) -> bool:
    """Tell whether a section says something about a machine that may have changed since."""
    record = hit.record
    if record.kind == Kind.WORKING_CONTEXT or has_tag(record.tags, "environment"):
        return True
    if record.kind not in _KINDS:
        return False
    text = f"{record.title}. {hit.text}"
    words = text.lower().encode("utf-8", "surrogatepass").translate(_LETTERS).split()
    if _PLACE_WORDS.isdisjoint(words) or not _PLACE.search(text):
        return False
    return any(_LACK.search(s) and _PLACE.search(s) for s in _SENTENCE.split(text))


def find_caution(hit: Hit, at: float, changed_refs: Sequence[str]) -> str:
    """Return why a section is to be checked before use, "" where it need not be.

    `at` is the pack's own time in seconds since the epoch, `changed_refs` what the note rests on
    and what changed after it was written.
    """
    if not is_environment_claim(hit):
        return ""
    if changed_refs:
        more = f" and {len(changed_refs) - 1} more" if len(changed_refs) > 1 else ""
        return f"check before use: {changed_refs[0]}{more} changed since"
    days = int((at - written_at(hit)) // 86_400)
    return f"check before use: {days} days old" if days > OLD_DAYS else ""


def written_at(hit: Hit) -> float:
    """Return when a section's note was written (seconds since the epoch)."""
    at = read_timestamp(hit.record.updated or hit.record.created)
    return hit.record.changed if at is None else at
