"""What clients install in one step has what `connect` writes, and starts nobody else's vaultmem."""

from __future__ import annotations

import hashlib
import json
import re
import runpy
import zipfile
from pathlib import Path
from typing import Any

import pytest

from vaultmem import __version__
from vaultmem.core.clients.agent_client import CLIENTS

SCRIPT = Path(__file__).parents[2] / "docs/bundles.py"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder with everything built, of a wheel that is none."""
    folder = tmp_path_factory.mktemp("bundles")
    wheel = folder / f"vaultmem_notes-{__version__}-py3-none-any.whl"
    wheel.write_bytes(b"a wheel")
    build(wheel, folder, "--name", "org.example/vaultmem", "--url", "https://example.org/v1/")
    return folder


def build(wheel: Path, into: Path, *options: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["bundles", str(wheel), "--into", str(into), *options])
        runpy.run_path(str(SCRIPT), run_name="__main__")


def read(file: Path) -> Any:
    return json.loads(file.read_text())


def test_the_plugin_has_the_hooks_and_the_server_that_connect_writes(built: Path) -> None:
    plugin = built / "vaultmem-plugin"
    assert read(plugin / ".claude-plugin/plugin.json")["version"] == __version__
    hooks = read(plugin / "hooks/hooks.json")["hooks"]
    known = CLIENTS["claude-code"].hooks
    assert known is not None
    assert {name: each[0]["hooks"][0]["command"] for name, (each) in hooks.items()} == {
        name: f"vaultmem hook {event} --agent claude-code" for name, event in known.events.items()
    }
    server = read(plugin / ".mcp.json")["mcpServers"]["vaultmem"]
    assert (server["command"], server["args"]) == ("vaultmem", ["mcp", "--agent", "claude-code"])
    assert (plugin / "skills/vaultmem/SKILL.md").read_text().startswith("---\nname: vaultmem\n")


def test_the_bundle_has_the_wheel_within(built: Path) -> None:
    (bundle,) = built.glob("*.mcpb")
    with zipfile.ZipFile(bundle) as archive:
        texts = {name: archive.read(name).decode() for name in archive.namelist()}
    (wheel,) = (name for name in texts if name.endswith(".whl"))
    assert texts[wheel] == "a wheel"
    assert f'vaultmem-notes = {{ path = "{wheel}" }}' in texts["pyproject.toml"]
    manifest = json.loads(texts["manifest.json"])
    assert manifest["server"]["entry_point"] in texts
    assert manifest["server"]["mcp_config"]["args"][-4:] == [
        *("--vault", "${user_config.vault}", "--agent", "claude-desktop")
    ]
    again = built / "again"
    build(built / wheel, again)
    assert (again / bundle.name).read_bytes() == bundle.read_bytes()


def test_the_registrys_entry_keeps_its_rules(built: Path) -> None:
    """See docs/reference/server-json of the registry: its schema, and what it asks of bundles."""
    entry = read(built / "server.json")
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", entry["name"])
    assert 0 < len(entry["description"]) <= 100
    (bundle,) = built.glob("*.mcpb")
    (package,) = entry["packages"]
    assert package == {
        "registryType": "mcpb",
        "identifier": f"https://example.org/v1/{bundle.name}",
        "version": __version__,
        "fileSha256": hashlib.sha256(bundle.read_bytes()).hexdigest(),
        "transport": {"type": "stdio"},
    }
    build(next(built.glob("*.whl")), built / "plain")
    assert "packages" not in read(built / "plain/server.json")  # It could be got from nowhere.


def test_nothing_tells_anybody_to_install_from_an_index(built: Path) -> None:
    for file in (each for each in built.rglob("*") if each.is_file() and each.suffix != ".mcpb"):
        assert not re.search(r"pip install|uvx|pypi", file.read_text())
