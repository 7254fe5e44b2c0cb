"""Notes on disk: whole or not at all, also when the disk fails at any operation."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath

import pytest
from conftest import Make, Open
from support import hash_tree, write_notes

from vaultmem.core.text.blob import blob_id
from vaultmem.errors import ConflictError, SystemFailureError, VaultError
from vaultmem.services.changes.edit_notes import set_note_property
from vaultmem.services.memory.remember import Memory, remember
from vaultmem.services.views.update_index import sync_vault
from vaultmem.storage import file_replacement
from vaultmem.storage.files import create_file, read_file, remove_file, replace_file
from vaultmem.storage.leases import Lease, open_leased
from vaultmem.vault import Vault

NOTE = PurePosixPath("notes/n.md")
OLD, NEW = b"old bytes\n", b"new bytes\n"

OPERATIONS = {
    "create": lambda root: create_file(root, PurePosixPath("notes/deep/new.md"), NEW),
    "replace": lambda root: replace_file(root, NOTE, blob_id(OLD), NEW),
    "remove": lambda root: remove_file(root, NOTE, blob_id(OLD)),
}


class FailingDisk:
    """Let the n-th call of one of the os functions that write fail, as a disk does."""

    NAMES = ("open", "fsync", "link", "rename", "replace", "write", "mkdir")

    def __init__(self, patch: pytest.MonkeyPatch, fail_at: int, code: int) -> None:
        self.calls = 0
        self.fail_at = fail_at
        self.code = code
        for name in self.NAMES:
            patch.setattr(os, name, self._wrap(name, getattr(os, name)))
        real = file_replacement.exchange_files
        patch.setattr(file_replacement, "exchange_files", self._wrap("exchange", real))
        patch.setattr(os, "supports_dir_fd", {*os.supports_dir_fd, os.open})

    def _wrap(self, name: str, real: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **named: object) -> object:
            reads = name == "open" and not int(str(arguments[1])) & (os.O_WRONLY | os.O_RDWR)
            if not reads:
                self.calls += 1
                if self.calls == self.fail_at:
                    raise OSError(self.code, os.strerror(self.code))
            return real(*arguments, **named)

        return call


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_row_25_a_disk_that_fails_at_the_nth_operation_leaves_the_vault_as_it_was(
    tmp_path: Path, operation: str, code: int
) -> None:
    fail_at, succeeded = 0, False
    while not succeeded:
        fail_at += 1
        root = tmp_path / str(fail_at)
        write_notes(root, {str(NOTE): OLD})
        before = hash_tree(root)
        with pytest.MonkeyPatch.context() as patch:
            disk = FailingDisk(patch, fail_at, code)
            try:
                OPERATIONS[operation](root)
            except VaultError as error:
                failure = str(error)
            else:
                succeeded = True
        if not succeeded:
            assert os.strerror(code) in failure
            assert hash_tree(root) == before, f"operation {fail_at}"
    assert disk.calls >= 2
    assert hash_tree(root) != before
    assert not [name for name in hash_tree(root) if ".tmp" in name]


def test_row_25_a_short_write_is_finished_or_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.open
    data = b"x" * 300_000
    limited = (
        "import resource, signal, sys\n"
        "from pathlib import Path, PurePosixPath\n"
        "from vaultmem.errors import VaultError\n"
        "from vaultmem.storage.files import create_file\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "try:\n"
        "    create_file(Path(sys.argv[1]), PurePosixPath('n.md'), b'x' * 300_000)\n"
        "except VaultError as error:\n"
        "    print(error)\n"
    )
    command = [sys.executable, "-c", limited, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)

    assert done.stdout == "n.md: could not be written: File too large\n"
    assert list(tmp_path.iterdir()) == []
    assert os.open is real
    create_file(tmp_path, PurePosixPath("n.md"), data)
    assert (tmp_path / "n.md").read_bytes() == data


@pytest.mark.parametrize("limit", [0, 1_000, 20_000, 60_000])
def test_row_25_a_command_on_a_full_disk_ends_in_a_typed_error_and_the_notes_are_whole(
    make_vault: Make, opened: Open, limit: int
) -> None:
    root = make_vault({str(NOTE): "gangway\n"})
    script = (
        "import resource, signal, sys\n"
        "sys.argv = ['vaultmem', *sys.argv[1:]]\n"
        "from vaultmem.cli.app import main\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))\n"
        "main()\n"
    )
    before = hash_tree(root)
    text = "ferry " * 12_000
    # -B: Python takes byte code that was cut short for whole.
    command = [sys.executable, "-B", "-c", script, "remember", text, "--vault", str(root)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert "vaultmem: error:" in done.stderr
    assert "Traceback" not in done.stderr
    assert hash_tree(root) == before
    vault = opened(root)
    sync_vault(vault)
    remember(vault, Memory("mooring"))


class DyingDisk:
    """From the first time that a folder is to be made durable, let nothing change any more."""

    def __init__(self, patch: pytest.MonkeyPatch, root: Path) -> None:
        self.root, self.is_dead = str(root), False
        for name in ("fsync", "unlink", "link", "rename", "replace"):
            patch.setattr(os, name, self._wrap(name, getattr(os, name)))
        patch.setattr(
            file_replacement, "exchange_files", self._wrap("", file_replacement.exchange_files)
        )

    def _wrap(self, name: str, real: Callable[..., object]) -> Callable[..., object]:
        def call(first: int | str | Path, *rest: object, **named: object) -> object:
            file = os.readlink(f"/proc/self/fd/{first}") if name == "fsync" else os.fspath(first)
            is_mine = file.startswith(self.root)
            self.is_dead = self.is_dead or (is_mine and name == "fsync" and Path(file).is_dir())
            if self.is_dead and is_mine:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return real(first, *rest, **named)

        return call


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="there is no /proc")
@pytest.mark.parametrize(
    ("change", "there"),
    [
        (lambda vault: remember(vault, Memory("The sluice needs oil.")), "sluice"),
        (lambda vault: set_note_property(vault, NOTE, "colour", "green"), "green"),
    ],
    ids=["create", "replace"],
)
def test_a_disk_that_dies_behind_a_write_is_not_said_to_have_written_nothing(
    make_vault: Make, opened: Open, change: Callable[[Vault], object], there: str
) -> None:
    root = make_vault({str(NOTE): "# Note\n", "notes/inbox/m.md": "# Mooring\n"})
    vault = opened(root, agent="claude")
    sync_vault(vault)

    with pytest.MonkeyPatch.context() as patch:
        DyingDisk(patch, root / "notes")
        with pytest.raises(
            SystemFailureError, match=r"^notes/.*\.md is written, .*; look at"
        ) as raised:
            change(vault)

    assert "nothing" not in str(raised.value)
    named = str(raised.value).split()[0]
    assert there in (root / named).read_text()
    sync_vault(vault)
    author = vault.journal.find_author(named, blob_id((root / named).read_bytes()))
    assert author is not None
    assert author.agent == "claude"


def test_a_file_that_exists_is_never_overwritten(tmp_path: Path) -> None:
    write_notes(tmp_path, {str(NOTE): OLD})

    with pytest.raises(ConflictError):
        create_file(tmp_path, NOTE, NEW)

    assert (tmp_path / NOTE).read_bytes() == OLD
    assert [file.name for file in (tmp_path / "notes").iterdir()] == ["n.md"]


def test_a_save_between_reading_and_replacing_is_kept(tmp_path: Path) -> None:
    write_notes(tmp_path, {str(NOTE): b"saved by a person\n"})

    with pytest.raises(ConflictError):
        replace_file(tmp_path, NOTE, blob_id(OLD), NEW)

    assert (tmp_path / NOTE).read_bytes() == b"saved by a person\n"


def test_a_save_in_the_very_moment_of_the_exchange_is_put_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_notes(tmp_path, {str(NOTE): OLD})
    real = file_replacement.exchange_files
    saved: list[Path] = []

    def exchange(first: Path, second: Path) -> None:
        if not saved:  # An editor replaces the file after it was checked.
            spare = tmp_path / "spare"
            spare.write_bytes(b"saved by a person\n")
            os.replace(spare, second)
            saved.append(second)
        real(first, second)

    monkeypatch.setattr(file_replacement, "exchange_files", exchange)

    with pytest.raises(ConflictError):
        replace_file(tmp_path, NOTE, blob_id(OLD), NEW)

    assert (tmp_path / NOTE).read_bytes() == b"saved by a person\n"
    assert [file.name for file in (tmp_path / "notes").iterdir()] == ["n.md"]


def test_a_save_in_the_very_moment_of_a_removal_is_kept_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_notes(tmp_path, {str(NOTE): OLD})
    real = os.rename

    def rename(source: Path, target: Path) -> None:
        if Path(source).name == "n.md":  # An editor replaces the file after it was checked.
            spare = tmp_path / "spare"
            spare.write_bytes(b"saved by a person\n")
            real(spare, source)
        real(source, target)

    monkeypatch.setattr(os, "rename", rename)

    with pytest.raises(ConflictError, match=r"n\.conflict-"):
        remove_file(tmp_path, NOTE, blob_id(OLD))

    (kept,) = (tmp_path / "notes").iterdir()
    assert kept.read_bytes() == b"saved by a person\n"


@pytest.mark.parametrize("data", [NEW, NEW * 30, b""], ids=["as long", "longer", "empty"])
def test_an_edit_keeps_permissions_extended_attributes_and_hard_links(
    tmp_path: Path, data: bytes
) -> None:
    write_notes(tmp_path, {str(NOTE): OLD, "notes/plain.md": OLD})
    linked, plain = tmp_path / NOTE, tmp_path / "notes/plain.md"
    other = tmp_path / "other name.md"
    os.link(linked, other)
    for file in (linked, plain):
        os.chmod(file, 0o640)
        if hasattr(os, "setxattr"):
            os.setxattr(file, "user.colour", b"green")

    for file in (linked, plain):
        replace_file(tmp_path, PurePosixPath(file.relative_to(tmp_path)), blob_id(OLD), data)

    assert other.read_bytes() == linked.read_bytes() == plain.read_bytes() == data
    assert other.samefile(linked)
    for file in (linked, plain):
        assert file.stat().st_mode & 0o777 == 0o640
        if hasattr(os, "getxattr"):
            assert os.getxattr(file, "user.colour") == b"green"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="root alone may chown")
def test_an_edit_keeps_a_files_owner(tmp_path: Path) -> None:
    write_notes(tmp_path, {str(NOTE): OLD})
    os.chown(tmp_path / NOTE, 1234, 2345)

    replace_file(tmp_path, NOTE, blob_id(OLD), NEW)

    status = (tmp_path / NOTE).stat()
    assert (status.st_uid, status.st_gid) == (1234, 2345)


def test_a_disk_that_fails_while_a_linked_file_is_written_leaves_it_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_notes(tmp_path, {str(NOTE): OLD})
    os.link(tmp_path / NOTE, tmp_path / "other.md")
    real = os.fsync
    calls: list[int] = []

    def fail_once(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) == 1:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fail_once)

    with pytest.raises(VaultError, match=r"n\.md: could not be written"):
        replace_file(tmp_path, NOTE, blob_id(OLD), NEW)

    assert (tmp_path / "other.md").read_bytes() == OLD


def test_a_linked_note_is_read_while_it_is_written(tmp_path: Path) -> None:
    write_notes(tmp_path, {str(NOTE): OLD})
    os.link(tmp_path / NOTE, tmp_path / "other.md")
    with ThreadPoolExecutor() as pool:
        reads = []
        with open_leased(tmp_path / NOTE, alone=True) as (_, lease):
            assert lease is Lease.HELD or sys.platform != "linux"
            reads.append(pool.submit(read_file, tmp_path, NOTE))
            time.sleep(0.05)
        assert reads[0].result(10) == OLD


def test_a_file_system_without_an_exchange_is_written_to_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vaultmem.storage.atomic._exchange", lambda *_: errno.EINVAL)
    write_notes(tmp_path, {str(NOTE): OLD})

    replace_file(tmp_path, NOTE, blob_id(OLD), NEW)

    assert (tmp_path / NOTE).read_bytes() == NEW
    assert [file.name for file in (tmp_path / "notes").iterdir()] == ["n.md"]


def test_a_hundred_saves_by_hand_against_a_hundred_edits_lose_none(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault({str(NOTE): "start\n"})
    script = (
        "import os, sys, time\n"
        "path = sys.argv[1]\n"
        "for n in range(100):\n"
        "    while True:\n"
        "        lines = open(path).read()\n"
        "        spare = path + '.hand'\n"
        "        open(spare, 'w').write(lines + f'line {n}\\n')\n"
        "        if open(path).read() == lines:\n"
        "            os.replace(spare, path)\n"
        "            break\n"
        "    time.sleep(0.002)\n"
    )
    vault = opened(root, agent="claude")
    sync_vault(vault)
    hand = subprocess.Popen([sys.executable, "-c", script, str(root / NOTE)])
    number = 0
    while hand.poll() is None:
        number += 1
        try:
            set_note_property(vault, NOTE, "number", number)
        except ConflictError:
            continue
    assert hand.returncode == 0

    kept = "".join(f.read_text() for f in (root / "notes").iterdir() if f.suffix == ".md")
    assert all(f"line {n}\n" in kept for n in range(100))
