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

#: Settings that a command reads, and that are sent with the question; so are $VAULTMEM_*.
SENT = (
    *("NO_COLOR", "COLUMNS", "TERM_SESSION_ID"),
    *("CLAUDE_SESSION_ID", "OPENCODE_SESSION_ID", "CURSOR_SESSION_ID"),
)

#: Settings that change how Python itself works: the watcher's have to be the same.
SAME = (
    *("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"),
    *("LANG", "LC_ALL", "LC_CTYPE", "TZ", "PYTHONIOENCODING", "PYTHONUTF8"),
)


def main() -> None:
    """Run the command that the process was started with."""
    try:
        code = _answer_warm(sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit(130)
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


def same_settings() -> list[str]:
    """Return the settings in which a watcher and who asks it must not differ."""
    return [os.environ.get(name, "") for name in SAME]


def _answer_warm(arguments: list[str]) -> int | None:
    """Print what a watcher answers and return the exit code; None if there is no answer."""
    if find_command(arguments) not in WARM_COMMANDS:
        return None
    if "_VAULTMEM_COMPLETE" in os.environ or os.environ.get("VAULTMEM_NO_WATCHER"):
        return None
    from vaultmem import __version__
    from vaultmem.storage.watch_socket import ask_watcher

    try:
        rest, named = _take_vault(arguments)
        root = _find_root(named)
        answer = ask_watcher(root, __version__, make_words(rest)) if root else None
    except (OSError, ValueError):
        answer = None
    if answer is None:
        return None
    code, out, err = answer
    return _print(code, out, err)


def make_words(arguments: list[str]) -> list[str]:
    """Return what a watcher is told: how it is called, its settings, terminals and arguments."""
    environment = os.environ.items()
    sent = [f"{k}={v}" for k, v in environment if k.startswith("VAULTMEM_") or k in SENT]
    terminals = f"{sys.stdout.isatty():d}{sys.stderr.isatty():d}"
    return ["run", _program(), terminals, *same_settings(), str(len(sent)), *sent, *arguments]


def _take_vault(arguments: list[str]) -> tuple[list[str], str]:
    """Return the arguments without `--vault`, and what it named last.

    Raises:
        ValueError: it may be another option's value; that is for the command itself to find out.
    """
    rest: list[str] = []
    named = ""
    words = iter(arguments)
    for word in words:
        if word == "--":
            return [*rest, word, *words], named
        if word == "--vault" or word.startswith("--vault="):
            if rest and rest[-1].startswith("-") and rest[-1] != "--json":
                raise ValueError("--vault after an option")
            named = next(words, "") if word == "--vault" else word.partition("=")[2]
            if not named:
                raise ValueError("--vault without a value")
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


def _program() -> str:
    """Return how the command was called, as its messages on usage have it."""
    name = os.path.basename(sys.argv[0])
    return "python -m vaultmem" if name == "__main__.py" else name


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
