"""A watcher's answers are those of a process of one's own, or none; only the time differs."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import Make, Open, Result, RunCli
from support import git, wait_until, write_notes
from watchers import ask, find_socket, stopped, watch_process

import vaultmem
from vaultmem.cli.start import make_words
from vaultmem.services.watching.lease import catch_up
from vaultmem.storage.user_files import find_user_folder
from vaultmem.storage.watch_socket import short_path, socket_path
from vaultmem.vault import open_vault

COLD = {"VAULTMEM_NO_WATCHER": "1"}

NOTES = {
    "notes/gangway.md": (
        "---\nkind: decision\ntags: [deck, deck/aft]\nconfidence: 0.5\n---\n"
        "# Gangway\n\nIt is blue.\n\n## Why\n\nTide and [[old]].\n"
    ),
    "notes/渡し船.md": "# 渡し船\n\n渡し船は朝七時に出る。\n",
    "notes/old.md": "---\nstate: archived\n---\n# Old\n\nThe gangway was red.\n",
    "notes/latin.md": b"# Latin\n\n\xe9\n",
    "notes/broken.md": "---\ntags: [a\nkind: nonsense\n---\n# Broken\n\nbell\n",
    "notes/pinned.md": "---\npinned: true\n---\n# Pinned\n\nRing the bell \x1b[31m now.\n",
    "notes/long.md": "# Long\n\n" + "The gangway is long and blue. " * 200 + "\n",
    "inbox/a b.md": "# A b\n\n![[gangway]] and tide\n",
}

WORDS = ["gangway", "tide", "渡し船", "bell", "red", "", "x" * 1200, "a\nb", "nothing9", "-", "é"]
ADDRESSES = [
    *("gangway", "notes/gangway.md#Why", "nope", "../x", "latin", "渡し船", ".git/config"),
    *(
        "old",
        "a b",
        "inbox/a b.md",
        "notes/gangway.md#Nope",
        "/etc/passwd",
        "",
        "broken",
        "GANGWAY",
    ),
]
OPTIONS = [
    *(["--json"], ["--json"], ["-n", "2"], ["-n", "0"], ["-n", "-3"], ["-n", "x"], ["--limit=1"]),
    *(["--explain"], ["--kind", "decision"], ["--kind", "nope"], ["--state", "archived"]),
    *(["--state", "stale", "--state", "active"], ["--tag", "deck"], ["--tag", "deck/"], ["--tag"]),
    *(["--context", "inbox"], ["--include-archived"], ["--at", "HEAD"], ["--at", "2001-01-01"]),
    *(["--at", "-x"], ["--at", "nowhere"], ["--ref", "side"], ["--ref", "v1"], ["--ref", "no"]),
    *(["--include-refs", "side"], ["--include-refs", "side,no"], ["--budget", "200"]),
    *(["--budget", "99"], ["--budget", "x"], ["--no-such"], ["--pinned"], ["--no-receipt"]),
    *(["--agent", "claude", "--no-receipt"], ["--vault", "."], ["--vault", "nope"], ["--help"]),
    *(["-h"], ["--"], ["--raw"], ["--properties"], ["--session", "s"], ["--vault"]),
]
HISTORY = ["history", "blame", "show", "diff"]
OTHERS = [
    *("trace", "similar", "log", "queries", "stats", "task list", "task show"),
    *("session list", "session show", "session search", "session stats"),
]
BEFORE = [[], [], [], [], ["--ref", "side"], ["--agent", "a"], ["--vault", "."], ["--nope"]]


def make_line(chance: random.Random) -> list[str]:
    """Return a command line: a good one mostly, with what people and agents get wrong."""
    command = chance.choice(["recall", "recall", "pack", "pack", "show", "list", *HISTORY, *OTHERS])
    line = [*chance.choice(BEFORE), *command.split()]
    for option in chance.sample(OPTIONS, chance.choice([0, 0, 1, 1, 2, 3])):
        line += option
    if command == "get" or command in HISTORY:
        line += chance.sample(ADDRESSES, chance.choice([0, 1, 1, 1, 2]))
    elif command != "list" or chance.random() < 0.1:
        line += chance.sample(WORDS, chance.choice([0, 1, 1, 2]))
    return line


@pytest.fixture
def watched_root(make_vault: Make, home: Path) -> Iterator[Path]:
    """Give a vault with a watcher."""
    root = make_vault(NOTES)
    git(root, "tag", "v1")
    git(root, "branch", "side")
    write_notes(root, {"notes/late.md": "# Late\n\nA gangway, late.\n"})
    with watch_process(root):
        wait_until(lambda: ask(root, vaultmem.__version__, ["settle"]))
        yield root


@pytest.mark.parametrize(
    "lines",
    [pytest.param(25, marks=pytest.mark.campaign), pytest.param(200, marks=pytest.mark.long)],
)
def test_answers_are_those_of_a_process_of_its_own(
    watched_root: Path, run_cli: RunCli, lines: int
) -> None:
    chance = random.Random(11)
    made = [(make_line(chance), chance.choice(["", "notes", "inbox"])) for _ in range(lines)]
    made.append((["show", "../inbox/a b.md"], "notes"))
    made.append((["list", "--path", "g*"], "notes"))

    def ask(made: tuple[list[str], str]) -> tuple[Result, Result]:
        line, folder = made
        env = {"VAULTMEM_RECEIPTS": ""}
        warm = run_cli(*line, cwd=watched_root / folder, env=env)
        return warm, run_cli(*line, cwd=watched_root / folder, env={**env, **COLD})

    with ThreadPoolExecutor(2) as pool:
        for line, (warm, cold) in zip(made, pool.map(ask, made), strict=True):
            assert (warm.out, warm.err, warm.code) == (cold.out, cold.err, cold.code), line


def exchange(path: str, question: bytes) -> bytes:
    """Return the whole answer to some bytes, with one sign of life if there was any."""
    with short_path(path) as short, socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(20)
        connection.connect(short)
        connection.sendall(question)
        with connection.makefile("rb") as answer:
            told = answer.read()
        return told[:1] + told.lstrip(b"\n") if told.startswith(b"\n") else told


def make_question(root: Path, words: list[str], version: str = vaultmem.__version__) -> bytes:
    question = "\0".join([version, str(root), *words]).encode()
    return b"%d\n%s" % (len(question), question)


@pytest.mark.campaign
def test_only_good_questions_get_an_answer(watched_root: Path) -> None:
    path = find_socket(watched_root)
    good = make_words(["recall", "gangway"])
    bad = [b"x\n", b"\n", b"0\n", b"-1\n", b"4\n\0\0\0\0", b"70000\n", b"9" * 20]
    bad += [
        make_question(watched_root.parent, good),
        make_question(watched_root, good, "0.0.0"),
        make_question(watched_root, []),
        make_question(watched_root, good[:5]),
        make_question(watched_root, ["walk", *good[1:]]),
        make_question(watched_root, [*good[:4], "elsewhere", *good[5:]]),
        make_question(watched_root, [*good[:-3], "7", *good[-2:]]),
        make_question(watched_root, [*good[:-3], "x", *good[-2:]]),
    ]
    for line in (["--help"], ["--no-such"], ["remember", "x"], ["--version", "recall"], []):
        bad.append(make_question(watched_root, make_words(line)))
    for line in (["recall", "--help"], ["recall", "x", "-h"], ["recall", "--no-such"], ["recall"]):
        bad.append(make_question(watched_root, make_words(line)))
    for question in bad:
        assert exchange(path, question) == b"\n-\n", question[:200]
    answer = exchange(path, make_question(watched_root, good))
    assert answer.startswith(b"\n0 ")
    assert b"Gangway" in answer
    assert oct(os.stat(path).st_mode & 0o777) == "0o600"


@pytest.mark.campaign
def test_callers_that_are_slow_or_many_are_in_nobodys_way(
    watched_root: Path, run_cli: RunCli
) -> None:
    path = find_socket(watched_root)
    silent = []
    for _ in range(3):
        silent.append(socket.socket(socket.AF_UNIX))
        with short_path(path) as short:
            silent[-1].connect(short)
    with ThreadPoolExecutor(8) as pool:
        question = make_question(watched_root, make_words(["recall", "gangway"]))
        answers = set(pool.map(lambda _: exchange(path, question), range(40)))
    assert len(answers - {b"\n-\n", b""}) == 1
    assert "Gangway" in run_cli("recall", "gangway", cwd=watched_root).out
    for each in silent:
        each.close()


@pytest.mark.campaign
def test_a_caller_that_asks_a_byte_at_a_time_is_in_nobodys_way(watched_root: Path) -> None:
    path = find_socket(watched_root)
    question = make_question(watched_root, make_words(["recall", "gangway"]))
    over = threading.Event()

    def trickle() -> None:
        with short_path(path) as short, socket.socket(socket.AF_UNIX) as connection:
            connection.connect(short)
            with contextlib.suppress(OSError):
                for byte in question:
                    connection.send(bytes([byte]))
                    if over.wait(0.5):
                        return

    def swallow() -> None:
        with short_path(path) as short, socket.socket(socket.AF_UNIX) as connection:
            connection.connect(short)
            connection.send(question)
            over.wait()

    callers = [threading.Thread(target=each) for each in (trickle, trickle, swallow)]
    for each in callers:
        each.start()
    try:
        started = time.monotonic()
        for _ in range(5):
            assert exchange(path, question).startswith((b"\n0 ", b"\n-"))
        assert b"Gangway" in exchange(path, question)
        assert time.monotonic() - started < 5
    finally:
        over.set()
        for each in callers:
            each.join()


@pytest.mark.campaign
def test_a_caller_whose_turn_does_not_come_runs_the_command_by_itself(
    watched_root: Path, run_cli: RunCli
) -> None:
    path = find_socket(watched_root)
    with stopped(watched_root):
        write_notes(watched_root, {"notes/unseen.md": "# Unseen\n\nquagga\n"})
        slow = make_question(watched_root, ["settle"])
        with ThreadPoolExecutor(3) as pool:
            told = set(pool.map(lambda _: exchange(path, slow), range(3)))
    assert told == {b"\n-\n"}
    assert "quagga" in run_cli("recall", "quagga", cwd=watched_root).out


@pytest.mark.campaign
def test_asking_loads_none_of_the_heavy_libraries(watched_root: Path) -> None:
    program = (
        "import sys; sys.argv = ['vaultmem', 'recall', 'gangway']\n"
        "from vaultmem.cli.start import main\n"
        "try: main()\n"
        "except SystemExit as end: print(end.code)\n"
        "heavy = {'typer', 'click', 'whoosh', 'numpy', 'git', 'yaml', 'sqlite3', 'platformdirs'}\n"
        "heavy |= {'json', 'socket', 'hashlib', 'typing', 're', 'enum', 'argparse', 'pathlib'}\n"
        "print('heavy:', sorted(heavy & sys.modules.keys()))\n"
    )

    def is_light() -> bool:
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=watched_root,
            capture_output=True,
            text=True,
            check=True,
        )
        assert "Gangway" in done.stdout
        return done.stdout.endswith("0\nheavy: []\n")

    wait_until(is_light)  # A watcher that starves answers nobody in time.


@pytest.mark.campaign
def test_a_save_is_found_by_the_very_next_command(watched_root: Path, run_cli: RunCli) -> None:
    for number in range(2):
        done = run_cli("remember", f"okapi{number} on deck", "--json", cwd=watched_root).json
        seen = run_cli("recall", f"okapi{number}", "--json", cwd=watched_root).json
        assert [hit["path"] for hit in seen["hits"]] == [done["path"]]
        write_notes(watched_root, {f"f{number}/late.md": f"# Late\n\nquagga{number}\n"})
        seen = run_cli("recall", f"quagga{number}", "--json", cwd=watched_root).json
        assert [hit["path"] for hit in seen["hits"]] == [f"f{number}/late.md"]
    git(watched_root, "commit", "-q", "--allow-empty", "-m", "mine")
    head = git(watched_root, "rev-parse", "--short=7", "HEAD")
    assert f"main@{head}" in run_cli("pack", "gangway", cwd=watched_root).out


@pytest.mark.campaign
def test_what_the_caller_has_set_counts(watched_root: Path, run_cli: RunCli) -> None:
    for env in (
        {"VAULTMEM_REF": "side"},
        {"VAULTMEM_VAULT": "nope"},
        {"TZ": "Asia/Tokyo"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "latin-1:replace"},
        {"HOME": "/", "XDG_CONFIG_HOME": "/nowhere"},
    ):
        line = ["recall", "gangway late 渡し船"]
        warm, cold = (run_raw(watched_root, line, {**env, **more}) for more in ({}, COLD))
        assert warm == cold, env


def run_raw(root: Path, line: list[str], env: dict[str, str]) -> tuple[int, bytes, bytes]:
    """Run a command and return its very bytes."""
    command = [sys.executable, "-m", "vaultmem", *line]
    done = subprocess.run(
        command, cwd=root, env={**os.environ, **env}, capture_output=True, check=False
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.campaign
@pytest.mark.skipif(os.name != "posix", reason="there are no such terminals")
def test_a_terminal_gets_what_a_terminal_gets(watched_root: Path) -> None:
    asked = ["recall", "gangway bell"]
    for line, plain, terminal in (
        (asked, "", "xterm"),
        (asked, "1", "xterm"),
        (asked, "", "dumb"),
        (["recall", "bell", "--json"], "", "xterm"),
    ):
        env = {"NO_COLOR": plain, "TERM": terminal}
        warm, cold = (run_on_terminal(watched_root, line, {**env, **m}) for m in ({}, COLD))
        assert warm == cold, (line, env)
        assert (b"\x1b[" in warm) == (line == asked and not plain and terminal != "dumb")


def run_on_terminal(root: Path, line: list[str], env: dict[str, str]) -> bytes:
    """Return what a command writes to a terminal."""
    import pty

    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "vaultmem", *line]
    with subprocess.Popen(command, cwd=root, env={**os.environ, **env}, stdout=theirs) as process:
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # That is how a terminal ends.
            while part := os.read(ours, 65_536):
                shown += part
        os.close(ours)
    assert process.returncode == 0
    return shown


@contextmanager
def answering(root: Path, answer: bytes, hold: float = 0) -> Iterator[None]:
    """Stand in for a watcher that answers everybody with the same bytes, and hangs up."""
    path = find_socket(root)
    Path(path).unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as listener:
        with short_path(path) as short:
            listener.bind(short)
        listener.listen()

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    connection.sendall(answer)
                    connection.recv(65_536)
                    time.sleep(hold)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            Path(path).unlink()


@pytest.mark.campaign
def test_an_answer_that_is_none_costs_nothing_but_time(make_vault: Make, run_cli: RunCli) -> None:
    root = make_vault(NOTES)
    expected = run_cli("recall", "gangway", cwd=root)
    half = b"\n0 100 0\nhalf"
    with answering(root, half):
        assert run_cli("recall", "gangway", cwd=root) == expected
    for answer in (
        b"",
        b"\n",
        b"x",
        b"\n0",
        half,
        b"\n0 -4 8\nhalf",
        b"\n0 4\nhalf",
        b"\n0 4 x\nhalf",
        b"\n0 4000000000 0\nhalf",
        b"\n\n",
        b"\n" + b"9" * 3_000,
        b"\n-\n",
    ):
        with answering(root, answer):
            assert ask(root, "", []) is None, answer
    with answering(root, b"\n3 4 2\nhalf!?"):
        assert ask(root, "", []) == (3, b"half", b"!?")


def has_socket(process: int) -> bool:
    """Tell whether a process has begun to ask; where that cannot be told, say so."""
    fds = Path(f"/proc/{process}/fd")
    try:
        return not fds.exists() or any("socket" in os.readlink(fd) for fd in fds.iterdir())
    except OSError:  # One of them was closed meanwhile.
        return False


@pytest.mark.campaign
@pytest.mark.parametrize("how", ["killed", "stopped", "killed in the midst"])
def test_a_watcher_that_is_gone_or_hangs_costs_nothing_but_time(
    watched_root: Path, run_cli: RunCli, opened: Open, how: str
) -> None:
    expected = run_cli("recall", "gangway", cwd=watched_root)
    pid = run_cli("watch", "--status", "--json", cwd=watched_root).json["watcher"]["pid"]
    if how == "killed":
        os.kill(pid, signal.SIGKILL)
        assert run_cli("recall", "gangway", cwd=watched_root) == expected
        with watch_process(watched_root):
            wait_until(lambda: run_cli("watch", "--status", cwd=watched_root).code == 0)
            assert run_cli("recall", "gangway", cwd=watched_root) == expected
        return
    os.kill(pid, signal.SIGSTOP)
    command = [sys.executable, "-m", "vaultmem", "recall", "gangway"]
    with subprocess.Popen(command, cwd=watched_root, stdout=subprocess.PIPE, text=True) as asking:
        if how == "killed in the midst":
            wait_until(lambda: has_socket(asking.pid))
            os.kill(pid, signal.SIGKILL)
        assert asking.communicate(timeout=30)[0] == expected.out
    write_notes(watched_root, {"notes/unseen.md": "# Unseen\n\nquagga\n"})
    vault = opened(watched_root)
    catch_up(vault)  # Nobody says that the index is right, so it looks itself.
    assert "notes/unseen.md" in vault.view.blobs()


@pytest.mark.campaign
def test_a_library_asks_a_live_watcher_instead_of_looking(watched_root: Path, opened: Open) -> None:
    looks: list[str] = []

    def audit(event: str, arguments: tuple[object, ...]) -> None:
        opened_or_listed = event in {"open", "os.scandir"} and looking
        if opened_or_listed and str(arguments[0]) == str(watched_root):
            looks.append(str(arguments[0]))

    looking = True
    sys.addaudithook(audit)
    vault = opened(watched_root)
    write_notes(watched_root, {"notes/new.md": "# New\n\nquagga\n"})
    catch_up(vault)
    assert looks == []
    assert "notes/new.md" in vault.view.blobs()
    Path(find_socket(watched_root)).unlink()
    catch_up(vault)
    looking = False
    assert str(watched_root) in looks


def test_socket_is_where_the_vault_has_its_state(make_vault: Make) -> None:
    vault = open_vault(make_vault())
    state_home = find_user_folder("state", os.environ)
    assert socket_path(str(vault.root), state_home) == str(vault.state_folder / "watch.sock")
    vault.close()
