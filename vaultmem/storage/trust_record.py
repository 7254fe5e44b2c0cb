"""The trust record: digests of the notes that the owner trusts, and their signatures."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from vaultmem.core.text.json_values import as_typed
from vaultmem.core.text.patterns import compile_later
from vaultmem.errors import RefusedError, SystemFailureError, VaultError
from vaultmem.storage.atomic import make_private_folder, naming_failure, write_atomically
from vaultmem.storage.kept import (
    NAMELESS,
    KeptFolder,
    RepositoryNames,
    read_value,
    read_value_if_sound,
)

#: What the signatures are for; one that was made for another purpose counts for nothing.
NAMESPACE = "trust@vaultmem"

_FORMAT = "vaultmem trust 1"
_DIGEST = compile_later(r"[0-9a-f]{64}")


class TrustList(NamedTuple):
    """The digest of each text that is vouched for, by path, in the vault of these names.

    Of one signer's lists that with the highest `serial` counts; `date` is for people.
    """

    serial: int
    date: str
    names: tuple[str, ...]
    notes: dict[str, str]


def format_list(listed: TrustList) -> str:
    """Return a list as text; there is one text of each list."""
    value = {"format": _FORMAT, **listed._asdict()}
    return json.dumps(value, indent=1, sort_keys=True) + "\n"


def parse_list(text: str) -> TrustList | None:
    """Return the list that a text is, None if it is none to the letter."""
    try:
        value: dict[str, Any] = json.loads(text)
        listed: TrustList = as_typed(value, TrustList)
    except (ValueError, TypeError, RecursionError):
        return None
    is_sound = all(map(_DIGEST.fullmatch, listed.notes.values()))
    return listed if is_sound and format_list(listed) == text else None


# The trust record: which texts the owner lets instruct. In the user's own folder, not the vault.
#
# Not a cache: it records promotions by the person, or by an agent that vaultmem.yaml allows. A
# promotion is for the text of an active note. When the owner moves the note out of `active`,
# removes it or replaces its text, the entry is withdrawn (`services/reading/withdraw.py`).
#
# Next to it are the signed lists of notes that were verified here. The newest of each signer is
# kept, with its signature, so that none that is older ever counts again, and so that it can be
# verified again when another signer is allowed, or one no longer.


class TrustRecord(NamedTuple):
    """What the owner said of the vault at a path: by path, the digest of each text vouched for.

    `names` are those of its repository, empty where none was known; `companions` are the folders of
    other vaults that may be asked whenever it is. `withdrawn` is by path each digest that no longer
    counts, with the time (seconds since the epoch). A record that is not `trusted` only withdraws.
    """

    trusted: bool
    notes: dict[str, str]
    vault: str = ""
    names: tuple[str, ...] = ()
    companions: tuple[str, ...] = ()
    withdrawn: dict[str, dict[str, float]] = {}  # noqa: RUF012  # A NamedTuple's default, never changed.


class TrustStore:
    """One JSON file for each vault: `trusted`, and the digest of each promoted note's text.

    A record that names a repository holds for no other that comes to stand in the vault's place.
    `beside` returns the files of the same vault in other work trees, whose word counts here too.
    """

    def __init__(
        self,
        file: Path,
        vault: str = "",
        names: RepositoryNames = NAMELESS,
        beside: Callable[[], Sequence[Path]] = tuple,
    ) -> None:
        self._file = file
        self._vault = vault
        self._names = names
        self._beside = beside

    def is_trusted(self) -> bool:
        """Tell whether the owner has said that this vault may instruct at all."""
        return any(record.trusted for record in self._find_all())

    def notes(self) -> dict[str, set[str]]:
        """Return path and text digests of each note that was promoted by somebody trusted.

        There is one digest of each, and others where other work trees vouch for other texts.
        """
        own = self._list_own()
        withdrawn = _list_withdrawn(own)
        found: dict[str, set[str]] = {}
        for record in (*own, *self._list_other_trees()):
            for path, digest in record.notes.items():
                if (path, digest) not in withdrawn:
                    found.setdefault(path, set()).add(digest)
        return found

    def notes_beside(self) -> set[tuple[str, str]]:
        """Return path and digest of each text that only other work trees trust."""
        own = self._find()
        here = set(own.notes.items()) if own else set()
        return {text for each in self._find_all() for text in each.notes.items()} - here

    def withdrawn_here(self) -> dict[tuple[str, str], float]:
        """Return when (seconds since the epoch) each text was withdrawn here: path and digest."""
        return _list_withdrawn(self._list_own())

    def withdrawn(self) -> dict[tuple[str, str], float]:
        """Return when each text was withdrawn last, in any clone of this user."""
        records = filter(None, map(_read_if_sound, self._list_files()))
        return _list_withdrawn(each for each in records if each.withdrawn and self._holds(each))

    def companions(self) -> set[str]:
        """Return the folders of other vaults that may be asked whenever this one is."""
        return {folder for record in self._find_all() for folder in record.companions}

    def record(self, notes: Mapping[str, str], companions: Sequence[str] | None = None) -> None:
        """Trust the vault, and these notes (path to text digest) besides those already trusted.

        Its companions are those known before, unless others are given.
        """
        found = self._find_named()
        withdrawn = {
            path: {each: at for each, at in digests.items() if each != notes.get(path)}
            for path, digests in found.withdrawn.items()
        }
        self._write(
            found._replace(
                notes={**found.notes, **notes},
                companions=found.companions if companions is None else tuple(companions),
                withdrawn={path: digests for path, digests in withdrawn.items() if digests},
                trusted=True,
            )
        )

    def withdraw(self, texts: Iterable[tuple[str, str]], at: float) -> None:
        """Let these texts (path and digest) count no longer, whichever record or list has them."""
        found = self._find_named()
        notes, withdrawn = dict(found.notes), dict(found.withdrawn)
        for path, digest in texts:
            if notes.get(path) == digest:
                del notes[path]
            withdrawn[path] = {**withdrawn.get(path, {}), digest: at}
        self._write(found._replace(notes=notes, withdrawn=withdrawn))

    def _find_named(self) -> TrustRecord:
        """Return this place's own record with all names of its repository, a new one if none is."""
        found = self._find() or TrustRecord(trusted=False, notes={})
        names = tuple(dict.fromkeys((*found.names, *self._names.every())))
        return found._replace(vault=self._vault, names=names)

    def _list_files(self) -> list[Path]:
        return sorted(self._file.parent.glob("*.json"))

    def elsewhere(self) -> list[TrustRecord]:
        """Return what was said of the same repository at other paths, or of another one here."""
        files = [file for file in self._list_files() if file != self._file]
        name = self._names.one() if files else ""
        found = [
            record
            for file in files
            if (record := _read_if_sound(file)) and record.vault and record.trusted
        ]
        same = [each for each in found if name in each.names]
        mine = _read_if_sound(self._file)
        return same if mine is None or self.is_trusted() else [mine, *same]

    def _find_all(self) -> list[TrustRecord]:
        """Return the records that hold here: this place's own, and those of other work trees."""
        return [*self._list_own(), *self._list_other_trees()]

    def _list_own(self) -> list[TrustRecord]:
        return [*filter(None, [self._find()])]

    def _list_other_trees(self) -> list[TrustRecord]:
        records = filter(None, map(_read_if_sound, self._beside()))
        return [*filter(self._holds, records)]

    def _find(self) -> TrustRecord | None:
        record = read_value(self._file, TrustRecord)
        return record if record and self._holds(record) else None

    def _holds(self, record: TrustRecord) -> bool:
        """Tell whether a record is of the repository that is here."""
        if not record.names or self._names.one() in record.names:
            return True
        return bool(set(record.names) & set(self._names.every()))

    def _write(self, record: TrustRecord) -> None:
        KeptFolder(self._file.parent).write_value(self._file.name, record)


def _list_withdrawn(records: Iterable[TrustRecord]) -> dict[tuple[str, str], float]:
    found: dict[tuple[str, str], float] = {}
    for record in records:
        for path, digests in record.withdrawn.items():
            for digest, at in digests.items():
                found[path, digest] = max(at, found.get((path, digest), at))
    return found


def _read_if_sound(file: Path) -> TrustRecord | None:
    return read_value_if_sound(file, TrustRecord)


#: Seconds after which signatures are verified again: a key may be allowed until a date.
_FRESH = 86_400


class SignedList(NamedTuple):
    """A list as it was signed, and the name of an allowed signer who did, "" if none did."""

    signer: str
    text: str
    signature: str


class _Stamp(NamedTuple):
    """A file of signers, as it was when lists were verified; zeros if it was not there."""

    file: str
    changed: int = 0
    size: int = 0
    inode: int = 0


class _Verified(NamedTuple):
    """When lists were verified, against files as they were then."""

    at: float
    stamps: tuple[_Stamp, ...]
    lists: tuple[SignedList, ...]


class SignedTrust:
    """The file of one vault, which is known by its names."""

    def __init__(self, file: Path, names: RepositoryNames = NAMELESS) -> None:
        self._file = file
        self._names = names

    def lists(self) -> tuple[SignedList, ...]:
        """Return all lists that were ever verified here, but those that newer ones replaced."""
        known = self._read()
        return known.lists if known else ()

    def named(self) -> set[tuple[str, str]]:
        """Return path and digest of each text that a list names, whether or not it counts now."""
        lists = [json.loads(each.text) for each in self.lists()]
        return {text for each in lists for text in each["notes"].items()}

    def notes(self, now: float) -> dict[tuple[str, str], int] | None:
        """Return path and digest of each text that is vouched for, each with its list's serial.

        None: the lists must be verified.
        """
        known = self._read()
        if known is None:
            return {}
        files = [stamp.file for stamp in known.stamps]
        if not 0 <= now - known.at < _FRESH or _stamp(files) != known.stamps:
            return None
        found: dict[tuple[str, str], int] = {}
        for each in known.lists:
            content = json.loads(each.text) if each.signer else {}  # Verified when it was kept.
            for text in content["notes"].items() if self.is_meant(content.get("names", ())) else ():
                found[text] = max(content["serial"], found.get(text, 0))
        return found

    def is_meant(self, names: Sequence[str]) -> bool:
        """Tell whether a list that names a vault so means this one."""
        return self._names.one() in names or not set(self._names.every()).isdisjoint(names)

    def write(self, lists: Iterable[SignedList], signers: Iterable[str], now: float) -> None:
        """Keep lists that were verified against these files of signers just now."""
        known = _Verified(now, _stamp(signers), tuple(lists))
        KeptFolder(self._file.parent).write_value(self._file.name, known)

    def _read(self) -> _Verified | None:
        """Return what was verified, None where nothing was; a damaged file has nothing."""
        known = read_value_if_sound(self._file, _Verified)
        return known or (_Verified(0.0, (), ()) if self._file.exists() else None)


def _stamp(files: Iterable[str]) -> tuple[_Stamp, ...]:
    """Return what changes with each of the files."""
    stamps = []
    for file in files:
        try:
            found = os.stat(file)
        except OSError:
            stamps.append(_Stamp(file))
        else:
            stamps.append(_Stamp(file, found.st_mtime_ns, found.st_size, found.st_ino))
    return tuple(stamps)


# Signatures by SSH keys, made and verified by OpenSSH's `ssh-keygen -Y`, as git does it.

#: Seconds that a verification may take; who signs may have to enter a passphrase first.
_LONGEST = 10.0

_KEY = compile_later(r"(?:^|\s)((?:sk-)?(?:ssh|ecdsa)-[a-z0-9@.-]+ [A-Za-z0-9+/]+={0,3})(?=\s|$)")
_NAME = compile_later(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,99}")


def is_installed() -> bool:
    """Tell whether there is an `ssh-keygen`."""
    return shutil.which("ssh-keygen") is not None


def sign(data: bytes, key: Path, namespace: str) -> str:
    """Return the signature of bytes; the key may be a public one whose other half an agent has.

    Raises:
        VaultError: there is no ssh-keygen, or it does not sign with this key.
    """
    code, out, err = _run(None, data, "-Y", "sign", "-q", "-f", str(key), "-n", namespace)
    if code or not out.startswith(b"-----BEGIN SSH SIGNATURE-----"):
        raise SystemFailureError(f"{key}: nothing was signed ({_first_line(err)})")
    return out.decode("ascii")


def find_signer(data: bytes, signature: str, signers: Path, namespace: str, name: str = "") -> str:
    """Return by which name a file of allowed signers knows who signed these bytes, "" if by none.

    With a `name`, only that one counts.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "signature")
        file.write_text(signature, encoding="utf-8")
        given = ("-s", str(file), "-f", str(signers))
        if not name:
            code, out, _ = _run(_LONGEST, b"", "-Y", "find-principals", *given)
            name = "" if code else out.decode("utf-8", "replace").partition("\n")[0].strip()
        if not name:
            return ""
        code, _, _ = _run(_LONGEST, data, "-Y", "verify", *given, "-I", name, "-n", namespace)
    return "" if code else name


def read_public_key(text: str) -> tuple[str, str]:
    """Return name and public key that a text holds: `NAME KEY`, or a public key with a comment.

    Raises:
        RefusedError: it holds none, or several.
    """
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    match = _KEY.search(lines[0]) if len(lines) == 1 else None
    if match is None:
        raise RefusedError("not one public key; give a .pub file, or `NAME ssh-ed25519 AAAA...`")
    before, after = lines[0][: match.start()].strip(), lines[0][match.end() :].strip()
    return before or after, match[1]


def allow_signer(file: Path, name: str, key: str, namespace: str) -> bool:
    """Add a signer to a file of them; tell whether it is new there.

    Raises:
        RefusedError: the name cannot stand in such a file, or the key is none.
        VaultError: the file could not be written.
    """
    if not _NAME.fullmatch(name):
        raise RefusedError(f'"{name}" cannot be a signer\'s name; give one like ann@example.org')
    code, _, err = _run(_LONGEST, f"{key}\n".encode(), "-l", "-f", "-")
    if code:
        raise RefusedError(f"{key[:40]}: not a public key ({_first_line(err)})")
    line = f'{name} namespaces="{namespace}" {key}'
    known = file.read_text(encoding="utf-8") if file.exists() else ""
    if line in known.splitlines():
        return False
    with naming_failure(file):
        make_private_folder(file.parent)
        known += "" if known.endswith("\n") or not known else "\n"
        write_atomically(file, f"{known}{line}\n".encode(), mode=0o600)
    return True


def _run(seconds: float | None, data: bytes, *words: str) -> tuple[int, bytes, bytes]:
    try:
        done = subprocess.run(
            ["ssh-keygen", *words],
            input=data,
            capture_output=True,
            timeout=seconds,
            check=False,
        )
    except FileNotFoundError:
        raise VaultError(
            "ssh-keygen: not found; install OpenSSH, which signs and verifies"
        ) from None
    except subprocess.TimeoutExpired:
        return -1, b"", b"no answer"
    return done.returncode, done.stdout, done.stderr


def _first_line(err: bytes) -> str:
    return next(iter(err.decode("utf-8", "replace").strip().splitlines()), "no reason given")
