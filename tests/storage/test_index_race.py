"""Processes that open the index while another one writes it find all of it, or wait."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Make, Open
from support import write_notes

from vaultmem.services.views.update_index import sync_vault

_READER = """\
import sys, warnings
warnings.simplefilter("error")
from vaultmem.vault import open_vault
seen = 0
print("ready", flush=True)
while not sys.stdin.closed:
    vault = open_vault(sys.argv[1])
    vault.index.stamp()
    documents = vault.index.documents()
    assert 0 not in documents, "a column was missing"
    assert len(documents) >= seen, (len(documents), seen)
    seen = len(documents)
    vault.close()
    if seen >= int(sys.argv[2]):
        break
"""


@pytest.mark.campaign
def test_readers_never_find_half_an_index(make_vault: Make, opened: Open, home: Path) -> None:
    root = make_vault({"notes/n.md": "# N\n"})
    vault = opened(root)
    sync_vault(vault)
    wanted = len(vault.index.documents()) + 40
    command = [sys.executable, "-X", "dev", "-c", _READER, str(root), str(wanted)]
    readers = [
        subprocess.Popen(command, stdin=-1, stdout=-1, stderr=-1, text=True) for _ in range(2)
    ]
    for reader in readers:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "ready\n"
    for number in range(40):
        write_notes(root, {f"notes/m{number}.md": f"# M\n\nword{number}\n"})
        sync_vault(vault)
    for reader in readers:
        _, err = reader.communicate(timeout=60)
        assert (reader.returncode, err) == (0, "")
    assert not (vault.state_folder / "index.damaged").exists()
