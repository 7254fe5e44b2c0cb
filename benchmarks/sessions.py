"""Time commands on sessions as whole processes, in turns with `vaultmem list` and an empty Python.

    python benchmarks/sessions.py                     # 2,000 made-up sessions
    python benchmarks/sessions.py --sessions 10000 --repeats 9

Each session has a summary, decisions, details, questions and touched files, and continues the one
before it or was forked from an earlier one. The notes are the same each time.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from generate import SEED
from measure import find_command, isolate, run_command, time_in_turns
from words import FUNCTION_WORDS, make_vocabulary

_WORDS = 6_000


def generate_sessions(folder: Path, count: int, seed: int = SEED) -> None:
    """Write `count` sessions as notes."""
    chance = random.Random(seed)
    words = make_vocabulary(_WORDS, seed)[len(FUNCTION_WORDS) :]
    (folder / "sessions").mkdir(parents=True, exist_ok=True)
    for number in range(count):
        text = _write_session(number, words, chance)
        (folder / f"sessions/s-{number:05}.md").write_text(text, encoding="utf-8")


def _write_session(number: int, words: list[str], chance: random.Random) -> str:
    def sentence(length: int) -> str:
        return " ".join(chance.choices(words, k=length)).capitalize()

    def items(times: int, length: int) -> str:
        return "".join(f"- {sentence(length)}.\n" for _ in range(times))

    edge = ""
    if number and chance.random() < 0.9:
        edge = f'continues:\n  - "[[s-{number - 1:05}]]"\n'
    elif number:
        edge = f'forked_from: "[[s-{chance.randrange(number):05}]]"\n'
    touched = "".join(f'  - "src/{chance.choice(words)}.py@0f7bc76"\n' for _ in range(4))
    status = chance.choice(("ok", "ok", "ok", "error", "canceled"))
    day = f"2026-{number // 170 % 12 + 1:02}-{number // 6 % 28 + 1:02}"
    return (
        f"---\nkind: episodic_trace\nagent: claude\nsession: s-{number:05}\nstatus: {status}\n"
        f"started: {day}T{number % 6 + 9:02}:00:00\nended: {day}T{number % 6 + 9:02}:55:00\n"
        f"goal: {sentence(6)}\n{edge}touched:\n{touched}---\n# {sentence(6)}\n\n"
        f"## Summary\n\n{sentence(40)}.\n\n## Decisions\n\n"
        f"- [[{chance.choice(words)}]]: {sentence(10)}\n\n"
        f"## Details\n\n{items(4, 25)}\n## Open questions\n\n{items(2, 9)}"
    )


def main() -> None:
    """Make a vault, time the commands in turns, and print a table."""
    parser = argparse.ArgumentParser(description="Time commands on sessions.")
    parser.add_argument("--sessions", type=int, default=2_000, metavar="N")
    parser.add_argument("--repeats", type=int, default=15, metavar="N")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        isolate(Path(scratch))
        vault = Path(scratch) / "vault"
        ours = [*find_command()]
        run_command([*ours, "init", vault])
        generate_sessions(vault, given.sessions)
        subprocess.run(["git", "add", "-A"], cwd=vault, check=True)
        subprocess.run(["git", "commit", "-qm", "sessions"], cwd=vault, check=True)
        run_command([*ours, "index", "--vault", vault])
        _print_table(_measure([*ours], vault, given), given)


def _measure(ours: list[str | Path], vault: Path, given: argparse.Namespace) -> dict[str, float]:
    last = f"s-{given.sessions - 1:05}"
    words = make_vocabulary(_WORDS, SEED)[len(FUNCTION_WORDS) :][200:203]
    commands: dict[str, list[str | Path]] = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "vaultmem --version": [*ours, "--version"],
        "vaultmem list": [*ours, "list", "--vault", vault],
        "session search": [*ours, "session", "search", "--vault", vault, *words],
        "session chain --depth 50": [
            *(*ours, "session", "chain", "--vault", vault, last, "--depth", "50"),
        ],
        "session list": [*ours, "session", "list", "--vault", vault],
        "session stats": [*ours, "session", "stats", "--vault", vault],
        "session restore": [*ours, "session", "restore", "--vault", vault, last],
    }
    for command in commands.values():
        run_command(command)
    taken = time_in_turns(
        [lambda command=command: run_command(command) for command in commands.values()],
        given.repeats,
    )
    # The quickest run is what the command takes; everything above it is the machine.
    found = {name: min(each) for name, each in zip(commands, taken, strict=True)}
    found |= {
        f"{name} (median)": sorted(each)[len(each) // 2]
        for name, each in zip(commands, taken, strict=True)
    }
    return found


def _print_table(found: dict[str, float], given: argparse.Namespace) -> None:
    base = found["vaultmem list"]
    print(f"{given.sessions:,} sessions, {given.repeats} runs each, whole processes, in turns")
    print(f"{'command':<28}{'quickest':>10}{'median':>10}{'beside vaultmem list':>22}")
    for name, seconds in found.items():
        if not name.endswith(" (median)"):
            middle = found[f"{name} (median)"]
            print(f"{name:<28}{seconds:>8.3f} s{middle:>8.3f} s{seconds / base:>22.2f}")


if __name__ == "__main__":
    main()
