"""Check whether code that notes cite has changed, on this machine and now."""

from __future__ import annotations

import contextlib
import json
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from vaultmem.core.anchored_text import (
    compare_anchor,
    find_block,
    find_symbol,
    locate_anchor,
)
from vaultmem.core.anchors import Anchor, AnchorCheck, AnchorStatus, parse_anchor
from vaultmem.core.notes.frontmatter import read_timestamp
from vaultmem.core.packs.warnings import REFERENCE
from vaultmem.core.text.blob import blob_id
from vaultmem.core.text.line_diff import split_keys
from vaultmem.core.text.paths import is_note_name
from vaultmem.errors import PendingError, VaultError
from vaultmem.services.anchors.checkouts import Checkouts
from vaultmem.storage.files import UnsafeFileError
from vaultmem.storage.git.code_files import (
    CodeRepository,
    SearchLimit,
    find_bases,
    find_new_paths,
    find_text,
    read_versions,
)
from vaultmem.storage.git.repository import (
    FileCommit,
    has_commit,
    list_commits_after,
    list_file_commits,
)

if TYPE_CHECKING:
    from vaultmem.core.notes.link_syntax import Link
    from vaultmem.core.notes.record import NoteRecord
    from vaultmem.storage.git.runner import GitRunner
    from vaultmem.vault import Vault


class CitedAnchor(NamedTuple):
    """An anchor cited by a note, with the note's project and write time.

    `written` is in seconds since the epoch. It dates an anchor without a version.
    """

    anchor: Anchor
    project: str = ""
    written: float = 0.0


def check_documents(
    vault: Vault,
    records: Mapping[int, NoteRecord],
    cited: Mapping[int, Sequence[Link]],
    limit: SearchLimit | None = None,
) -> dict[int, tuple[AnchorCheck, ...]]:
    """Return the states of cited code by document; documents without any are left out.

    `cited` are the links in `cites` of each document. `limit` is as for `check_anchors`.
    """
    numbers: list[int] = []
    anchors: list[CitedAnchor] = []
    for document, links in cited.items():
        record = records.get(document)
        if record is None:
            continue
        is_reference = record.path.startswith(REFERENCE)  # Its paths belong to its source.
        for anchor in _read_links(links):
            if is_reference and not anchor.is_pinned:
                continue
            numbers.append(document)
            anchors.append(cited_by(record, anchor))
    checks: dict[int, tuple[AnchorCheck, ...]] = {}
    for document, check in zip(numbers, check_anchors(vault, anchors, limit), strict=True):
        if check is not None:
            checks[document] = (*checks.get(document, ()), check)
    return checks


def cited_by(record: NoteRecord, anchor: Anchor) -> CitedAnchor:
    """Return an anchor with the data of the note that cites it."""
    write_time = read_timestamp(record.updated or record.created) or record.changed
    return CitedAnchor(anchor, record.project, write_time)


def _read_links(links: Sequence[Link]) -> Iterator[Anchor]:
    """Yield the anchors among links that are not notes; the last one for each place counts."""
    by_place: dict[str, Anchor] = {}
    for link in links:
        subpath = f"#{link.subpath}" if link.subpath else ""
        anchor = parse_anchor(link.text or f"{link.path}{subpath}") if link.kind == "path" else None
        if anchor and (anchor.is_pinned or not is_note_name(anchor.path)):
            by_place[f"{anchor.place} {anchor.project}"] = anchor
    return iter(by_place.values())


def limit_query() -> SearchLimit:
    """Return the time limit for git during a query; the watcher completes the rest.

    The limit is longer if more processes run than there are cores.
    """
    load = os.getloadavg()[0] / (os.cpu_count() or 1) if hasattr(os, "getloadavg") else 0.0
    return SearchLimit(QUERY_SECONDS * min(max(1.0, load), _MAX_LOAD))


#: Seconds for git during a query, factor for a busy machine, and seconds in the idle watcher.
QUERY_SECONDS = 0.1
_MAX_LOAD = 10.0
_IDLE_SECONDS = 5.0


def check_anchors(
    vault: Vault, cited: Sequence[CitedAnchor], limit: SearchLimit | None = None
) -> list[AnchorCheck | None]:
    """Return the current state of each anchor, in the same order.

    Uncommitted edits in the work tree count. The state is None if an anchor has no version and
    names no file of a local repository: it is possibly not a path. If `limit` stops the search, the
    state is unknown, and `check_waiting` checks again.
    """
    limit = limit or SearchLimit()
    checkouts = Checkouts(vault)
    by_repository: dict[CodeRepository, list[_Place]] = {}
    for number, each in enumerate(cited):
        for repository, path in checkouts.find_places(each.anchor, each.project):
            place = _Place(number, each, path)
            by_repository.setdefault(repository, []).append(place)
    checks: dict[int, AnchorCheck] = {}
    for repository, places in by_repository.items():
        for number, check in _check_places(vault, repository, places, limit):
            checks.setdefault(number, check)
    return [
        checks.get(number)
        or (AnchorCheck(each.anchor, AnchorStatus.UNKNOWN) if each.anchor.is_pinned else None)
        for number, each in enumerate(cited)
    ]


def find_versions(
    vault: Vault, anchor: Anchor, project: str
) -> tuple[CodeRepository, bytes] | None:
    """Return the repository of a pinned anchor and its version's bytes, or None."""
    cited = CitedAnchor(anchor, project)
    for repository, path in Checkouts(vault).find_places(cited.anchor, cited.project):
        git = repository.open()
        old = _read_old(vault, git, _Place(0, cited, path)) if git else None
        if old is not None:
            return repository, old
    return None


class AnchorSince(NamedTuple):
    """An anchor compared with a commit; `path` and `line` are where it is now.

    `was_same` means that the commit contained the anchor's text.
    """

    was_same: bool
    path: str = ""
    line: int = 0


def compare_since(
    vault: Vault, cited: CitedAnchor, moved_to: str, repository: CodeRepository, commit: str
) -> AnchorSince:
    """Return whether a commit contained an anchor's text, and where the text is now.

    `moved_to` is the file that contains the text now, if it moved. For an anchor of another
    repository, `was_same` is False.
    """
    anchor = cited.anchor
    places = Checkouts(vault).find_places(cited.anchor, cited.project)
    paths = [path for candidate, path in places if candidate == repository]
    git = repository.open() if paths else None
    if git is None:
        return AnchorSince(False)
    names = [name for path in paths for name in _format_since(git, cited, path)]
    paths_by_name = {f"{commit}:{path}": path for path in (moved_to, *paths) if path}
    versions = read_versions(git, [*names, *paths_by_name]) | _read_cited_blobs(
        vault, [anchor.blob]
    )
    old = next((versions[name] for name in names if name in versions), None)
    if old is None:
        return AnchorSince(False)
    was_same = any(
        compare_anchor(anchor._replace(path=path), old, versions[name]).status is AnchorStatus.HOLDS
        for name, path in paths_by_name.items()
        if name in versions
    )
    for path in filter(None, (moved_to, *paths)):
        if (data := read_present(repository, path)) is not None:
            span = locate_anchor(anchor._replace(path=path), old, data)
            return AnchorSince(was_same, path, span[0] + 1 if span else 1)
    return AnchorSince(was_same)


def _format_since(git: GitRunner, cited: CitedAnchor, path: str) -> tuple[str, ...]:
    bases = {} if cited.anchor.is_pinned else find_bases(git, {path: cited.written})
    return _format_versions(_Place(0, cited, path), bases)


def _read_old(vault: Vault, git: GitRunner, place: _Place) -> bytes | None:
    """Return the version of a file that an anchor names, or that of the note's date."""
    is_dated = not place.anchor.is_pinned
    bases = find_bases(git, {place.path: place.cited.written}) if is_dated else {}
    names = _format_versions(place, bases)
    versions = read_versions(git, names) | _read_cited_blobs(vault, [place.anchor.blob])
    return next((versions[name] for name in names if name in versions), None)


def find_change(
    vault: Vault, cited: CitedAnchor, limit: SearchLimit | None = None
) -> FileCommit | None:
    """Return the first commit that changed cited code, or None if it is not committed.

    Raises:
        PendingError: `limit` stopped the search; `check_waiting` repeats it.
    """
    limit = limit or SearchLimit()
    for repository, path in Checkouts(vault).find_places(cited.anchor, cited.project):
        place, git = _Place(0, cited, path), repository.open()
        key = f"first change {repository.git_folder} {place.key}"
        stored_change = json.loads(vault.state.get(key) or '[""]')
        stamp = f"{blob_id(read_present(repository, path) or b'')} {repository.read_head()}"
        if git is not None and stored_change[0] != stamp:
            with limit.apply(git):
                stored_change = [stamp, *(_find_first_change(vault, git, place) or ())]
                _keep(vault, key, stored_change)
            if stored_change[0] != stamp:
                _add_waiting(vault, [] if limit.is_final else [cited])
                raise PendingError(f"{place.anchor.place}: git still searches its changes")
        if stored_change[0] == stamp and stored_change[1:]:
            return FileCommit(*stored_change[1:])
    return None


def _find_first_change(vault: Vault, git: GitRunner, place: _Place) -> FileCommit | None:
    old = _read_old(vault, git, place)
    later = _list_later(git, place) if old is not None else []
    versions = read_versions(git, [f"{change.commit}:{place.path}" for change in later])
    anchor = place.anchor._replace(path=place.path)
    for change in later:
        data = versions.get(f"{change.commit}:{place.path}")
        if data is None or (old and compare_anchor(anchor, old, data).is_different):
            return change
    return None


def _list_later(git: GitRunner, place: _Place) -> list[FileCommit]:
    """Return the commits that changed a file after its anchor, oldest first."""
    commit, since = place.anchor.commit, place.cited.written
    if commit and has_commit(git, commit):
        return list_commits_after(git, commit, place.path)
    commits = list_file_commits(git, [place.path], int(since))[place.path]
    return [each for each in reversed(commits) if each.at > since + 1]


class _Place(NamedTuple):
    """A possible location of an anchor in a repository; `number` is its index in the request."""

    number: int
    cited: CitedAnchor
    path: str

    @property
    def anchor(self) -> Anchor:
        return self.cited.anchor

    @property
    def key(self) -> str:
        """The anchor's key in the cache."""
        suffix = "" if self.anchor.is_pinned else f" {int(self.cited.written)}"
        return f"{self.anchor._replace(path=self.path, project='')}{suffix}"


def _check_places(
    vault: Vault, repository: CodeRepository, places: Sequence[_Place], limit: SearchLimit
) -> Iterator[tuple[int, AnchorCheck]]:
    """Yield the state of anchors in one repository, without those whose file is unknown."""
    contents: dict[str, bytes | None] = {}
    blobs: dict[str, str] = {}
    undecided_places: list[_Place] = []
    for place in places:
        try:
            if place.path not in contents:
                contents[place.path] = data = repository.read_present(place.path)
                blobs[place.path] = "" if data is None else blob_id(data)
        except UnsafeFileError:
            continue
        if place.anchor.blob and blobs[place.path].startswith(place.anchor.blob):
            yield place.number, AnchorCheck(place.anchor, AnchorStatus.HOLDS)
        else:
            undecided_places.append(place)
    if not undecided_places:
        return
    cache = _Cache(vault, repository, blobs)
    checks = cache.read(undecided_places)
    unchecked_places = [place for place in undecided_places if place.number not in checks]
    git = repository.open() if unchecked_places else None
    if git is not None:
        comparisons = [*_compare(vault, repository, git, unchecked_places, contents, limit)]
        # If a path can be in two places, a known move decides.
        new_checks = dict(
            sorted(comparisons, key=lambda pair: pair[1].status is AnchorStatus.MOVED)
        )
        if limit.is_over and not limit.is_final:
            _add_waiting(
                vault, [place.cited for place in unchecked_places if place.number not in new_checks]
            )
            unchecked_places = [place for place in unchecked_places if place.number in new_checks]
        cache.write(unchecked_places, new_checks)
        checks |= new_checks
    for place in undecided_places:
        check = checks.get(place.number)
        if check and (place.anchor.is_pinned or check.status is not AnchorStatus.UNKNOWN):
            yield place.number, check


def _compare(
    vault: Vault,
    repository: CodeRepository,
    git: GitRunner,
    places: Sequence[_Place],
    contents: Mapping[str, bytes | None],
    limit: SearchLimit,
) -> Iterator[tuple[int, AnchorCheck]]:
    """Yield the state of anchors, compared with the versions that they name."""
    bases: dict[str, tuple[str, ...]] = {}
    if write_times := {
        place.path: place.cited.written for place in places if not place.anchor.is_pinned
    }:
        with limit.apply(git):
            bases = find_bases(git, write_times)
    names = {place.number: _format_versions(place, bases) for place in places}
    versions = read_versions(git, [name for place_names in names.values() for name in place_names])
    versions |= _read_cited_blobs(vault, [place.anchor.blob for place in places])
    missing_places = []
    for place in places:
        old = next((versions[name] for name in names[place.number] if name in versions), None)
        if old is None:
            continue
        data = contents[place.path]
        anchor = place.anchor._replace(path=place.path)
        check = compare_anchor(anchor, old, data) if data is not None else None
        if check is None or check.status is AnchorStatus.GONE:
            missing_places.append((place, old))
        else:
            yield place.number, check._replace(anchor=place.anchor)
    if missing_places:
        with limit.apply(git):
            yield from _find_moved(vault, repository, git, missing_places, contents)


def _format_versions(place: _Place, bases: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return git's names for the version of the file that an anchor cites, best first."""
    anchor = place.anchor
    if not anchor.is_pinned:
        return bases.get(place.path, ())
    if anchor.blob:  # Lines of an uncommitted edit are in no other version.
        is_part = anchor.first or anchor.symbol
        return (anchor.blob,) if is_part or not anchor.commit else (anchor.blob, _at(place))
    return (_at(place),)


def _at(place: _Place) -> str:
    return f"{place.anchor.commit}:{place.path}"


def _find_moved(
    vault: Vault,
    repository: CodeRepository,
    git: GitRunner,
    missing_places: Sequence[tuple[_Place, bytes]],
    contents: Mapping[str, bytes | None],
) -> Iterator[tuple[int, AnchorCheck]]:
    """Yield the state of anchors whose file or lines are no longer in place."""
    by_commit: dict[str, list[str]] = {}
    for place, _ in missing_places:
        if contents[place.path] is None:
            by_commit.setdefault(place.anchor.commit, []).append(place.path)
    new_paths = {
        (commit, old): new
        for commit, paths in by_commit.items()
        for old, new in _find_new_paths(vault, repository, git, commit, paths).items()
    }
    remaining_places: list[tuple[_Place, list[str]]] = []
    for place, old in missing_places:
        new_path = new_paths.get((place.anchor.commit, place.path), "")
        data = read_present(repository, new_path) if new_path else None
        check = data and compare_anchor(place.anchor._replace(path=new_path), old, data)
        if check and check.status in {AnchorStatus.HOLDS, AnchorStatus.CHANGED}:
            yield place.number, AnchorCheck(place.anchor, AnchorStatus.MOVED, check.lines, new_path)
        else:
            remaining_places.append((place, _truncate_block(place, _split(old))))
    yield from _find_elsewhere(repository, git, remaining_places)


def _find_new_paths(
    vault: Vault, repository: CodeRepository, git: GitRunner, commit: str, paths: Sequence[str]
) -> dict[str, str]:
    """Return the new names of renamed files, cached for HEAD; "" if git finds none."""
    key, head = f"renamed {repository.git_folder} {commit}", repository.read_head()
    stored_head, stored_paths = json.loads(vault.state.get(key) or '["", {}]')
    new_paths: dict[str, str] = stored_paths if stored_head == head else {}
    if unknown_paths := [path for path in paths if path not in new_paths]:
        new_paths |= dict.fromkeys(unknown_paths, "") | find_new_paths(git, commit, unknown_paths)
        _keep(vault, key, [head, new_paths])
    return new_paths


def _truncate_block(place: _Place, lines: list[str]) -> list[str]:
    """Return the anchored lines of an old version."""
    span = (max(place.anchor.first - 1, 0), place.anchor.last or len(lines))
    if place.anchor.symbol:
        span = find_symbol(place.path, lines, place.anchor.symbol) or span
    return lines[slice(*span)]


def _find_elsewhere(
    repository: CodeRepository, git: GitRunner, missing_places: Sequence[tuple[_Place, list[str]]]
) -> Iterator[tuple[int, AnchorCheck]]:
    """Yield the new file of anchored lines if it contains the whole block, else GONE."""
    longest = (
        max((line.strip() for line in block), key=len, default="") for _, block in missing_places
    )
    paths = find_text(git, [line for line in longest if len(line) >= _DISTINCT])
    texts = {path: _split(read_present(repository, path) or b"") for path in paths}
    places = {
        place.number: [p for p in paths if p != place.path and find_block(texts[p], block)]
        for place, block in missing_places
    }
    names = (
        f"{place.anchor.commit}:{p}" for place, _ in missing_places for p in places[place.number]
    )
    versions = read_versions(git, names) if any(places.values()) else {}
    for place, block in missing_places:
        old_data = (versions.get(f"{place.anchor.commit}:{p}", b"") for p in places[place.number])
        new = (
            path
            for path, data in zip(places[place.number], old_data, strict=True)
            if not find_block(_split(data), block)
        )
        moved_to = next(new, "")
        status = AnchorStatus.MOVED if moved_to else AnchorStatus.GONE
        yield place.number, AnchorCheck(place.anchor, status, 0, moved_to)


#: Minimum characters of a line to search in other files.
_DISTINCT = 12


def _split(data: bytes) -> list[str]:
    return split_keys(data.decode("utf-8", "surrogateescape"))


def read_present(repository: CodeRepository, path: str) -> bytes | None:
    """Return the bytes of a file in the work tree, or None if it cannot be read."""
    try:
        return repository.read_present(path)
    except UnsafeFileError:
        return None


# The vault's state database stores each anchor's last state, and cited uncommitted bytes.


class _Cache:
    """The last states of the anchors in one repository, for HEAD and the files' `blobs`."""

    def __init__(self, vault: Vault, repository: CodeRepository, blobs: Mapping[str, str]) -> None:
        self._state = vault.state
        self._repository = repository
        self._name = str(repository.git_folder)
        self._head = repository.read_head()
        self._blobs = blobs

    def read(self, places: Sequence[_Place]) -> dict[int, AnchorCheck]:
        """Return the states of places that have not changed since the check."""
        placeholders = ", ".join("?" * len(places))
        rows = self._state.query(
            "SELECT anchor, stamp, status, lines, moved_to FROM anchor_checks"
            f" WHERE repository = ? AND anchor IN ({placeholders})",
            [self._name, *(place.key for place in places)],
        )
        stored_checks = {anchor: (stamp, fields) for anchor, stamp, *fields in rows}
        checks = {}
        for place in places:
            stamp, fields = stored_checks.get(place.key, ("", ()))
            if fields:
                status, lines, moved_to = fields
                check = AnchorCheck(place.anchor, AnchorStatus(status), lines, moved_to)
                if stamp == self._make_stamp(place, check):
                    checks[place.number] = check
        return checks

    def write(self, places: Sequence[_Place], checks: Mapping[int, AnchorCheck]) -> None:
        """Store the states of places, including unknown ones."""
        rows = []
        for place in places:
            check = checks.get(place.number) or AnchorCheck(place.anchor, AnchorStatus.UNKNOWN)
            rows.append((self._name, place.key, self._make_stamp(place, check), *check[1:]))
        with contextlib.suppress(VaultError), self._state.transaction():
            self._state.execute_many(
                "INSERT OR REPLACE INTO anchor_checks VALUES (?, ?, ?, ?, ?, ?)", rows
            )

    def _make_stamp(self, place: _Place, check: AnchorCheck) -> str:
        """Return the data that decided a state: the cited file, and its new file or HEAD."""
        blob = self._blobs[place.path]
        if place.anchor.is_pinned and check.status is AnchorStatus.MOVED:
            return f"{blob} {blob_id(read_present(self._repository, check.moved_to) or b'')}"
        is_sure = check.status in {AnchorStatus.HOLDS, AnchorStatus.CHANGED}
        return blob if is_sure and place.anchor.is_pinned and blob else f"{blob} {self._head}"


# Anchors whose search was stopped by a query wait in the state database for the watcher.

_WAITING_ANCHORS_KEY = "anchors_waiting"
_MAX_WAITING_ANCHORS = 200


def _add_waiting(vault: Vault, cited: Iterable[CitedAnchor]) -> None:
    new_rows = [[str(each.anchor), each.project, each.written] for each in cited]
    old_rows = [each for each in _read_waiting(vault) if each not in new_rows]
    _keep(vault, _WAITING_ANCHORS_KEY, [*old_rows, *new_rows][-_MAX_WAITING_ANCHORS:])


def _keep(vault: Vault, key: str, value: Sequence[Any]) -> None:
    with contextlib.suppress(VaultError):
        vault.state.keep(key, json.dumps(value))


def _read_waiting(vault: Vault) -> list[list[Any]]:
    rows: list[list[Any]] = json.loads(vault.state.get(_WAITING_ANCHORS_KEY) or "[]")
    return rows


def check_waiting(vault: Vault) -> None:
    """Check the anchors whose search a query stopped, for the next query.

    An anchor that needs more than some seconds stays unknown until another commit is checked out.
    """
    rows = _read_waiting(vault)
    if not rows:
        return
    vault.state.put(_WAITING_ANCHORS_KEY, "")
    limit = SearchLimit(_IDLE_SECONDS, is_final=True)
    parsed_rows = ((parse_anchor(text), project, write_time) for text, project, write_time in rows)
    cited = [CitedAnchor(anchor, *rest) for anchor, *rest in parsed_rows if anchor]
    for each, check in zip(cited, check_anchors(vault, cited, limit), strict=True):
        if check and check.is_different:
            with contextlib.suppress(PendingError):
                find_change(vault, each, limit)


def store_cited_blob(vault: Vault, blob: str, data: bytes) -> None:
    """Store the bytes of an uncommitted cited file, to compare it later."""
    with contextlib.suppress(VaultError):
        vault.state.execute(
            "INSERT OR REPLACE INTO cited_blobs VALUES (?, ?)", (blob, zlib.compress(data))
        )


def _read_cited_blobs(vault: Vault, blobs: Sequence[str]) -> dict[str, bytes]:
    blob_ids = [*filter(None, blobs)]
    placeholders = ", ".join("?" * len(blob_ids))
    sql = f"SELECT blob, data FROM cited_blobs WHERE blob IN ({placeholders})"
    return {blob: zlib.decompress(data) for blob, data in vault.state.query(sql, blob_ids)}
