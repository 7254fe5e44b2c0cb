"""Random damage to index and database, before a read and in its midst: each answer is right."""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest
from conftest import Make, Open

from vaultmem import Vault, parse_query, recall, sync_vault
from vaultmem.core.search.query import NoteFilter
from vaultmem.services.packs.build import make_pack
from vaultmem.services.views.read_notes import list_notes

NOTES = {
    f"notes/n{n}.md": f"# Tide {n}\n\nThe ferry {n} waits, w{n % 7}.\n\n## Bell\n\nIn fog {n}.\n"
    for n in range(40)
}

READS: dict[str, Callable[[Vault], object]] = {
    "recall": lambda vault: [
        (hit.address, hit.text) for hit in recall(vault, parse_query("ferry tide w3", limit=60))
    ],
    "pack": lambda vault: make_pack(vault, "ferry tide bell", 900).text,
    "list": lambda vault: [record.path for record in list_notes(vault, NoteFilter())],
}

#: More than a tick of the file system's clock: what changes a file within the tick in which it was
#: written is not seen.
_TICK = 0.012


def harm(chance: random.Random, folder: Path) -> str:
    """Cut, empty, overwrite or remove a file of the state; say which."""
    files = [*(folder / "index").glob("[!.]*"), *folder.glob("state-*.sqlite3"), folder / "state"]
    file = chance.choice([each for each in files if each.is_file()])
    kind = chance.choice(["cut", "zero", "junk", "removed", "flip"])
    size = file.stat().st_size
    if kind == "removed":
        file.unlink()
    elif kind == "cut":
        os.truncate(file, chance.randrange(size + 1))
    else:
        with file.open("r+b") as stream:
            # A bit of a value in the database is nothing that SQLite sees; a page of it is.
            block = 1 if kind == "flip" and file.suffix != ".sqlite3" else 4096
            place = chance.randrange(max(size, 1)) // block * block
            stream.seek(place)
            old = stream.read(block)
            new = bytes(each ^ 8 for each in old) if kind != "zero" else bytes(len(old))
            stream.seek(place)
            stream.write(new)
    return f"{file.name} {kind}"


class Midst:
    """Does something once, at the n-th call of a function of ours."""

    def __init__(self, number: int, act: Callable[[], str]) -> None:
        self._left = number
        self._act = act
        self.told = ""

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call" and "vaultmem" in frame.f_code.co_filename:
            self._left -= 1
            if not self._left:
                sys.setprofile(None)
                self.told = self._act()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    ("seed", "many"),
    [
        pytest.param(1, 40, marks=pytest.mark.campaign),
        *(pytest.param(n, 400, marks=pytest.mark.long) for n in range(5)),
    ],
)
def test_every_answer_is_right(make_vault: Make, opened: Open, seed: int, many: int) -> None:
    chance = random.Random(seed)
    vault = opened(make_vault(NOTES))
    sync_vault(vault)
    wanted = {name: read(vault) for name, read in READS.items()}
    wrong = []
    for number in range(many):
        name, midst = chance.choice(list(READS)), chance.random() < 0.5
        time.sleep(_TICK)
        told = "" if midst else harm(chance, vault.state_folder)
        sync_vault(vault)
        time.sleep(_TICK)
        bomb = Midst(chance.randrange(1, 300), lambda: harm(chance, vault.state_folder))
        if midst:
            sys.setprofile(bomb)
        try:
            found = READS[name](vault)
        except Exception as error:  # noqa: BLE001 - collected, so that all show.
            found = repr(error)
        finally:
            sys.setprofile(None)
        if found != wanted[name]:
            wrong.append((number, name, told or f"midst: {bomb.told}", str(found)[:120]))
    assert not wrong
