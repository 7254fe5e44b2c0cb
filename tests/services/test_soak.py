"""A watcher that runs for long takes no more than at first, and nothing while nothing happens."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest
from conftest import Make, RunCli
from support import write_notes
from watchers import watch_process

#: Seconds of saves and questions, and then of rest.
BUSY = REST = 300.0


def cpu_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(process: int) -> float:
    """Return a process's resident memory in MB."""
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_ten_minutes_of_work_and_rest(make_vault: Make, run_cli: RunCli) -> None:
    notes = {f"notes/f{n % 30}/n{n}.md": f"# N{n}\n\nword{n} gangway\n" for n in range(2_000)}
    root = make_vault(notes)
    with watch_process(root) as process:
        started = time.monotonic()
        at_first, files, count = 0.0, 0, 0
        while (passed := time.monotonic() - started) < BUSY:
            count += 1
            write_notes(root, {f"notes/f{count % 30}/s{count % 50}.md": f"# S\n\nsaid {count}\n"})
            assert run_cli("recall", f"said {count}", cwd=root, timeout=120).code == 0
            if not at_first and passed > BUSY / 5:
                at_first = memory(process.pid)
                files = len(os.listdir(f"/proc/{process.pid}/fd"))
            time.sleep(0.5)
        assert memory(process.pid) < at_first + 15
        assert len(os.listdir(f"/proc/{process.pid}/fd")) < files + 20
        time.sleep(20)
        before, started = cpu_seconds(process.pid), time.monotonic()
        time.sleep(REST)
        share = (cpu_seconds(process.pid) - before) / (time.monotonic() - started)
        print(
            f"{count} saves; {at_first:.1f} MB after a minute, {memory(process.pid):.1f} MB at the "
            f"end; {share:.2%} of a core at rest"
        )
        assert share < 0.01
