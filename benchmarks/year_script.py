"""A made-up year of an agent's work: what it is told, what it asks, and what it should find.

Projects begin and end. While one lives, the agents are told facts about it, the same again in
other words, corrections, what happened on a day, and what holds for a while only; and they ask
about it, mostly about a few things, and now and then about a project that is over.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

from words import FUNCTION_WORDS, make_vocabulary

from vaultmem.core.lifecycle import NoteKind, NoteState
from vaultmem.services.memory.remember import Memory

START = datetime(2025, 11, 1).timestamp()
DAY = 86_400
DAYS = 365

_TRAITS = {
    "retry limit": "tries",
    "request timeout": "seconds",
    "batch size": "rows",
    "page size": "entries",
    "queue length": "jobs",
    "token lifetime": "minutes",
    "memory limit": "megabytes",
    "backup window": "hours",
    "log retention": "days",
    "worker count": "workers",
    "rate limit": "calls",
    "cache lifetime": "minutes",
}
_WHO = ("Maren", "Jonas", "Pilar", "Edwin", "Sanna", "Tariq", "Noor", "Henk", "Lucia", "Per")
_WHY = (
    "{who} chose it after the load test with {thing}.",
    "A smaller one made the nightly run of {thing} too slow.",
    "{who} measured it on staging before the {thing} release.",
    "It has to be changed in the settings and in the chart of {thing}.",
    "Nobody has complained since the {thing} meeting.",
)
_DAILY = (
    "{who} looked through the logs of {thing} for an hour",
    "the dashboard of {thing} showed nothing unusual in the morning",
    "we rolled {thing} back once and forward again",
    "the tests of {thing} were green before and after",
    "{who} wrote to the {thing} channel and asked for patience",
    "two workers of {thing} had to be restarted by hand",
    "the staging copy of {thing} behaved like the live one",
    "most of the afternoon went into reading traces of {thing}",
    "{who} compared the settings of {thing} with last week's",
    "in the end {thing} answered as before",
    "a ticket was opened so that {thing} gets a better alert",
    "the runbook of {thing} was not of much help",
    "{who} suspected {thing} first, and the network second",
    "lunch was late because of {thing}",
    "a customer called about {thing} and was told to wait",
    "the release notes of {thing} mention nothing of the kind",
    "{who} found an old comment about {thing} in the code",
    "it took three tries to connect to {thing}",
)


@dataclass(frozen=True)
class Told:
    """Something that an agent is told; `key` is the fact, `old` tells that it had another value."""

    at: float
    memory: Memory
    key: str
    is_correction: bool = False
    is_repeat: bool = False


@dataclass(frozen=True)
class Asked:
    """A question, and the words that its answer has to contain."""

    at: float
    question: str
    answer: str
    key: str


@dataclass
class Project:
    """A project's facts and events so far, in the order in which they became known."""

    name: str
    parts: tuple[str, ...]
    start: float
    end: float
    facts: dict[str, tuple[str, str, str]] = field(default_factory=dict)
    days: list[Memory] = field(default_factory=list)
    traces: list[tuple[float, str, str]] = field(default_factory=list)
    passing: list[tuple[float, str, str]] = field(default_factory=list)


def write_year(count: int, seed: int) -> Iterator[Told | Asked]:
    """Yield what happens in a year in order: `count` memories, and nearly as many questions."""
    chance = random.Random(seed)
    names = make_vocabulary(12_000, seed)[len(FUNCTION_WORDS) + 400 :]
    things = names[:2_000]
    names = chance.sample(names[2_000:], len(names) - 2_000)
    projects = [_make_project(chance, names) for _ in range(max(4, count // 70))]
    moments: list[tuple[float, int, Project | None]] = []
    weights = [project.end - project.start for project in projects]
    for number, project in enumerate(chance.choices(projects, weights, k=count)):
        day = int(chance.uniform(project.start, project.end - DAY) - START) // DAY
        moments.append((START + (day + chance.uniform(0.35, 0.65)) * DAY, number, project))
    for number in range(int(count * 0.8)):  # What was told today is asked for from the evening on.
        day = chance.randrange(DAYS)
        moments.append((START + (day + chance.uniform(0.7, 0.9)) * DAY, count + number, None))
    for at, _, project in sorted(moments, key=lambda each: each[:2]):
        if project is not None:
            yield _tell(chance, project, at, names, things)
        elif (question := _ask(chance, projects, at)) is not None:
            yield question


def _make_project(chance: random.Random, names: list[str]) -> Project:
    start = START + chance.uniform(-20, 335) * DAY
    end = min(start + chance.uniform(30, 100) * DAY, START + DAYS * DAY)
    parts = tuple(names.pop() for _ in range(8))
    return Project(names.pop().capitalize(), parts, max(start, START), end)


def _tell(
    chance: random.Random, project: Project, at: float, names: list[str], things: list[str]
) -> Told:
    draw = chance.random()
    if draw < 0.22 or not project.facts:
        return _tell_fact(chance, project, at, things)
    if draw < 0.48:
        return _tell_again(chance, project, at)
    if draw < 0.54:
        return _correct(chance, project, at)
    if draw < 0.78 or not project.days:
        return _tell_day(chance, project, at, names.pop(), things)
    if draw < 0.88:  # A session ends, and what it tells was told before.
        return Told(at, chance.choice(project.days[-5:]), "", is_repeat=True)
    return _tell_passing(chance, project, at, names.pop())


def _tell_fact(chance: random.Random, project: Project, at: float, things: list[str]) -> Told:
    while True:
        part, trait = chance.choice(project.parts), chance.choice(list(_TRAITS))
        key = f"{project.name} {part} {trait}"
        if key not in project.facts or len(project.facts) > 80:
            break
    if key in project.facts:
        return _tell_again(chance, project, at)
    value = f"{chance.randrange(11, 9_000)} {_TRAITS[trait]}"
    project.facts[key] = (part, trait, value)
    text = f"The {trait} of {project.name}'s {part} is {value}."
    for reason in chance.sample(_WHY, chance.choice((0, 1, 2))):
        text += " " + reason.format(who=chance.choice(_WHO), thing=chance.choice(things))
    kind = NoteKind.DECISION if "chose" in text else NoteKind.SEMANTIC_FACT
    state = NoteState.CANDIDATE if chance.random() < 0.15 else None
    confidence = 0.4 if chance.random() < 0.05 else None
    memory = Memory(
        text, context=project.name.lower(), kind=kind, state=state, confidence=confidence
    )
    return Told(at, memory, key)


def _tell_again(chance: random.Random, project: Project, at: float) -> Told:
    key = _pick(chance, project)
    part, trait, value = project.facts[key]
    text = chance.choice(
        (
            f"The {trait} of {project.name}'s {part} is {value}.",
            f"{project.name}: the {part}'s {trait} is {value}.",
            f"The {part} of {project.name} has a {trait} of {value}.",
        )
    )
    return Told(at, Memory(text, context=project.name.lower()), key, is_repeat=True)


def _correct(chance: random.Random, project: Project, at: float) -> Told:
    key = _pick(chance, project)
    part, trait, _ = project.facts[key]
    value = f"{chance.randrange(11, 9_000)} {_TRAITS[trait]}"
    project.facts[key] = (part, trait, value)
    text = f"The {trait} of {project.name}'s {part} is {value}."
    return Told(at, Memory(text, context=project.name.lower()), key, is_correction=True)


def _tell_day(
    chance: random.Random, project: Project, at: float, code: str, things: list[str]
) -> Told:
    part = chance.choice(project.parts)
    cause = f"the {chance.choice(list(_TRAITS))} was {chance.randrange(11, 9_000)}"
    lines = []
    for _ in range(chance.randrange(10, 36)):
        words = {"who": chance.choice(_WHO), "thing": chance.choice(things)}
        line = chance.choice(_DAILY).format(**words)
        other = f", and {chance.choice(_WHO)} waited for {chance.choice(things)}"
        lines.append(f"{line[0].upper()}{line[1:]}{other if chance.random() < 0.4 else ''}.")
    first = f"The {code} outage of {project.name} began in the {part}, because {cause}."
    lines.insert(chance.randrange(len(lines)), first)
    lines.append(f"So the {code} outage was the {part}'s, and {cause} when it began.")
    half = len(lines) // 2
    text = "\n\n".join((" ".join(lines[:half]), " ".join(lines[half:])))
    memory = Memory(
        text,
        title=f"The {code} outage of {project.name}",
        context=project.name.lower(),
        kind=NoteKind.EPISODIC_TRACE,
    )
    project.days.append(memory)
    question = f"what caused the {code} outage of {project.name}"
    project.traces.append((at, question, cause.rpartition(" ")[2]))
    return Told(at, memory, f"trace {code}")


def _tell_passing(chance: random.Random, project: Project, at: float, code: str) -> Told:
    end = at + chance.uniform(3, 20) * DAY
    day = datetime.fromtimestamp(end).date()
    text = (
        f"{project.name} is frozen for the {code} audit until {day}. "
        f"Deployments of {project.name} wait, and {chance.choice(_WHO)} decides on exceptions."
    )
    memory = Memory(text, context=project.name.lower(), kind=NoteKind.WORKING_CONTEXT)
    project.passing.append((end, f"how long does the {code} audit freeze {project.name}", str(day)))
    return Told(at, memory, f"passing {code}")


def _ask(chance: random.Random, projects: list[Project], at: float) -> Asked | None:
    """Ask about a project that lives, or one in twelve times about one that is over."""
    over = chance.random() < 0.08
    known = [each for each in projects if each.facts and (each.end < at) == over]
    if not known:
        return None
    if over:  # What ended lately is asked for more often than what ended long ago.
        weights = [0.5 ** ((at - each.end) / (21 * DAY)) for each in known]
        project = chance.choices(known, weights)[0]
    else:
        project = chance.choice(known)
    draw = chance.random()
    recent = [each for each in project.traces if at - each[0] < 30 * DAY]
    passing = [each for each in project.passing if each[0] > at]
    if draw < 0.15 and (recent or project.traces):
        _, question, answer = chance.choice(recent or project.traces)
        return Asked(at, question, answer, "")
    if draw < 0.22 and passing:
        _, question, answer = chance.choice(passing)
        return Asked(at, question, answer, "")
    key = _pick(chance, project)
    part, trait, value = project.facts[key]
    question = chance.choice(
        (
            f"what is the {trait} of {project.name}'s {part}",
            f"{project.name} {part} {trait}",
            f"how high is the {trait} in the {part} of {project.name}",
        )
    )
    return Asked(at, question, value, key)


def _pick(chance: random.Random, project: Project) -> str:
    """Return a fact of a project, the first ones far more often: half of all asks are for a few."""
    keys = list(project.facts)
    return chance.choices(keys, [1 / (rank + 1) for rank in range(len(keys))])[0]
