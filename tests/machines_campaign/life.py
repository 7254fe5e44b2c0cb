"""A run: machines are laid out, live through their rounds, come together, and are judged."""

from __future__ import annotations

import contextlib
import random
import signal
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from edits import Desk
from judge import judge
from laptop import Laptop, moved_away, refusing
from notes import make_note
from plan import NAMES, Round, Turn, plan_rounds
from ways import WAYS, Carried
from words import Oracle

#: Notes that there are before anybody begins; some wait for somebody to promote them.
NOTES = 24

TROUBLED = {"moved": moved_away, "refused": refusing}


class Life:
    """The machines of one run, and what is counted."""

    def __init__(self, folder: Path, count: int, way: str, is_resident: bool) -> None:
        self.carry, self.is_ours = WAYS[way], way in {"sync", "rebase"}
        self.is_resident = is_resident
        self.remote, self.oracle = folder / "remote.git", Oracle()
        self.laptops = [Laptop(folder, name, self.remote) for name in NAMES[:count]]
        self.desks = [Desk(each, self.oracle, self.is_ours) for each in self.laptops]
        self.counts = dict.fromkeys(("pulls", "kills", "cut", "stopped"), 0)
        self.told: list[str] = []
        self._troubles: list[str] = []  # Of the remote, just now.
        self._meddling = threading.Lock()
        self.states: list[tuple[str, str, str]] = []
        self._lay(folder / "seed")

    def _lay(self, seed: Path) -> None:
        """Make the first machine's vault, the remote, and clones of it for the others."""
        first = self.laptops[0]
        first.root.mkdir()
        assert not (done := first.vaultmem("init", ".")).code, done
        for number in range(NOTES):
            chance = random.Random(number)
            text = make_note(f"n{number:03}", "candidate" if number % 3 == 2 else "active", chance)
            path = first.root / f"notes/area-{number % 4}/berth-{number:02}.md"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            self.oracle.edit("", text, "the beginning")
        if self.is_resident:
            settings = first.root / "vaultmem.yaml"
            settings.write_text(settings.read_text() + "sync_remote: origin\nsync_every: 1m\n")
        for words in (("add", "-A"), ("commit", "-q", "-m", "the first notes")):
            first.git(*words)
        subprocess.run(
            ["git", "clone", "-q", "--bare", first.root, self.remote],
            env=first.env,
            check=True,
        )
        (self.remote / "hooks").mkdir(exist_ok=True)
        subprocess.run(["rm", "-rf", first.root], check=True)
        for laptop in self.laptops:
            laptop.clone()
            if self.is_ours:
                assert not (done := laptop.vaultmem("sync")).code, done

    def live(self, rounds: list[Round]) -> None:
        """Live through all rounds."""
        for each in rounds:
            if not each.together:
                for turn in each.turns:
                    self._work(turn)
                    self._talk(turn)
                continue
            for turn in each.turns:
                self._work(turn)
            with ThreadPoolExecutor(len(each.turns)) as pool:
                list(pool.map(self._talk, each.turns))

    def come_together(self) -> None:
        """Let each machine carry what it has twice, with nothing in its way."""
        for _ in range(2):
            for laptop in self.laptops:
                self._note(self.carry(laptop))
        for laptop in self.laptops:
            laptop.end_watching()

    def _work(self, turn: Turn) -> None:
        if self.is_resident:
            self.laptops[turn.machine].watch()
        for intent in turn.intents:
            try:
                self.desks[turn.machine].do(intent)
            except FileNotFoundError as error:  # A merge came between a look and a step.
                self.told.append(f"{intent}: {error}")

    def _talk(self, turn: Turn) -> None:
        if not turn.carries:
            return
        laptop, trouble, after = self.laptops[turn.machine], turn.trouble, 0.0
        if trouble == "kill":
            after = 0.02 + 1.2 * turn.moment**1.5
            if self.is_resident and turn.moment < 0.3:
                laptop.end_watching(signal.SIGKILL)
                self.counts["kills"] += 1
        with contextlib.ExitStack() as stack:
            if trouble in TROUBLED:
                if self._meddling.acquire(blocking=False):  # Another one may be at it.
                    stack.callback(self._meddling.release)
                    stack.enter_context(TROUBLED[trouble](self.remote))
                    stack.callback(self._troubles.remove, trouble)
                    self._troubles.append(trouble)
            elif trouble in {"down", "in", "out"}:
                stack.enter_context(laptop.trouble(f"{trouble} {int(6000 * turn.moment**2)}"))
            seen = [*self._troubles]
            done = self.carry(laptop, after)
            self._note(done, trouble or "".join(seen or self._troubles))

    def _note(self, done: Carried, trouble: str = "") -> None:
        self.counts["pulls"] += 1
        self.counts["kills"] += done.killed
        self.counts["cut"] += trouble not in {"", "kill"}
        self.counts["stopped"] += done.stopped and trouble in {"", "kill"}
        self.states += done.states
        if done.told:
            self.told.append(f"{trouble}: {done.told}" if trouble else done.told)


def live(
    folder: Path, seed: str, rounds: int, count: int, way: str, is_resident: bool
) -> dict[str, Any]:
    """Live through a run, and return its row."""
    life = Life(folder, count, way, is_resident)
    try:
        life.live(plan_rounds(seed, rounds, count))
        life.come_together()
    finally:
        for laptop in life.laptops:
            laptop.end_watching(signal.SIGKILL)
    said = [*life.told, *(line for desk in life.desks for line in desk.told)]
    (folder / "told").write_text("\n".join(said))
    found = judge(life.remote, life.laptops, life.oracle, "\n".join(said), life.states)
    counts = {**life.counts, "kills": life.counts["kills"] + sum(d.kills for d in life.desks)}
    return {"rounds": rounds, **counts, **found, "said": said}
