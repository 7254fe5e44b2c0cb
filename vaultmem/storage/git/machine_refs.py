"""Refs that one machine writes and others read, and the values in them.

Only one machine writes a ref, so each push is a fast-forward and nothing is merged. A ref is named
by the machine's id and a number. A new number starts a new history.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from vaultmem.core.text.display import escape_bytes, one_line
from vaultmem.errors import NoteNotFoundError
from vaultmem.storage.git.commit_draft import (
    REGULAR,
    Identity,
    TreeEntry,
    clean_name,
    format_commit,
)
from vaultmem.storage.git.repository import FALLBACK_IDENTITY
from vaultmem.storage.git.vault_history import ATTRIBUTION
from vaultmem.storage.trust_record import SignedList

if TYPE_CHECKING:
    from vaultmem.storage.git.vault_history import VaultHistory
    from vaultmem.storage.state import StateDatabase


REFS = "refs/vaultmem/machines/"

_REF = re.compile(rf"([0-9a-f]{{40}}) {REFS}([0-9a-f]{{16}})\.([1-9][0-9]{{0,5}})")

_AUTHOR = re.compile(rb"^author (.*) <([^>\n]*)> ", re.MULTILINE)

#: Other machines write these files, so larger or more files are not read.
_MAX_BYTES = 1024 * 1024
_MAX_FILES = 4_000

#: Most commits of a ref: the files add up, and every clone fetches them.
MAX_COMMITS = 1_000


class MachineRef(NamedTuple):
    """A machine's ref: its id, its number, and its commit ("" if it has none yet)."""

    machine: str
    number: int
    commit: str

    @property
    def name(self) -> str:
        """The full name of the ref."""
        return f"{REFS}{self.machine}.{self.number}"


def list_refs(history: VaultHistory) -> list[MachineRef]:
    """Return all machine refs; each machine's newest is last."""
    out = history.git.run("for-each-ref", "--format=%(objectname) %(refname)", REFS)
    matches = (_REF.fullmatch(line) for line in out.split("\n"))
    return sorted(MachineRef(m[2], int(m[3]), m[1]) for m in matches if m)


def read_owner(history: VaultHistory, commit: str) -> Identity:
    """Return the author of a machine's commit, empty if the clone lacks the commit.

    A hub accepts such a commit only from a token that can write under this name.
    """
    try:
        kind, data = history.objects.read(commit)
    except NoteNotFoundError:
        return Identity("", "")
    match = _AUTHOR.search(data.partition(b"\n\n")[0]) if kind == "commit" else None
    name, email = match.groups() if match else (b"", b"")
    return Identity(name.decode("utf-8", "replace"), email.decode("utf-8", "replace"))


def list_files(history: VaultHistory, commit: str) -> dict[str, str]:
    """Return the blob id of each readable file in a machine's commit.

    A ref to another kind of object, or to a missing one, has no files.
    """
    if not commit:
        return {}
    out = history.git.run("ls-tree", "-r", "-l", "-z", "--full-tree", commit, check=False)
    blobs: dict[str, str] = {}
    for line in out.split("\0")[:_MAX_FILES]:
        meta, _, path = line.partition("\t")
        words = meta.split()
        is_file = len(words) == 4 and words[0] in REGULAR and words[3].isdigit()
        if is_file and int(words[3]) <= _MAX_BYTES:
            blobs[path] = words[2]
    return blobs


def read_files(
    history: VaultHistory, commit: str, is_selected: Callable[[str], bool]
) -> dict[str, bytes]:
    """Return those files of a machine's commit whose path is wanted."""
    blobs = {path: blob for path, blob in list_files(history, commit).items() if is_selected(path)}
    try:
        texts = list(history.objects.read_all(blobs.values()))
    except NoteNotFoundError:
        return {}
    return {path: data for path, (_, data) in zip(blobs, texts, strict=True)}


def write_files(
    history: VaultHistory,
    ref: MachineRef,
    files: Mapping[str, bytes | None],
    author: Identity,
    at: int,
    is_anew: bool = False,
) -> MachineRef:
    """Commit files on top of a ref and move it; None removes a file.

    If the ref's history is long, the commit starts the history of the next number, and this ref is
    deleted. `is_anew` does the same and keeps only these files.

    Raises:
        VaultError: another process moved the ref first, or git cannot write.
    """
    from vaultmem.storage.git.objects import (
        ObjectPack,  # Not needed for reading.
        TreeBuilder,
    )

    pack = ObjectPack()
    trees = TreeBuilder(history.objects, pack)
    entries = {
        path: None if data is None else TreeEntry("100644", pack.add("blob", data))
        for path, data in files.items()
    }
    tree = trees.change(trees.root("" if is_anew else ref.commit), entries)
    is_long = bool(ref.commit) and _count_commits(history, ref.commit) >= MAX_COMMITS
    ends = is_anew or is_long
    target = MachineRef(ref.machine, ref.number + 1, "") if ends else ref
    parents = [target.commit] if target.commit else []
    commit = pack.add("commit", format_commit(tree, parents, author, at, "vaultmem: evidence\n"))
    pack.write(history.git)
    history.git.run("update-ref", target.name, commit, target.commit or "0" * 40)
    if ends:
        drop_ref(history, ref)
    return target._replace(commit=commit)


def find_replaced(history: VaultHistory, name: str, commit: str) -> str:
    """Return the name of the ref that a new one replaced, "" if none."""
    match = _REF.fullmatch(f"{commit} {name}")
    if match is None or match[3] == "1" or _count_commits(history, commit) > 1:
        return ""
    return MachineRef(match[2], int(match[3]) - 1, "").name


def _count_commits(history: VaultHistory, commit: str) -> int:
    return int(history.git.run("rev-list", "--count", commit, "--"))


def drop_ref(history: VaultHistory, ref: MachineRef) -> None:
    """Delete a ref if it has not moved."""
    history.git.run("update-ref", "-d", ref.name, ref.commit)


# The files of a machine's ref: the last use of each note there, and the open sessions.
#
# Other machines write these files, so an entry of another form is ignored.

MACHINE = "machine.json"
SESSIONS = "sessions.json"
USAGE = "usage"
TRUST = "trust"

_SHARED_PATH = re.compile(
    rf"{re.escape(MACHINE)}|{re.escape(SESSIONS)}"
    rf"|({USAGE}|{ATTRIBUTION})/[0-9a-f]{{2}}\.json|{TRUST}/[0-9a-f]{{32}}\.(json|sig)"
)

#: Most signed lists read per machine, and the most bytes of a signature.
_MAX_LISTS = 20
_MAX_SIGNATURE = 8_192

#: Key of the machine's id in its database. Another database is another machine, so lists published
#: with the first one are not lost.
_KEY = "machine"

#: The latest accepted time, in seconds since the epoch.
_MAX_TIMESTAMP = 10**10


class Machine(NamedTuple):
    """A clone of the vault on one device, as it was when its ref was written.

    `owner` is the commit's author. `name` is the host's if the owner is also the person here,
    otherwise the owner's. `usage` is the last use of each note there, by path. `sessions` is the
    last activity of each open session, by id. Times are in seconds since the epoch.
    """

    id: str
    name: str
    owner: Identity
    commit: str
    usage: Mapping[str, float]
    sessions: Mapping[str, float]


def find_own(history: VaultHistory, state: StateDatabase) -> MachineRef:
    """Return this machine's ref; the first call creates its id."""
    if not state.get(_KEY):
        rename_own(state)
    own = state.get(_KEY)
    own_refs = [ref for ref in list_refs(history) if ref.machine == own]
    return own_refs[-1] if own_refs else MachineRef(own, 1, "")


def rename_own(state: StateDatabase) -> None:
    """Give this machine a new id."""
    state.put(_KEY, os.urandom(8).hex())


def is_shared(path: str) -> bool:
    """Return whether machines share a file of this path through their refs."""
    return bool(_SHARED_PATH.fullmatch(path))


def get_owner_name(history: VaultHistory) -> Identity:
    """Return the person's identity, under which this machine's commits are made."""
    person = history.person().identity
    return Identity(clean_name(person.name), clean_name(person.email))


def read_machines(
    history: VaultHistory, state: StateDatabase, *, with_usage: bool = False
) -> list[Machine]:
    """Return all other machines that have the same vault, by name."""
    newest = {ref.machine: ref for ref in list_refs(history)}
    newest.pop(state.get(_KEY), None)
    person = get_owner_name(history) if newest else FALLBACK_IDENTITY
    candidates = (_read(history, ref, person, with_usage) for ref in newest.values())
    machines = [machine for machine in candidates if machine is not None]
    return sorted(machines, key=lambda machine: (machine.name, machine.id))


def find_signed(history: VaultHistory) -> list[SignedList]:
    """Return the signed lists of notes in all machine refs, not verified."""
    lists: list[SignedList] = []
    for ref in {each.machine: each for each in list_refs(history)}.values():
        files = read_files(history, ref.commit, lambda path: path.startswith(f"{TRUST}/"))
        for path in sorted(files)[:_MAX_LISTS]:
            signature = files.get(path.removesuffix(".json") + ".sig", b"")
            if path.endswith(".json") and len(signature) < _MAX_SIGNATURE:
                texts = (data.decode("utf-8", "replace") for data in (files[path], signature))
                lists.append(SignedList("", *texts))
    return lists


def format_signed(lists: Iterable[SignedList]) -> dict[str, bytes]:
    """Return signed lists and their signatures as files."""
    files = {}
    for each in lists:
        name = hashlib.sha256(each.text.encode()).hexdigest()[:32]
        files[f"{TRUST}/{name}.json"] = each.text.encode()
        files[f"{TRUST}/{name}.sig"] = each.signature.encode()
    return files


def format_machine(history: VaultHistory) -> bytes:
    """Return the file that names this machine and its vault's folder in the repository."""
    host, vault = escape_bytes(platform.node()), escape_bytes(history.prefix)
    return _format({"format": 2, "host": host, "vault": vault})


def format_usage(times: Mapping[str, float]) -> dict[str, bytes]:
    """Return the last use of each note as many small files: a recall changes only a few."""
    shards: dict[str, dict[str, float]] = {}
    for path, at in times.items():
        digest = hashlib.sha256(path.encode("utf-8", "surrogateescape")).hexdigest()
        shards.setdefault(f"{USAGE}/{digest[:2]}.json", {})[path] = at
    return {name: format_times(shard) for name, shard in shards.items()}


def format_times(times: Mapping[str, float]) -> bytes:
    """Return times by note or session as a file."""
    return _format({name: int(at) for name, at in times.items()})


def _read(
    history: VaultHistory, ref: MachineRef, person: Identity, with_usage: bool
) -> Machine | None:
    files = read_files(
        history,
        ref.commit,
        lambda path: path in {MACHINE, SESSIONS} or (with_usage and path.startswith(f"{USAGE}/")),
    )
    facts = _read_json(files.get(MACHINE, b""))
    if facts.get("vault") != escape_bytes(history.prefix):
        return None  # Another vault of the repository.
    owner = read_owner(history, ref.commit)
    is_own = owner.email.casefold() == person.email.casefold() != FALLBACK_IDENTITY.email
    shards = [files[path] for path in files if path.startswith(f"{USAGE}/")]
    return Machine(
        ref.machine,
        _name(facts.get("host"), ref.machine) if is_own else _format_of(owner, ref.machine),
        owner,
        ref.commit,
        {path: at for shard in shards for path, at in _read_times(shard)},
        dict(_read_times(files.get(SESSIONS, b""))),
    )


def _name(host: object, machine: str) -> str:
    """Return a machine's name: its host's, with the id if that is empty or this host's."""
    label = one_line(host)[:60].strip() if isinstance(host, str) else ""
    return f"{label} ({machine[:6]})" if label in {"", platform.node()} else label


def _format_of(owner: Identity, machine: str) -> str:
    """Return the name of another person's machine: the person's (a hub verifies it) and the id."""
    return f"{one_line(owner.name)[:60].strip()} ({machine[:6]})".strip()


def _format(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, indent=0, sort_keys=True).encode() + b"\n"


def _read_json(data: bytes) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _read_times(data: bytes) -> Iterator[tuple[str, float]]:
    for name, at in _read_json(data).items():
        is_number = isinstance(at, int | float) and not isinstance(at, bool)
        if is_number and math.isfinite(at) and 0 <= at <= _MAX_TIMESTAMP:
            yield name, at
