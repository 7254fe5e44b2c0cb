"""A person's saves against an agent and a watcher that write the same notes: none is lost."""

from __future__ import annotations

import os
import random
import threading
import time
from pathlib import Path, PurePosixPath

import pytest
from conftest import Make
from support import git, wait_until
from watchers import watched

from vaultmem.core.notes.edit_properties import set_property
from vaultmem.errors import ConflictError, NoteNotFoundError
from vaultmem.services.changes.commit import save_checkpoint
from vaultmem.services.changes.edit_notes import change_tags, edit_note
from vaultmem.vault import open_vault

NOTES = [f"notes/n{number}.md" for number in range(3)]


class Agent(threading.Thread):
    """Edits the notes as fast as it can, and now and then commits."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self._root = root
        self.done = 0
        self.conflicts = 0
        self.is_over = False

    def run(self) -> None:
        vault = open_vault(self._root, agent="claude")
        chance = random.Random(2)
        while not self.is_over:
            path = PurePosixPath(chance.choice(NOTES))
            number = self.done
            try:
                if number % 40 == 39:
                    save_checkpoint(vault, f"after {number}")
                elif number % 2:
                    change_tags(vault, path, (f"t{number % 5}",), (f"t{(number + 1) % 5}",))
                else:
                    edit_note(vault, path, lambda n, k=number: set_property(n.text, "count", k))
            except ConflictError:
                self.conflicts += 1
            except NoteNotFoundError:  # In the midst of a rename.
                self.conflicts += 1
            self.done += 1
        vault.close()


def save(file: Path, text: str, number: int) -> None:
    """Save a file as editors do: in place, by atomic rename, or with a backup that is renamed."""
    if number % 3 == 0:
        file.write_text(text)
    elif number % 3 == 1:
        spare = file.with_name(f".{file.name}.tmp")
        spare.write_text(text)
        os.replace(spare, file)
    else:
        backup = file.with_name(f"{file.name}~")
        os.rename(file, backup)
        file.write_text(text)
        backup.unlink()


def is_kept(root: Path, word: str) -> bool:
    """Tell whether a word is in a note, in a conflict copy, or in any commit."""
    if any(word in file.read_text() for file in (root / "notes").glob("*.md")):
        return True
    return bool(git(root, "log", "--all", "--format=%h", f"-S{word}", "--", "notes"))


@pytest.mark.parametrize(
    "saves",
    [pytest.param(30, marks=pytest.mark.campaign), pytest.param(1_000, marks=pytest.mark.long)],
)
def test_every_save_is_in_the_file_in_a_conflict_copy_or_in_git(
    make_vault: Make, saves: int
) -> None:
    root = make_vault({name: f"# {name}\n" for name in NOTES})
    chance = random.Random(1)
    agent = Agent(root)
    with watched(root):
        agent.start()
        try:
            for number in range(saves):
                file = root / chance.choice(NOTES)
                text = wait_until(lambda f=file: f.exists() and f.read_text())
                time.sleep(chance.random() * 0.01)  # What the person takes to type.
                save(file, f"{text}\nquagga{number}x\n", number)
                seen = agent.done
                wait_until(lambda s=seen: agent.done >= s + 2 or not agent.is_alive())
                assert is_kept(root, f"quagga{number}x"), number
        finally:
            agent.is_over = True
            agent.join(20)
    print(f"{saves} saves, {agent.done} edits by the agent, {agent.conflicts} given up")
    lost = [n for n in range(saves) if not is_kept(root, f"quagga{n}x")]
    assert lost == []
    assert agent.done > saves
