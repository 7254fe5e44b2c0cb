"""An editor's saves beside edits of the same note, back to back: however it saves, none is lost."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path, PurePosixPath

import pytest
from support import wait_until, write_notes

from vaultmem.core.text.blob import blob_id
from vaultmem.errors import ConflictError, NoteNotFoundError
from vaultmem.storage import displaced_files, file_replacement, leases
from vaultmem.storage.displaced_files import discard
from vaultmem.storage.files import read_file, remove_file, replace_file

NOTE = PurePosixPath("notes/n.md")
WAYS = ("rename", "vim", "in place", "append")

#: Saves a file so many times, with a pause (s) between opening it and writing to it.
_EDITOR = """
import os, random, sys, time
path, way, count, pause = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
def write(to, text, flags="w"):
    with open(to, flags) as file:
        if pause:
            time.sleep(pause)
        file.write(text)
def read_with(line):  # Nobody goes on with a text that lacks what they have just saved.
    end = time.monotonic() + 0.2
    while True:
        with open(path) as file:
            text = file.read()
        if line in text or time.monotonic() > end:
            return text
line = ""
for n in range(count):
    text, line = read_with(line), f"quagga{n}x\\n"
    if way == "append":
        write(path, line, "a")
    elif way == "in place":
        write(path, text + line)
    elif way == "rename":
        write(path + "~", text + line)
        os.replace(path + "~", path)
    else:
        os.rename(path, path + "~")
        write(path, text + line)
        os.unlink(path + "~")
    time.sleep(random.random() * 0.002)
"""


def edit_beside_an_editor(root: Path, way: str, saves: int, pause: float) -> tuple[int, int]:
    """Edit the note as fast as can be while an editor saves it; return edits and conflicts."""
    command = [sys.executable, "-c", _EDITOR, str(root / NOTE), way, str(saves), str(pause)]
    editor = subprocess.Popen(command)
    done = conflicts = 0
    while editor.poll() is None:
        try:
            data = read_file(root, NOTE)
            rest = data.partition(b"\n")[2] if data.startswith(b"edit ") else data
            replace_file(root, NOTE, blob_id(data), b"edit %d\n" % done + rest)
            done += 1
        except (ConflictError, NoteNotFoundError):
            conflicts += 1
    assert editor.returncode == 0
    return done, conflicts


def find_lost(root: Path, saves: int) -> list[int]:
    for aside in (root / NOTE).parent.glob(".vaultmem-*"):  # The next command looks at these.
        discard(aside)
    kept = "".join(file.read_text() for file in (root / NOTE).parent.glob("*.md"))
    return [n for n in range(saves) if f"quagga{n}x\n" not in kept]


@pytest.mark.guarantee
@pytest.mark.parametrize(
    "saves",
    [pytest.param(60, marks=pytest.mark.campaign), pytest.param(3_000, marks=pytest.mark.long)],
)
@pytest.mark.parametrize("pause", [0, 0.001, 0.003])
@pytest.mark.parametrize("way", WAYS)
def test_no_save_is_lost_beside_edits(tmp_path: Path, way: str, pause: float, saves: int) -> None:
    (tmp_path / NOTE).parent.mkdir()
    (tmp_path / NOTE).write_text("Start.\n")

    done, conflicts = edit_beside_an_editor(tmp_path, way, saves, pause)

    lost = find_lost(tmp_path, saves)
    print(f"| {way} | {pause * 1000:g} ms | {saves} | {done} | {conflicts} | {len(lost)} |")
    assert lost == []
    assert done > 0


@pytest.mark.campaign
@pytest.mark.parametrize("way", WAYS)
def test_no_save_is_lost_where_the_system_tells_of_no_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setattr(leases, "_take", lambda *_: leases.Lease.UNKNOWN)
    (tmp_path / NOTE).parent.mkdir()
    (tmp_path / NOTE).write_text("Start.\n")

    edit_beside_an_editor(tmp_path, way, 12, 0.003)

    monkeypatch.setattr(displaced_files, "_QUIET_SECONDS", 0.0)  # Seconds have passed.
    assert find_lost(tmp_path, 12) == []
    assert not list((tmp_path / NOTE).parent.glob(".vaultmem-*"))


def test_who_has_a_note_open_to_write_is_waited_for(tmp_path: Path) -> None:
    write_notes(tmp_path, {str(NOTE): "Start.\n"})
    with open(tmp_path / NOTE, "a") as file:
        threading.Timer(0.1, file.close).start()
        replace_file(tmp_path, NOTE, blob_id(b"Start.\n"), b"Edited.\n")
        assert file.closed

    assert (tmp_path / NOTE).read_text() == "Edited.\n"


@pytest.mark.parametrize(
    "change",
    [
        lambda root: replace_file(root, NOTE, blob_id(b"Start.\n"), b"Edited.\n"),
        lambda root: remove_file(root, NOTE, blob_id(b"Start.\n")),
    ],
)
def test_a_note_that_somebody_keeps_open_to_write_is_left_as_it_is(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    write_notes(tmp_path, {str(NOTE): "Start.\n"})
    with open(tmp_path / NOTE, "a") as file:
        with pytest.raises(ConflictError, match="another program has it open to write"):
            change(tmp_path)
        file.write("A line.\n")

    assert [each.name for each in (tmp_path / NOTE).parent.iterdir()] == ["n.md"]
    assert (tmp_path / NOTE).read_text() == "Start.\nA line.\n"


def test_who_opens_a_note_while_it_is_exchanged_gets_it_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The editor waits in `open` for the lease; what it opens then is the note."""
    write_notes(tmp_path, {str(NOTE): "Start.\n"})
    real, editors = file_replacement.exchange_files, []

    def exchange(first: Path, second: Path) -> None:
        if not editors:
            script = f"open({str(second)!r}, 'a').write('A line.\\n')"
            editors.append(subprocess.Popen([sys.executable, "-c", script]))
            wait_until(lambda: Path(f"/proc/{editors[0].pid}/wchan").read_text() == "__break_lease")
        real(first, second)

    monkeypatch.setattr(file_replacement, "exchange_files", exchange)

    with pytest.raises(ConflictError, match="read it again"):
        replace_file(tmp_path, NOTE, blob_id(b"Start.\n"), b"Edited.\n")

    assert editors[0].wait(20) == 0
    assert (tmp_path / NOTE).read_text() == "Start.\nA line.\n"
    assert [each.name for each in (tmp_path / NOTE).parent.iterdir()] == ["n.md"]
