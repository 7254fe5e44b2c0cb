"""Find memories that should be checked: claims about an environment, refs that moved on, doubts."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from vaultmem.core.counting import count_things
from vaultmem.core.finding.hit import Hit
from vaultmem.core.links.link import LinkKind
from vaultmem.core.notes.note import Note
from vaultmem.core.notes.record import NoteRecord, SectionRecord
from vaultmem.core.packs.caution import OLD_DAYS, quote_claim
from vaultmem.core.upkeep.proposal import Action, Proposal
from vaultmem.errors import VaultError
from vaultmem.services.reading.read_notes import find_note
from vaultmem.services.upkeep.uses import Use
from vaultmem.storage.git.any_repository import (
    FileCommit,
    list_entries,
    list_file_commits,
    open_repository,
)
from vaultmem.storage.git.runner import GitRunner
from vaultmem.storage.links import LinkStore
from vaultmem.vault import Vault

#: What may be a file's path: no scheme, not absolute, nothing above.
_PATH = re.compile(r"(?![/\\-])(?![A-Za-z][A-Za-z0-9+.-]*:)[^\x00-\x1f]{1,400}")
_LINE = re.compile(r"[#:][L\d].*$")

_MAX_PATHS = 400
_MAX_TOLD = 3


class _Place(NamedTuple):
    """A repository, and the folders in it that a path may be relative to."""

    git: GitRunner
    prefixes: tuple[str, ...]

    def name(self, path: str) -> tuple[str, ...]:
        return tuple(f"{prefix}{path}" for prefix in self.prefixes)


def find_changed_refs(
    vault: Vault, records: Sequence[NoteRecord], uses: Mapping[str, Use]
) -> dict[str, tuple[str, ...]]:
    """Return, by note, what happened since to files that it rests on, as sentences.

    A path is looked for in the vault's repository, and in the one that `code_repository` names.
    """
    wanted = _find_paths(vault, records)
    since = min((int(uses[note].written) for note in wanted), default=0)
    found_by_note: dict[str, list[str]] = {}
    for place in _find_places(vault) if wanted else ():
        names = sorted({n for paths in wanted.values() for p in paths for n in place.name(p)})
        commits: dict[str, list[FileCommit]] = {}
        there: set[str] = set()
        for start in range(0, len(names), _MAX_PATHS):
            some = names[start : start + _MAX_PATHS]
            commits |= list_file_commits(place.git, some, since)
            there |= list_entries(place.git, some).keys()
        for note, paths in wanted.items():
            for path in paths:
                for name in place.name(path):
                    if text := _describe_change(
                        path, commits[name], uses[note].written, name in there
                    ):
                        found_by_note.setdefault(note, []).append(text)
    return {note: tuple(texts[:_MAX_TOLD]) for note, texts in found_by_note.items()}


def _find_paths(vault: Vault, records: Sequence[NoteRecord]) -> dict[str, list[str]]:
    """Return the paths that each note rests on."""
    by_document = {record.document: record.path for record in records}
    found = {}
    for document, links in LinkStore(vault.state).links_in(["refs"]).items():
        paths = [_LINE.sub("", link.path) for link in links if link.kind is LinkKind.PATH]
        if document in by_document and (good := [path for path in paths if _is_path(path)]):
            found[by_document[document]] = good
    return found


def _find_places(vault: Vault) -> Iterator[_Place]:
    head = vault.head()
    if head is not None and head.commit:
        yield _Place(vault.history.git, tuple(dict.fromkeys((vault.history.prefix, ""))))
    if not vault.config.code_repository:
        return
    folder = (vault.root / Path(vault.config.code_repository).expanduser()).resolve()
    with contextlib.suppress(VaultError, OSError):
        git = open_repository(folder) if folder.is_dir() else None
        if git is not None and not (head and git.work_tree == vault.history.git.work_tree):
            inside = folder.relative_to(git.work_tree).as_posix()
            yield _Place(git, tuple(dict.fromkeys(("" if inside == "." else f"{inside}/", ""))))


def _describe_change(
    path: str, commits: Sequence[FileCommit], written: float, is_there: bool
) -> str:
    """Return what happened to a file after a note was written, "" for nothing."""
    later = [commit for commit in commits if commit.at > written + 1]
    if not later:
        return ""
    what = "changed" if is_there else "vanished"
    return f"{path} {what} on {datetime.fromtimestamp(later[0].at).date()} in {later[0].commit[:7]}"


def _is_path(text: str) -> bool:
    return bool(_PATH.fullmatch(text)) and ".." not in re.split(r"[\\/]", text)


#: A memory of less confidence has to be confirmed within so many days.
LOW_CONFIDENCE = 0.5
UNCONFIRMED_DAYS = 30


def find_doubtful(
    vault: Vault, records: Sequence[NoteRecord], uses: Mapping[str, Use]
) -> Iterator[Proposal]:
    """Yield a proposal for each note that somebody should check, with the reasons joined."""
    now = vault.now()
    changed = find_changed_refs(vault, records, uses)
    for record in records:
        days = (now - uses[record.path].written) / 86_400
        reasons: list[str] = []
        evidence: list[str] = []
        if record.path in changed:
            reasons.append("what it rests on has changed")
            evidence.extend(changed[record.path])
        is_low = record.confidence is not None and record.confidence < LOW_CONFIDENCE
        note = find_note(vault, record.path) if days > min(OLD_DAYS, UNCONFIRMED_DAYS) else None
        if is_low and note and days > UNCONFIRMED_DAYS and note.matter.get("confirmed_by") is None:
            reasons.append("of low confidence, and nobody confirmed it")
            evidence.append(f"confidence {record.confidence:g}, {_say_age(uses, record, days)}")
        if note and days > OLD_DAYS and (claim := _find_claim(record, note)):
            reasons.append("an old claim of what does not work or exist")
            evidence.append(f'"{claim}", {_say_age(uses, record, days)}')
        if reasons:
            reason = "; ".join(reasons)
            yield Proposal(Action.REVALIDATE, record.path, record.blob, reason, tuple(evidence))


def _find_claim(record: NoteRecord, note: Note) -> str:
    """Return the first sentence of a note that may not be so any more, "" for none."""
    for section in note.sections:
        span = (section.start, section.end, section.line)
        place = SectionRecord(0, section.ordinal, section.heading, section.parents, *span)
        text = note.section_text(section)
        if claim := quote_claim(Hit(record, place, text, 0.0, (), 0.0, 1.0)):
            return claim
    return ""


def _say_age(uses: Mapping[str, Use], record: NoteRecord, days: float) -> str:
    day = datetime.fromtimestamp(uses[record.path].written).date()
    return f"written {day}, {count_things(int(days), 'day')} ago"
