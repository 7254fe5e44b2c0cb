"""Search in transcripts: what was said, run and touched is found, and credentials are masked."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Make, Open
from in_process import run_here
from made_transcripts import CLIENTS, Move, make_sessions, write_log
from serving import call, play
from support import write_notes

from vaultmem.core.sessions.turns import Turn
from vaultmem.services.exchange.run_import import import_kind
from vaultmem.services.sessions.search_turns import TurnQuery, read_turns, search_turns
from vaultmem.services.sessions.windows import add_turns
from vaultmem.vault import Vault

Found = list[tuple[str, int, str]]

MOVES = [
    Move("user", "Why does the slip cut the name of the ferry?"),
    Move("assistant", "The printer has 42 columns; I look at the template."),
    Move("run", "1 failed: test_slip", command="make test-slip", exit=2),
    Move("edit", "width = 42", path="/work/app/web/slip.svelte"),
    Move("run", "9 passed", command="make test-slip"),
    Move("assistant", "The slip wraps long names now."),
]


@pytest.fixture
def vault(make_vault: Make, opened: Open) -> Vault:
    return opened(make_vault({"notes/pier.md": "The pier is of oak.\n"}), agent="claude")


def take(vault: Vault, *files: Path) -> None:
    import_kind(vault, "transcripts", [str(file) for file in files])


def find(vault: Vault, words: str = "", **wanted: str | float) -> Found:
    found = search_turns(vault, TurnQuery(words, **wanted))  # type: ignore[arg-type]
    return [(each.session, each.number, each.turn.text) for each in found]


@pytest.mark.parametrize("client", CLIENTS)
def test_each_clients_turns_are_found_by_words_file_and_command(
    vault: Vault, tmp_path: Path, client: str
) -> None:
    take(vault, write_log(tmp_path / "logs", client, "day-1", MOVES, day=3))

    assert find(vault, "name of the ferry")[0] == ("day-1", 1, MOVES[0].text)
    assert find(vault, "wrapping names")[0][2] == MOVES[-1].text
    assert [number for _, number, _ in find(vault, command="TEST-slip")] == [7, 3]
    for file in ("web/slip.svelte", "slip.svelte", "/work/app/web/slip.svelte", "web", "app/web/"):
        assert [number for _, number, _ in find(vault, file=file)] == [5], file
    assert find(vault, file="lip.svelte") == []
    assert find(vault, "printer", file="slip.svelte") == []
    turns = [each.turn for each in read_turns(vault, "day-1")]
    assert [(each.role, each.failed) for each in turns] == [
        *(("user", False), ("assistant", False)),
        *(("tool", False), ("result", True), ("tool", False), ("result", False)),
        *(("tool", False), ("result", False), ("assistant", False)),
    ]
    assert (turns[2].command, turns[4].files) == ("make test-slip", ("/work/app/web/slip.svelte",))
    (failed,) = read_turns(vault, "day-1", failed=True)
    assert (failed.number, "1 failed: test_slip" in failed.turn.text) == (4, True)
    assert [each.number for each in read_turns(vault, "day-1", 5, 2)] == [5, 6]


def test_turns_are_found_by_day(vault: Vault, tmp_path: Path) -> None:
    logs = [
        write_log(tmp_path / "logs", "claude", f"day-{day}", [Move("user", "Oak or elm?")], day)
        for day in range(4)
    ]
    take(vault, *logs)

    def on(*days: str) -> set[str]:
        words = ["session", "search", "oak", "--json", *days]
        done = run_here(*words, cwd=vault.root)
        assert done.code == 0, done.err
        return {each["session"] for each in done.json["turns"]}

    assert on() == {"day-0", "day-1", "day-2", "day-3"}
    assert on("--since", "2026-11-03") == {"day-2", "day-3"}
    assert on("--until", "2026-11-02") == {"day-0", "day-1"}
    assert on("--since", "2026-11-02", "--until", "2026-11-02") == {"day-1"}
    assert run_here("session", "search", "--since", "soon", cwd=vault.root).code == 5
    done = run_here("session", "search", cwd=vault.root)
    assert (done.code, "nothing to look for" in done.err) == (5, True)


def lose_database(vault: Vault) -> None:
    vault.close()
    for file in vault.state_folder.glob("state*"):
        file.unlink()


def lose_tables(vault: Vault) -> None:
    with sqlite3.connect(vault.state.path) as connection:
        for table in ("turn_marks_1", "turn_lines_1", "turn_terms_1"):
            connection.execute(f"DROP TABLE {table}")


def stay(_: Vault) -> None:
    """Lose nothing."""


@pytest.mark.parametrize("lose", [lose_database, lose_tables, stay])
def test_a_missing_index_is_made_of_the_transcripts(
    vault: Vault, tmp_path: Path, opened: Open, lose: Callable[[Vault], None]
) -> None:
    take(vault, write_log(tmp_path / "logs", "claude", "day-1", MOVES, day=1))
    before = find(vault, "slip names printer")
    assert before

    lose(vault)

    assert run_here("session", "search", "slip names printer", cwd=vault.root).code == 0
    assert find(opened(vault.root), "slip names printer") == before


def test_turns_that_are_added_dropped_or_removed_are_found_only_while_they_are_there(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault({})
    (root / "vaultmem.yaml").write_text("transcript_max_mb: 1\n")
    vault = opened(root, agent="claude")
    run_here("session", "start", "--id", "s-1", cwd=root)
    add_turns(vault, "s-1", [Turn("user", "The first word is quay.")])
    assert [number for _, number, _ in find(vault, "quay")] == [1]

    add_turns(vault, "s-1", [Turn("user", "The second word is quay too.")])
    assert {number for _, number, _ in find(vault, "quay")} == {1, 2}

    filler = "tar and hemp " * 1_000
    add_turns(vault, "s-1", [Turn("user", filler) for _ in range(100)])
    assert find(vault, "quay") == []
    assert len(find(vault, "hemp")) == 10
    rows = vault.state.query("SELECT count(*), min(number) FROM turn_lines_1")
    assert rows[0][0] == 103 - rows[0][1]

    os.unlink(root / "transcripts/s-1.jsonl")
    assert find(vault, "hemp") == []
    assert vault.state.query("SELECT count(*) FROM turn_lines_1") == [(0,)]


def test_a_quarantined_sessions_turns_and_those_without_a_note_are_not_found(
    vault: Vault, tmp_path: Path
) -> None:
    take(vault, write_log(tmp_path / "logs", "claude", "day-1", MOVES, day=1))
    take(vault, write_log(tmp_path / "logs", "codex", "day-2", MOVES, day=2))
    note = (vault.root / "sessions/day-1.md").read_text()
    write_notes(
        vault.root, {"sessions/day-1.md": note.replace("---\n", "---\nstate: quarantined\n", 1)}
    )
    (vault.root / "sessions/day-2.md").unlink()

    done = run_here("session", "search", "printer", "--json", cwd=vault.root)

    assert done.json["turns"] == []


def test_a_word_that_was_only_said_is_found_in_its_session(vault: Vault, tmp_path: Path) -> None:
    said = [Move("user", "Tune the xylophone first.")]
    take(vault, write_log(tmp_path / "logs", "claude", "day-1", said, day=1))

    found = run_here("session", "search", "xylophone", cwd=vault.root)
    assert "day-1 1" in found.out
    assert "xylophone" in found.out


def test_turns_are_in_no_recall_and_no_pack(vault: Vault, tmp_path: Path) -> None:
    take(vault, write_log(tmp_path / "logs", "claude", "day-1", MOVES, day=1))

    for words in (("recall", "template columns"), ("pack", "template columns")):
        done = run_here(*words, cwd=vault.root)
        assert (done.code, "I look at the template" in done.out) == (0, False)


AWS, GITHUB = "AKIA" + "QYLPMN5HHHFPZAM2", "ghp_" + "x7Kd93Lq0ZpT5sVw2Yb8Rm4Nf6Hc1Jg9Ae3U"
SLACK = "xoxb-" + "123456789012-1234567890123-AbCdEfGhIjKlMnOpQrStUvWx"
SECRETS = (AWS, GITHUB, SLACK)

LEAKS = [
    Move("user", f"My harbour key is {AWS}, use it."),
    Move("assistant", f"I use the harbour token {GITHUB} then."),
    Move("run", f"harbour says {SLACK}", command=f"curl -H 'Authorization: {GITHUB}' harbour"),
    Move("edit", f"harbour = '{AWS}'", path="/work/app/harbour.py"),
    Move("run", f"harbour: bad {AWS}", command=f"echo {SLACK}", exit=1),
]


@pytest.mark.parametrize("client", CLIENTS)
def test_no_output_shows_a_credential(vault: Vault, tmp_path: Path, client: str) -> None:
    take(vault, write_log(tmp_path / "logs", client, "day-1", LEAKS, day=1))
    # What an older version, or a hand, wrote down as it was.
    file = vault.root / "transcripts/day-1.jsonl"
    row = json.loads(file.read_text().splitlines()[0])
    old = {**row, "number": 99, "text": f"harbour key {GITHUB}", "command": f"harbour {AWS}"}
    with file.open("a") as out:
        out.write(json.dumps(old) + "\n")

    async def scene(client: object) -> str:
        asked = {"action": "search", "query": "harbour key token says", "detail": True}
        return json.dumps(await call(client, "session", **asked))  # type: ignore[arg-type]

    shown = [play(vault.root, scene)]
    for words in (
        ("search", "harbour", "key", "token"),
        ("search", "--command", "harbour"),
        ("search", "--file", "/work/app"),
        ("turns", "day-1"),
        ("turns", "day-1", "--failed"),
    ):
        for more in ((), ("--json",)):
            done = run_here("session", *words, *more, cwd=vault.root)
            assert done.code == 0, done.err
            shown.append(done.out)
    assert "day-1" in shown[0]
    assert "***" in shown[-4]
    assert [each for each in SECRETS for text in shown if each in text] == []


def test_a_project_searches_its_own_sessions_and_global_ones(
    make_vault: Make, opened: Open, tmp_path: Path
) -> None:
    from projects_world import make_repository

    one, two = (make_repository(tmp_path / "code" / name, name) for name in ("ferry", "crane"))
    root = make_vault({})
    vault = opened(root)
    for session, folder in (("s-ferry", one), ("s-crane", two), ("s-global", tmp_path / "no")):
        take(vault, write_log(tmp_path / "logs", "claude", session, MOVES, 1, str(folder)))

    def search(folder: Path, *more: str) -> set[str]:
        words = ("session", "search", "printer", "--vault", root, "--json", *more)
        done = run_here(*words, cwd=folder)
        assert done.code == 0, done.err
        return {each["session"] for each in done.json["turns"]}

    assert search(one) == {"s-ferry", "s-global"}
    assert search(two) == {"s-crane", "s-global"}
    assert search(one, "--project", "all") == {"s-ferry", "s-crane", "s-global"}
    assert search(one, "--project", "crane") == {"s-crane", "s-global"}


@pytest.mark.campaign
@pytest.mark.parametrize("seed", [1, 2])
def test_of_two_hundred_questions_nine_tenths_are_answered_in_ten_turns(
    vault: Vault, tmp_path: Path, seed: int
) -> None:
    sessions, questions = make_sessions(seed, count=50, questions=200)
    for day, (client, session, moves) in enumerate(sessions):
        write_log(tmp_path / "logs", client, session, moves, day % 28)
    take(vault, tmp_path / "logs")

    right = sum(
        any(
            session == each.session and each.answer in read_whole(vault, session, number)
            for session, number, _ in find(vault, each.words)
        )
        for each in questions
    )

    print(f"{right} of {len(questions)} answers are among the first ten turns")
    assert right >= 0.9 * len(questions)


def read_whole(vault: Vault, session: str, number: int) -> str:
    """Return the text of a turn."""
    (found,) = read_turns(vault, session, number, 1)
    return found.turn.text


@pytest.mark.parametrize("client", CLIENTS)
def test_turns_are_made_again_of_their_logs(vault: Vault, tmp_path: Path, client: str) -> None:
    log = write_log(tmp_path / "logs", client, "day-1", MOVES, day=1)
    take(vault, log)
    file = vault.root / "transcripts/day-1.jsonl"
    good = file.read_text()
    # As an older version wrote it, and twice, as after the loss of the state.
    rows = [json.loads(line) for line in good.splitlines()]
    old = [
        {k: v for k, v in row.items() if k not in {"files", "command", "failed"}} for row in rows
    ]
    file.write_text("".join(json.dumps({**row, "text": "outdated"}) + "\n" for row in old * 2))
    words = ("import", "transcripts", str(log), "--again", "--json")

    assert run_here(*words, "--dry-run", cwd=vault.root).code == 0
    assert "outdated" in file.read_text()
    done = run_here(*words, cwd=vault.root)

    assert done.code == 0, done.err
    assert file.read_text() == good
    assert find(vault, "outdated") == []
    assert find(vault, command="make test-slip")
    again = run_here(*words, cwd=vault.root)
    assert (again.code, file.read_text()) == (0, good)
    with log.open("a") as out:
        said = next(each for each in log.read_text().splitlines() if MOVES[0].text in each)
        out.write(json.dumps(json.loads(said)) + "\n")
    assert run_here(*words, cwd=vault.root).code == 0
    assert len(file.read_text().splitlines()) == len(rows) + 1


def test_turns_that_no_log_has_are_not_lost(vault: Vault, tmp_path: Path) -> None:
    log = write_log(tmp_path / "logs", "claude", "day-1", MOVES, day=1)
    take(vault, log)
    add_turns(vault, "day-1", [Turn("user", "Elm is for planks.", "2026-11-20T10:00:00")])
    file = vault.root / "transcripts/day-1.jsonl"
    before = file.read_text()

    done = run_here("import", "transcripts", str(log), "--again", cwd=vault.root)

    assert "1 turn of it are not in" in done.out
    assert file.read_text() == before
    assert run_here("import", "mem0", str(log), "--again", cwd=vault.root).code == 2
