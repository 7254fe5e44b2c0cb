"""The one writer: the old bytes or all of the new, durable when it returns, nothing left behind."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from vaultmem.errors import VaultError
from vaultmem.storage.atomic import TEMPORARY, make_private_folder, write_atomically
from vaultmem.storage.session_table import ActiveSession, ActiveSessions
from vaultmem.storage.trust_record import TrustStore
from vaultmem.storage.value_store import ArtifactStore, ReceiptStore

OLD, NEW = b"old bytes\n", b"new bytes, and more of them\n" * 10_000

#: What each file holds whose loss nothing can mend, and the call that writes it.
TRUTHS: dict[str, Callable[[Path], object]] = {
    "trust": lambda folder: TrustStore(folder / "trust.json").record({"a.md": "digest"}),
    "receipt": lambda folder: ReceiptStore(folder).write("20260101", "{}\n"),
    "artifact": lambda folder: ArtifactStore(folder).keep("text\n"),
    "session": lambda folder: ActiveSessions(folder).put(ActiveSession("s", "a", "/w", 1.0)),
}


class WatchedDisk:
    """Note each call that writes, by the name of the file; the n-th of them may fail."""

    NAMES = ("open", "fsync", "replace", "link")

    def __init__(self, patch: pytest.MonkeyPatch, fail_at: int = 0, code: int = 0) -> None:
        self.calls: list[tuple[str, str]] = []
        self._fail_at, self._code = fail_at, code
        for name in self.NAMES:
            patch.setattr(os, name, self._wrap(name, getattr(os, name)))

    def _wrap(self, name: str, real: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **named: object) -> object:
            if name == "open" and not int(str(arguments[1])) & os.O_WRONLY:
                return real(*arguments, **named)
            file = arguments[0]
            if isinstance(file, int):
                file = os.readlink(f"/proc/self/fd/{file}")
            self.calls.append((name, os.path.basename(str(file))))
            if len(self.calls) == self._fail_at:
                raise OSError(self._code, os.strerror(self._code))
            return real(*arguments, **named)

        return call


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("old", [OLD, None])
def test_a_disk_that_fails_at_the_nth_call_leaves_the_old_bytes_or_all_of_the_new(
    tmp_path: Path, old: bytes | None, code: int
) -> None:
    failed = 0
    while True:
        file = tmp_path / str(failed) / "file"
        file.parent.mkdir()
        if old is not None:
            file.write_bytes(old)
        with pytest.MonkeyPatch.context() as patch:
            disk = WatchedDisk(patch, failed + 1, code)
            try:
                write_atomically(file, NEW)
                break
            except OSError as error:
                told = error.errno
        assert told == code
        failed += 1
        held = file.read_bytes() if file.exists() else None
        # At the last step the name is exchanged already, and only its durability was in question.
        assert held == (NEW if len(disk.calls) == 4 else old)
        assert [each.name for each in file.parent.iterdir()] == ([] if held is None else ["file"])
    assert failed == 4
    assert file.read_bytes() == NEW


def test_parts_that_cannot_be_read_to_their_end_leave_the_old_bytes(tmp_path: Path) -> None:
    def give() -> Iterator[bytes]:
        yield NEW
        raise KeyboardInterrupt

    file = tmp_path / "file"
    file.write_bytes(OLD)

    with pytest.raises(KeyboardInterrupt):
        write_atomically(file, give())

    assert file.read_bytes() == OLD
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("step", ["open", "write", "fsync", "replace", "sync"])
def test_a_kill_at_each_step_leaves_the_old_bytes_or_all_of_the_new(
    tmp_path: Path, step: str
) -> None:
    script = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from vaultmem.storage import atomic\n"
        "def die(*_):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "def give():\n"
        "    yield b'new bytes, and more of them\\n' * 5_000\n"
        "    if sys.argv[2] == 'write':\n"
        "        die()\n"
        "    yield b'new bytes, and more of them\\n' * 5_000\n"
        "if sys.argv[2] == 'sync':\n"
        "    atomic.sync_folder = die\n"
        "elif sys.argv[2] != 'write':\n"
        "    setattr(os, sys.argv[2], die)\n"
        "atomic.write_atomically(Path(sys.argv[1]), give())\n"
    )
    file = tmp_path / "file"
    file.write_bytes(OLD)

    done = subprocess.run([sys.executable, "-c", script, str(file), step], check=False)

    assert done.returncode == -signal.SIGKILL
    assert file.read_bytes() == (NEW if step == "sync" else OLD)
    left = [each.name for each in tmp_path.iterdir() if each != file]
    assert set(left) == {each.name for each in tmp_path.glob(TEMPORARY.format("*"))}


def test_bytes_and_name_are_synced_in_this_order_before_it_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = WatchedDisk(monkeypatch)

    write_atomically(tmp_path / "file", NEW)

    assert [name for name, _ in disk.calls] == ["open", "fsync", "replace", "fsync"]
    assert disk.calls[-1] == ("fsync", tmp_path.name)


def test_a_cache_is_written_whole_without_waiting_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = WatchedDisk(monkeypatch)

    write_atomically(tmp_path / "file", NEW, durable=False)

    assert [name for name, _ in disk.calls] == ["open", "replace"]


@pytest.mark.parametrize(("mode", "wanted"), [(None, 0o644), (0o600, 0o600), (0o755, 0o755)])
def test_a_file_has_the_mode_that_is_asked_for(
    tmp_path: Path, mode: int | None, wanted: int
) -> None:
    file = tmp_path / "file"
    file.write_bytes(OLD)
    file.chmod(0o640)

    write_atomically(file, NEW, mode=mode)

    assert stat.S_IMODE(file.stat().st_mode) == wanted


def test_a_private_folder_and_its_name_are_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = WatchedDisk(monkeypatch)

    make_private_folder(tmp_path / "outer/inner")
    make_private_folder(tmp_path / "outer/inner")

    assert {file for name, file in disk.calls if name == "fsync"} == {tmp_path.name, "outer"}
    assert stat.S_IMODE((tmp_path / "outer/inner").stat().st_mode) == 0o700


@pytest.mark.parametrize("truth", TRUTHS)
def test_what_nothing_can_mend_is_synced_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, truth: str
) -> None:
    disk = WatchedDisk(monkeypatch)

    TRUTHS[truth](tmp_path)

    (file,) = [each for each in tmp_path.rglob("*") if each.is_file()]
    named = [number for number, (name, _) in enumerate(disk.calls) if name in {"replace", "link"}]
    synced = [(number, file) for number, (name, file) in enumerate(disk.calls) if name == "fsync"]
    assert any(number < named[0] and name.endswith(".tmp") for number, name in synced)
    assert any(number > named[0] and name == file.parent.name for number, name in synced)


@pytest.mark.parametrize("truth", ["trust", "receipt", "session"])
def test_a_full_disk_leaves_what_was_written_before(tmp_path: Path, truth: str) -> None:
    TRUTHS[truth](tmp_path)
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}

    for failing in (1, 2, 3):
        with pytest.MonkeyPatch.context() as patch:
            WatchedDisk(patch, failing, errno.ENOSPC)
            with pytest.raises(VaultError, match=os.strerror(errno.ENOSPC)):
                TRUTHS[truth](tmp_path)

        after = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
        assert after == before
