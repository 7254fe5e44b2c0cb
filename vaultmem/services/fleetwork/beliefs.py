"""Which vaults say something, since when, and who wrote it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import NamedTuple

from vaultmem.core.delta.file_changes import FileChange
from vaultmem.core.notes.encoding import decode_text
from vaultmem.core.packs.expectation import Expectation, judge_pack, read_plain
from vaultmem.core.packs.pack_item import PackItem
from vaultmem.core.safe_text import one_line
from vaultmem.errors import RefusedError
from vaultmem.services.finding.pack import make_unseen
from vaultmem.services.fleetwork.jobs import Job, JobOptions, list_expected, run_job
from vaultmem.services.history.blame import blame_bytes
from vaultmem.services.pools.pool import Pool
from vaultmem.storage.git.log import Commit, Writer, follow_path
from vaultmem.vault import Vault

#: Characters that are shown of what a note says.
_SHOWN = 300


class Belief(NamedTuple):
    """Where a vault says something, and since when: the commit, and who wrote it.

    `says` are the words there, `at` is in seconds since the epoch, `time` the same in ISO 8601 as
    the commit has it. `source` is what the note names as its own.
    """

    path: str
    says: str
    source: str
    commit: str
    at: int
    time: str
    who: str
    agent: str
    session: str
    event: str
    subject: str


class Believers(NamedTuple):
    """The vaults that say something, the first one first; who does not, and who is not known."""

    believers: tuple[tuple[str, Belief], ...]
    others: tuple[str, ...]
    missing: dict[str, str]
    behind: dict[str, str]


def find_believers(
    pool: Pool, names: Iterable[str], options: JobOptions, expected: Expectation
) -> Believers:
    """Return which vaults have a pack as expected, and since when.

    Raises:
        RefusedError: it is expected that nothing is said, which has no beginning.
    """
    if expected.negated:
        raise RefusedError("what is not said has no first commit; leave out --not")
    run = partial(find_belief, expected=expected)
    job = Job("looking who says so", run, (list_expected(expected), options.day))
    done = run_job(pool, names, options, job)
    found = [(name, Belief(**value)) for name, value in done.items() if value is not None]
    found.sort(key=lambda each: (each[1].at, each[0]))
    others = {*done.done} - {name for name, _ in found}
    return Believers(
        tuple(found),
        tuple(name for name in done.done if name in others),
        done.missing,
        done.behind,
    )


def find_belief(vault: Vault, expected: Expectation) -> Belief | None:
    """Return since when a vault says what is expected, and who wrote it; None if it does not.

    Of several notes that say it, it is the one that did first. A note says it from the commit on
    since which it has said it ever since, in its own lines or in another note from which they came.
    """
    pack = make_unseen(vault, expected.query, expected.budget or None)
    if judge_pack(pack, expected):
        return None
    found = [
        belief
        for path, (item, words) in _find_notes(pack.items, expected).items()
        if (belief := _trace(vault, path, item, words)) is not None
    ]
    return min(found, key=lambda each: each.at, default=None)


def _find_notes(
    items: Sequence[PackItem], expected: Expectation
) -> dict[str, tuple[PackItem, tuple[str, ...]]]:
    """Return the notes of a pack that show what is expected, with those of the texts they say."""
    found: dict[str, tuple[PackItem, tuple[str, ...]]] = {}
    for item in items:
        text = read_plain(f"{item.hit.name}\n{item.text}")
        words = tuple(each for each in map(read_plain, expected.says) if each in text)
        is_named = {item.hit.record.path, item.hit.address} & {*expected.finds}
        if words or is_named:
            found.setdefault(item.hit.record.path, (item, words))
    return found


def _trace(vault: Vault, path: str, item: PackItem, words: tuple[str, ...]) -> Belief | None:
    history = vault.history
    head = history.head().commit
    versions = [
        (commit, change)
        for commit, change in (follow_path(history, head, path) if head else ())
        if change.blob and change.is_regular
    ]
    first = _find_first(vault, versions, words) or _find_first(vault, versions, ())
    if first is None:
        return None
    commit, change, data = first
    lines = _find_lines(decode_text(data).text.split("\n"), words)
    writer = commit.find_writer(history.prefix + change.path, lines[0])
    told = blame_bytes(vault, change.path, data, lines, commit.commit).lines if words else ()
    origins = [each for each in told if each.commit is not None and each.text.strip()]
    if origins:  # All of it was said when the last of its lines was.
        last = max(origins, key=lambda each: each.commit.at if each.commit else 0)
        commit = last.commit or commit
        writer = Writer(last.who, last.agent, last.session, last.claimed_by)
    says = " ".join(each.text.strip() for each in origins) or item.hit.name
    return Belief(
        path=path,
        says=one_line(says)[:_SHOWN],
        source=item.hit.record.source,
        commit=commit.commit,
        at=commit.at,
        time=commit.time,
        who=writer[0],
        agent=writer[1],
        session=writer[2],
        event=commit.event,
        subject=commit.subject,
    )


def _find_first(
    vault: Vault, versions: Sequence[tuple[Commit, FileChange]], words: tuple[str, ...]
) -> tuple[Commit, FileChange, bytes] | None:
    """Return the version since which a note has always said some words, of versions newest first.

    None where not even the newest does, as git has them.
    """
    blobs = list(dict.fromkeys(change.blob for _, change in versions))
    read = vault.history.objects.read_all(blobs) if blobs else ()
    texts = {blob: data for blob, (_, data) in zip(blobs, read, strict=True)}
    first = None
    for commit, change in versions:
        data = texts[change.blob]
        said = read_plain(decode_text(data).text)
        if any(each not in said for each in words):
            break
        first = commit, change, data
    return first


def _find_lines(lines: Sequence[str], words: tuple[str, ...]) -> tuple[int, int]:
    """Return the first and the last line (1-based) of those that say the words; all, if none."""
    places = [
        n for n, line in enumerate(lines, 1) if any(each in read_plain(line) for each in words)
    ]
    return (places[0], places[-1]) if places else (1, max(1, len(lines)))
