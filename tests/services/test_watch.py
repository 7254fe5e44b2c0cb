"""A watched vault keeps itself: whatever is saved, by whatever program, is found."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Make, RunCli
from support import git, wait_until, write_notes
from watchers import found, held_now, shell

from vaultmem.services.watching.watch import WatchEvent, WatchLoop
from vaultmem.vault import open_vault

#: On which watchdog itself warns of its own races.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

Watch = Callable[[Path], tuple[WatchLoop, list[WatchEvent]]]


VIM = "vim -N -u NONE -i NONE -es -c 'set {options}' -c '%s/gangway/WORD/' -c 'wq' old.md"

#: What programs do to save a note, each in a folder of its own; OUTSIDE is outside the vault.
SAVES = {
    "a plain write": "printf '# N\\n\\nWORD\\n' > n.md",
    "sed -i": "sed -i 's/gangway/WORD/' old.md",
    "vim, which renames": VIM.format(options="noswapfile backup writebackup backupcopy=no"),
    "vim, in place": VIM.format(options="swapfile nobackup backupcopy=yes"),
    "in two halves": "(printf '# N'; sleep 0.1; printf '\\n\\nWORD\\n') > n.md",
    "obsidian or vs code, atomically": (
        "printf '# N\\n\\nWORD\\n' > .old.md.1f3.tmp; mv .old.md.1f3.tmp old.md"
    ),
    "syncthing, with an old date": (
        "printf 'WORD\\n' > .syncthing.n.md.tmp; touch -d '2001-02-03' .syncthing.n.md.tmp; "
        "mv .syncthing.n.md.tmp n.md"
    ),
    "dropbox": "mkdir .dropbox.cache; echo WORD > .dropbox.cache/x; mv .dropbox.cache/x n.md",
    "a backup that gets its name": "echo WORD > n.md~; mv n.md~ n.md",
    "a link to a new name": "echo WORD > .x; ln .x n.md; rm .x",
    "a folder moved in": "mkdir -p OUTSIDE/deep; echo WORD > OUTSIDE/deep/n.md; mv OUTSIDE in",
    "a folder renamed": "mkdir a; echo WORD > a/n.md; sleep 0.05; mv a b",
    "a folder renamed, then written": "mkdir -p a/b; sleep 0.3; mv a c; echo WORD > c/b/n.md",
    "a hidden folder shown": "mkdir -p .a/b; echo WORD > .a/b/n.md; sleep 0.3; mv .a a",
    "deleted and made again": "rm old.md; sleep 0.05; echo WORD > old.md",
    "in a new folder": "mkdir -p x/y/z; printf '# N\\n\\nWORD\\n' > x/y/z/n.md",
    "a folder made again": "mkdir d; sleep 0.3; rm -r d; mkdir d; sleep 0.3; echo WORD > d/n.md",
    "a case changed": "mv old.md Old.md; echo WORD > Old.md",
    "made readable": "echo WORD > n.md; chmod 0 n.md; sleep 0.3; chmod 644 n.md",
}


@pytest.mark.campaign
@pytest.mark.usefixtures("emitter")
def test_what_is_saved_is_found(make_vault: Make, watch: Watch, tmp_path: Path) -> None:
    names = [how for how in SAVES if "vim" not in how or shutil.which("vim")]
    root = make_vault({f"s{n}/old.md": "# Old\n\ngangway\n" for n in range(len(names))})
    watch(root)
    editors = []
    for number, how in enumerate(names):
        script = SAVES[how].replace("WORD", f"quagga{number}")
        script = script.replace("OUTSIDE", str(tmp_path / f"out{number}"))
        editors.append(subprocess.Popen(["sh", "-ec", script], cwd=root / f"s{number}"))
    for number, how in enumerate(names):
        assert editors[number].wait(20) == 0, how
        wait_until(lambda n=number: found(root, f"quagga{n}"))
        assert len(found(root, f"quagga{number}")) == 1, how


def test_files_of_editors_and_clients_are_no_notes(make_vault: Make, watch: Watch) -> None:
    root = make_vault({"notes/old.md": "# Old\n"})
    loop, told = watch(root)
    told.clear()
    names = (".old.md.swp", "old.md~", "#old.md#", ".#old.md", "4913", "~old.md", "n.md.part")
    write_notes(root, {f"notes/{name}": "quagga\n" for name in names})
    write_notes(root, {"transcripts/t.md": "quagga\n", ".obsidian/x.md": "quagga\n"})
    assert loop.settle(20)
    assert [each.text for each in told if each.kind == "indexed"] == []
    assert found(root, "quagga") == []


@pytest.mark.usefixtures("emitter")
def test_others_are_in_sync_at_once_while_the_loop_does_something_else(make_vault: Make) -> None:
    root = make_vault({"notes/old.md": "# Old\n"})
    busy, goes_on = threading.Event(), threading.Event()
    loops: list[WatchLoop] = []

    def stay() -> bool:
        busy.set()
        return goes_on.wait(20)

    def run() -> None:
        with contextlib.closing(open_vault(root)) as vault:
            loops.append(WatchLoop(vault, lambda _: None, stay))
            loops[0].run()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert busy.wait(20)
        write_notes(root, {"notes/new.md": "quagga\n"})
        with contextlib.closing(open_vault(root)) as vault:
            loops[0].sync(vault)
            assert "notes/new.md" in vault.view.blobs()
    finally:
        loops[0].stop()
        goes_on.set()
        thread.join(20)


@pytest.mark.usefixtures("emitter")
def test_what_is_removed_is_not_found(make_vault: Make, watch: Watch) -> None:
    root = make_vault({"notes/old.md": "# Old\n\nquagga\n", "deep/er/n.md": "# N\n\nquagga\n"})
    watch(root)
    shutil.rmtree(root / "deep")
    (root / "notes/old.md").unlink()
    wait_until(lambda: not found(root, "quagga"))


@pytest.mark.usefixtures("emitter")
@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
def test_odd_files_end_nothing(make_vault: Make, watch: Watch) -> None:
    root = make_vault({"notes/old.md": "# Old\n"})
    loop, _ = watch(root)
    (root / "notes" / os.fsdecode(b"\xff.md")).write_text("quagga\n")
    (root / "notes/two\nlines.md").write_text("okapi\n")
    os.mkfifo(root / "notes/pipe.md")
    os.symlink(root / "notes/old.md", root / "notes/link.md")
    (root / "notes/large.md").write_bytes(b"kudu " * 300_000)
    (root / "notes/picture.png").write_bytes(b"\x89PNG")
    (root / "notes/n.md").mkdir()
    (root / "notes/n.md/inside.md").write_text("zebra\n")
    assert loop.settle(20)
    assert found(root, "quagga kudu") == []
    assert found(root, "okapi") == ["notes/two\nlines.md"]
    assert found(root, "zebra") == ["notes/n.md/inside.md"]
    os.unlink(root / "notes/pipe.md")
    os.replace(root / "notes/old.md", root / "notes/link.md")
    assert loop.settle(20)
    assert held_now(root).keys() >= {"notes/link.md", "notes/n.md/inside.md"}


@pytest.mark.campaign
@pytest.mark.usefixtures("emitter")
def test_a_save_is_in_the_index_once_the_loop_has_settled(make_vault: Make, watch: Watch) -> None:
    root = make_vault({"notes/old.md": "# Old\n"})
    loop, _ = watch(root)
    for number in range(25):
        place = f"notes/f{number % 5}/n{number % 7}.md"
        write_notes(root, {place: f"# N\n\nquagga{number}\n"})
        assert loop.settle(20)
        assert found(root, f"quagga{number}") == [place]


@pytest.mark.campaign
def test_one_save_is_told_once_and_rest_brings_nothing_new(
    make_vault: Make, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vaultmem.services.watching.watch._FULL_SCAN_DELAY_SECONDS", 0.5)
    root = make_vault({"notes/old.md": "# Old\n\ngangway\n", "notes/b.md": "# B\n"})
    loop, told = watch(root)
    told.clear()
    shell(root, "for n in 1 2 3 4 5; do echo $n >> notes/old.md; sleep 0.02; done; rm notes/b.md")
    assert loop.settle(20)
    wait_until(lambda: loop._last_full >= loop._last_look)
    indexed = [each.text for each in told if each.kind == "indexed"]
    assert indexed == ["1 changed, 1 gone"]


@pytest.mark.campaign
def test_settings_that_change_count_from_then_on(make_vault: Make, watch: Watch) -> None:
    root = make_vault({"notes/old.md": "# Old\n", "drafts/a.md": "# A\n\nquagga\n"})
    loop, told = watch(root)
    (root / "vaultmem.yaml").write_text("ignore: [drafts]\n")
    wait_until(lambda: not found(root, "quagga"))
    write_notes(root, {"drafts/b.md": "# B\n\nquagga\n"})
    assert loop.settle(20)
    assert found(root, "quagga") == []
    (root / "vaultmem.yaml").write_text("nonsense: 7\n")
    wait_until(lambda: any("vaultmem.yaml" in each.text for each in told))
    (root / "vaultmem.yaml").write_text("")
    wait_until(lambda: len(found(root, "quagga")) == 2)


def test_a_commit_by_the_person_is_noticed(make_vault: Make, watch: Watch) -> None:
    root = make_vault({"notes/old.md": "# Old\n"})
    loop, _ = watch(root)
    git(root, "commit", "-q", "--allow-empty", "-m", "mine")
    head = git(root, "rev-parse", "HEAD")
    wait_until(lambda: loop._head == f"main {head}")


@pytest.mark.campaign
def test_five_saves_in_a_moment_are_one_rewriting_or_two(
    make_vault: Make, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vaultmem.services.watching.watch._RENDER_INTERVAL_SECONDS", 2.0)
    root = make_vault({"MEMORY.md": "# Memory\n\nNumber 0.\n"})
    loop, told = watch(root)
    for number in range(1, 6):
        (root / "MEMORY.md").write_text(f"# Memory\n\nNumber {number}.\n")
        assert loop.settle(20)
    wait_until(lambda: "Number 5." in (root / "CONTEXT.md").read_text())
    assert sum(each.kind == "rendered" for each in told) <= 3  # The first is that of the start.


# Whoosh forgets to close a table of contents that it could not read.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("part", ["contents", "segment", "index", "database", "pointer"])
def test_a_watcher_outlives_damage_to_what_it_keeps(
    make_vault: Make, watch: Watch, run_cli: RunCli, part: str
) -> None:
    root = make_vault({"notes/old.md": "# Old\n\ngangway\n"})
    loop, told = watch(root)
    vault = open_vault(root)
    vault.close()
    index = vault.state_folder / "index"
    if part in ("contents", "segment"):
        (file,) = index.glob("*.toc" if part == "contents" else "*.arrays")
        os.truncate(file, file.stat().st_size // 2)
    elif part == "index":
        shutil.rmtree(index)
    else:
        file = vault.state.path if part == "database" else vault.state_folder / "state"
        file.unlink()

    assert "Old" in run_cli("recall", "gangway", cwd=root).out
    write_notes(root, {"notes/new.md": "# New\n\nquagga\n"})
    assert "New" in run_cli("recall", "quagga", cwd=root).out
    assert loop.settle(20)
    assert {each.text for each in told if each.kind == "problem"} <= {
        "the vault's state was damaged and is built again; run the command again"
    }
