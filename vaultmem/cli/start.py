"""The start of `vaultmem`: a watcher that is alive answers at once, else the command runs here.

Only what asking takes is imported. Whatever goes wrong on the way, no watcher or another version
or an answer cut short, the command runs here as if there had been none.
"""

from __future__ import annotations

import io
import os
import sys

from vaultmem.cli.arguments import MAX_INPUT, find_command, read_words
from vaultmem.cli.interrupt import INTERRUPTED, end_at_once, let_command_see

#: Commands that only read; a watcher answers these.
WARM_COMMANDS = frozenset(
    (
        *("recall", "pack", "list", "trace", "similar"),
        *("show", "diff", "history", "blame", "log", "queries", "stats"),
    )
)

#: And of other commands those verbs that do. The hook writes no more than that it was asked, as
#: `recall` does.
_WARM_VERBS = {
    "hook": ("prompt", "before-tool", "tool-failure"),
    "session": ("show", "list", "search", "links", "stats"),
    "task": ("list", "show"),
}

#: Settings that change how Python itself works: the watcher's have to be the same.
_SAME = ("LANG", "LC_ALL", "LC_CTYPE", "PYTHONIOENCODING", "PYTHONUTF8")


def main() -> None:
    """Run the command that the process was started with; Ctrl-C ends it without a word."""
    try:
        _run()
    except KeyboardInterrupt:  # In a command, it is the command's to see; but much comes before.
        end_at_once()
        sys.exit(INTERRUPTED)


def _run() -> None:
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        from vaultmem import __version__

        print(f"vaultmem {__version__}")
        return
    if not arguments and "_VAULTMEM_COMPLETE" not in os.environ and _find_around():
        arguments = sys.argv[1:] = ["status", "--next"]
    if arguments in ([], ["--help"], ["-h"], ["help"]) and "_VAULTMEM_COMPLETE" not in os.environ:
        from vaultmem.cli.commands import describe_commands

        sys.exit(_print(0, describe_commands().encode(), b""))
    if arguments[:1] == ["help"] and len(arguments) == 2:
        from vaultmem.cli.topics import read_topic

        if topic := read_topic(arguments[1]):
            sys.exit(_print(0, topic.encode(), b""))
    code = _answer_warm(arguments)
    if code is None:
        _run_here(arguments)
    sys.exit(code)


def _run_here(arguments: list[str]) -> None:
    """Run the command in this process, and end it."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # Starting threads takes numpy 50 ms.
    command = find_command(arguments)
    if command in {"hook", "mcp"}:
        let_command_see()
    if command == "hook":
        _run_hook(arguments)
    elif command == "mcp":
        _relay(arguments)
    from vaultmem.cli.app import main as run

    run()


def _relay(arguments: list[str]) -> None:
    """Lead an agent to the vault's resident process until it goes, and end this one.

    Where that cannot be, nothing is done but that the command will not try it again.
    """
    options = {"--vault": "vault", "--agent": "agent", "--session": "session", "--ref": "ref"}
    read = read_words(arguments, options, {"--read-only": "read_only"})
    if read is None or read[0] != ["mcp"]:
        return
    from vaultmem.serve.relay import relay

    given = read[1]
    root = _find_root(given.get("vault", ""), arguments)
    agent, session, ref = (given.get(name, "") for name in ("agent", "session", "ref"))
    code = relay(root, agent, session, ref, "read_only" in given) if root else None
    if code is not None:
        os._exit(code)  # A thread may still wait for the client's next line.
    sys.argv.append("--in-process")


def _run_hook(arguments: list[str]) -> None:
    """Answer a hook and end the process, without the library for command lines where that can be.

    An agent waits for it, and calls it at each of its turns.
    """
    from vaultmem.cli.hook_command import answer_plainly
    from vaultmem.cli.opening import end_process

    code = answer_plainly(arguments)
    if code is not None:
        end_process(code)


def is_warm(arguments: list[str]) -> bool:
    """Tell whether a watcher answers what the arguments ask for.

    Help is as wide as the caller's terminal, which is not known there, and standard input is read
    for a hook alone.
    """
    if not {"--help", "-h", "-"}.isdisjoint(arguments):
        return False
    if find_command(arguments) in WARM_COMMANDS:
        return True
    return arguments[1:2] != [] and arguments[1] in _WARM_VERBS.get(arguments[0], ())


def same_settings() -> list[str]:
    """Return the settings in which a watcher and who asks it must not differ."""
    from vaultmem.storage.watch_socket import PLACES

    return [os.environ.get(name, "") for name in (*PLACES, *_SAME)]


def _answer_warm(arguments: list[str]) -> int | None:
    """Print what a watcher answers and return the exit code; None if there is no answer."""
    if not is_warm(arguments):
        return None
    if "_VAULTMEM_COMPLETE" in os.environ or os.environ.get("VAULTMEM_NO_WATCHER"):
        return None
    from vaultmem import __version__
    from vaultmem.storage.watch_socket import ask_watcher, has_socket

    try:
        rest, named = _extract_vault(arguments)
        root = _find_root(named, arguments)
        socket = _find_socket(root) if root else ""
        if not has_socket(socket):
            return None
        given = _read_input() if arguments[0] == "hook" else None
        answer = ask_watcher(socket, root, __version__, make_words(rest, given))
    except (OSError, ValueError):
        answer = None
    if answer is None:
        return None
    code, out, err = answer
    return _print(code, out, err)


def make_words(arguments: list[str], given: bytes | None = None) -> list[str]:
    """Return a question to a watcher: the program's name, terminals, folder, settings, arguments.

    `given` is what came on standard input, for a command that reads that.

    Raises:
        ValueError: there is a NUL in it, which divides the words.
    """
    if given is not None and b"\0" in given:
        raise ValueError("a NUL on standard input")
    told = ["run"] if given is None else ["tell", os.fsdecode(given)]
    from vaultmem.storage.watch_socket import choose_sent, has_terminal

    sent = [f"{k}={v}" for k, v in choose_sent(os.environ).items()]
    if sys.stdout.isatty() and "COLUMNS" not in os.environ:
        width = os.get_terminal_size(sys.stdout.fileno()).columns
        sent += [f"COLUMNS={width}"] * bool(width)
    terminals = f"{has_terminal():d}{sys.stdout.isatty():d}{sys.stderr.isatty():d}"
    said = (_program(), terminals, os.getcwd())
    return [*told, *said, *same_settings(), str(len(sent)), *sent, *arguments]


def _extract_vault(arguments: list[str]) -> tuple[list[str], str]:
    """Return the arguments without `--vault`, and what it named.

    Raises:
        ValueError: it may be another option's value, or one of several vaults; that is for the
            command itself to find out.
    """
    rest: list[str] = []
    named, is_named = "", False
    words = iter(arguments)
    for word in words:
        if word == "--":
            return [*rest, word, *words], named
        if word == "--vault" or word.startswith("--vault="):
            if rest and rest[-1].startswith("-") and rest[-1] != "--json":
                raise ValueError("--vault after an option")
            named = next(words, "") if word == "--vault" else word.partition("=")[2]
            if not named or is_named:
                raise ValueError("--vault without a value, or more than one")
            is_named = True
        else:
            rest.append(word)
    return rest, named


def _read_input() -> bytes:
    """Return what is on standard input, and put it back for a command that runs here.

    Raises:
        ValueError: it is a terminal, or closed.
    """
    if sys.stdin is None or sys.stdin.isatty():
        raise ValueError("standard input is a terminal")
    given = sys.stdin.buffer.read(MAX_INPUT + 1)
    sys.stdin = io.TextIOWrapper(io.BytesIO(given))
    return given


def _find_root(named: str, arguments: list[str]) -> str:
    """Return the vault's real path as `open_vault` would find it, empty if there is none."""
    named = named or os.environ.get("VAULTMEM_VAULT", "")
    if named:
        from vaultmem.storage.user_files import find_named, find_user_folder

        named = find_named(named, find_user_folder("config", os.environ))
        return os.path.realpath(os.path.expanduser(named))
    if arguments[0] == "hook":
        return ""  # It goes by the agent's folder, which only the event tells.
    return _find_around() or _find_only()


def _find_around() -> str:
    """Return the vault around the current folder, empty if there is none."""
    folder = os.path.realpath(os.getcwd())
    while not os.path.isfile(os.path.join(folder, "vaultmem.yaml")):
        above = os.path.dirname(folder)
        if above == folder:
            return ""
        folder = above
    return folder


def _find_only() -> str:
    """Return the only vault on the list, empty where it is not the only one, or not there."""
    from vaultmem.storage.user_files import find_only, find_user_folder

    try:
        found = find_only(find_user_folder("config", os.environ))
        return os.path.realpath(found) if found else ""
    except Exception:  # noqa: BLE001  The command itself says what is wrong.
        return ""


def _find_socket(root: str) -> str:
    from vaultmem.storage.user_files import find_user_folder
    from vaultmem.storage.watch_socket import socket_path

    return socket_path(root, find_user_folder("state", os.environ))


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
