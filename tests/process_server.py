"""Processes of the command line that start in an eighth of the time: forked, with all imported.

Each run has a process of its own, with its own settings, folder and streams, which are files. What
only a start from nothing shows (what is imported when, the interpreter's own settings) is tested
where `start_cli` is used.
"""

from __future__ import annotations

import gc
import importlib
import multiprocessing
import os
import pkgutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing.context import ForkServerContext
from pathlib import Path

#: What commands import from elsewhere, most of it inside functions.
_OTHERS = (
    *("git", "jsonschema", "numpy", "platformdirs", "sqlite3", "typer", "yaml"),
    *("watchdog.observers", "whoosh.index", "whoosh.qparser", "whoosh.writing"),
)

#: What is not needed here, takes long to import, or is a program.
_ALONE = (
    "vaultmem.__main__",
    "vaultmem.integrations",
    "vaultmem.mcp_server",
    "vaultmem.ray_fleet.",
)

#: Settings that Python reads as it starts.
AT_START = ("PYTHON", "LANG", "LC_", "TZ", "OPENBLAS")


def run_forked(
    arguments: Sequence[str | os.PathLike[str]],
    cwd: Path,
    env: Mapping[str, str],
    streams: tuple[Path, Path, Path],
    timeout: float,
) -> int | None:
    """Run `vaultmem` and return its exit code, None if it took longer than `timeout` seconds.

    To whom nothing is given on standard input, that is the terminal of this process, if it has one.
    """
    words = [os.fsdecode(word) for word in arguments]
    if os.isatty(0) and not streams[0].stat().st_size:
        streams = (Path(os.ttyname(0)), *streams[1:])
    return _wait(_serve, (words, str(cwd), dict(env), streams), timeout)


def run_script(script: str, *words: object, timeout: float = 60) -> int | None:
    """Run a script with these words in a process of its own, as `run_forked` does a command.

    A signal that ended it is negative. Files that it leaves open are closed without a word.
    """
    return _wait(_execute, (script, list(map(str, words)), os.getcwd(), dict(os.environ)), timeout)


def _wait(target: Callable[..., None], arguments: tuple[object, ...], timeout: float) -> int | None:
    process = _context().Process(target=target, args=arguments)
    # Not `start`, which looks after the processes of all threads, and so takes their exit codes.
    running = process._Popen(process)  # type: ignore[attr-defined]
    code: int | None = running.wait(timeout)
    if code is None:
        running.kill()
        running.wait()
    running.close()
    return code


def _context(made: list[ForkServerContext] = []) -> ForkServerContext:  # noqa: B006 - made once.
    if not made:
        made.append(multiprocessing.get_context("forkserver"))
        made[0].set_forkserver_preload([*_modules()])
    return made[0]


def _modules() -> Iterator[str]:
    import vaultmem

    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # A fork has one thread.
    for module in pkgutil.walk_packages(vaultmem.__path__, "vaultmem."):
        if not module.name.startswith(_ALONE):
            yield module.name
    yield from _OTHERS


def _execute(script: str, words: list[str], cwd: str, env: dict[str, str]) -> None:
    """Be the process: `python -c SCRIPT` in this folder with these settings."""
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    sys.argv = ["-c", *words]
    gc.freeze()
    exec(compile(script, "<script>", "exec"), {"__name__": "__main__"})


def _serve(
    words: list[str], cwd: str, env: dict[str, str], streams: tuple[Path, Path, Path]
) -> None:
    """Be the process: `python -m vaultmem` in this folder with these settings and streams."""
    flags = (os.O_RDONLY | os.O_NOCTTY, os.O_WRONLY, os.O_WRONLY)
    for number, (file, flag) in enumerate(zip(streams, flags, strict=True)):
        opened = os.open(file, flag)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin, sys.stdout, sys.stderr = (open(n, mode) for n, mode in enumerate(("r", "w", "w")))
    sys.stderr.reconfigure(line_buffering=True, errors="backslashreplace")  # type: ignore[union-attr]
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    # Where many tests run, git needs longer than a query waits for it.
    vars(importlib.import_module("vaultmem.services.anchors.check"))["QUERY_SECONDS"] = 30.0
    started = importlib.import_module("vaultmem.__main__")
    sys.modules["__main__"] = started
    sys.argv = [str(started.__file__), *words]
    gc.freeze()
    started.main()
