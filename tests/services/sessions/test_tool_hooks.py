"""Before an edit or a command, the hook shows what the memory holds about it, or nothing."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_OID, uuid5

import pytest
from conftest import Make, RunCli
from made_transcripts import CLIENTS, Move, list_hook_calls, write_log
from projects_world import make_repository, run_git, run_hook
from support import wait_until
from watchers import ask, watch_process

import vaultmem
from vaultmem.core.text.token_count import count_tokens

LIMITS = "Limits are per shop, never global, since the audit of May."
PUBLISH = "Tried: `npm publish` on a laptop.\nFailed: E403.\nResolved: the release job publishes."


@pytest.fixture
def shop(make_vault: Make, tmp_path: Path, run_cli: RunCli) -> tuple[Path, Path]:
    """Give a vault and a repository with a decision that cites a file, and with a dead end."""
    root, code = make_vault(), make_repository(tmp_path / "code/shop")
    (code / "src").mkdir()
    (code / "src/limit.py").write_text("LIMIT = 3\n")
    run_git(code, "add", ".")
    run_git(code, "commit", "-qm", "Add the limit")
    _remember(run_cli, root, code, LIMITS, "decision", "src/limit.py")
    _remember(run_cli, root, code, PUBLISH, "dead_end")
    return root, code


def _remember(
    run_cli: RunCli, root: Path, folder: Path, text: str, kind: str, cite: str = ""
) -> Path:
    words = ["remember", text, "--kind", kind, "--force", "--vault", root, "--agent", "a", "--json"]
    done = run_cli(*words, *(["--cite", cite] if cite else []), cwd=folder)
    assert done.code == 0, done.err
    return root / str(done.json["path"])


def _edit(file: Path) -> dict[str, Any]:
    return {"tool_name": "Edit", "tool_input": {"file_path": str(file), "new_string": "x"}}


def _run(command: str) -> dict[str, Any]:
    return {"tool_name": "Bash", "tool_input": {"command": command}}


def test_an_edit_shows_the_decision_that_cites_the_file_once(
    shop: tuple[Path, Path], run_cli: RunCli
) -> None:
    root, code = shop
    call = _edit(code / "src/limit.py")
    shown = run_hook(run_cli, root, "before-tool", code, "s-1", **call)
    assert LIMITS in shown
    assert "(decision)" in shown
    assert count_tokens(shown) <= 60
    assert run_hook(run_cli, root, "before-tool", code, "s-1", **call) == ""
    assert LIMITS in run_hook(run_cli, root, "before-tool", code, "s-2", **call)
    (code / "src/limit.py").write_text("LIMIT = 4\n")
    assert "[changed since" in run_hook(run_cli, root, "before-tool", code, "s-3", **call)


def test_a_command_shows_the_dead_end_that_names_it(
    shop: tuple[Path, Path], run_cli: RunCli
) -> None:
    root, code = shop
    for command in ("npm publish", "cd web && npm publish --access public 2>&1 | tail -3"):
        assert "Failed: E403" in run_hook(
            run_cli, root, "before-tool", code, f"s-{len(command)}", **_run(command)
        )
    for command in ("npm test", "npm", "cat src/limit.py", "git status", "npm publisher"):
        assert run_hook(run_cli, root, "before-tool", code, "s-1", **_run(command)) == ""
    failed = {**_run("npm publish"), "error": "npm error code E403"}
    assert "release job" in run_hook(run_cli, root, "tool-failure", code, "s-9", **failed)
    assert "release job" in run_hook(
        run_cli, root, "before-tool", code, "s-8", **_run("x; npm publish")
    )


def test_a_note_of_another_project_or_out_of_force_is_not_shown(
    shop: tuple[Path, Path], tmp_path: Path, run_cli: RunCli
) -> None:
    root, code = shop
    other = make_repository(tmp_path / "code/other")
    (other / "src").mkdir()
    (other / "src/limit.py").write_text("LIMIT = 9\n")
    call = _edit(other / "src/limit.py")
    assert run_hook(run_cli, root, "before-tool", code, "s-1", **call) == ""  # The file's project.
    assert run_hook(run_cli, root, "before-tool", other, "s-2", **_run("npm publish")) == ""
    found = run_cli("recall", "limits per shop audit", "--vault", root, "--json", cwd=code).json
    path = found["hits"][0]["path"]
    assert run_cli("state", path, "deprecated", "--vault", root).code == 0
    call = _edit(code / "src/limit.py")
    assert run_hook(run_cli, root, "before-tool", code, "s-3", **call) == ""


def test_a_setting_turns_the_notes_off(shop: tuple[Path, Path], run_cli: RunCli) -> None:
    root, code = shop
    config = root / "vaultmem.yaml"
    config.write_text((config.read_text() if config.is_file() else "") + "tool_notes: false\n")
    call = _edit(code / "src/limit.py")
    assert run_hook(run_cli, root, "before-tool", code, "s-1", **call) == ""


def test_codex_patches_and_the_forms_of_the_answer(
    shop: tuple[Path, Path], run_cli: RunCli
) -> None:
    root, code = shop
    patch = "*** Begin Patch\n*** Update File: src/limit.py\n@@\n-LIMIT = 3\n*** End Patch\n"
    payload = {
        "session_id": "s-1",
        "cwd": str(code),
        "hook_event_name": "PreToolUse",
        "tool_name": "apply_patch",
        "tool_input": {"command": patch},
    }
    done = run_cli("hook", "before-tool", "--vault", root, stdin=json.dumps(payload), cwd=code)
    told = json.loads(done.out)["hookSpecificOutput"]
    assert told["hookEventName"] == "PreToolUse"
    assert LIMITS in told["additionalContext"]
    assert "permissionDecision" not in told
    for strange in (None, 7, [], {"command": 3}, {"file_path": ["x"]}, {"command": "\0" * 9}):
        given = json.dumps({**payload, "tool_input": strange})
        done = run_cli("hook", "before-tool", "--vault", root, stdin=given, cwd=code)
        assert (done.code, done.out, done.err) == (0, "", "")


def test_a_subagent_gets_what_is_pinned_and_a_compaction_forgets_what_was_shown(
    shop: tuple[Path, Path], run_cli: RunCli
) -> None:
    root, code = shop
    (root / "MEMORY.md").write_text("# Memory\n\nThe ferry leaves at noon.\n")
    assert "ferry" in run_hook(run_cli, root, "subagent-start", code, "s-1", agent_type="Explore")
    call = _edit(code / "src/limit.py")
    assert run_hook(run_cli, root, "before-tool", code, "s-1", **call)
    assert run_hook(run_cli, root, "post-compact", code, "s-1") == ""
    assert LIMITS in run_hook(run_cli, root, "before-tool", code, "s-1", **call)


# A campaign: 200 edits and commands, half of them with a known history. They are replayed from
# transcripts, as their clients send them.

_PROGRAMS = ("npm", "cargo", "docker", "terraform", "make", "kubectl", "flyctl", "alembic")
_VERBS = ("deploy", "migrate", "release", "build", "upgrade", "rollback", "sync", "seed")
_PLACES = ("src", "src/api", "lib/billing", "web/pages", "jobs")
_NAMES = ("limit", "refund", "queue", "index", "client", "report", "schema", "mailer")


def _revert(file: str, word: str) -> list[Move]:
    return [
        Move("edit", f"{word} = 4", path=file, old="x = 3"),
        Move("run", "1 failed", "pytest -q", exit=1),
        Move("edit", "x = 3", path=file, old=f"{word} = 4"),
        Move("run", "9 passed", "pytest -q"),
    ]


class _History:
    """A project with a past about half of its files and commands, and one with the same files.

    The past are notes, and sessions of each client with failures and dead ends.
    """

    def __init__(self, root: Path, folder: Path, run_cli: RunCli) -> None:
        chance = random.Random(45)
        self.root, self.run = root, run_cli
        self.code, self.other = make_repository(folder / "shop"), make_repository(folder / "other")
        files = [f"{place}/{name}.py" for place in _PLACES for name in _NAMES]
        commands = [f"{program} {verb}" for program in _PROGRAMS for verb in _VERBS]
        for base in (self.code, self.other):
            for file in files:
                (base / file).parent.mkdir(parents=True, exist_ok=True)
                (base / file).write_text(f"# {file}\n")
            run_git(base, "add", ".")
            run_git(base, "commit", "-qm", "Add the files")
        chance.shuffle(files)
        chance.shuffle(commands)
        self.known_files, self.other_files = files[:20], files[20:]
        self.known_commands, self.other_commands = commands[:30], commands[30:]
        self.words: dict[str, str] = {}
        self._write_notes()

    def _write_notes(self) -> None:
        """Write notes about a half, and have sessions in which the other half failed."""
        ends, failures = list[list[Move]](), list[Move]()
        for number, file in enumerate(self.known_files):
            word = self.words[file] = f"zebra{number}"
            if number % 4 == 0:
                self._add(f"Rule {word} holds in this place.", "decision", file)
            elif number % 4 == 1:
                self._add(f"Rule {word}: `{file}` stays as it is.", "decision")
            elif number % 4 == 2:
                failures.append(Move("run", f"FAILED {file}::{word}", f"pytest {file}", exit=1))
            else:
                ends.append(_revert(str(self.code / file), word))
        for number, command in enumerate(self.known_commands):
            word = self.words[command] = f"quagga{number}"
            if number % 4 == 0:
                self._add(f"Tried: {command} --fast\nFailed: {word} timed out.", "dead_end")
            elif number % 4 == 1:
                self._add(f"Before `{command}`, do {word} first.", "decision")
            elif number % 4 == 2 or "build" in command:
                failures.append(Move("run", f"error: {word} was refused", command, exit=1))
            else:
                failed = Move("run", f"error: {word} was refused", f"{command} --fast", exit=1)
                ends.append([failed, Move("run", "done", f"{command} --slow")])
        for number in range(20):  # What is about no file and no command here.
            self._add(
                f"The {number}th meeting chose a make of chair and to build trust.", "decision"
            )
        for number in range(0, len(ends), 3):  # So many are proposed of a session.
            moves = [move for each in ends[number : number + 3] for move in each]
            self._work(f"past-{number}", CLIENTS[number // 3 % 4], moves)
        self._work("past-last", "claude", failures)

    def _work(self, session: str, client: str, moves: list[Move]) -> None:
        run_hook(self.run, self.root, "session-start", self.code, session, source="startup")
        log = write_log(self.code.parent / "logs", client, session, moves, 1, str(self.code))
        given = {"transcript_path": str(log)}
        run_hook(self.run, self.root, "session-end", self.code, session, **given)

    def _add(self, text: str, kind: str, cite: str = "") -> None:
        _remember(self.run, self.root, self.code, text, kind, cite)

    def list_sessions(self) -> Iterator[tuple[str, Path, list[tuple[Move, str]]]]:
        """Yield 200 edits and commands, each with the word that has to be shown, "" for silence.

        They are in sessions of Claude Code and of Codex, which follow each other in a folder: what
        is known of a file or command is done once in a session of each.
        """
        code, other, words = self.code, self.other, self.words
        edited = [*self.known_files, *self.known_files, *self.other_files]
        calls = [(code, _make_edit(code / file), words.get(file, "")) for file in edited]
        ran = [(command, words[command]) for command in self.known_commands]
        ran += [(f"cd web && {each} --now 2>&1 | tail -5", word) for each, word in ran]
        ran += [(command, "") for command in self.other_commands]
        ran += [(f"cat {file}", "") for file in self.known_files[:10]]
        calls += [(code, Move("run", "done", command), word) for command, word in ran]
        calls += [(other, _make_edit(other / file), "") for file in self.known_files]
        calls += [(other, Move("run", "done", each), "") for each in self.known_commands[:16]]
        assert len(calls) == 200
        groups: dict[tuple[str, Path, int], list[tuple[Move, str]]] = {}
        counts: dict[tuple[Path, str], int] = {}
        for number, (folder, move, word) in enumerate(calls):
            times = counts[folder, word] = counts.get((folder, word), -1) + 1
            client = HOOKED[(times if word else number) % 2]
            groups.setdefault((client, folder, number % 5), []).append((move, word))
        for (client, folder, _), moves in groups.items():
            yield client, folder, moves


#: The clients that run a hook before a tool call.
HOOKED = ("claude", "codex")


def _make_edit(file: Path) -> Move:
    return Move("edit", "x = 4", path=str(file), old="x = 3")


@pytest.mark.campaign
def test_of_200_replayed_calls_the_hook_shows_the_relevant_notes_alone(
    make_vault: Make, tmp_path: Path, run_cli: RunCli
) -> None:
    root = make_vault()
    history = _History(root, tmp_path / "code", run_cli)
    shown, silent, wrong = 0, 0, []
    with watch_process(root):
        wait_until(lambda: ask(root, vaultmem.__version__, ["settle"]))
        for number, (client, folder, moves) in enumerate(history.list_sessions()):
            session = str(uuid5(NAMESPACE_OID, str(number)))
            around = [Move("user", "Go on."), *(move for move, _ in moves), Move("assistant", "Ok")]
            log = write_log(tmp_path / "logs", client, session, around, 2, str(folder))
            begun = {"source": "startup", "transcript_path": str(log)}
            run_hook(run_cli, root, "session-start", folder, session, **begun)
            calls = list_hook_calls(client, log)
            for call, (_, word) in zip(calls, moves, strict=True):
                told = run_hook(run_cli, root, "before-tool", folder, session, **call)
                assert count_tokens(told) <= 60
                is_right = word in told if word else not told
                shown += bool(word) and is_right
                silent += not word and is_right
                wrong += [] if is_right else [(client, call["tool_input"], word, told)]
    print(f"shown {shown} of 100, silent {silent} of 100", *wrong, sep="\n")
    assert shown >= 90
    assert silent >= 99
