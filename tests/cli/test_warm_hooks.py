"""Hooks answered by a watcher or without Typer, and what commands import as they start."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Make, Result, RunCli
from support import wait_until
from test_warm import answering
from watchers import ask, find_socket, watch_process

import vaultmem
from vaultmem.cli.hook_command import answer_plainly
from vaultmem.cli.start import MAX_INPUT, is_warm, make_words
from vaultmem.core.hook_payload import MAX_PAYLOAD
from vaultmem.services.views.update_index import sync_vault
from vaultmem.vault import open_vault

NOTES = {
    "notes/refunds.md": "# Refunds\n\nRefunds are queued, one job each.\n",
    "notes/渡し船.md": "# 渡し船\n\n渡し船は朝七時に出る。\n",
}
# A session is told once: what is asked twice here is of none.
ASKED = json.dumps({"prompt": "how are refunds queued?"})
COLD = {"VAULTMEM_NO_WATCHER": "1"}


@pytest.fixture
def watched_root(make_vault: Make, home: Path) -> Iterator[Path]:
    """Give a vault with a watcher."""
    root = make_vault(NOTES)
    with watch_process(root):
        wait_until(lambda: ask(root, vaultmem.__version__, ["settle"]))
        yield root


GIVEN: list[str | bytes] = [
    ASKED,
    json.dumps({"prompt": "渡し船 は何時"}, ensure_ascii=False),
    json.dumps({"prompt": "thanks!", "cwd": "/"}),
    json.dumps({"prompt": "refunds queued " * 9_000}),
    json.dumps({"prompt": "refunds queued", "cwd": "/nowhere"}) + " " * (9 * 1024 * 1024),
    "",
    "{",
    b'{"prompt": "refunds queued \xff"}',
    b'{"prompt": "refunds\0queued"}',
    '{"prompt": "refunds queued \\u0000 \\ud800"}',
]


@pytest.mark.campaign
def test_a_watcher_answers_a_prompt_as_the_hook_itself_does(
    watched_root: Path, run_cli: RunCli
) -> None:
    def ask(env: dict[str, str], given: str | bytes, *options: str) -> Result:
        return run_cli("hook", "prompt", "--vault", watched_root, *options, stdin=given, env=env)

    told = []
    for given in GIVEN:
        for options in ([], ["--format", "text"]):
            warm, cold = ask({}, given, *options), ask(COLD, given, *options)
            assert warm == cold
            assert (warm.code, warm.err) == (0, "")
            told.append(warm.out)
    assert "one job each" in told[0]
    assert "渡し船は朝七時に出る" in told[2]
    assert ask({}, ASKED, "--format", "nonsense").out == ""


@pytest.mark.campaign
def test_a_watcher_is_told_what_stands_on_standard_input(
    watched_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["vaultmem"])
    asked = json.dumps({"session_id": "a-1", "prompt": "how are refunds queued?"}).encode()
    words = make_words(["hook", "prompt"], asked)
    code, out, err = ask(watched_root, vaultmem.__version__, words) or (9, b"", b"")
    assert (code, err) == (0, b"")
    assert b"one job each" in out
    for event in ("session-start", "stop", "session-end", "pre-compact"):
        words = make_words(["hook", event], asked)
        assert ask(watched_root, vaultmem.__version__, words) is None
    assert not (watched_root / "sessions/a-1.md").exists()


def test_a_watcher_that_breaks_off_leaves_the_prompt_to_the_hook(
    make_vault: Make, run_cli: RunCli
) -> None:
    root = make_vault(NOTES)
    expected = run_cli("hook", "prompt", "--vault", root, stdin=ASKED)
    assert "one job each" in expected.out
    for answer in (b"", b"\n", b"\n-\n", b"\n0 100 0\nhalf"):
        with answering(root, answer):
            assert run_cli("hook", "prompt", "--vault", root, stdin=ASKED) == expected


@pytest.mark.parametrize(
    "line",
    [["hook", "stop"], ["hook"], ["hook", "--wait", "prompt"], ["session", "close"], ["remember"]],
)
def test_what_writes_is_never_left_to_a_watcher(line: list[str]) -> None:
    assert not is_warm(line)


def test_a_hook_in_other_words_gives_the_same_answer(make_vault: Make, run_cli: RunCli) -> None:
    root = make_vault(NOTES)
    expected = run_cli("hook", "prompt", "--vault", root, stdin=ASKED)
    for line in (
        ["hook", f"--vault={root}", "prompt"],
        ["--vault", root, "hook", "prompt"],
        ["hook", "prompt", "--wait", "--format", "claude", "--vault", root],
    ):
        assert run_cli(*line, stdin=ASKED) == expected
    assert run_cli("hook", "prompt", "--help").out.startswith("Usage")


def test_help_alone_is_for_the_command_line() -> None:
    for line in (["hook", "--help"], ["hook", "prompt", "-h"]):
        assert answer_plainly(line) is None


def test_as_much_is_read_as_a_hook_takes() -> None:
    assert MAX_INPUT == MAX_PAYLOAD


#: What none of the commands below needs; each of these takes long to import.
HEAVY = {"git", "whoosh", "yaml", "frontmatter", "platformdirs", "secrets", "ctypes", "difflib"}
HEAVY |= {"importlib.metadata"}
NO_TYPER = HEAVY | {"typer"}
BARE = NO_TYPER | {"numpy", "sqlite3", "re", "json", "typing", "enum", "dataclasses", "pathlib"}
OURS = {
    "vaultmem.storage.git.vault_history",
    "vaultmem.core.notes.link_syntax",
    "vaultmem.core.notes.note",
}


@pytest.mark.parametrize(
    ("line", "absent"),
    [
        (["--version"], BARE),
        (["list"], {"numpy", *HEAVY - {"difflib"}, *OURS - {"vaultmem.core.notes.note"}}),
        (
            ["recall", "refunds"],
            {*HEAVY - {"ctypes", "difflib"}, *OURS, "vaultmem.core.packs.pack_sections"},
        ),
        (["hook", "prompt"], {*NO_TYPER - {"ctypes"}, *OURS, "vaultmem.core.packs.pack_sections"}),
        (["hook", "stop"], {*NO_TYPER, "numpy", "sqlite3", "vaultmem.vault"}),
    ],
    ids=["version", "list", "recall", "prompt", "stop"],
)
def test_a_command_loads_nothing_that_it_does_not_need(
    make_vault: Make, line: list[str], absent: set[str]
) -> None:
    root = make_vault(NOTES)
    vault = open_vault(root)

    def is_settled() -> bool:  # What was written this very moment is looked at again.
        sync_vault(vault)
        return bool(vault.state.get("scan"))

    wait_until(is_settled)
    vault.close()
    program = (
        f"import sys; sys.argv = {['vaultmem', *line]!r}\n"
        "from vaultmem.cli.start import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        f"print('loaded:', sorted({absent!r} & sys.modules.keys()))\n"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path[:] = {sys.path!r}\n{program}"],
        cwd=root,
        env={**os.environ, **COLD, "VAULTMEM_VAULT": str(root)},
        input=ASKED,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.endswith("loaded: []\n")
    assert line == ["hook", "stop"] or "Refunds" in done.stdout or "vaultmem 0" in done.stdout


@pytest.mark.campaign
def test_a_command_closes_what_it_opened(make_vault: Make, run_cli: RunCli) -> None:
    root = make_vault(NOTES)
    state = Path(find_socket(root)).parent
    for line in (["list"], ["recall", "refunds"], ["hook", "prompt"], ["pack", "refunds"]):
        assert run_cli(*line, "--vault", root, stdin=ASKED).code == 0
        assert [*state.glob("*-wal")] == []
