"""How much a pack unpacks to is known before it is unpacked, whatever it states."""

from __future__ import annotations

import os
import random
import subprocess
import zlib

import pytest
from conftest import Make
from support import git

from vaultmem.storage.git.maintenance import PackLimits, find_excess

_MUCH = PackLimits(10_000, 1024**2, 1024**2)
_BLOB, _OFS_DELTA, _REF_DELTA = 3, 6, 7


def _entry(kind: int, size: int, data: bytes, base: bytes = b"") -> bytes:
    head = bytearray([kind << 4 | size & 15])
    head += _number(size >> 4) if size >> 4 else b""
    head[0] |= 0x80 * bool(size >> 4)
    return bytes(head) + base + zlib.compress(data)


def _number(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _pack(*entries: bytes, count: int = 0) -> bytes:
    head = b"PACK\0\0\0\2" + (count or len(entries)).to_bytes(4, "big")
    return head + b"".join(entries) + b"\0" * 20


def _delta(size: int) -> bytes:
    data = _number(10) + _number(size) + b"\x90\x0a"
    return _entry(_REF_DELTA, len(data), data, b"\1" * 20)


@pytest.mark.parametrize("options", [["--delta-base-offset"], ["--thin"], ["--depth=0"]])
def test_packs_of_gits_are_read_to_their_end(make_vault: Make, options: list[str]) -> None:
    vault, chance = make_vault({"notes/pier.md": "# Pier\n"}), random.Random(11)
    lines = [f"Plank {chance.random()} is of oak." for _ in range(2_000)]
    for number in range(5):
        lines[chance.randrange(2_000)] = f"Plank {number} is of pine."
        (vault / "notes/planks.md").write_text("\n".join(lines))
        git(vault, "add", ".")
        git(vault, "commit", "-qm", f"Change {number}")
    (vault / "notes/chart.bin").write_bytes(chance.randbytes(700_000) + b"\0" * 700_000)
    git(vault, "add", ".")
    git(vault, "commit", "-qm", "Add a chart")
    command = ["git", "pack-objects", "--stdout", "--revs", "-q", *options]
    wanted = b"HEAD\n^HEAD~3\n" if "--thin" in options else b"HEAD\n"
    done = subprocess.run(command, cwd=vault, input=wanted, capture_output=True, check=True)
    pack = done.stdout
    assert find_excess(pack, 0, PackLimits(10_000, 9 * 1024**2, 9 * 1024**2)) == ""
    assert find_excess(os.urandom(99) + pack, 99, PackLimits(10_000, 1024**3, 1024**3)) == ""
    assert "hold more than 1,048,576 bytes" in find_excess(pack, 0, _MUCH)
    assert "more than 5 objects" in find_excess(pack, 0, _MUCH._replace(objects=5))
    for cut in (0, 3, 11, 40, len(pack) // 2):
        assert find_excess(pack[:cut], 0, PackLimits(10_000, 1024**3, 1024**3))


def test_a_pack_that_states_too_little_is_damaged() -> None:
    assert find_excess(_pack(_entry(_BLOB, 5, b"right")), 0, _MUCH) == ""
    for size in (0, 4, 6, 1_000):
        assert find_excess(_pack(_entry(_BLOB, size, b"right")), 0, _MUCH) == "its pack is damaged"
    bomb = _entry(_BLOB, 100, b"a" * 50_000_000)
    assert find_excess(_pack(bomb), 0, _MUCH) == "its pack is damaged"
    assert find_excess(_pack(_entry(_BLOB, 5, b"right"), count=2), 0, _MUCH)


def test_sums_are_limited_and_stated_sizes_believed_before_any_is_unpacked() -> None:
    eight_gigabytes = _entry(_BLOB, 8 * 1024**3, b"")
    assert "hold more" in find_excess(_pack(eight_gigabytes), 0, _MUCH)
    many = [_entry(_BLOB, 300_000, b"a" * 300_000)] * 4
    assert find_excess(_pack(*many[:3]), 0, _MUCH) == ""
    assert "hold more" in find_excess(_pack(*many), 0, _MUCH)
    assert find_excess(_pack(*[_delta(300_000)] * 3), 0, _MUCH) == ""
    assert "become more than" in find_excess(_pack(*[_delta(300_000)] * 4), 0, _MUCH)
    offset = _entry(_OFS_DELTA, 5, _number(10) + _number(9_000_000), b"\x81\x81\x00")
    assert "become more than" in find_excess(_pack(offset), 0, _MUCH)
