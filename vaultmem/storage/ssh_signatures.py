"""Signatures by SSH keys, made and verified by OpenSSH's `ssh-keygen -Y`, as git does it."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from vaultmem.errors import FaultError, RefusedError, VaultError
from vaultmem.storage.atomic import make_private_folder, write_atomically

#: Seconds that a verification may take; who signs may have to enter a passphrase first.
_LONGEST = 10.0

_KEY = re.compile(r"(?:^|\s)((?:sk-)?(?:ssh|ecdsa)-[a-z0-9@.-]+ [A-Za-z0-9+/]+={0,3})(?=\s|$)")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,99}")


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
        raise FaultError(f"{key}: nothing was signed ({_first_line(err)})")
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
    try:
        make_private_folder(file.parent)
        known += "" if known.endswith("\n") or not known else "\n"
        write_atomically(file, f"{known}{line}\n".encode(), mode=0o600)
    except OSError as error:
        raise FaultError(f"{file}: could not be written: {error.strerror}") from error
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
    return next(iter(err.decode("utf-8", "replace").strip().splitlines()), "no reason told")
