"""Commands of any kind at the same moment in one vault: each works, or says what is wrong."""

from __future__ import annotations

import random
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import Make, RunCli
from support import git

from vaultmem.vault import open_vault

AT_ONCE = 6
SESSION = ("--agent", "claude", "--session", "s-1", "session")

#: Commands as one writes them; `{a}` and `{b}` are notes that are there, or were just now.
COMMANDS = [
    *("recall things", "recall --at HEAD~1 things", "pack things", "list", "status", "index"),
    *(
        "show {a}",
        "links {a}",
        "links --to {a}",
        "links --orphans",
        "similar {a}",
        "trace things",
        "receipt",
    ),
    *("history {a}", "blame {a}", "log", "diff", "stats", "pin", "branch", "context"),
    *(
        "pin {a}",
        "pin --remove {a}",
        "tag {a} new",
        "promote {a}",
        "forget {a} --yes",
        "dedup",
        "curate",
    ),
    *("mv {a} notes/moved-{n}.md", "state {a} archived", "supersede {a} {b}", "compact", "dream"),
    *(
        "restore {a} --at HEAD~1",
        "state {a} quarantined --reason no",
        "checkpoint now",
        "merge side",
    ),
    "remember --branch side beside-{n}",
]
#: The exit codes of what was done, and of what was refused with a reason.
GOOD = {0, 4, 5, 6, 7}


def choose(chance: random.Random, root: Path, number: int) -> tuple[str, ...]:
    kind = chance.random()
    if kind < 0.2:
        return ("remember", f"Thing {number} is {chance.random()}.")
    if kind < 0.4:
        words = chance.choice(["start --id s-1", "note x", "decide y", "turn user z", "close"])
        return (*SESSION, *words.split())
    notes = sorted(str(file.relative_to(root)) for file in (root / "notes").rglob("*.md"))
    a, b = chance.choice(notes), chance.choice(notes)
    return tuple(word.format(a=a, b=b, n=number) for word in chance.choice(COMMANDS).split())


@pytest.mark.parametrize(
    ("rounds", "starts_fresh"),
    [
        (2, True),
        pytest.param(60, True, marks=pytest.mark.long),
        pytest.param(60, False, marks=pytest.mark.long),
    ],
)
def test_commands_at_once_end_as_each_would_alone(
    make_vault: Make, run_cli: RunCli, rounds: int, starts_fresh: bool
) -> None:
    root = make_vault({f"notes/n{number}.md": f"# Thing {number}\n" for number in range(12)})
    git(root, "commit", "-q", "--allow-empty", "-m", "empty")
    git(root, "branch", "side")
    vault = open_vault(root)
    vault.close()
    chance = random.Random(rounds)
    remembered = []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for number in range(0, rounds * AT_ONCE, AT_ONCE):
            if starts_fresh:
                shutil.rmtree(vault.state_folder)
            commands = [choose(chance, root, number + k) for k in range(AT_ONCE)]
            done = list(pool.map(lambda words: run_cli("--vault", root, *words), commands))
            for words, result in zip(commands, done, strict=True):
                assert result.code in GOOD, (words, result)
                if words[0] == "remember" and not result.code:
                    remembered.append(words[-1])

    run_cli("--vault", root, "checkpoint", "the end")
    told = git(root, "log", "--all", "-p", "-m")
    assert [text for text in remembered if text not in told] == []
    assert run_cli("--vault", root, "doctor").code == 0
    git(root, "fsck", "--strict")
