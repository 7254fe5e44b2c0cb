"""Damaged parts of index and database: each command answers as before, also in its midst."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Make, Open, RunCli

from vaultmem import Vault, parse_query, recall, sync_vault
from vaultmem.services.memory.remember import Memory, remember
from vaultmem.services.packs.build import make_pack
from vaultmem.services.search import score as score_module
from vaultmem.services.search import search as search_module
from vaultmem.storage.index.search_index import SearchIndex

NOTES = {
    f"notes/n{n}.md": f"# Tide {n}\n\nThe ferry {n} waits for the tide.\n\n## Bell\n\nIn fog {n}.\n"
    for n in range(20)
}

HARMS: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "cut": lambda data: data[: len(data) // 2],
    "a byte less": lambda data: data[:-1],
    "version": lambda data: data.replace(b"vaultmem-segment-", b"vaultmem-sogment-"),
    "a bit of an array": lambda data: flip(data, len(data) // 2),
    "a bit of the names": lambda data: flip(data, len(data) - 30),
    "removed": lambda data: b"",
}

#: What is seen when a segment is opened; another bit is seen by the file's time, or by `doctor`.
PLAIN = [each for each in HARMS if each != "a bit of an array"]


def flip(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 8]) + data[place + 1 :]


def harm(vault: Vault, kind: str) -> tuple[Path, bytes]:
    """Harm the only segment; return where it is to be kept and its bytes."""
    (file,) = (vault.state_folder / "index").glob("*.arrays")
    data = HARMS[kind](file.read_bytes())
    if kind == "removed":
        file.unlink()
    else:
        file.write_bytes(data)
    return vault.state_folder / "index.damaged" / file.name, data


def harm_part(vault: Vault, part: str, kind: str) -> None:
    """Harm a file that somebody has open; "index" is all of the folder."""
    index = vault.state_folder / "index"
    places = {"segment": "*.arrays", "contents": "*.toc", "list": "segments.json"}
    if part in places:
        file = next(index.glob(places[part]), index / "nowhere")
    else:
        file = index if part == "index" else vault.state.path
    if not file.exists():
        return
    if kind == "removed":
        shutil.rmtree(file) if file.is_dir() else file.unlink()
        return
    with file.open("r+b") as stream:
        size = file.stat().st_size
        if kind == "cut":
            os.truncate(file, size // 3)
        elif kind == "zero":
            stream.write(bytes(size))
        else:
            data = stream.read()
            stream.seek(0)
            stream.write(bytes(each ^ 8 for each in data))


#: What is harmed, and how; a flipped bit is in no page of the database that SQLite could tell.
PARTS = [
    *(
        (part, kind)
        for part in ("segment", "contents", "list", "database")
        for kind in ("cut", "zero", "flip", "removed")
    ),
    ("index", "removed"),
]


def answers(vault: Vault) -> list[tuple[str, float, str]]:
    found = recall(vault, parse_query("ferry tide bell", limit=50))
    return [(hit.address, hit.score, hit.text) for hit in found]


def packed(vault: Vault) -> tuple[str, int]:
    made = make_pack(vault, "ferry tide bell", 900)
    return made.text, made.account.flat


@pytest.mark.guarantee
@pytest.mark.parametrize("kind", HARMS)
def test_the_next_recall_answers_as_before(
    make_vault: Make, opened: Open, run_cli: RunCli, kind: str
) -> None:
    root = make_vault(NOTES)
    vault = opened(root)
    sync_vault(vault)
    command = ("recall", "ferry tide bell", "--vault", root, "--json")
    wanted = run_cli(*command)
    vault.close()
    kept, data = harm(vault, kind)

    assert run_cli(*command) == wanted
    assert not vault.index.find_damage()
    assert kept.exists() == (kind != "removed")
    assert kind == "removed" or kept.read_bytes() == data


@pytest.mark.parametrize("kind", PLAIN)
def test_a_vault_that_is_open_and_in_sync_answers_as_before(
    make_vault: Make, opened: Open, kind: str
) -> None:
    root = make_vault(NOTES)
    wanted = answers(opened(root))
    vault = opened(root)
    sync_vault(vault)
    kept, data = harm(vault, kind)

    assert answers(vault) == wanted
    assert answers(opened(root)) == wanted
    assert kept.exists() == (kind != "removed")
    assert kind == "removed" or kept.read_bytes() == data


def test_what_is_mapped_already_is_answered_from_when_a_file_is_replaced(
    make_vault: Make, opened: Open
) -> None:
    vault = opened(make_vault(NOTES))
    wanted = answers(vault)
    (file,) = (vault.state_folder / "index").glob("*.arrays")
    other = file.with_name("other")
    other.write_bytes(flip(file.read_bytes(), file.stat().st_size - 30))
    os.replace(other, file)

    assert answers(vault) == wanted
    assert answers(opened(vault.root)) == wanted


# Whoosh forgets to close a table of contents that it could not read.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.campaign
@pytest.mark.parametrize(("part", "kind"), PARTS)
def test_damage_between_two_reads_of_one_process_changes_no_answer(
    make_vault: Make, opened: Open, part: str, kind: str
) -> None:
    root = make_vault(NOTES)
    vault = opened(root)
    wanted = answers(vault), packed(vault)

    harm_part(vault, part, kind)

    assert (answers(vault), packed(vault)) == wanted
    harm_part(vault, part, kind)
    assert (packed(vault), answers(vault)) == wanted[::-1]
    harm_part(vault, part, kind)
    kept = remember(vault, Memory("The night boat sails at ten from pier seven."))
    (found, *_) = recall(vault, parse_query("night boat pier"))
    assert found.record.path == kept.path
    assert (answers(opened(root)), packed(opened(root))) == (answers(vault), packed(vault))
    report = sync_vault(opened(root))
    assert (report.added, report.changed, report.removed) == (0, 0, 0)


# Whoosh forgets to close a table of contents that it could not read.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.campaign
@pytest.mark.parametrize(("part", "kind"), PARTS)
@pytest.mark.parametrize("where", ["snapshot", "choose_sections", "read_places"])
def test_damage_in_the_midst_of_a_read_changes_no_answer(
    make_vault: Make,
    opened: Open,
    monkeypatch: pytest.MonkeyPatch,
    part: str,
    kind: str,
    where: str,
) -> None:
    root = make_vault(NOTES)
    wanted = answers(opened(root))
    vault = opened(root)
    sync_vault(vault)
    owners = {
        "snapshot": SearchIndex,
        "choose_sections": score_module,
        "read_places": search_module,
    }
    owner: Any = owners[where]
    original = getattr(owner, where)
    harmed = []

    def harm_once(*args: Any) -> Any:
        found = original(*args) if where == "snapshot" else None
        if not harmed:
            harmed.append(harm_part(vault, part, kind))
        return original(*args) if found is None else found

    monkeypatch.setattr(owner, where, harm_once)
    assert answers(vault) == wanted
    assert harmed
    assert answers(vault) == wanted
    assert answers(opened(root)) == wanted
