"""`vaultmem watch` as a process: started, told of, ended."""

from __future__ import annotations

import json
import os
import plistlib
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Make, Open, RunCli
from support import git, wait_until, write_notes
from watchers import find_socket, found, watch_process

from vaultmem.cli.sync_commands import launchd_plist
from vaultmem.services.watching.lease import hold_watch
from vaultmem.storage.lock import is_held
from vaultmem.vault import Vault

NOTES = {"notes/gangway.md": "# Gangway\n\nIt is blue.\n"}


@pytest.mark.campaign
def test_a_second_watcher_says_who_is_there(make_vault: Make, run_cli: RunCli) -> None:
    root = make_vault(NOTES)
    with watch_process(root) as first:
        second = run_cli("watch", cwd=root)
        assert second.code == 1
        assert f"watched already by process {first.pid}" in second.err
        assert run_cli("watch", "--daemon", cwd=root).err == second.err
        assert run_cli("watch", "--status", "--json", cwd=root).json["watcher"]["pid"] == first.pid
        stopped = run_cli("watch", "--stop", cwd=root)
        assert stopped.out == f"Process {first.pid} has ended.\n"
        assert first.wait(20) == 0
        assert run_cli("watch", "--status", cwd=root).code == 1


def test_who_only_asks_is_in_nobodys_way(make_vault: Make, opened: Open) -> None:
    vault = opened(make_vault(NOTES))
    is_over = threading.Event()

    def ask() -> None:
        while not is_over.is_set():
            is_held(vault.state_folder / "watch.lock")

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(50):
            with hold_watch(vault):  # It raises nothing.
                pass
    finally:
        is_over.set()
        for thread in threads:
            thread.join()


@pytest.mark.campaign
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_the_end_takes_in_what_is_pending(make_vault: Make, how: signal.Signals) -> None:
    root = make_vault({**NOTES, "notes/rule.md": "---\nstate: candidate\n---\n# Rule\n"})
    with watch_process(root) as process:
        write_notes(root, {"notes/last.md": "# Last\n\nquagga\n"})
        write_notes(root, {"notes/rule.md": "---\nstate: active\n---\n# Rule\n"})
        process.send_signal(how)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (0, "")
    assert {json.loads(line)["what"] for line in out.splitlines()} >= {"indexed", "committed"}
    assert found(root, "quagga") == ["notes/last.md"]
    assert git(root, "log", "-1", "--format=%s") == "promote: rule"
    assert not os.path.exists(find_socket(root))


@pytest.mark.campaign
def test_a_reader_that_goes_away_ends_it(make_vault: Make) -> None:
    root = make_vault(NOTES)
    with watch_process(root) as process:
        process.stdout.close()  # type: ignore[union-attr]
        write_notes(root, {"notes/last.md": "# Last\n\nquagga\n"})
        assert process.wait(20) == 0
        process.stdout = None
        assert process.stderr.read() == ""  # type: ignore[union-attr]
    assert found(root, "quagga") == ["notes/last.md"]


@pytest.mark.campaign
def test_a_daemon_goes_on_alone(make_vault: Make, run_cli: RunCli) -> None:
    root = make_vault({**NOTES, "vaultmem.yaml": "commit_edits_after_seconds: 600\n"})
    begun = run_cli("watch", "--daemon", "--json", cwd=root).json
    try:
        assert run_cli("watch", "--status", cwd=root).code == 0
        write_notes(root, {"notes/late.md": "# Late\n\nquagga\n"})
        wait_until(lambda: "quagga" in run_cli("recall", "quagga", cwd=root).out, 10)
        wait_until((root / "CONTEXT.md").exists)
    finally:
        assert run_cli("watch", "--stop", "--json", cwd=root).json["stopped"]
    assert "edit: late" in Path(begun["log"]).read_text(encoding="utf-8")
    assert git(root, "log", "-1", "--format=%an: %s") == "Maren Person: edit: late"


@pytest.mark.skipif(not hasattr(os, "O_NOFOLLOW"), reason="links are followed on this system")
def test_a_daemon_writes_its_log_through_no_link(
    make_vault: Make, run_cli: RunCli, opened: Callable[[Path], Vault], tmp_path: Path
) -> None:
    root = make_vault(NOTES)
    other = tmp_path / "of-the-user"
    other.write_text("mine\n")
    other.chmod(0o644)
    log = opened(root).state_folder / "watch.log"
    log.symlink_to(other)
    try:
        refused = run_cli("watch", "--daemon", cwd=root)
        assert refused.code == 1
        assert "watch.log" in refused.err
        assert other.stat().st_mode & 0o777 == 0o644
    finally:
        run_cli("watch", "--stop", cwd=root)
    assert other.read_text() == "mine\n"


def test_a_unit_starts_this_python_on_this_vault(
    make_vault: Make, run_cli: RunCli, tmp_path: Path
) -> None:
    root = make_vault(NOTES, "a $vault %u")
    text = run_cli("watch", "--print-service", cwd=root).out
    assert f'"{sys.executable}" "-P" "-m" "vaultmem" "watch"' in text
    assert '/a $$vault %%u"' in text
    assert "WantedBy=default.target" in text
    unit = tmp_path / "vaultmem-test.service"
    unit.write_text(text)
    if shutil.which("systemd-analyze"):
        verify = ["systemd-analyze", "verify", "--user", unit]
        told = subprocess.run(verify, capture_output=True, text=True, check=False).stderr
        assert unit.name not in told


def test_a_plist_is_one(tmp_path: Path) -> None:
    command = ["/usr/bin/python3", "-m", "vaultmem", "watch", "--vault", "/Users/m/a & b <c>"]
    plist = plistlib.loads(launchd_plist(command).encode())
    assert plist["ProgramArguments"] == command
    assert plist["KeepAlive"] == {"SuccessfulExit": False}
    assert plist["RunAtLoad"]


#: The packages of the extras that serve.
_EXTRAS = (
    "anyio",
    "h11",
    "jinja2",
    "markdown_it",
    "mcp",
    "mcp_types",
    "nh3",
    "starlette",
    "uvicorn",
)

_WITHOUT = f"""
import sys

sys.modules.update(dict.fromkeys({_EXTRAS}))
from vaultmem.__main__ import main
main()
"""


def test_watching_needs_no_extra(make_vault: Make) -> None:
    root = make_vault(NOTES)
    words = ["watch", "--json", "--idle-timeout", "0.005", "--vault", str(root)]
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT, *words], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")
