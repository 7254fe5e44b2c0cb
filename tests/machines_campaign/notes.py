"""Notes as people and agents write them here, and what tells them apart afterwards."""

from __future__ import annotations

import random
import re
from pathlib import Path

import yaml
from words import NOTE

MATTER = re.compile(r"\A---\n(.*?\n)---\n", re.DOTALL)
CALLOUT = re.compile(r"(?m)\n?^> \[!conflict[^\n]*\n(?:>[^\n]*(?:\n|\Z))*")

_THINGS = """
anchor basalt candle dowel ember fennel gravel hinge ivory jetty kettle lantern marble needle oaken
pewter quill rudder saddle tallow umber velvet willow yarrow zephyr acorn bramble cobalt dahlia
elder flint garnet hazel indigo juniper kelp linen moss nettle onyx poplar quartz raven sorrel
thistle upland vellum walnut yew zinc amber birch cedar dune estuary ferry glacier heron
"""
_DOES = "holds drives feeds mends guards lifts warms counts paints trades lends hides"
STATES = ("stale", "deprecated", "quarantined", "active", "candidate")


def make_note(word: str, state: str, chance: random.Random) -> str:
    """Return a new note whose first words are its own for ever."""
    lines = "\n\n".join(make_sentence(chance) for _ in range(5))
    items = "\n".join(f"- {make_sentence(chance)}" for _ in range(3))
    return (
        f"---\ntitle: The {chance.choice(_THINGS.split())}\nstate: {state}\nconfidence: 0.5\n"
        f"tags: [harbour]\n---\n{word}: {make_sentence(chance)}\n\n{lines}\n\n{items}\n"
    )


def make_sentence(chance: random.Random) -> str:
    """Return a sentence that resembles few others."""
    a, b, c, d, e = chance.sample(_THINGS.split(), 5)
    return f"The {a} {b} {chance.choice(_DOES.split())} the {c} {d} by the {e}."


def make_fact(number: int) -> str:
    """Return one of the facts that agents tell on several machines."""
    return f"f{number:03}: {make_sentence(random.Random(number))}"


def list_notes(root: Path) -> list[Path]:
    """Return the notes, in the order of what they are and not of what they are called."""
    found = []
    for path in (root / "notes").rglob("*.md"):
        try:
            word = name_note(path.read_text())
        except OSError:
            continue
        if word:
            found.append((word, path))
    return [path for _, path in sorted(found)]


def name_note(text: str) -> str:
    """Return what tells a note apart, empty if it is none of ours."""
    match = NOTE.search(strip_note(text))
    return match[0] if match else ""


def strip_note(text: str) -> str:
    """Return a note's own words: no properties, no callouts of conflicts."""
    return CALLOUT.sub("", MATTER.sub("", text))


def read_state(text: str) -> str:
    """Return a note's state, `unreadable` where its properties cannot be read."""
    match = MATTER.match(text)
    try:
        found = yaml.safe_load(match[1]) if match else {}
        return str((found or {}).get("state", "active"))
    except (yaml.YAMLError, AttributeError):
        return "unreadable"
