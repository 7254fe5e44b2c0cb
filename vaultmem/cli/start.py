"""The start of `vaultmem`: a running watcher answers, otherwise the command runs here.

Only the modules for asking the watcher are imported. After any failure (no watcher, another
version, an incomplete reply), the command runs here.
"""

from __future__ import annotations

import io
import os
import sys

from vaultmem.cli.arguments import MAX_INPUT, find_command, read_words
from vaultmem.cli.interrupt import INTERRUPTED, end_at_once, let_command_see

#: Commands that only read, and that a watcher can answer.
WARM_COMMANDS = frozenset(
    (
        *("recall", "pack", "list", "trace", "similar"),
        *("show", "diff", "history", "blame", "log", "queries", "stats"),
    )
)

#: Subcommands that a watcher can answer. Like `recall`, the hook only writes to the query log.
_WARM_VERBS = {
    "hook": ("prompt", "before-tool", "tool-failure"),
    "session": ("show", "list", "search", "links", "stats"),
    "task": ("list", "show"),
}

#: Settings that change Python itself; they must be the same in the watcher.
_PYTHON_VARIABLES = ("LANG", "LC_ALL", "LC_CTYPE", "PYTHONIOENCODING", "PYTHONUTF8")


def main() -> None:
    """Run the command in `sys.argv`; Ctrl-C ends it silently."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # The caller closed it.
            setattr(sys, name, open(os.devnull, mode))
    try:
        _run()
    except KeyboardInterrupt:  # Commands handle it themselves; this is for the time before.
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
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # Starting numpy's threads takes 50 ms.
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
    """Relay an agent to the vault's resident process until the agent ends, then exit.

    If that is not possible, only make the command serve in this process.
    """
    options = {"--vault": "vault", "--agent": "agent", "--session": "session", "--ref": "ref"}
    read = read_words(arguments, options, {"--read-only": "read_only"})
    if read is None or read[0] != ["mcp"]:
        return
    from vaultmem.serve.relay import relay

    values = read[1]
    root = _find_root(values.get("vault", ""), arguments)
    agent, session, ref = (values.get(name, "") for name in ("agent", "session", "ref"))
    code = relay(root, agent, session, ref, "read_only" in values) if root else None
    if code is not None:
        os._exit(code)  # A thread might still wait for the client's next line.
    sys.argv.append("--in-process")


def _run_hook(arguments: list[str]) -> None:
    """Answer a hook and exit, if possible without importing the command-line library.

    The agent waits for the hook, and calls it in each turn.
    """
    from vaultmem.cli.hook_command import answer_plainly
    from vaultmem.cli.opening import end_process

    code = answer_plainly(arguments)
    if code is not None:
        end_process(code)


def is_warm(arguments: list[str]) -> bool:
    """Return whether a watcher can answer the command.

    It cannot print help, which depends on the terminal's width, and it reads standard input only
    for hooks.
    """
    if not {"--help", "-h", "-"}.isdisjoint(arguments):
        return False
    if find_command(arguments) in WARM_COMMANDS:
        return True
    return arguments[1:2] != [] and arguments[1] in _WARM_VERBS.get(arguments[0], ())


def same_settings() -> list[str]:
    """Return the settings that a watcher and its caller must share."""
    from vaultmem.storage.watch_socket import PLACES

    return [os.environ.get(name, "") for name in (*PLACES, *_PYTHON_VARIABLES)]


def _answer_warm(arguments: list[str]) -> int | None:
    """Print a watcher's response and return the exit code, None without a response."""
    if not is_warm(arguments):
        return None
    if "_VAULTMEM_COMPLETE" in os.environ or os.environ.get("VAULTMEM_NO_WATCHER"):
        return None
    from vaultmem import __version__
    from vaultmem.storage.watch_socket import ask_watcher, has_socket

    try:
        rest, vault = _extract_vault(arguments)
        root = _find_root(vault, arguments)
        socket = _find_socket(root) if root else ""
        if not has_socket(socket):
            return None
        input_data = _read_input() if arguments[0] == "hook" else None
        answer = ask_watcher(socket, root, __version__, make_words(rest, input_data))
    except (OSError, ValueError):
        answer = None
    if answer is None:
        return None
    code, out, err = answer
    return _print(code, out, err)


def make_words(arguments: list[str], input_data: bytes | None = None) -> list[str]:
    """Return a request to a watcher: the program's name, terminals, folder, settings, arguments.

    `input_data` is the standard input, for a command that reads it.

    Raises:
        ValueError: it contains a NUL, which separates the words.
    """
    if input_data is not None and b"\0" in input_data:
        raise ValueError("a NUL on standard input")
    header = ["run"] if input_data is None else ["tell", os.fsdecode(input_data)]
    from vaultmem.storage.watch_socket import choose_sent, has_terminal

    variables = [f"{k}={v}" for k, v in choose_sent(os.environ).items()]
    if sys.stdout.isatty() and "COLUMNS" not in os.environ:
        width = os.get_terminal_size(sys.stdout.fileno()).columns
        variables += [f"COLUMNS={width}"] * bool(width)
    terminals = f"{has_terminal():d}{sys.stdout.isatty():d}{sys.stderr.isatty():d}"
    caller_words = (_program(), terminals, os.getcwd())
    return [*header, *caller_words, *same_settings(), str(len(variables)), *variables, *arguments]


def _extract_vault(arguments: list[str]) -> tuple[list[str], str]:
    """Return the arguments without `--vault`, and its value.

    Raises:
        ValueError: it might be another option's value, or is repeated; the command has to parse it.
    """
    rest: list[str] = []
    vault, has_vault = "", False
    words = iter(arguments)
    for word in words:
        if word == "--":
            return [*rest, word, *words], vault
        if word == "--vault" or word.startswith("--vault="):
            if rest and rest[-1].startswith("-") and rest[-1] != "--json":
                raise ValueError("--vault after an option")
            vault = next(words, "") if word == "--vault" else word.partition("=")[2]
            if not vault or has_vault:
                raise ValueError("--vault without a value, or more than one")
            has_vault = True
        else:
            rest.append(word)
    return rest, vault


def _read_input() -> bytes:
    """Return the standard input, and restore it for a command that runs here.

    Raises:
        ValueError: it is a terminal.
    """
    if sys.stdin.isatty():
        raise ValueError("standard input is a terminal")
    data = sys.stdin.buffer.read(MAX_INPUT + 1)
    sys.stdin = io.TextIOWrapper(io.BytesIO(data))
    return data


def _find_root(vault: str, arguments: list[str]) -> str:
    """Return the vault's real path, as `open_vault` finds it, or ""."""
    vault = vault or os.environ.get("VAULTMEM_VAULT", "")
    if vault:
        from vaultmem.storage.user_files import find_named, find_user_folder

        vault = find_named(vault, find_user_folder("config", os.environ))
        return os.path.realpath(os.path.expanduser(vault))
    if arguments[0] == "hook":
        return ""  # Only the event names the agent's folder.
    return _find_around() or _find_only()


def _find_around() -> str:
    """Return the vault around the current folder, or ""."""
    folder = os.path.realpath(os.getcwd())
    while not os.path.isfile(os.path.join(folder, "vaultmem.yaml")):
        above = os.path.dirname(folder)
        if above == folder:
            return ""
        folder = above
    return folder


def _find_only() -> str:
    """Return the only vault in the list, "" if there are others or it is missing."""
    from vaultmem.storage.user_files import find_only, find_user_folder

    try:
        vault = find_only(find_user_folder("config", os.environ))
        return os.path.realpath(vault) if vault else ""
    except Exception:  # noqa: BLE001  The command itself reports the error.
        return ""


def _find_socket(root: str) -> str:
    from vaultmem.storage.user_files import find_user_folder
    from vaultmem.storage.watch_socket import socket_path

    return socket_path(root, find_user_folder("state", os.environ))


def _program() -> str:
    """Return the program's name for usage messages."""
    name = os.path.basename(sys.argv[0])
    return "python -m vaultmem" if name == "__main__.py" else name


def _print(code: int, out: bytes, err: bytes) -> int:
    """Write both streams, and return the exit code."""
    try:
        sys.stdout.buffer.write(out)
        sys.stdout.buffer.flush()
        sys.stderr.buffer.write(err)
        sys.stderr.buffer.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            sys.stderr.write(f"vaultmem: error: the output is not complete: {error.strerror}\n")
        return 1
    return code
