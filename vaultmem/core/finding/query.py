"""What is asked: plain words, never query syntax, and filters."""

from __future__ import annotations

from dataclasses import dataclass, field

from vaultmem.core.finding.terms import term_sequence
from vaultmem.core.lifecycle import HIDDEN_STATES, Kind, State
from vaultmem.core.notes.tags import has_tag
from vaultmem.errors import RefusedError

MAX_QUERY_CHARS = 1_000


@dataclass(frozen=True, slots=True)
class NoteFilter:
    """Which notes are eligible; an empty filter lets all but hidden states through."""

    kinds: frozenset[Kind] = frozenset()
    states: frozenset[State] = frozenset()
    tags: tuple[str, ...] = ()
    context: str = ""
    pinned: bool | None = None
    any_state: bool = False

    @property
    def wanted_states(self) -> frozenset[State]:
        """The states of eligible notes."""
        return self.states or frozenset(State) - (frozenset() if self.any_state else HIDDEN_STATES)

    @property
    def is_by_state_alone(self) -> bool:
        """Tell whether nothing but a note's state decides."""
        return not (self.kinds or self.tags or self.context or self.pinned is not None)

    def admits(
        self, kind: str, state: str, tags: tuple[str, ...], context: str, pinned: bool
    ) -> bool:
        """Tell whether a note with these properties is eligible."""
        if state not in self.wanted_states:
            return False
        if self.kinds and kind not in self.kinds:
            return False
        if self.pinned is not None and pinned != self.pinned:
            return False
        if self.context and context != self.context and not context.startswith(f"{self.context}/"):
            return False
        return all(has_tag(tags, tag) for tag in self.tags)


@dataclass(frozen=True, slots=True)
class RecallQuery:
    """A question as index terms in their order, with filters and the number of hits wanted."""

    text: str
    terms: tuple[str, ...]
    limit: int = 10
    filter: NoteFilter = field(default_factory=NoteFilter)


def parse_query(text: str, limit: int = 10, note_filter: NoteFilter | None = None) -> RecallQuery:
    """Return the query that a text asks; operators, wildcards and quotes are plain marks.

    Raises:
        RefusedError: the text is longer than 1,000 characters, or the limit under 1.
    """
    if len(text) > MAX_QUERY_CHARS:
        raise RefusedError(
            f"the query has {len(text):,} characters; ask with {MAX_QUERY_CHARS:,} at most"
        )
    if limit < 1:
        raise RefusedError(f"{limit} sections cannot be found; ask for 1 or more")
    return RecallQuery(text, tuple(term_sequence(text)), limit, note_filter or NoteFilter())
