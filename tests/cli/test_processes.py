"""One command of each module in a process that starts from nothing: what it needs is imported."""

from __future__ import annotations

import subprocess
import sys

import pytest
from conftest import Make, RunCli
from support import git, write_notes

from vaultmem.cli.commands import find_home, read_rows
from vaultmem.cli.opening import end_process, run
from vaultmem.cli.output import ProgressLine, warn

#: By module; those that are not here are started from nothing by tests of their own.
COMMANDS = [
    ("vault_commands", ["trust"]),
    ("vault_list", ["vault", "list"]),
    ("note_commands", ["show", "a"]),
    ("note_commands", ["pin", "a"]),
    ("search_commands", ["pack", "gangway"]),
    ("note_commands", ["promote", "c"]),
    ("history_commands", ["diff"]),
    ("history_commands", ["trace", "gangway"]),
    ("search_commands", ["similar", "a"]),
    ("note_commands", ["state", "a", "stale"]),
    ("curation_commands", ["dream"]),
    ("curation_commands", ["review"]),
    ("search_commands", ["mv", "notes/a.md", "notes/b.md"]),
    ("exchange_commands", ["reference"]),
    ("health_commands", ["stats"]),
    ("session_commands", ["task", "list"]),
    ("project_commands", ["projects"]),
    ("branch_commands", ["branch"]),
    ("branch_commands", ["resolve"]),
    ("sync_commands", ["sync", "../remote.git"]),
    ("assert_commands", ["assert", "gangway", "--contains", "blue"]),
    ("health_commands", ["status"]),
    ("agent_commands", ["connect", "--status"]),
    ("exchange_commands", ["import", "mem0", "../mem0.json"]),
    ("hub_commands", ["hub", "init", "../hub"]),
    ("exchange_commands", ["export", "--html", "../pages"]),
]
COMMITTING = {"promote", "state", "sync", "import"}
ELSEWHERE = {"evaluate_commands", "serve_commands", "fleet_commands"}
ELSEWHERE |= {"merge_driver", "push_check"}


def test_every_module_is_started_somewhere() -> None:
    assert {home for home, _ in COMMANDS} | ELSEWHERE == {home for _, home, _ in read_rows()}
    assert all(find_home(line[0]) == home for home, line in COMMANDS)


@pytest.mark.campaign
@pytest.mark.parametrize(("home", "line"), COMMANDS)
def test_a_command_of_each_module_starts_from_nothing(
    make_vault: Make, start_cli: RunCli, home: str, line: list[str]
) -> None:
    root = make_vault({"notes/a.md": "# A\n\nThe gangway is blue. [[c]]\n"})
    write_notes(root, {"notes/c.md": "---\nstate: candidate\n---\n# C\n\nMoor at the pier.\n"})

    git(root.parent, "init", "-q", "--bare", "remote.git")
    write_notes(root.parent, {"mem0.json": '[{"id": "1", "memory": "Moor at noon."}]'})
    done = start_cli(*line, cwd=root)

    assert done.code == 0, done
    assert (git(root, "log", "-1", "--format=%s") != "notes") == (line[0] in COMMITTING)


_INTERRUPTED = """
import builtins, os, signal, sys

signal.signal(signal.SIGINT, signal.default_int_handler)  # It may have been started to ignore it.
name, before = sys.argv.pop(1), builtins.__import__

def watch(wanted, *more, **named):
    if wanted == name:
        os.kill(os.getpid(), signal.SIGINT)
    return before(wanted, *more, **named)

builtins.__import__ = watch
from vaultmem.__main__ import main
main()
"""


@pytest.mark.parametrize(
    ("line", "module"),
    [
        ("recall quay", "vaultmem.cli.start"),
        ("recall quay", "vaultmem.storage.watch_socket"),
        ("recall quay", "vaultmem.cli.app"),
        ("recall quay", "typer"),
        ("recall quay", "numpy"),
        ("index", "vaultmem.services.views.update_index"),
        ("hook prompt", "vaultmem.cli.hook_command"),
    ],
)
def test_ctrl_c_ends_a_start_without_a_word(make_vault: Make, line: str, module: str) -> None:
    root = make_vault({"notes/quay.md": "# Quay\n\nOf stone.\n"})
    done = subprocess.run(
        [sys.executable, "-c", _INTERRUPTED, module, *line.split()],
        cwd=root,
        input=b"",
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


def test_ctrl_c_ends_the_line_of_progress(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    progress = ProgressLine("reading notes")
    monkeypatch.setattr("gc.freeze", lambda: None)
    monkeypatch.setattr(progress, "_started", 0.0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)

    def be_interrupted() -> None:
        progress(1, 3)
        raise SystemExit(130)

    with pytest.raises(SystemExit):
        end_process(run(be_interrupted))
    assert capsys.readouterr().err.endswith("1 of 3\n")
    progress(1, 3)
    progress(3, 3)
    warn("and then")
    assert capsys.readouterr().err.endswith("3 of 3\nvaultmem: and then\n")
