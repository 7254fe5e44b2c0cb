"""Where `vaultmem` starts: a watcher that is alive answers at once, else the command runs here.

Only what asking takes is imported. Whatever goes wrong on the way, no watcher or another version
or an answer cut short, the command runs here as if there had been none.
"""

from __future__ import annotations

import os
import sys

#: Commands that only read; a watcher answers these.
WARM_COMMANDS = frozenset({"recall", "pack", "get", "list"})

#: Options with a value that may stand before the command's name.
GLOBAL_OPTIONS = frozenset({"--vault", "--agent", "--session", "--ref"})

#: Names of the environment that a command's answer depends on.
ENVIRONMENT = ("NO_COLOR", "COLUMNS", "TZ", "LANG", "LC_ALL")

#: Seconds that an answer may take before the command runs here instead.
PATIENCE = 20.0

#: A longer command line is not sent, a longer answer not taken.
MAX_QUESTION = 64 * 1024
MAX_ANSWER = 64 * 1024 * 1024


def main() -> None:
    """Run the command that the process was started with."""
    code = _ask_watcher(sys.argv[1:])
    if code is None:
        from vaultmem.cli.app import main as run_here

        run_here()
    sys.exit(code)


def find_command(arguments: list[str]) -> str:
    """Return the command that the arguments name, empty if that is not plain to see."""
    rest = iter(arguments)
    for argument in rest:
        if argument in GLOBAL_OPTIONS:
            next(rest, None)
        elif not argument.startswith("-"):
            return argument
        elif argument.partition("=")[0] not in GLOBAL_OPTIONS:
            return ""
    return ""


def socket_path(root: str) -> str:
    """Return where the watcher of a vault (its real path) listens."""
    import hashlib

    key = hashlib.sha256(os.fsencode(root)).hexdigest()[:32]
    return os.path.join(_state_home(), "vaultmem", "vaults", key, "watch.sock")


def _state_home() -> str:
    """Return the user's state folder as platformdirs has it, without importing that."""
    if sys.platform == "darwin":
        return os.path.expanduser("~/Library/Application Support")
    named = os.environ.get("XDG_STATE_HOME", "")
    return named if named.strip() else os.path.expanduser("~/.local/state")


def _ask_watcher(arguments: list[str]) -> int | None:
    """Print what a watcher answers and return the exit code; None if there is no answer."""
    if os.name != "posix" or find_command(arguments) not in WARM_COMMANDS:
        return None
    if "_VAULTMEM_COMPLETE" in os.environ or os.environ.get("VAULTMEM_NO_WATCHER"):
        return None
    try:
        rest, named = _take_vault(arguments)
        root = _find_root(named)
        answer = _ask(socket_path(root), root, rest) if root else None
    except (OSError, ValueError, KeyError):
        return None
    if answer is None:
        return None
    code, out, err = answer
    return _print(code, out, err)


def _take_vault(arguments: list[str]) -> tuple[list[str], str]:
    """Return the arguments without `--vault`, and what it named last."""
    rest: list[str] = []
    named = ""
    words = iter(arguments)
    for word in words:
        if word == "--":
            return [*rest, word, *words], named
        if word == "--vault":
            named = next(words)
        elif word.startswith("--vault="):
            named = word.partition("=")[2]
        else:
            rest.append(word)
    return rest, named


def _find_root(named: str) -> str:
    """Return the vault's real path as `open_vault` would find it, empty if there is none."""
    named = named or os.environ.get("VAULTMEM_VAULT", "")
    if named:
        return os.path.realpath(os.path.expanduser(named))
    folder = os.path.realpath(os.getcwd())
    while not os.path.isfile(os.path.join(folder, "vaultmem.yaml")):
        above = os.path.dirname(folder)
        if above == folder:
            return ""
        folder = above
    return folder


def _ask(path: str, root: str, arguments: list[str]) -> tuple[int, bytes, bytes] | None:
    if not os.path.exists(path):
        return None
    import json
    import socket

    from vaultmem import __version__

    kept = {k: v for k, v in os.environ.items() if k.startswith("VAULTMEM_") or k in ENVIRONMENT}
    question = {
        "version": __version__,
        "root": root,
        "name": _program(),
        "arguments": arguments,
        "environment": kept,
        "terminal": [sys.stdout.isatty(), sys.stderr.isatty()],
    }
    line = json.dumps(question).encode() + b"\n"
    if len(line) > MAX_QUESTION:
        return None
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(PATIENCE)
        connect(connection, path)
        connection.sendall(line)
        with connection.makefile("rb") as answer:
            head = json.loads(answer.readline())
            code, sizes = head["code"], head["sizes"]
            if code is None or sum(sizes) > MAX_ANSWER:
                return None
            out, err = (answer.read(size) for size in sizes)
    return (code, out, err) if [len(out), len(err)] == sizes else None


def _program() -> str:
    """Return how the command was called, as its messages on usage have it."""
    name = os.path.basename(sys.argv[0])
    return "python -m vaultmem" if name == "__main__.py" else name


def connect(connection: object, path: str) -> None:
    """Connect to a socket; where its path is too long for the system, by way of its folder."""
    if len(os.fsencode(path)) < 100:
        connection.connect(path)  # type: ignore[attr-defined]
        return
    folder = os.open(os.path.dirname(path), os.O_RDONLY)
    try:
        name = f"/proc/self/fd/{folder}/{os.path.basename(path)}"
        connection.connect(name)  # type: ignore[attr-defined]
    finally:
        os.close(folder)


def _print(code: int, out: bytes, err: bytes) -> int:
    """Write both streams as the command would have."""
    try:
        sys.stdout.buffer.write(out)
        sys.stdout.buffer.flush()
        sys.stderr.buffer.write(err)
        sys.stderr.buffer.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return code
