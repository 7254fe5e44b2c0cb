"""Sessions as text, the same in every command of the group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from vaultmem.answers.sessions import session_json, view_json
from vaultmem.cli.history_text import say_report
from vaultmem.cli.output import emit_json, say, say_painted, warn
from vaultmem.core.counting import count_things
from vaultmem.core.safe_text import one_line
from vaultmem.operations.lines import align

if TYPE_CHECKING:
    from vaultmem.core.sessions.restore_text import Restore
    from vaultmem.core.sessions.session import Session, SessionFacts
    from vaultmem.core.sessions.turns import Tally
    from vaultmem.services.sessions.recover import Recovered
    from vaultmem.services.sessions.search import SessionStats
    from vaultmem.services.tasks.view import TaskHistory
    from vaultmem.vault import Vault

_WIDTH = 60

SummarizerOption = Annotated[
    str,
    typer.Option(
        "--summarizer",
        metavar="NAME",
        help="plain, or llm: a model at $VAULTMEM_LLM_BASE_URL words the summary.",
    ),
]


def find_named(vault: Vault, explicit: str, or_last: bool = False) -> str:
    """Return the session that is named, or meant here, or with `or_last` the last one here."""
    from vaultmem.services.sessions.identify import require_session

    return require_session(vault, explicit, or_last=or_last)


def say_done(session: Session, word: str, as_json: bool) -> None:
    """Print what was done to a session, or the session as it is now."""
    if as_json:
        emit_json(session_json(session))
    else:
        say_painted(f"{word:<9}", "green", session.facts.id)


def say_restore(made: Restore) -> None:
    """Print a restore."""
    say(made.text.rstrip("\n"))


def say_recovered(recovered: tuple[Recovered, ...] | list[Recovered]) -> None:
    """Print the sessions that had died."""
    for each in recovered:
        say_painted("recovered", "yellow", f"  {each.session}  ({each.status})")
        say_report(each.report)
        if each.problem:
            warn(each.problem)


def name_goal(facts: SessionFacts) -> str:
    """Return what a session is about, in one line that fits."""
    text = one_line(facts.goal or facts.title)
    return text if len(text) <= _WIDTH else text[:_WIDTH].rsplit(" ", 1)[0] + " ..."


def say_facts(found: Sequence[SessionFacts]) -> None:
    """Print one line for each session."""
    rows = [
        (
            one_line(f.id),
            one_line(f.standing),
            one_line(f.agent) or "-",
            f.started[:16].replace("T", " "),
        )
        for f in found
    ]
    for line, facts in zip(align(rows) if rows else [], found, strict=True):
        mark = "  (restore pending)" if facts.pending else ""
        say(f"{line}  {name_goal(facts)}{mark}".rstrip())


def say_session(session: Session, tally: Tally) -> None:
    """Print a session: its facts, then what it decided, asked and touched."""
    facts = session.facts
    say_painted(facts.id, "bold", f"  {facts.goal or facts.title}")
    who = facts.agent or "a person"
    ended = f" to {facts.ended}" if facts.ended else ""
    _say_fact("status", f"{one_line(facts.standing)}  ({who}, {facts.started}{ended})")
    _say_fact("note", facts.path)
    if facts.workspace:
        _say_fact("workspace", facts.workspace)
    for edge in facts.edges:
        _say_fact(edge.relation.value.replace("_", " "), edge.session)
    if facts.pending:
        _say_fact("restore", f"pending since {facts.pending}")
    if tally.turns:
        _say_fact("transcript", f"{count_things(tally.turns, 'turn')}, {tally.tokens:,} tokens")
    _say_fact("windows", str(len(session.windows)))
    for name, items in (
        ("summary", session.summary.splitlines()),
        ("decisions", [d.text or f"[[{d.target}]]" for d in session.decisions]),
        ("questions", session.questions),
        ("touched", [f"{t.path}  {t.blob}".rstrip() for t in session.touched]),
    ):
        for number, item in enumerate(filter(str.strip, items)):
            _say_fact("" if number else name, item)


def say_stats(found: SessionStats) -> None:
    """Print the sessions counted."""
    span = f", {found.first[:10]} to {found.last[:10]}" if found.first else ""
    _say_fact("sessions", f"{found.sessions:,}{span}")
    for name, counts in (
        ("by status", found.statuses),
        ("by agent", found.agents),
        ("by folder", found.workspaces),
    ):
        if counts:
            _say_fact(f"  {name}", ", ".join(f"{n:,} {value}" for value, n in counts.items()))
    _say_fact("decisions", f"{found.decisions:,}")
    _say_fact("questions", f"{found.questions:,} open")
    _say_fact("touched", count_things(found.touched, "file"))
    _say_fact(
        "transcripts",
        f"{count_things(found.turns, 'turn')}, {found.tokens:,} tokens, "
        f"here {found.bytes / 1e6:,.1f} MB",
    )


def _say_fact(name: str, text: str) -> None:
    say_painted(f"{name:<13}", "dim", text)


def say_history(vault: Vault, found: TaskHistory, summarizer: str, as_json: bool) -> None:
    """Print a view of tasks or sessions, and how to print all of it."""
    from vaultmem.services.tasks.view import polish_summary

    summary = polish_summary(found, summarizer, vault.environment)
    if as_json:
        emit_json(view_json(found, summary))
        return
    say(one_line(summary))
    say()
    say(found.rendered.rstrip("\n"))
    say()
    say_painted("all of it", "dim", f"  vaultmem task expand {found.artifact[:12]}")
