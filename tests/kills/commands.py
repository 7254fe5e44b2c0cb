"""The command that meets a fault and those that come next, each as a process of its own."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

#: The commands that come next, by another agent; the last one by the person, who alone commits what
#: belongs to a session that goes on.
NEXT = (
    ("recall", "crane", "--json"),
    ("status", "--json"),
    ("remember", "The visitor was here.", "--title", "Visit", "--force"),
    ("checkpoint", "by a visitor"),
)


def be_command(event: Any, root: Path) -> None:
    """Be the process of `vaultmem`, with these words."""
    os.chdir(root.parent if event.beside else root)
    if event.agent:
        os.environ.update(VAULTMEM_AGENT=event.agent, VAULTMEM_SESSION_ID=f"s-{event.agent}")
    sys.stdin, sys.stdout, sys.stderr = (open(n, m) for n, m in enumerate(("r", "w", "w")))
    sys.stderr.reconfigure(line_buffering=True, errors="backslashreplace")
    sys.argv = ["vaultmem", *event.words]
    code: object = 1
    try:
        importlib.import_module("vaultmem.cli.start").main()
        code = 0
    except SystemExit as end:
        code = end.code
    except BaseException:  # noqa: BLE001
        traceback.print_exc()
    try:
        sys.stdout.flush()
    except OSError as error:
        sys.stderr.write(f"Exception ignored: {error}\n")
        code = 120  # As Python itself ends then.
    os._exit(code if isinstance(code, int) else int(code is not None))


def give_next(root: Path, first: Any, is_thorough: bool) -> list[tuple[int, str]]:
    """Run the commands that come next, each as if in a process of its own.

    A thorough look compares the index with one that is made from nothing.
    """
    from vaultmem.cli import opening
    from vaultmem.cli.app import build_commands

    commands, done = build_commands(), []
    if first and first[0][0] == "import" and (root / "vaultmem.yaml").exists():
        first, done = (), [(0, "")]  # It is there, and is not taken in twice.
    for words in (*first, *NEXT):
        os.chdir(root if root.exists() else root.parent)
        os.environ["VAULTMEM_AGENT"] = "" if words[0] == "checkpoint" else "visitor"
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = opening.run(
                    lambda w=words: commands.main(args=list(w), prog_name="vaultmem")
                )
            except BaseException:  # noqa: BLE001
                err.write(traceback.format_exc())
                code = 1
        while opening._opened:
            opening._opened.pop().close()
        opening._given.clear()
        if words[0] == "recall" and code == 0 and "notes/crane.md" not in out.getvalue():
            code, _ = 99, err.write("recall does not find what is there")
        done.append((code, err.getvalue()))
    if is_thorough and (told := compare_index(root)):
        done.append((99, told))
    return done


def compare_index(root: Path) -> str:
    """Return in what the index answers otherwise than a fresh one, empty if in nothing."""
    from vaultmem.core.search.query import parse_query
    from vaultmem.environment import open_named_vault
    from vaultmem.services.search.recall import recall
    from vaultmem.services.views.update_index import sync_vault

    def ask() -> list[list[tuple[str, str, float]]]:
        vault = open_named_vault(root)
        sync_vault(vault)
        words = ("crane", "berth ship", "refund coffee", "visitor", "pier", "bollard harbour")
        asked = [recall(vault, parse_query(each, limit=50)) for each in words]
        vault.close()
        return [[(h.record.path, h.section.heading, round(h.score, 4)) for h in a] for a in asked]

    held = ask()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_STATE_HOME"] = folder
        fresh = ask()
    return "" if held == fresh else f"the index is not what a fresh one is: {held} {fresh}"


def in_child(do: Any) -> tuple[int, str]:
    """Do something in a process of its own; return how it ended and what it has to say."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        code = 0
        try:
            told = json.dumps(do())
        except BaseException:  # noqa: BLE001
            told, code = traceback.format_exc(), 1
        os.write(writer, told.encode()[:60_000])
        os._exit(code)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        told = stream.read().decode()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), told
