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
from vaultmem.storage.value_store import (
    NAMELESS,
    RepositoryNames,
    ValueFolder,
    read_value,
    read_value_if_sound,
)

#: The namespace of signatures; those of another namespace are not valid here.
NAMESPACE = "trust@vaultmem"

_FORMAT = "vaultmem trust 1"
_DIGEST = compile_later(r"[0-9a-f]{64}")


class TrustList(NamedTuple):
    """The digests of trusted texts by path, for the vault with these names.

    Of a signer's lists, the one with the highest `serial` counts; `date` is only displayed.
    """

    serial: int
    date: str
    names: tuple[str, ...]
    notes: dict[str, str]


def format_list(trust_list: TrustList) -> str:
    """Return a list as text; equal lists have equal texts."""
    value = {"format": _FORMAT, **trust_list._asdict()}
    return json.dumps(value, indent=1, sort_keys=True) + "\n"


def parse_list(text: str) -> TrustList | None:
    """Return the list in a text, None if the text is not exactly as `format_list` writes it."""
    try:
        value: dict[str, Any] = json.loads(text)
        trust_list: TrustList = as_typed(value, TrustList)
    except (ValueError, TypeError, RecursionError):
        return None
    is_sound = all(map(_DIGEST.fullmatch, trust_list.notes.values()))
    return trust_list if is_sound and format_list(trust_list) == text else None


# The trust record: the texts that the owner allows to instruct. It is in the user's own folder.
#
# It is not a cache: it records promotions by the owner, or by an agent that vaultmem.yaml allows.
# A promotion is for the text of an active note. When the owner moves the note out of `active`,
# removes it or replaces its text, the entry is withdrawn.
#
# Next to it are the verified signed lists. Each signer's newest list is stored with its signature:
# an older one never counts again, and it can be verified again when the allowed signers change.


class TrustRecord(NamedTuple):
    """The trust record of the vault at a path: the digest of each trusted text, by note path.

    `names` are its repository's, empty if unknown; `companions` are folders of vaults that may be
    queried with it. `withdrawn` has by path the withdrawn digests, with the time (seconds since the
    epoch). A record that is not `trusted` only withdraws.
    """

    trusted: bool
    notes: dict[str, str]
    vault: str = ""
    names: tuple[str, ...] = ()
    companions: tuple[str, ...] = ()
    withdrawn: dict[str, dict[str, float]] = {}  # noqa: RUF012  # A NamedTuple's default, never changed.


class TrustStore:
    """The JSON file with a vault's trust record.

    A record with names does not apply to another repository at the same path.
    `list_other_files` returns the files of the vault's other work trees, whose records apply too.
    """

    def __init__(
        self,
        file: Path,
        vault: str = "",
        names: RepositoryNames = NAMELESS,
        list_other_files: Callable[[], Sequence[Path]] = tuple,
    ) -> None:
        self._file = file
        self._vault = vault
        self._names = names
        self._list_other_files = list_other_files

    def is_trusted(self) -> bool:
        """Return whether the owner trusts this vault."""
        return any(record.trusted for record in self._find_all())

    def notes(self) -> dict[str, set[str]]:
        """Return the digests of each trusted note's texts, by path.

        A note has several if other work trees trust other texts.
        """
        own = self._list_own()
        withdrawn = _list_withdrawn(own)
        digests: dict[str, set[str]] = {}
        for record in (*own, *self._list_other_trees()):
            for path, digest in record.notes.items():
                if (path, digest) not in withdrawn:
                    digests.setdefault(path, set()).add(digest)
        return digests

    def notes_beside(self) -> set[tuple[str, str]]:
        """Return path and digest of each text that only other work trees trust."""
        own = self._find()
        own_texts = set(own.notes.items()) if own else set()
        return {text for each in self._find_all() for text in each.notes.items()} - own_texts

    def withdrawn_here(self) -> dict[tuple[str, str], float]:
        """Return when (seconds since the epoch) each text (path, digest) was withdrawn here."""
        return _list_withdrawn(self._list_own())

    def withdrawn(self) -> dict[tuple[str, str], float]:
        """Return when each text was last withdrawn in any of the user's clones."""
        records = filter(None, map(_read_if_sound, self._list_files()))
        return _list_withdrawn(each for each in records if each.withdrawn and self._holds(each))

    def companions(self) -> set[str]:
        """Return the folders of vaults that may be queried with this one."""
        return {folder for record in self._find_all() for folder in record.companions}

    def record(self, notes: Mapping[str, str], companions: Sequence[str] | None = None) -> None:
        """Trust the vault, and add these notes (path to text digest) to the trusted ones.

        `companions` replace the stored ones, unless None.
        """
        own_record = self._find_named()
        withdrawn = {
            path: {each: at for each, at in digests.items() if each != notes.get(path)}
            for path, digests in own_record.withdrawn.items()
        }
        self._write(
            own_record._replace(
                notes={**own_record.notes, **notes},
                companions=own_record.companions if companions is None else tuple(companions),
                withdrawn={path: digests for path, digests in withdrawn.items() if digests},
                trusted=True,
            )
        )

    def withdraw(self, texts: Iterable[tuple[str, str]], at: float) -> None:
        """Withdraw trust from these texts (path, digest); `at` is in seconds since the epoch."""
        own_record = self._find_named()
        notes, withdrawn = dict(own_record.notes), dict(own_record.withdrawn)
        for path, digest in texts:
            if notes.get(path) == digest:
                del notes[path]
            withdrawn[path] = {**withdrawn.get(path, {}), digest: at}
        self._write(own_record._replace(notes=notes, withdrawn=withdrawn))

    def _find_named(self) -> TrustRecord:
        """Return the own record (or a new one) with all names of its repository."""
        own_record = self._find() or TrustRecord(trusted=False, notes={})
        names = tuple(dict.fromkeys((*own_record.names, *self._names.find_all())))
        return own_record._replace(vault=self._vault, names=names)

    def _list_files(self) -> list[Path]:
        return sorted(self._file.parent.glob("*.json"))

    def list_copies(self) -> list[TrustRecord]:
        """Return trusted records of this repository at other paths.

        If the vault is not trusted, the record in its own file comes first.
        """
        files = [file for file in self._list_files() if file != self._file]
        name = self._names.find_one() if files else ""
        records = [
            record
            for file in files
            if (record := _read_if_sound(file)) and record.vault and record.trusted
        ]
        siblings = [each for each in records if name in each.names]
        own_record = _read_if_sound(self._file)
        return siblings if own_record is None or self.is_trusted() else [own_record, *siblings]

    def _find_all(self) -> list[TrustRecord]:
        """Return the records that apply here: the own one, and those of other work trees."""
        return [*self._list_own(), *self._list_other_trees()]

    def _list_own(self) -> list[TrustRecord]:
        return [*filter(None, [self._find()])]

    def _list_other_trees(self) -> list[TrustRecord]:
        records = filter(None, map(_read_if_sound, self._list_other_files()))
        return [*filter(self._holds, records)]

    def _find(self) -> TrustRecord | None:
        record = read_value(self._file, TrustRecord)
        return record if record and self._holds(record) else None

    def _holds(self, record: TrustRecord) -> bool:
        """Return whether a record has no names, or a name of this repository."""
        if not record.names or self._names.find_one() in record.names:
            return True
        return bool(set(record.names) & set(self._names.find_all()))

    def _write(self, record: TrustRecord) -> None:
        ValueFolder(self._file.parent).write_value(self._file.name, record)


def _list_withdrawn(records: Iterable[TrustRecord]) -> dict[tuple[str, str], float]:
    times: dict[tuple[str, str], float] = {}
    for record in records:
        for path, digests in record.withdrawn.items():
            for digest, at in digests.items():
                times[path, digest] = max(at, times.get((path, digest), at))
    return times


def _read_if_sound(file: Path) -> TrustRecord | None:
    return read_value_if_sound(file, TrustRecord)


#: Seconds after which signatures are verified again: a key can be allowed until a date.
_CACHE_SECONDS = 86_400


class SignedList(NamedTuple):
    """A list's signed text, and the name of the allowed signer, "" if none signed it."""

    signer: str
    text: str
    signature: str


class _Stamp(NamedTuple):
    """The status of a file of signers when lists were verified; zeros if it did not exist."""

    file: str
    changed: int = 0
    size: int = 0
    inode: int = 0


class _Verified(NamedTuple):
    """Verified lists, the time, and the stamps of the files of signers."""

    at: float
    stamps: tuple[_Stamp, ...]
    lists: tuple[SignedList, ...]


class SignedTrust:
    """The file of one vault's signed lists."""

    def __init__(self, file: Path, names: RepositoryNames = NAMELESS) -> None:
        self._file = file
        self._names = names

    def lists(self) -> tuple[SignedList, ...]:
        """Return all lists that are stored here, valid or not."""
        cache = self._read()
        return cache.lists if cache else ()

    def list_texts(self) -> set[tuple[str, str]]:
        """Return path and digest of each text in a stored list, valid or not."""
        lists = [json.loads(each.text) for each in self.lists()]
        return {text for each in lists for text in each["notes"].items()}

    def notes(self, now: float) -> dict[tuple[str, str], int] | None:
        """Return the serial of the newest list for each trusted text, by path and digest.

        None if the lists must be verified again. `now` is in seconds since the epoch.
        """
        cache = self._read()
        if cache is None:
            return {}
        files = [stamp.file for stamp in cache.stamps]
        if not 0 <= now - cache.at < _CACHE_SECONDS or _stamp(files) != cache.stamps:
            return None
        serials: dict[tuple[str, str], int] = {}
        for each in cache.lists:
            content = json.loads(each.text) if each.signer else {}  # Verified when stored.
            for text in content["notes"].items() if self.is_meant(content.get("names", ())) else ():
                serials[text] = max(content["serial"], serials.get(text, 0))
        return serials

    def is_meant(self, names: Sequence[str]) -> bool:
        """Return whether one of a list's vault names is a name of this vault."""
        return self._names.find_one() in names or not set(self._names.find_all()).isdisjoint(names)

    def write(self, lists: Iterable[SignedList], signers: Iterable[str], now: float) -> None:
        """Store lists that were just verified against these files of signers."""
        cache = _Verified(now, _stamp(signers), tuple(lists))
        ValueFolder(self._file.parent).write_value(self._file.name, cache)

    def _read(self) -> _Verified | None:
        """Return the stored lists, None if there is no file; a damaged file has no lists."""
        cache = read_value_if_sound(self._file, _Verified)
        return cache or (_Verified(0.0, (), ()) if self._file.exists() else None)


def _stamp(files: Iterable[str]) -> tuple[_Stamp, ...]:
    """Return the stamps of files, which change with them."""
    stamps = []
    for file in files:
        try:
            status = os.stat(file)
        except OSError:
            stamps.append(_Stamp(file))
        else:
            stamps.append(_Stamp(file, status.st_mtime_ns, status.st_size, status.st_ino))
    return tuple(stamps)


# Signatures by SSH keys, made and verified by OpenSSH's `ssh-keygen -Y`, as in git.

#: Timeout of a verification in seconds; signing has none, because it can ask for a passphrase.
_VERIFY_TIMEOUT_SECONDS = 10.0

_KEY = compile_later(r"(?:^|\s)((?:sk-)?(?:ssh|ecdsa)-[a-z0-9@.-]+ [A-Za-z0-9+/]+={0,3})(?=\s|$)")
_NAME = compile_later(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,99}")


def is_installed() -> bool:
    """Return whether `ssh-keygen` is installed."""
    return shutil.which("ssh-keygen") is not None


def sign(data: bytes, key: Path, namespace: str) -> str:
    """Return the signature of `data`; the key can be a public one if an SSH agent has its secret.

    Raises:
        VaultError: ssh-keygen is not installed, or cannot sign with this key.
    """
    code, out, err = _run(None, data, "-Y", "sign", "-q", "-f", str(key), "-n", namespace)
    if code or not out.startswith(b"-----BEGIN SSH SIGNATURE-----"):
        raise SystemFailureError(f"{key}: nothing was signed ({_first_line(err)})")
    return out.decode("ascii")


def find_signer(data: bytes, signature: str, signers: Path, namespace: str, name: str = "") -> str:
    """Return the name of the allowed signer who signed `data`, "" if none did.

    With a `name`, only this signer is accepted.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "signature")
        file.write_text(signature, encoding="utf-8")
        options = ("-s", str(file), "-f", str(signers))
        if not name:
            code, out, _ = _run(_VERIFY_TIMEOUT_SECONDS, b"", "-Y", "find-principals", *options)
            name = "" if code else out.decode("utf-8", "replace").partition("\n")[0].strip()
        if not name:
            return ""
        code, _, _ = _run(
            _VERIFY_TIMEOUT_SECONDS, data, "-Y", "verify", *options, "-I", name, "-n", namespace
        )
    return "" if code else name


def read_public_key(text: str) -> tuple[str, str]:
    """Return name and public key in a text: `NAME KEY`, or a public key with a comment.

    Raises:
        RefusedError: the text has no key, or several.
    """
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    match = _KEY.search(lines[0]) if len(lines) == 1 else None
    if match is None:
        raise RefusedError("not one public key; give a .pub file, or `NAME ssh-ed25519 AAAA...`")
    before, after = lines[0][: match.start()].strip(), lines[0][match.end() :].strip()
    return before or after, match[1]


def allow_signer(file: Path, name: str, key: str, namespace: str) -> bool:
    """Add a signer to a file of allowed signers; return whether it is new there.

    Raises:
        RefusedError: the name is not valid in this file, or the key is not a public key.
        VaultError: the file could not be written.
    """
    if not _NAME.fullmatch(name):
        raise RefusedError(f'"{name}" cannot be a signer\'s name; give one like ann@example.org')
    code, _, err = _run(_VERIFY_TIMEOUT_SECONDS, f"{key}\n".encode(), "-l", "-f", "-")
    if code:
        raise RefusedError(f"{key[:40]}: not a public key ({_first_line(err)})")
    line = f'{name} namespaces="{namespace}" {key}'
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    if line in text.splitlines():
        return False
    with naming_failure(file):
        make_private_folder(file.parent)
        text += "" if text.endswith("\n") or not text else "\n"
        write_atomically(file, f"{text}{line}\n".encode(), mode=0o600)
    return True


def _run(seconds: float | None, data: bytes, *words: str) -> tuple[int, bytes, bytes]:
    try:
        result = subprocess.run(
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
    return result.returncode, result.stdout, result.stderr


def _first_line(err: bytes) -> str:
    return next(iter(err.decode("utf-8", "replace").strip().splitlines()), "no reason given")
