"""Sessions, and views of tasks, as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from vaultmem.answers.notes import report_json

if TYPE_CHECKING:
    from vaultmem.core.sessions.restore_text import Restore
    from vaultmem.core.sessions.session import Session, SessionFacts
    from vaultmem.core.sessions.turns import Tally
    from vaultmem.core.tasks.task import Task
    from vaultmem.services.sessions.begin import Begun
    from vaultmem.services.sessions.close import Closed
    from vaultmem.services.sessions.decide import Decided
    from vaultmem.services.sessions.recover import Recovered
    from vaultmem.services.sessions.search import FoundSession, SessionChain
    from vaultmem.services.tasks.view import TaskHistory


def session_json(session: Session) -> dict[str, Any]:
    """Return a session with its lists and texts."""
    return {
        **_facts_json(session.facts),
        "decisions": session.decisions,
        "questions": session.questions,
        "answered": session.answered,
        "touched": session.touched,
        "windows": session.windows,
        "summary": session.summary,
        "details": session.details,
    }


def _facts_json(facts: SessionFacts) -> dict[str, Any]:
    """Return a session whose lists are counted."""
    return {
        "session": facts.id,
        "path": facts.path,
        "blob": facts.blob,
        "title": facts.title,
        "agent": facts.agent or None,
        "status": facts.status,
        "started": facts.started or None,
        "ended": facts.ended or None,
        "goal": facts.goal or None,
        "workspace": facts.workspace or None,
        "edges": facts.edges,
        "pending_restore_at": facts.pending or None,
        "machine": facts.machine or None,
        "last_seen": facts.seen or None,
        "counts": {
            "decisions": facts.decisions,
            "questions": facts.questions,
            "touched": facts.touched,
            "windows": facts.windows,
            "turns": facts.turns,
            "tokens": facts.tokens,
        },
    }


def standing_json(facts: SessionFacts) -> dict[str, Any]:
    """Return no more than which session it is, how it stands and where it is written down."""
    return {"session": facts.id, "status": facts.status, "note": facts.path}


def shown_json(session: Session, tally: Tally) -> dict[str, Any]:
    """Return a session, and what this machine has of its transcript."""
    transcript = {"turns": tally.turns, "tokens": tally.tokens, "digest": tally.digest or None}
    return {**session_json(session), "transcript": transcript}


def begun_json(begun: Begun, restored: Restore | None) -> dict[str, Any]:
    """Return the session that is open now, with the restore that was wanted."""
    return {
        **session_json(begun.session),
        "new": begun.is_new,
        "restore": restored.text if restored else None,
        "restored": begun.restore or None,
        "recovered": list(map(_recovered_json, begun.recovered)),
    }


def _recovered_json(each: Recovered) -> dict[str, Any]:
    """Return a session whose process was gone, and what was done about it."""
    return {
        "session": each.session,
        "path": each.path,
        "status": each.status,
        "left": each.left,
        "commit": each.report.commit or None,
        "problem": each.problem or None,
    }


def decided_json(done: Decided) -> dict[str, Any]:
    """Return a decision and the session that it was made in."""
    return {"decision": done.memory, **session_json(done.session)}


def counted_json(session: str, tally: Tally) -> dict[str, Any]:
    """Return how long a session's transcript is now."""
    return {"session": session, "turns": tally.turns, "tokens": tally.tokens}


def closed_json(done: Closed) -> dict[str, Any]:
    """Return a session that has ended, what was learned in it, and the commits."""
    learned = [
        {"text": each.text, "path": each.path, "in_memory": each.in_memory} for each in done.learned
    ]
    told = {"learned": learned, "proposed": done.proposed}
    return {**session_json(done.session), **told, **report_json(done.report)}


def list_json(found: Iterable[SessionFacts], recovered: Iterable[Recovered]) -> dict[str, Any]:
    """Return sessions, and those that were recovered before they were listed."""
    listed = list(map(_facts_json, found))
    return {"sessions": listed, "recovered": list(map(_recovered_json, recovered))}


def found_json(found: Sequence[FoundSession]) -> dict[str, Any]:
    """Return the sessions that answer a question, each with the sections that do."""
    return {"sessions": [{**_facts_json(each.facts), "hits": _hits_json(each)} for each in found]}


def _hits_json(found: FoundSession) -> list[dict[str, Any]]:
    return [
        {"heading": hit.section.heading or None, "score": round(hit.score, 6), "text": hit.text}
        for hit in found.hits
    ]


def chain_json(chain: SessionChain) -> dict[str, Any]:
    """Return a session, those before it, and those that follow it."""
    earlier = [
        {
            "depth": link.depth,
            "session": link.session,
            "relation": link.relation,
            "by": link.by,
            "facts": _facts_json(link.facts) if link.facts else None,
        }
        for link in chain.earlier
    ]
    followers = [
        {"relation": relation, "facts": _facts_json(facts)} for relation, facts in chain.followers
    ]
    return {"session": _facts_json(chain.session), "earlier": earlier, "followers": followers}


def restore_json(made: Restore) -> dict[str, Any]:
    """Return what the next context window needs, and what it cost."""
    return {
        "session": made.sessions[0],
        "text": made.text,
        "sessions": made.sessions,
        "tokens": {"sent": made.tokens, "budget": made.budget},
        "shown": made.shown,
        "left_out": made.left_out,
    }


def tasks_json(tasks: Sequence[Task]) -> dict[str, Any]:
    """Return a list of tasks."""
    return {"tasks": tasks}


def view_json(found: TaskHistory, summary: str) -> dict[str, Any]:
    """Return a view, the summary that was worded for it, and what it rests on."""
    return {
        "rendered": found.rendered,
        "summary": summary,
        "artifact": found.artifact,
        "task_id": found.task_id or None,
        "task_title": found.task_title or None,
        "tokens": {"sent": found.tokens, "budget": found.budget},
        "support": found.support,
    }


def artifact_json(digest: str, text: str) -> dict[str, Any]:
    """Return the full view that an artifact's digest names."""
    return {"artifact": digest, "text": text}
