"""What one token may use of a hub's machine, so that others have their part of it."""

from __future__ import annotations

import contextlib
import hashlib
import struct
import zlib
from collections.abc import Iterator

import pytest
from hub_serving import Team, push
from support import git, wait_until

from vaultmem.services.hub.hub_folder import CONFIG_NAME, read_audit

pytestmark = pytest.mark.campaign


def test_bodies_that_never_come_keep_nobody_out(team: Team) -> None:
    readers = [team.agent(f"reader{number}", read="*") for number in range(3)]
    scribes = [team.agent(f"scribe{number}", propose="*") for number in range(3)]
    with contextlib.ExitStack() as open_connections:
        for number in range(120):
            kind, tokens = [("upload", readers), ("receive", scribes)][number % 2]
            wire = open_connections.enter_context(team.connect())
            wire.sendall(team.write_head(tokens[number % 3], kind, 100))
        _fetch_and_push(team)


def test_answers_that_are_not_read_keep_nobody_out(team: Team) -> None:
    team.enlarge("harbour")
    readers = [team.agent(f"reader{number}", read="*") for number in range(3)]
    with contextlib.ExitStack() as open_connections:
        for number in range(24):
            wire = open_connections.enter_context(team.ask_for_all(readers[number % 3]))
            if number < 16:
                assert wire.recv(12) == b"HTTP/1.1 200"
        _fetch_and_push(team, "payments")


def test_a_pack_is_not_unpacked_to_more_than_the_hub_takes(team: Team) -> None:
    told = _push_letters(team, team.agent("porter", write="*"), 1024**3)
    assert b"its objects hold more than 536,870,912 bytes together; push less" in told
    assert b"ng refs/heads/main unpacker error" in told
    (entry,) = read_audit(team.hub, what="push")
    ref = entry.details["refs"][0]["ref"]
    assert (entry.who, entry.outcome, ref) == ("porter", "refused", "refs/heads/main")


def test_who_pushes_too_much_reads_what_to_do(team: Team) -> None:
    clone = team.clone("harbour", "maren", team.person("maren", own="*"))
    (clone / "chart.bin").write_text("a" * 3_000_000)
    git(clone, "add", ".")
    git(clone, "commit", "-qm", "Add a chart")
    before = (team.hub.folder / CONFIG_NAME).read_text()
    (team.hub.folder / CONFIG_NAME).write_text(before + "total_bytes: 2M\n")
    done = push(clone)
    assert "remote: vaultmem: the push: its objects hold more than 2,097,152 bytes" in done.stderr
    assert "[remote rejected] HEAD -> main (unpacker error)" in done.stderr
    (team.hub.folder / CONFIG_NAME).write_text(before)  # It counts from the next push on.
    assert push(clone).returncode == 0


def test_a_program_of_gits_may_compute_for_so_long(team: Team) -> None:
    with open(team.hub.folder / CONFIG_NAME, "a") as settings:
        settings.write("cpu_seconds: 1\n")
    told = _push_letters(team, team.agent("porter", write="*"), 500 * 1024**2)
    assert b"abnormal exit" in told
    (entry,) = wait_until(lambda: list(read_audit(team.hub, what="push")))
    assert (entry.outcome, "abnormal exit" in entry.details["refused"][0]) == ("refused", True)
    assert not list(team.hub.repositories.glob("harbour.git/objects/*incoming*"))


def _fetch_and_push(team: Team, vault: str = "harbour") -> None:
    token = team.person("jonas", write="*")
    clone = team.clone(vault, "jonas", token)
    git(clone, "commit", "-q", "--allow-empty", "-m", "Nothing")
    done = push(clone)
    assert done.returncode == 0, done.stderr
    assert team.tip(vault) == git(clone, "rev-parse", "HEAD")


def _push_letters(team: Team, token: str, size: int) -> bytes:
    """Push a pack with one file of one letter, made without having all of it at once."""
    capabilities = b"report-status side-band-64k"
    line = b"%s %s refs/heads/main\0%s" % (team.tip("harbour").encode(), b"1" * 40, capabilities)
    pack = b"PACK" + struct.pack(">II", 2, 1) + _entry_head(3, size) + b"".join(_deflate(size))
    body = b"%04x%s0000%s%s" % (len(line) + 4, line, pack, hashlib.sha1(pack).digest())
    with team.connect() as wire:
        wire.sendall(team.write_head(token, "receive", len(body), "Connection: close") + body)
        return b"".join(iter(lambda: wire.recv(65_536), b""))


def _letters(size: int) -> Iterator[bytes]:
    part = b"a" * 1024**2
    return iter([part] * (size // len(part)))


def _deflate(size: int) -> Iterator[bytes]:
    """Yield a zlib stream of letters: each part of it is the same one."""
    deflate, sum_ = zlib.compressobj(9), 1
    part = b"a" * 1024**2
    yield deflate.compress(b"") + deflate.flush(zlib.Z_FULL_FLUSH)
    repeated = deflate.compress(part) + deflate.flush(zlib.Z_FULL_FLUSH)
    for each in _letters(size):
        sum_ = zlib.adler32(each, sum_)
        yield repeated
    yield b"\x03\x00" + struct.pack(">I", sum_)


def _entry_head(kind: int, size: int) -> bytes:
    head = bytearray([kind << 4 | size & 15])
    size >>= 4
    while size:
        head[-1] |= 0x80
        head.append(size & 0x7F)
        size >>= 7
    return bytes(head)
