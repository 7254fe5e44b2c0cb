"""Record which agent wrote text in plain git commits, such as a backup plugin's.

The journal records the bytes that agents wrote. If another author's commit contains them, with or
without a person's edit, it gets a git note. Machines share these notes. A machine's shared notes
count only for commits by its owner.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from vaultmem.core.clients.auto_memory import INDEX_NAME, find_writer, read_session
from vaultmem.core.text.line_diff import match_lines, split_bytes
from vaultmem.errors import NoteNotFoundError, VaultError
from vaultmem.storage.files import read_known
from vaultmem.storage.git.head import common_folder
from vaultmem.storage.git.introduced import IntroducedBlob, find_brought
from vaultmem.storage.git.log import read_commits
from vaultmem.storage.git.vault_history import (
    ATTRIBUTION,
    CLAIMS_REF,
    NOTES_REF,
    AgentLines,
    format_attribution,
    parse_attribution,
    read_attribution,
    read_first_commit,
    replace_attribution,
    write_attribution,
)
from vaultmem.storage.journal import REMOVED, Author, Owners
from vaultmem.storage.session_table import ActiveSessions
from vaultmem.storage.uncompared_notes import add_waiting
from vaultmem.vault import Vault

if TYPE_CHECKING:
    from vaultmem.storage.git.machine_refs import Machine

#: State key: the commit after which attribution is missing.
_UNATTRIBUTED_KEY = "unattributed"

#: State key: the last processed map of old and new commits.
_MAP = "commit_map"

_COMMIT_PAIR = re.compile(r"([0-9a-f]{40}) ([0-9a-f]{40})")
_FILE = re.compile(rf"{ATTRIBUTION}/[0-9a-f]{{2}}\.json")
_COMMIT = re.compile(r"[0-9a-f]{40}")

#: Bytes at the start of a file that are searched for its frontmatter.
_HEAD = 4096


def record_attribution(vault: Vault, commit: str, since: str) -> None:
    """Record agents' text in the commits of `commit` that are not in `since`.

    An error does not stop reading: the record is retried when HEAD next moves.
    """
    since = vault.state.get(_UNATTRIBUTED_KEY) or since
    try:
        _record(vault, find_brought(vault.history, commit, since))
        vault.state.put(_UNATTRIBUTED_KEY, "")
    except VaultError:
        vault.state.put(_UNATTRIBUTED_KEY, since)


def _record(vault: Vault, changes: Sequence[IntroducedBlob]) -> None:
    """Record which of these committed files (newest first) contain an agent's text."""
    wrotes_by_commit: dict[str, list[AgentLines]] = {}
    last: dict[str, str] = {}
    for each in reversed(changes):
        wrote, before = _find_wrote(vault, each)
        if wrote:
            wrotes_by_commit.setdefault(each.commit, []).append(wrote)
            last |= {before: REMOVED, each.path: each.blob}
    if not wrotes_by_commit:
        return
    commits = read_commits(vault.history, wrotes_by_commit)
    for commit, wrotes in wrotes_by_commit.items():
        if not commits[commit].agent:  # Otherwise the commit names its agent.
            write_attribution(vault.history, commit, wrotes)
    manifest_files = vault.manifest.files(list(last))
    current_blobs = {
        path: manifest_files[path].blob if path in manifest_files else REMOVED for path in last
    }
    vault.journal.clear({path: blob for path, blob in last.items() if current_blobs[path] == blob})


def _find_wrote(vault: Vault, each: IntroducedBlob) -> tuple[AgentLines | None, str]:
    """Return an agent's text in a file, and the agent's path, as a person can move a file."""
    path = vault.history.prefix + each.path
    data = b""

    def read() -> bytes:
        nonlocal data
        with contextlib.suppress(NoteNotFoundError):
            data = vault.history.objects.read(each.blob)[1]
        return data

    author, draft = Owners(vault.journal).find(each.path, each.blob, read)
    if author is not None:
        return AgentLines(path, "", *author) if author.agent else None, each.path
    if draft is None:
        return None, each.path
    matches = match_lines(split_bytes(draft.data), split_bytes(data))
    spans = ",".join(f"{start + 1}-{start + length}" for _, start, length in matches)
    return AgentLines(path, spans, *draft.author) if spans else None, draft.path


# Files that a client writes into its own memory in the vault, without vaultmem.


def find_client_author(vault: Vault, path: str, data: bytes) -> Author | None:
    """Return the client whose own memory a path is, with its session; None for others.

    The session is the open one that the file names, or the client's newest open session. If none is
    open, it is the session that the file names, if the vault has it.
    """
    client = find_writer(path)
    if not client:
        return None
    sessions = [each for each in ActiveSessions(vault.state_folder).all() if not each.recovered]
    open_ids = [each.id for each in sessions if each.agent == client]
    session_id = read_session(data[:_HEAD].decode("utf-8", "replace"))
    if session_id in open_ids or not open_ids:
        is_known = session_id in open_ids or (vault.root / f"sessions/{session_id}.md").is_file()
        return Author(client, session_id if is_known else "")
    return Author(client, open_ids[0])


def record_client_writes(vault: Vault, paths: Iterable[str]) -> None:
    """Record new files in clients' own memories, and queue them for comparison.

    The index must match the disk. If it lacks commits, nothing is recorded: they might have brought
    the files.
    """
    files = vault.manifest.files([path for path in paths if find_writer(path)])
    head = vault.head() if files else None
    if head is None or vault.state.get("head") != head.commit:
        return
    agents: dict[str, str] = {}
    for path, file in files.items():
        if vault.manifest.is_committed(path, file.blob) or vault.journal.find_author(
            path, file.blob
        ):
            continue
        data = read_known(vault.root, path, file.blob)
        author = None if data is None else find_client_author(vault, path, data)
        if author is not None:
            vault.journal.record(path, file.blob, author, vault.now(), data)
            agents[path] = author.agent
    add_waiting(
        vault.state, {p: agent for p, agent in agents.items() if not p.endswith(INDEX_NAME)}
    )


def carry_attribution(vault: Vault) -> None:
    """Move notes on commits that `git filter-repo` has rewritten to the new commits, once.

    Files that the new commits do not change are left out. An error does not stop reading: the move
    is retried when HEAD next moves.
    """
    file = common_folder(vault.history.git_folder) / "filter-repo" / "commit-map"
    with contextlib.suppress(OSError, VaultError):
        stamp = f"{file.stat().st_mtime_ns} {file.stat().st_size}"
        if vault.state.get(_MAP) != stamp:
            lines = file.read_text(encoding="ascii", errors="replace").splitlines()
            matches = filter(None, map(_COMMIT_PAIR.fullmatch, lines))
            _carry(vault, {match[1]: match[2] for match in matches})
            vault.state.put(_MAP, stamp)


def _carry(vault: Vault, new_commits: Mapping[str, str]) -> None:
    """Move notes from the old to the new commits; an existing note on a new one stays."""
    notes = read_attribution(vault.history)
    notes_by_commit = {
        commit: text.encode("utf-8", "surrogateescape") for commit, text in notes.items()
    }
    moved_notes: dict[str, tuple[str, str]] = {}
    for commit, text in notes.items():
        first = read_first_commit(text) or commit
        new = new_commits.get(commit) or new_commits.get(first, commit)
        if new != commit:
            del notes_by_commit[commit]
            moved_notes[new] = (first, text)
    changed_files = _list_changed(vault, moved_notes)
    for commit, (first, text) in moved_notes.items():
        wrote = [
            each for each in parse_attribution(text) if each.path in changed_files.get(commit, ())
        ]
        if wrote:
            notes_by_commit.setdefault(commit, format_attribution(wrote, first_commit=first))
    if moved_notes:
        replace_attribution(vault.history, NOTES_REF, notes_by_commit, int(vault.now()))


def collect_attribution(vault: Vault) -> dict[str, bytes]:
    """Return this machine's attribution of plain git commits, as files.

    A file holds all commits whose ids begin with the same two digits.
    """
    carry_attribution(vault)
    shards: dict[str, dict[str, list[str]]] = {}
    try:
        notes = read_attribution(vault.history)
    except VaultError:
        return {}
    for commit, text in sorted(notes.items()):
        if own := [each for each in _parse(vault, text) if not each.claimed_by]:
            lines = format_attribution(own).decode("utf-8", "replace").splitlines()
            shards.setdefault(commit[:2], {})[commit] = lines
    return {
        f"{ATTRIBUTION}/{start}.json": json.dumps(shard, indent=0, sort_keys=True).encode() + b"\n"
        for start, shard in shards.items()
    }


def import_attribution(vault: Vault, machines: Iterable[Machine]) -> None:
    """Import the attribution that other machines share, as their claims, replacing older claims.

    Raises:
        VaultError: git cannot read or write it now.
    """
    claims_by_commit: dict[str, bytes] = {}
    for machine in machines:
        claims = dict(_read_claims(vault, machine))
        for commit in _list_commits_of(vault, machine.owner.email, claims):
            machine_claims = (each._replace(claimed_by=machine.name) for each in claims[commit])
            claims_by_commit[commit] = claims_by_commit.get(commit, b"") + format_attribution(
                machine_claims
            )
    replace_attribution(vault.history, CLAIMS_REF, claims_by_commit, int(vault.now()))


def _read_claims(vault: Vault, machine: Machine) -> Iterator[tuple[str, list[AgentLines]]]:
    """Yield a machine's claims, by commit."""
    from vaultmem.storage.git.machine_refs import read_files  # Not needed for a commit.

    files = read_files(vault.history, machine.commit, lambda path: bool(_FILE.fullmatch(path)))
    for data in files.values():
        try:
            shard = json.loads(data)
        except (ValueError, RecursionError):
            continue
        for commit, lines in shard.items() if isinstance(shard, dict) else ():
            if _COMMIT.fullmatch(commit) and isinstance(lines, list):
                text = "\n".join(line for line in lines if isinstance(line, str))
                if wrote := _parse(vault, text):
                    yield commit, wrote


def _parse(vault: Vault, text: str) -> list[AgentLines]:
    """Return the attribution of the vault's files in a commit's notes."""
    prefix = vault.history.prefix
    return [each for each in parse_attribution(text) if each.path.startswith(prefix)]


def _list_commits_of(vault: Vault, email: str, commits: Iterable[str]) -> list[str]:
    """Return those existing commits whose author or committer has an e-mail address."""
    rows = (line.split(" ") for line in _log(vault, commits, "--format=%H %ae %ce").splitlines())
    return [commit for commit, *emails in rows if email.casefold() in map(str.casefold, emails)]


def _list_changed(vault: Vault, commits: Iterable[str]) -> dict[str, set[str]]:
    """Return the files (by path in the repository) that each existing commit changes."""
    options = ("-z", "--name-only", "--no-renames", "-m", "--root", "--no-ext-diff")
    paths_by_commit: dict[str, set[str]] = {}
    for block in _log(vault, commits, *options, "--no-textconv", "--format=%x01%H").split("\x01"):
        commit, _, paths = block.replace("\n", "\0").partition("\0")
        paths_by_commit.setdefault(commit, set()).update(filter(None, paths.split("\0")))
    return paths_by_commit


def _log(vault: Vault, commits: Iterable[str], *options: str) -> str:
    """Return git's log of those commits that exist here."""
    request = "".join(f"{commit}\n" for commit in commits).encode()
    command = ("log", "--no-walk", "--ignore-missing", "--no-notes", "--no-show-signature")
    return vault.history.git.run(*command, *options, "--stdin", stdin=request) if request else ""
