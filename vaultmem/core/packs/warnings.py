"""Warn of notes to check before use: old claims about things that can change.

"The tests cannot run here" was true on one machine on one day. "The API does not support tool
calls" was true for one version. Notes of kind `working_context` or with the tag `environment` are
claims. So are facts, traces, reflections and skills with a sentence that `find_claim` finds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from functools import cache, lru_cache
from typing import NamedTuple

from vaultmem.core.languages import find_words, read_lines
from vaultmem.core.lifecycle import NoteKind
from vaultmem.core.notes.frontmatter import read_timestamp
from vaultmem.core.notes.record import DOUBT, has_tag
from vaultmem.core.packs.passages import choose_excerpt
from vaultmem.core.search.query import Hit
from vaultmem.core.search.terms import count_terms, weak_terms
from vaultmem.core.similarity.words import CLAUSAL, CONDITIONS, NEGATIONS, ONLY
from vaultmem.core.text.display import pluralize
from vaultmem.core.text.patterns import compile_later

# Find sentences that claim that something does not work, exist or support something: it can have
# changed. Such a sentence negates an ability or the existence of its subject. The words are in the
# tables `claims.txt` of all languages; docs/reference/languages.md explains the categories.

#: Keeps only the letters of a UTF-8 text, including non-ASCII ones.
_LETTERS = bytes(code if 97 <= code <= 122 or code >= 128 else 32 for code in range(256))

_SENTENCE = compile_later(r"(?<=[.!?])\s+|\n+")
_NEGATION_SUFFIX = compile_later(r"(?<=ca)n['’]t\b|(?<=[a-z])n['’]t\b|(?<=can)not\b")
_PART = compile_later(r"(?:[^\W_]+-)*([^\W_]+)|([,;:(])")

#: Forms of code: `name`, some_name, --flag, name(), /some/path.
_CODE = compile_later(r"`|\w_\w|(?<!\S)--\w|\(\)|(?<!\S)/\w")

#: Maximum distance in words between a negation and the negated word; and after a copula.
_MAX_NEGATION_DISTANCE, _MAX_COPULA_DISTANCE = 4, 2


@lru_cache(maxsize=1024)
def find_claim(text: str) -> str:
    """Return the first sentence of a text that is such a claim, or ""."""
    if not _may_claim(text):
        return ""
    return next((each for each in _SENTENCE.split(text) if _is_claim(each)), "")


def _may_claim(text: str) -> bool:
    """Return whether the words of a text allow a claim. Most texts are excluded by this."""
    words = text.lower().encode("utf-8", "surrogatepass").translate(_LETTERS).split()
    return not any(signs.isdisjoint(words) for signs in _signs())


@cache
def _signs() -> tuple[frozenset[bytes], frozenset[bytes]]:
    """Return two sets of words, encoded for `_may_claim`; a claim has a word of each."""

    def encode(*sorts: frozenset[str]) -> frozenset[bytes]:
        words = frozenset().union(*sorts)
        return frozenset(word.encode().translate(_LETTERS).split()[0] for word in words)

    sorts = ("broken", "fails", "needs", "now")
    negations = encode(_NEGATIONS, *map(_read, sorts), frozenset({"t"}))
    return negations, encode(*map(_read, ("strong", "weak", "machine", "host", "place")))


def _is_claim(sentence: str) -> bool:
    """Return whether a clause of a sentence is a claim. Questions are not."""
    if sentence.endswith("?") or not _may_claim(sentence):
        return False
    has_code = bool(_CODE.search(sentence))
    return any(_says_so(clause, has_code) for clause in _split_clauses(sentence))


def _split_clauses(sentence: str) -> Iterator[tuple[str, ...]]:
    """Yield the words of each clause, in lower case, with `can't` as two words."""
    clause: list[str] = []
    for word, mark in _PART.findall(_NEGATION_SUFFIX.sub(" not", sentence.lower())):
        if clause and (mark or word in _CLAUSE):
            yield tuple(clause)
            clause = []
        if word:
            clause.append(word)
    if clause:
        yield tuple(clause)


def _says_so(clause: Sequence[str], has_code: bool) -> bool:
    """Return whether a clause claims that a machine lacks something, or strongly negates a thing.

    Also true: what a machine is or does "currently", and an inability without a subject ("cannot
    read images"). Orders ("do not ...") and conditions ("if it does not ...") are not claims.
    """
    words = frozenset(clause)
    if clause[0] in CONDITIONS or {clause[0], " ".join(clause[:2])} & _read("order"):
        return False
    is_of_host = bool(words & _read("host"))
    is_of_machine = has_code or is_of_host or bool(words & _read("machine"))
    is_of_person = bool(words & _read("person"))
    is_here = not is_of_person and bool(words & _read("place"))
    if _find_near(clause, _read("needs"), _read("host"), 0, _MAX_NEGATION_DISTANCE):
        return True
    if words & _read("fails") or _find_near(
        clause, _read("copula"), _read("broken"), 0, _MAX_COPULA_DISTANCE
    ):
        return is_of_machine or is_here
    if _find_near(
        clause, _read("none"), _read("machine") | _read("host"), 0, _MAX_NEGATION_DISTANCE
    ):
        return True
    if _find_near(
        clause, _NEGATIONS, _read("strong"), _MAX_NEGATION_DISTANCE, _MAX_NEGATION_DISTANCE
    ):
        return is_of_machine or not is_of_person
    if is_of_machine and words & _read("now"):
        return True
    is_able = _find_near(
        clause, _NEGATIONS, _read("weak"), _MAX_NEGATION_DISTANCE, _MAX_NEGATION_DISTANCE
    )
    has_no_subject = clause[0] in _read("ability")
    return is_able and (is_of_machine or is_here or has_no_subject)


def _find_near(
    clause: Sequence[str], targets: Set[str], others: Set[str], before: int, after: int
) -> bool:
    """Return whether one of `others` is at most so many words before or after a target."""
    if targets.isdisjoint(clause) or others.isdisjoint(clause):
        return False
    return any(
        not others.isdisjoint(clause[max(0, at - before) : at + 1 + after])
        for at, word in enumerate(clause)
        if word in targets
    )


@cache
def _read(sort: str) -> frozenset[str]:
    """Return the words of a category, nouns in singular and plural."""
    rows = (line.partition(" ") for line in read_lines("claims"))
    words = frozenset(word for name, _, word in rows if name == sort)
    is_noun = sort in {"machine", "host"}
    return words | {f"{word}s" for word in words} if is_noun else words


_CLAUSE = CLAUSAL | find_words("conjunction") - find_words("addition") - find_words("alternative")

#: Words that negate or limit an ability. "Without" is excluded: doing it "without" something is
#: still doing it.
_NEGATIONS = (NEGATIONS | ONLY) - {"without", "ohne", "non"}


#: Days after which a claim is old.
OLD_DAYS = 60

_KINDS = frozenset(
    {
        NoteKind.SEMANTIC_FACT,
        NoteKind.EPISODIC_TRACE,
        NoteKind.REFLECTION,
        NoteKind.PROCEDURAL_SKILL,
    }
)

#: The folder of reference material, which has its own version and is not managed.
REFERENCE = "primed/"


def quote_claim(hit: Hit) -> str:
    """Return the sentence of a section that is possibly outdated, or ""."""
    record = hit.record
    if record.path.startswith(REFERENCE):
        return ""
    if record.kind == NoteKind.WORKING_CONTEXT or has_tag(record.tags, "environment"):
        return choose_excerpt(hit.text, ()) or record.title
    if record.kind not in _KINDS:
        return ""

    claim = find_claim(f"{record.title}\n{hit.text}")
    return choose_excerpt(claim, ()) if claim else ""


def shorten_caution(hit: Hit) -> str:
    """Return a section's warning for a pack. The reason of an invalid note is only in its file."""
    is_doubtful = hit.caution.startswith(DOUBT)
    return join_anchors(hit, DOUBT.rstrip(": ") if is_doubtful else hit.caution)


def join_anchors(hit: Hit, caution: str) -> str:
    """Return a label with the states of cited code and the warning."""
    return "; ".join(filter(None, (describe_anchors(hit), caution)))


def describe_anchors(hit: Hit) -> str:
    """Return the states of the code that a note cites in one line, or ""."""
    if not hit.anchors:
        return ""
    from vaultmem.core.anchors import describe_checks

    return describe_checks(hit.anchors)


def find_caution(hit: Hit, at: float, changed_refs: Sequence[str]) -> str:
    """Return the warning to show with a section, or "".

    `at` is the current time in seconds since the epoch. `changed_refs` are sources that changed
    after the note was written. A warning of the search about validity is kept.
    """
    record = hit.record
    if record.caution != record.conflict:
        return record.caution
    check = _check_claim(hit, at, changed_refs)
    return "; ".join(filter(None, (hit.caution, record.conflict, record.shortened, check)))


def _check_claim(hit: Hit, at: float, changed_refs: Sequence[str]) -> str:
    """Return why a claim must be checked before use, or "".

    The state of the cited code decides; the age counts only if that is unknown.
    """
    changed_refs = [
        *(each.anchor.place for each in hit.anchors if each.is_different),
        *changed_refs,
    ]
    is_confirmed = bool(hit.anchors) and all(each.is_same for each in hit.anchors)
    days = 0 if is_confirmed else int((at - written_at(hit)) // 86_400)
    if not (changed_refs or days > OLD_DAYS) or not quote_claim(hit):
        return ""
    if changed_refs:
        more = f" and {len(changed_refs) - 1} more" if len(changed_refs) > 1 else ""
        return f"check before use: {changed_refs[0]}{more} changed since"
    return f"check before use: {pluralize(days, 'day')} old"


def written_at(hit: Hit) -> float:
    """Return when a section's note was written (seconds since the epoch)."""
    at = read_timestamp(hit.record.updated or hit.record.created)
    return hit.record.changed if at is None else at


# Choose the preferences for a query: those about its words, and those about everything.

#: Preferences among so many first hits are relevant.
_MAX_RELEVANT_HITS = 10


class Preference(NamedTuple):
    """A section with a preference of the owner, and its topic; "" means everything."""

    hit: Hit
    topic: str


class PackPreferences(NamedTuple):
    """The owner's preferences, most relevant first, and their share of a pack."""

    hits: Sequence[Hit] = ()
    share: float = 0.0


def choose_preferences(
    preferences: Sequence[Preference], question: str, hits: Sequence[Hit]
) -> list[Hit]:
    """Return the preferences that are relevant for a query, most relevant first.

    `hits` are the query's hits, best first. Without a query, all preferences are relevant.
    """
    if not question.strip():
        return [each.hit for each in sorted(preferences, key=lambda each: each.topic != "")]
    query_terms = frozenset(count_terms(question))
    places = {hit.local_key: place for place, hit in enumerate(hits[:_MAX_RELEVANT_HITS])}
    ranked: list[tuple[float, int, int]] = []
    for number, (hit, topic) in enumerate(preferences):
        place, share = places.get(hit.local_key), _share_topic(topic, query_terms)
        if share or not topic or place is not None:
            ranked.append((-share, _MAX_RELEVANT_HITS if place is None else place, number))
    return [preferences[number].hit for *_, number in sorted(ranked)]


def _share_topic(topic: str, query_terms: frozenset[str]) -> float:
    """Return the share of a preference's topic that a query names, 0 to 1."""
    terms = frozenset(count_terms(topic)) - weak_terms()
    return len(terms & query_terms) / len(terms) if terms else 0.0
