"""What each machine has written of a vault's use into its ref: values, and the files they are in.

Others write these files, so whatever is not as we write it counts for nothing.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from vaultmem.core.safe_text import escape_bytes, one_line
from vaultmem.storage.git.commit_draft import Identity, clean_name
from vaultmem.storage.git.identity import NOBODY
from vaultmem.storage.git.machine_refs import (
    MachineRef,
    list_files,
    list_refs,
    read_files,
    read_owner,
)
from vaultmem.storage.signals import Surfaced
from vaultmem.storage.signed_trust import SignedList

if TYPE_CHECKING:
    from vaultmem.storage.git.vault_history import History
    from vaultmem.storage.state import StateDatabase

MACHINE = "machine.json"
CALLS = "calls.json"
SESSIONS = "sessions.json"
PROMOTIONS = "promotions.json"
USAGE = "usage"
RECEIPTS = "receipts"
TURNS = "turns"
TRUST = "trust"
ATTRIBUTION = "attribution"

_FOR_OTHERS = re.compile(
    rf"{'|'.join(map(re.escape, (MACHINE, CALLS, SESSIONS, PROMOTIONS)))}"
    rf"|({USAGE}|{ATTRIBUTION})/[0-9a-f]{{2}}\.json|{TRUST}/[0-9a-f]{{32}}\.(json|sig)"
)

#: Of one machine's signed lists so many are looked at, with signatures of so many bytes.
_MAX_LISTS = 20
_MAX_SIGNATURE = 8_192

#: Where a database has its machine's id: another database, which begins to count at nothing, is
#: another machine. So nothing is counted twice, and what was published is not lost with it.
_KEY = "machine"

_MOST = 10**9

_RECEIPT = re.compile(rf"{RECEIPTS}/([0-9A-Za-z-]{{1,64}})\.json")


class CallSums(NamedTuple):
    """Calls of a kind on one machine: how many, tokens sent, and when the last was."""

    calls: int = 0
    sent: int = 0
    last: float = 0.0


class SessionSign(NamedTuple):
    """The last sign of a session on its machine (seconds), and whether it is open there."""

    at: float
    is_open: bool


class Machine(NamedTuple):
    """A clone of the vault on one device, as it was when its evidence was written.

    `owner` is whoever pushed it. `name` is its host's where that is the person here too, else the
    owner's; `calls` are by kind, `usage` by note, `sessions` by id. `promotions` are the texts
    (path and digest) that somebody vouched for there; here they are told and no more.
    """

    id: str
    name: str
    owner: Identity
    is_mine: bool
    commit: str
    calls: Mapping[str, CallSums]
    usage: Mapping[str, Surfaced]
    sessions: Mapping[str, SessionSign]
    promotions: frozenset[tuple[str, str]]


def find_own(history: History, state: StateDatabase) -> MachineRef:
    """Return this machine's ref; it is given an id with the first question for it."""
    if not state.get(_KEY):
        rename_own(state)
    own = state.get(_KEY)
    known = [ref for ref in list_refs(history) if ref.machine == own]
    return known[-1] if known else MachineRef(own, 1, "")


def rename_own(state: StateDatabase) -> None:
    """Give this machine another id."""
    state.put(_KEY, os.urandom(8).hex())


def find_others(history: History, state: StateDatabase) -> list[MachineRef]:
    """Return the newest ref of each other machine."""
    newest = {ref.machine: ref for ref in list_refs(history)}
    newest.pop(state.get(_KEY), None)
    return list(newest.values())


def is_for_others(path: str) -> bool:
    """Return whether a file of a machine's ref may be at a remote that other people read."""
    return bool(_FOR_OTHERS.fullmatch(path))


def name_owner(history: History) -> Identity:
    """Return under which name this machine's commits are made: the person's."""
    person = history.person().identity
    return Identity(clean_name(person.name), clean_name(person.email))


def is_mine(history: History, ref: MachineRef) -> bool:
    """Return whether a ref is of another machine of the person here, by git's e-mail address."""
    return _is_same(read_owner(history, ref.commit), name_owner(history))


def _is_same(owner: Identity, person: Identity) -> bool:
    return owner.email.casefold() == person.email.casefold() != NOBODY.email


def read_machines(
    history: History, state: StateDatabase, *, with_usage: bool = True
) -> list[Machine]:
    """Return all other machines that have this very vault, by name."""
    refs = find_others(history, state)
    person = name_owner(history) if refs else NOBODY
    read = (_read(history, ref, person, with_usage) for ref in refs)
    found = [machine for machine in read if machine is not None]
    return sorted(found, key=lambda machine: (machine.name, machine.id))


def find_signed(history: History) -> list[SignedList]:
    """Return the signed lists of notes that are in any machine's evidence, not verified."""
    found: list[SignedList] = []
    for ref in {each.machine: each for each in list_refs(history)}.values():
        files = read_files(history, ref.commit, lambda path: path.startswith(f"{TRUST}/"))
        for path in sorted(files)[:_MAX_LISTS]:
            signature = files.get(path.removesuffix(".json") + ".sig", b"")
            if path.endswith(".json") and len(signature) < _MAX_SIGNATURE:
                texts = (data.decode("utf-8", "replace") for data in (files[path], signature))
                found.append(SignedList("", *texts))
    return found


def format_signed(lists: Iterable[SignedList]) -> dict[str, bytes]:
    """Return signed lists and their signatures as files."""
    files = {}
    for each in lists:
        name = hashlib.sha256(each.text.encode()).hexdigest()[:32]
        files[f"{TRUST}/{name}.json"] = each.text.encode()
        files[f"{TRUST}/{name}.sig"] = each.signature.encode()
    return files


class KeptReceipt(NamedTuple):
    """A receipt that another machine wrote: the machine's name, and the blob that it is."""

    machine: str
    blob: str


def find_receipts(history: History, state: StateDatabase) -> dict[str, KeptReceipt]:
    """Return the receipts that other machines of this person wrote of this very vault, by id."""
    found: dict[str, KeptReceipt] = {}
    for ref in find_others(history, state):
        files = list_files(history, ref.commit)
        told = read_told(history, ref)
        if _is_of(history, told) and is_mine(history, ref):
            named = _name(told.get("host"), ref.machine)
            for path, blob in files.items():
                if match := _RECEIPT.fullmatch(path):
                    found.setdefault(match[1], KeptReceipt(named, blob))
    return found


def read_signs(history: History, ref: MachineRef) -> dict[str, SessionSign]:
    """Return the signs of sessions that a machine's ref has."""
    files = read_files(history, ref.commit, lambda path: path == SESSIONS)
    return dict(_read_sessions(_read_json(files.get(SESSIONS, b""))))


def read_turns(history: History, state: StateDatabase, session: str) -> list[bytes]:
    """Return the last turns of a session that another machine of this person shares, as lines.

    The oldest is first.
    """
    path = f"{TURNS}/{session}.jsonl"
    for ref in find_others(history, state):
        files = read_files(history, ref.commit, lambda each: each in {MACHINE, path})
        is_of = path in files and _is_of(history, _read_json(files.get(MACHINE, b"")))
        if is_of and is_mine(history, ref):
            return files[path].splitlines()
    return []


def read_told(history: History, ref: MachineRef) -> dict[str, Any]:
    """Return what a machine says of itself."""
    return _read_json(read_files(history, ref.commit, MACHINE.__eq__).get(MACHINE, b""))


def has_words(history: History, ref: MachineRef) -> bool:
    """Return whether any commit of a ref may have words that the user or an agent wrote."""
    return read_told(history, ref).get("words") is not False


def _is_of(history: History, told: dict[str, Any]) -> bool:
    """Tell whether what a machine says of itself is of this very vault."""
    return bool(told.get("vault") == escape_bytes(history.prefix))


def _read(history: History, ref: MachineRef, person: Identity, with_usage: bool) -> Machine | None:
    wanted = (MACHINE, CALLS, SESSIONS, PROMOTIONS)
    files = read_files(
        history,
        ref.commit,
        lambda path: path in wanted or (with_usage and path.startswith(f"{USAGE}/")),
    )
    told = _read_json(files.get(MACHINE, b""))
    if not _is_of(history, told):
        return None  # Another vault of the same repository has its own.
    shards = [files[path] for path in files if path.startswith(f"{USAGE}/")]
    owner = read_owner(history, ref.commit)
    is_own = _is_same(owner, person)
    return Machine(
        ref.machine,
        _name(told.get("host"), ref.machine) if is_own else _name_of(owner, ref.machine),
        owner,
        is_own,
        ref.commit,
        dict(_read_calls(_read_json(files.get(CALLS, b"")))),
        {each.path: each for shard in shards for each in _read_usage(_read_json(shard))},
        dict(_read_sessions(_read_json(files.get(SESSIONS, b"")))),
        frozenset(_read_promotions(_read_json(files.get(PROMOTIONS, b"")))),
    )


def _name(host: object, machine: str) -> str:
    """Return how a machine is called: like its host, told apart from another on the same one."""
    named = one_line(host)[:60].strip() if isinstance(host, str) else ""
    return f"{named} ({machine[:6]})" if named in {"", platform.node()} else named


def _name_of(owner: Identity, machine: str) -> str:
    """Return how another person's machine is called: by the person, for a hub vouches for that."""
    return f"{one_line(owner.name)[:60].strip()} ({machine[:6]})".strip()


def format_machine(history: History, words: bool) -> bytes:
    """Return the file that says which machine this is, and which vault of its repository.

    `words` is whether what is written with it may have words of the user's or an agent's.
    """
    host, vault = escape_bytes(platform.node()), escape_bytes(history.prefix)
    return _format({"format": 1, "host": host, "vault": vault, "words": words})


def format_usage(usage: Iterable[Surfaced]) -> dict[str, bytes]:
    """Return usage as files, many small ones: a recall changes a few."""
    shards: dict[str, dict[str, list[float]]] = {}
    for each in usage:
        digest = hashlib.sha256(each.path.encode("utf-8", "surrogateescape")).hexdigest()
        shard = shards.setdefault(f"{USAGE}/{digest[:2]}.json", {})
        shard[each.path] = [each.times, int(each.last), round(each.best, 4)]
    return {path: _format(shard) for path, shard in shards.items()}


def format_calls(calls: Mapping[str, CallSums]) -> bytes:
    """Return sums of calls by kind as a file."""
    return _format({kind: [*sums] for kind, sums in calls.items()})


def format_sessions(sessions: Mapping[str, SessionSign]) -> bytes:
    """Return the signs of sessions by id as a file."""
    return _format({name: [int(sign.at), sign.is_open] for name, sign in sessions.items()})


def format_promotions(notes: Mapping[str, Iterable[str]]) -> bytes:
    """Return the digests of texts that were vouched for, by path, as a file."""
    return _format({path: sorted(digests) for path, digests in notes.items()})


def _format(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, indent=0, sort_keys=True).encode() + b"\n"


def _read_json(data: bytes) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _read_usage(shard: dict[str, Any]) -> Iterator[Surfaced]:
    for path, row in shard.items():
        match _numbers(row):
            case [times, last, best]:
                yield Surfaced(path, int(times), last, best)


def _read_calls(calls: dict[str, Any]) -> Iterator[tuple[str, CallSums]]:
    for kind, row in calls.items():
        match _numbers(row):
            case [number, sent, last]:
                yield kind, CallSums(int(number), int(sent), last)


def _read_sessions(sessions: dict[str, Any]) -> Iterator[tuple[str, SessionSign]]:
    for name, row in sessions.items():
        match _numbers(row):
            case [at, is_open]:
                yield name, SessionSign(at, bool(is_open))


def _read_promotions(notes: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for path, digests in notes.items():
        if isinstance(digests, list):
            yield from ((path, each) for each in digests if isinstance(each, str))


def _numbers(row: object) -> list[float]:
    """Return a row of numbers that can be counted with, else nothing."""
    if not isinstance(row, list) or not all(isinstance(each, int | float) for each in row):
        return []
    return row if all(math.isfinite(each) and 0 <= each <= 10 * _MOST for each in row) else []


_ID = re.compile(r"[0-9A-Za-z._-]{1,100}")


def is_name(text: str) -> bool:
    """Tell whether an id of a receipt or session can be a file's name among the evidence."""
    return bool(_ID.fullmatch(text)) and not text.startswith(".")
