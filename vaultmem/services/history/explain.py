"""Say why the vault holds what it says of something: who wrote it when, and what it replaced."""

from __future__ import annotations

import contextlib
import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from typing import NamedTuple

from vaultmem.core.finding.hit import Hit
from vaultmem.core.finding.query import NoteFilter, parse_query
from vaultmem.core.lifecycle import Kind, State
from vaultmem.core.notes.encoding import decode_text
from vaultmem.core.notes.frontmatter import Frontmatter, read_frontmatter
from vaultmem.core.notes.note import Note
from vaultmem.core.notes.sections import Section
from vaultmem.errors import VaultError
from vaultmem.services.finding.recall import recall
from vaultmem.services.history.blame import BlamedLine, blame_bytes, find_lines
from vaultmem.services.reading.read_notes import read_bytes, read_note, resolve_address
from vaultmem.storage.git.blame import find_mentions, is_mentioned
from vaultmem.storage.git.log import Commit, sort_commits
from vaultmem.storage.git.vault_history import History
from vaultmem.vault import Vault

#: What a memory holds to be so, or wants done; no episodes and no working notes.
_KINDS = frozenset(
    [Kind.SEMANTIC_FACT, Kind.DECISION, Kind.POLICY_RULE, Kind.PROCEDURAL_SKILL, Kind.PREFERENCE]
)
_STATES = frozenset(State) - {State.QUARANTINED}

#: Sections that are found besides those that are wanted: some may have a title and no text.
_SPARE = 8


class ChangeStep(NamedTuple):
    """Some lines of a section that came together; `commit` is None while none has them.

    `claimed_by` is the other machine that names the agent, "" where this one knows it.
    """

    commit: Commit | None
    who: str
    agent: str
    session: str
    lines: int
    claimed_by: str = ""


class GroundLink(NamedTuple):
    """A note as a link names it, and its path; empty where there is no such note."""

    name: str
    path: str


class Ground(NamedTuple):
    """A section that answers, the steps by which it came to be, oldest first, and its links.

    `ends` are commits of the steps at which a shallow clone's history ends.
    """

    hit: Hit
    steps: tuple[ChangeStep, ...]
    supersedes: tuple[GroundLink, ...]
    superseded_by: tuple[GroundLink, ...]
    ends: frozenset[str]


def explain_text(vault: Vault, text: str, limit: int = 5) -> list[Ground]:
    """Return the facts, decisions, policies and skills that mention a text, best first.

    Sections without text of their own come last. Those that are archived or deprecated are there
    too, so that one sees what was once held to be so. The vault must be in sync, or be one that
    looks at a commit (`look_at`).

    Raises:
        RefusedError: the text is too long, or the limit under 1.
    """
    query = parse_query(text, limit, NoteFilter(kinds=_KINDS, states=_STATES))
    hits = recall(vault, query._replace(limit=limit + _SPARE))
    notes = {hit.record.path: read_note(vault, PurePosixPath(hit.record.path)) for hit in hits}
    hits = sorted(hits, key=lambda hit: not _has_text(hit, notes[hit.record.path]))[:limit]
    notes = {hit.record.path: notes[hit.record.path] for hit in hits}
    commit = "" if vault.view.is_work_tree else vault.view.sources[0].commit
    successors = _find_successors(vault, notes.values())
    return [_make_ground(vault, hit, notes[hit.record.path], commit, successors) for hit in hits]


def _has_text(hit: Hit, note: Note) -> bool:
    """Tell whether a section has text of its own, and not only a title that fits."""
    return bool(note.section_text(_find_section(hit, note)))


def _find_section(hit: Hit, note: Note) -> Section:
    return note.sections[min(hit.section.ordinal, len(note.sections) - 1)]


def _make_ground(
    vault: Vault, hit: Hit, note: Note, commit: str, successors: dict[str, list[str]]
) -> Ground:
    section = _find_section(hit, note)
    data = read_bytes(vault, note.path) if note.encoding else note.text.encode("utf-8")
    blame = blame_bytes(vault, str(note.path), data, find_lines(note, section), commit)
    steps = _order_steps(vault.history, blame.lines)
    older = tuple(GroundLink(name, _resolve(vault, name)) for name in _read_links(note.matter))
    newer = tuple(GroundLink(path, path) for path in successors.get(str(note.path), ()))
    return Ground(hit, steps, older, newer, blame.ends)


def _order_steps(history: History, lines: Iterable[BlamedLine]) -> tuple[ChangeStep, ...]:
    """Return the distinct origins of lines, oldest first, what is not committed last."""
    steps: dict[tuple[str, str, str], list[ChangeStep]] = {}
    for line in lines:
        commit = line.commit.commit if line.commit else ""
        step = ChangeStep(line.commit, line.who, line.agent, line.session, 1, line.claimed_by)
        steps.setdefault((commit, line.agent or line.who, line.session), []).append(step)
    summed = [group[0]._replace(lines=len(group)) for group in steps.values()]
    made = [step.commit for step in summed if step.commit is not None]
    order = {commit.commit: place for place, commit in enumerate(sort_commits(history, made))}
    last = len(order)
    return tuple(sorted(summed, key=lambda s: order[s.commit.commit] if s.commit else last))


def _find_successors(vault: Vault, notes: Iterable[Note]) -> dict[str, list[str]]:
    """Return, by path, the notes that say they supersede one of these."""
    wanted = {str(note.path): _fold(str(note.path)) for note in notes}
    found: dict[str, list[str]] = {}
    if not wanted:
        return found
    for path, data in _read_mentions(vault, b"supersedes"):
        for name in _read_links(read_frontmatter(decode_text(data).text)):
            # Looking a name up takes long; most links name other notes.
            likely = any(folded.endswith(_fold(name)) for folded in wanted.values())
            target = _resolve(vault, name) if likely else ""
            if target in wanted and path not in found.setdefault(target, []):
                found[target].append(path)
    return found


def _read_mentions(vault: Vault, word: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield path and bytes of each note that has a word near its start."""
    blobs = sorted(vault.view.blobs().items())
    if vault.view.is_work_tree:
        for path in find_mentions(vault.root, (path for path, _ in blobs), word):
            with contextlib.suppress(VaultError):
                yield path, read_bytes(vault, PurePosixPath(path))
        return
    contents = vault.history.objects.read_all(blob for _, blob in blobs)
    for (path, _), (_, data) in zip(blobs, contents, strict=True):
        if is_mentioned(data, word):
            yield path, data


def _read_links(matter: Frontmatter) -> list[str]:
    """Return the names in the property `supersedes`, link marks left out."""
    prop = matter.get("supersedes")
    if prop is None or prop.kind in {"null", "map"}:
        return []
    values = (prop.value,) if isinstance(prop.value, str) else prop.value
    names = (value.strip().removeprefix("[[").removesuffix("]]") for value in values)
    return [name for text in names if (name := text.partition("|")[0].strip())]


def _resolve(vault: Vault, name: str) -> str:
    """Return the path of the note that a link names, empty if there is none or several."""
    try:
        return str(resolve_address(vault, name, by_title=False)[0])
    except VaultError:
        return ""


def _fold(path: str) -> str:
    path = path.partition("#")[0].removesuffix(".md")
    return unicodedata.normalize("NFC", f"/{path}").casefold()
