"""How a hit of a recall is printed, and which hits a budget has room for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import starmap
from typing import TYPE_CHECKING

from vaultmem.cli.output import say, say_painted, warn

if TYPE_CHECKING:
    from vaultmem.core.finding.hit import Hit
    from vaultmem.core.finding.query import NoteFilter
    from vaultmem.services.finding.ask import QueryResult, Show
    from vaultmem.services.finding.vault_set import VaultSet
    from vaultmem.vault import Vault

#: The parts of a score besides the words, as `Hit` has them, and what they are called.
_PARTS = (
    ("closeness", "words side by side"),
    ("passage", "its best passage"),
    ("named", "a title of the question's words"),
    ("neighbours", "notes written just before and after"),
    ("recency", "its age, beside the best answer"),
)


def say_hit(number: int, hit: Hit, explain: bool) -> None:
    """Print a hit in a few lines; with `explain`, each part of its score."""
    for text, style, rest in _list_lines(number, hit, explain):
        if style:
            say_painted(text, style, rest)
        else:
            say(text)


def show_hits(budget: int, explain: bool, as_json: bool) -> Show:
    """Return what shows of an answer the first hits that fit; all of them without a budget.

    What counts is what is printed of a hit, in JSON its name, address and text.
    """
    from vaultmem.core.budget import count_fitting
    from vaultmem.core.token_count import count_tokens
    from vaultmem.services.finding.ask import fit_texts, show_texts

    if as_json:
        return fit_texts(budget) if budget else show_texts

    from vaultmem.core.packs.excerpt import show_line

    def price(number: int, hit: Hit) -> int:
        lines = _list_lines(number, hit, explain)
        return count_tokens("".join(f"{text}{rest}\n" for text, _, rest in lines))

    def show(_: VaultSet, answer: QueryResult) -> list[tuple[Hit, str]]:
        many = count_fitting(starmap(price, enumerate(answer.hits, 1)), budget)
        return [(hit, show_line(hit)) for hit in answer.hits[: many if budget else None]]

    return show


def tell_left_out(answer: QueryResult, budget: int) -> str:
    """Return how many hits a budget has no room for, "" if it has for all."""
    count = len(answer.hits) - len(answer.shown)
    if not budget or not count:
        return ""
    more = "more " if answer.shown else ""
    return f"{count} {more}found, for which {budget} tokens have no room; give a larger --budget."


def _list_lines(number: int, hit: Hit, explain: bool) -> Iterator[tuple[str, str, str]]:
    """Yield the lines of a hit: what is painted, how, and what is not."""
    from vaultmem.core.packs.excerpt import show_line
    from vaultmem.core.packs.labels import label_hit
    from vaultmem.core.packs.pack_item import plain_label, tell_further

    yield f"{number:>2}. {plain_label(hit.name)}", "bold", ""
    record = hit.record
    yield f"    {plain_label(hit.address)}   {label_hit(hit)}", "", ""
    if hit.replaces:
        yield f"    replaces {', '.join(hit.replaces)}", "", ""
    if hit.caution:
        yield f"    {hit.caution}", "red", ""
    mark = "> " if record.state == "quarantined" else ""
    yield f"    {mark}{show_line(hit)}", "", ""
    order = " and words in order" if hit.closeness else ""
    yield f"    why: {_say_why(hit)}", "dim", order
    if further := tell_further(hit):
        yield f"    also: {further}", "dim", ""
    if explain:
        yield from _explain(hit)


def _say_why(hit: Hit) -> str:
    words = [f"{m.shown} ({'+'.join(m.fields)})" for m in hit.matches]
    if hit.linked_from:
        words.append(f"link in {hit.linked_from}")
    if not words and hit.semantic:
        words.append("near in meaning")
    return ", ".join(words)


def _explain(hit: Hit) -> Iterator[tuple[str, str, str]]:
    for match in hit.matches:
        yield f"      {match.score:7.3f}  {match.shown} in {', '.join(match.fields)}", "", ""
    for name, what in _PARTS:
        if value := getattr(hit, name):
            yield f"      {value:7.3f}  {what}", "", ""
    if hit.semantic:
        yield f"      {hit.semantic:7.3f}  in meaning; words and meaning are blended", "", ""
    yield f"      {hit.state_weight:7.3f}  times, for state {hit.record.state}", "", ""
    if hit.rerank is not None:
        told = "by the reranker, in whose order the best sections stand"
        yield f"      {hit.rerank:7.3f}  {told}", "", ""
    place = " of this place" * (hit.rerank is not None)
    yield f"      {hit.score:7.3f}  score{place}", "", ""


def warn_unmatched(vaults: Sequence[Vault], wanted: NoteFilter) -> None:
    """Say which tags and contexts no note has, where a filter let nothing through."""
    from vaultmem.services.reading.names import tell_unmatched

    if len(vaults) == 1:
        for line in tell_unmatched(vaults[0], wanted):
            warn(f"note: {line}")
