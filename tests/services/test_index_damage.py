"""A damaged segment: the next command answers as before, and what was damaged is kept."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from vaultmem import Vault, parse_query, recall, sync_vault

Make = Callable[..., Path]
Open = Callable[..., Vault]

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


def answers(vault: Vault) -> list[tuple[str, float, str]]:
    found = recall(vault, parse_query("ferry tide bell", limit=50))
    return [(hit.address, hit.score, hit.text) for hit in found]


@pytest.mark.parametrize("kind", HARMS)
def test_the_next_recall_answers_as_before(
    make_vault: Make, opened: Open, run_cli: Callable[..., object], kind: str
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
