"""Show what was found, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vaultmem.answers.finding import CAUTION
from vaultmem.cli.output import say, say_painted

if TYPE_CHECKING:
    from vaultmem.core.finding.hit import Hit

#: The parts of a score besides the words, as `Hit` has them, and what they are called.
_PARTS = (
    ("closeness", "words side by side"),
    ("passage", "its best passage"),
    ("neighbours", "notes written just before and after"),
    ("recency", "its age, beside the best answer"),
)


def choose_line(hit: Hit) -> str:
    """Return the line of a hit's text that shows why it was found."""
    from vaultmem.core.finding.excerpt import choose_excerpt

    return choose_excerpt(hit.text, [match.term for match in hit.matches])


def say_hit(number: int, hit: Hit, explain: bool) -> None:
    """Print a hit in a few lines; with `explain`, each part of its score."""
    say_painted(f"{number:>2}. {hit.name}", "bold")
    record = hit.record
    refs = f" | on {', '.join(hit.refs)}" if hit.refs else ""
    say(f"    {hit.address}   [{record.kind} | {record.state}{refs}]")
    if hit.replaces:
        say(f"    replaces {', '.join(hit.replaces)}")
    if record.state == "quarantined":
        say_painted(f"    {CAUTION}", "red")
        say(f"    > {choose_line(hit)}")
    else:
        say(f"    {choose_line(hit)}")
    say_painted(f"    why: {_say_why(hit)}", "dim", " and words in order" if hit.closeness else "")
    if explain:
        _explain(hit)


def say_suggestions(suggestions: dict[str, str]) -> None:
    """Print what misspelt words may have been meant to be."""
    for word, other in suggestions.items():
        say_painted(f'No note has "{word}". Did you mean "{other}"?', "yellow")


def _say_why(hit: Hit) -> str:
    words = [f"{m.term} ({'+'.join(m.fields)})" for m in hit.matches]
    if hit.linked_from:
        words.append(f"link in {hit.linked_from}")
    if not words and hit.semantic:
        words.append("near in meaning")
    return ", ".join(words)


def _explain(hit: Hit) -> None:
    for match in hit.matches:
        say(f"      {match.score:7.3f}  {match.term} in {', '.join(match.fields)}")
    for name, what in _PARTS:
        if value := getattr(hit, name):
            say(f"      {value:7.3f}  {what}")
    if hit.semantic:
        say(f"      {hit.semantic:7.3f}  in meaning; words and meaning are blended")
    say(f"      {hit.state_weight:7.3f}  times, for state {hit.record.state}")
    say(f"      {hit.score:7.3f}  score")
