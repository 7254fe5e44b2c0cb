"""Kill an event of many notes at one system call after the other; run as a program.

`python campaign.py EVENT KILLS FOLDER`, with killer.so preloaded. The event is done once to its
end, and its system calls are counted. Then, for each kill: the vault as it was, a process that
does the event and is killed right before its n-th call, and another one that comes next, under
another name. That one must find the event whole or absent; and what it then commits must be
nobody else's work. Prints what was found as JSON.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import shutil
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from vaultmem.core.finding.query import parse_query
from vaultmem.core.lifecycle import State
from vaultmem.core.upkeep.proposal import Action, Proposal, Report
from vaultmem.errors import VaultError
from vaultmem.services.branching.merge import merge_branch
from vaultmem.services.finding.count import count_recall
from vaultmem.services.finding.recall import recall
from vaultmem.services.lifecycle.promote import promote_notes
from vaultmem.services.notes.create import create_vault
from vaultmem.services.notes.forget import forget_notes, select_notes
from vaultmem.services.notes.remember import Memory, remember
from vaultmem.services.notes.rename import rename_note
from vaultmem.services.priming.prime import SourceFile, prime_source
from vaultmem.services.reading.sync import sync_vault
from vaultmem.services.sessions.import_turns import import_transcript
from vaultmem.services.upkeep.apply import apply_report
from vaultmem.services.upkeep.compact import compact
from vaultmem.services.upkeep.dedup import apply_merges, plan_merges
from vaultmem.services.upkeep.dream import dream
from vaultmem.services.writing.checkpoint import save_checkpoint
from vaultmem.vault import Vault, open_vault

NOW = 1_800_000_000.0
DAY = 86_400
AGES = "stale_after: 90\narchive_after: 180\nsummary_after: 60\nkeywords_after: 120\n"

TRACE = "\n".join(
    f"The refund job {n} stopped. Holmpay answered 429 to refund {n}. The queue of refunds grew to "
    f"{n}00 jobs. Nobody was paged, because the alert counts errors. Somebody made coffee {n}."
    for n in range(3)
)


class Event(NamedTuple):
    """An event: what it needs, what does it, by whom and when (days after the preparation)."""

    prepare: Callable[[Path], object]
    do: Callable[[Vault, Path], object]
    agent: str = "keeper"
    days: float = 0.0
    notes: int = 0


def write(root: Path, notes: dict[str, str]) -> None:
    for path, text in notes.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


def git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=True)
    return done.stdout


def opened(root: Path, agent: str = "", days: float = 0.0) -> Vault:
    return open_vault(
        root, agent=agent, session=f"s-{agent}" if agent else "", now=lambda: NOW + days * DAY
    )


def commit(root: Path, what: str) -> None:
    git(root, "add", "-A")
    git(root, "commit", "-qm", what)


def berth(n: int, **more: Any) -> Memory:
    return Memory(f"Berth {n} is for the ship Anna{n}.\n\n{TRACE}", title=f"Berth {n}", **more)


def remembered(root: Path, count: int, **more: Any) -> list[str]:
    vault = opened(root, "writer", -400)
    paths = [remember(vault, berth(n, **more), force=True).path for n in range(count)]
    save_checkpoint(vault, "berths")
    vault.close()
    return paths


# ---- the events


def curate(vault: Vault, _: Path) -> None:
    sync_vault(vault)
    records = [r for r in vault.view.records() if r.path.startswith("notes/inbox/")]
    rows = [Proposal(Action.DEMOTE_STALE, r.path, r.blob, "not asked for", ()) for r in records]
    apply_report(vault, Report("2026-01-01T00:00:00", "", tuple(rows)))


def prepare_dream(root: Path) -> None:
    paths = remembered(root, 12, state=State.CANDIDATE)
    for day in range(-9, 0):
        vault = opened(root, "asker", day)
        sync_vault(vault)
        for n in range(len(paths)):
            question = f"berth {n} of the ship anna{n} {('on what day', 'where', 'who')[day % 3]}"
            hits = recall(vault, parse_query(question, limit=1))
            count_recall(vault, question, hits, [hit.text for hit in hits])
        vault.close()


def prepare_merge(root: Path) -> None:
    text = "---\ntags:\n  - a\n---\n# Shared\n\none\n\ntwo\n"
    shared = {f"notes/shared{n}.md": text for n in range(8)}
    write(root, shared)
    commit(root, "shared")
    git(root, "checkout", "-qb", "side")
    write(root, {p: t.replace("  - a\n", "  - a\n  - theirs\n") for p, t in shared.items()})
    write(root, {f"notes/bob/{n}.md": f"By Bob {n}.\n" for n in range(16)})
    commit(root, "by Bob")
    git(root, "checkout", "-q", "main")
    write(root, {p: t.replace("two\n", "two, and ours\n") for p, t in shared.items()})
    commit(root, "ours")


def prepare_dedup(root: Path) -> None:
    remembered(root, 8)
    vault = opened(root, "other", -300)
    for n in range(8):
        remember(vault, berth(n, context="more"), force=True)
    save_checkpoint(vault, "again")
    vault.close()


def dedup(vault: Vault, _: Path) -> None:
    sync_vault(vault)
    apply_merges(vault, plan_merges(vault))


def prepare_move(root: Path) -> None:
    notes = {f"notes/l{n}.md": f"# L{n}\n\nSee [[old]] and [it](a/old.md#H).\n" for n in range(24)}
    write(root, {"notes/a/old.md": "# H\n\nText. [[../l1]]\n", **notes})
    commit(root, "links")
    vault = opened(root, "hand", -1)  # Also what nobody has committed is to stay as it is.
    sync_vault(vault)
    vault.close()
    write(root, {"notes/l3.md": "# L3 by hand\n\nSee [[old]].\n"})


def prepare_transcript(root: Path) -> None:
    rows = []
    for n in range(30):
        kind, text = ("user", f"Question {n}?") if n % 2 == 0 else ("assistant", f"Answer {n}.")
        rows.append(
            {
                "type": kind,
                "sessionId": "claude-9",
                "cwd": str(root.parent),
                "timestamp": f"2026-01-01T10:{n:02}:00Z",
                "message": {"role": kind, "content": text},
            }
        )
    (root.parent / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def promote(vault: Vault, _: Path) -> None:
    promote_notes(vault, [f"notes/inbox/berth-{n}.md" for n in range(20)])


def forget(vault: Vault, _: Path) -> None:
    sync_vault(vault)
    paths = [f"notes/inbox/berth-{n}.md" for n in range(20)]
    forget_notes(vault, select_notes(vault, paths).notes, "the harbour is closed")


def prime(vault: Vault, _: Path) -> None:
    text = "".join(f"# Part {n}\n\nText of part {n}.\n\n" for n in range(30))
    prime_source(vault, "book", [SourceFile("book.md", "", text)])


EVENTS = {
    "curate": Event(lambda root: remembered(root, 24), curate),
    "compact": Event(lambda root: remembered(root, 20), lambda vault, _: compact(vault), days=0),
    "dream": Event(prepare_dream, lambda vault, _: dream(vault)),
    "merge": Event(prepare_merge, lambda vault, _: merge_branch(vault, "side")),
    "mv": Event(prepare_move, lambda vault, _: rename_note(vault, "old", "notes/z/new.md")),
    "import": Event(
        prepare_transcript, lambda vault, folder: import_transcript(vault, folder / "t.jsonl")
    ),
    "dedup": Event(prepare_dedup, dedup, agent=""),
    "promote": Event(lambda root: remembered(root, 20, state=State.CANDIDATE), promote, agent=""),
    "forget": Event(lambda root: remembered(root, 20), forget),
    "prime": Event(lambda _: None, prime),
}


# ---- killing, and looking at what came of it


def look(root: Path) -> tuple[dict[str, str], str]:
    """Return all files but git's, and all commits with their authors, messages and files.

    Figures of times and ids are left out of what is compared.
    """
    files = {}
    for file in sorted(root.rglob("*")):
        name = file.relative_to(root).as_posix()
        if file.is_file() and not name.startswith((".git/", "transcripts/")):
            files[name] = re.sub(r"\d", "0", file.read_text())
    log = git(root, "log", "--first-parent", "--format=%an|%ae|%B", "--name-status", "--no-renames")
    return files, re.sub(r"\b[0-9a-f]{12,40}\b", "ID", log)


def in_child(do: Callable[[], object]) -> tuple[int, str]:
    """Do something in a process of its own; return how it ended and what it has to say."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            os.write(writer, json.dumps(do()).encode())
        except BaseException:  # noqa: BLE001
            os.write(writer, json.dumps({"error": traceback.format_exc()}).encode())
            os._exit(1)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        told = stream.read().decode()
    return os.waitpid(child, 0)[1], told


class Campaign:
    def __init__(self, name: str, folder: Path) -> None:
        self.event, self.name = EVENTS[name], name
        self.folder, self.root = folder, folder / "vault"
        self.library = ctypes.CDLL(None)
        self.library.killer_count.restype = ctypes.c_long
        for kind in ("STATE", "CONFIG", "DATA"):
            os.environ[f"XDG_{kind}_HOME"] = str(folder / kind.lower())
        self.homes = ["vault", "state", "config", "data"]

    def prepare(self) -> None:
        create_vault(self.root).vault.close()
        write(self.root, {"vaultmem.yaml": AGES})
        commit(self.root, "settings")
        self.event.prepare(self.root)
        code, told = in_child(lambda: sync_vault(opened(self.root)) and None)
        assert code == 0, told
        for name in self.homes:
            if (self.folder / name).exists():
                shutil.copytree(self.folder / name, self.folder / f"{name}.kept", symlinks=True)

    def restore(self) -> None:
        for name in self.homes:
            shutil.rmtree(self.folder / name, ignore_errors=True)
            if (self.folder / f"{name}.kept").exists():
                shutil.copytree(self.folder / f"{name}.kept", self.folder / name, symlinks=True)

    def do(self, at: int) -> int:
        vault = opened(self.root, self.event.agent, self.event.days)
        self.library.killer_arm(ctypes.c_long(at))
        self.event.do(vault, self.folder)
        return int(self.library.killer_count())

    def come_next(self) -> list[Any]:
        """Be the next command of somebody else; then commit all that there is."""
        vault = opened(self.root, "visitor", 1)
        sync_vault(vault)
        found = look(self.root)
        remember(vault, Memory("The visitor was here.", title="Visit"), force=True)
        with contextlib.suppress(VaultError):
            save_checkpoint(vault, "by a visitor")
        vault.close()
        return [*found, *look(self.root)]

    def remove_locks(self) -> None:
        """Wait until a killed process's git has ended, and remove what it left as git tells to."""
        end = time.monotonic() + 1.0
        while (locks := list((self.root / ".git").rglob("*.lock"))) and time.monotonic() < end:
            time.sleep(0.02)
        for lock in locks:
            lock.unlink(missing_ok=True)

    def run(self, kills: int) -> dict[str, Any]:
        self.prepare()
        absent = self.next_state()
        self.restore()
        code, told = in_child(lambda: self.do(1 << 40))
        assert code == 0, told
        calls = int(told)
        whole = self.next_state()
        assert absent[0] != whole[0], "the event changes nothing"
        result = {"calls": calls, "kills": 0, "whole": 0, "absent": 0, "other": []}
        step = max(1.0, calls / kills)
        for at in sorted({max(1, round(step * n)) for n in range(1, min(kills, calls) + 1)}):
            self.restore()
            code, told = in_child(lambda at=at: self.do(at))
            result["kills"] += code == 9
            self.remove_locks()
            state = self.next_state()
            verdict = compare(state, absent, whole)
            if verdict == "other":
                result["other"].append({"at": at, **describe(state, absent, whole)})
            else:
                result[verdict] += 1
        return result

    def next_state(self) -> list[Any]:
        code, told = in_child(self.come_next)
        assert code == 0, told
        return json.loads(told)


def compare(state: list[Any], absent: list[Any], whole: list[Any]) -> str:
    """Say what a state is; where the event is absent, what others wrote may be committed."""
    if state == whole:
        return "whole"
    files, _, *end = state
    return "absent" if [files, *end] == [absent[0], *absent[2:]] else "other"


def describe(state: list[Any], absent: list[Any], whole: list[Any]) -> dict[str, Any]:
    """Say in what a state is neither."""

    def differ(a: dict[str, str], b: dict[str, str]) -> list[str]:
        return sorted(p for p in {*a, *b} if a.get(p) != b.get(p))

    return {
        which: [differ(state[0], other[0])[:5], state[1] == other[1], state[3] == other[3]]
        for which, other in (("from_absent", absent), ("from_whole", whole))
    } | {"log": state[3][:600]}


if __name__ == "__main__":
    name, kills, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    folder.mkdir(parents=True, exist_ok=True)
    print(json.dumps(Campaign(name, folder).run(kills)))
