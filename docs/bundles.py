"""Build what clients install in one step: a Claude Code plugin, an MCP bundle, a registry entry.

`make bundles` runs it. The plugin starts the `vaultmem` that is installed. The bundle has the wheel
within, and its host's uv gets what that needs: no index is asked for vaultmem itself. Forms:

- plugin: code.claude.com/docs/en/plugins-reference; `claude plugin validate --strict`
- bundle: github.com/modelcontextprotocol/mcpb, MANIFEST.md, version 0.4; `mcpb validate`
- entry: github.com/modelcontextprotocol/registry, docs/reference/server-json
"""

from __future__ import annotations

import argparse
import hashlib
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vaultmem import __version__
from vaultmem.core.clients.agent_client import CLIENTS, ENTRY
from vaultmem.core.clients.client_settings import fill_entry, fill_item
from vaultmem.services.clients.connect import read_skill

AUTHOR = {"name": "The vaultmem authors"}
LICENSE = "Apache-2.0"
DESCRIPTION = "An agent's long-term memory as a folder of markdown in git"

#: The vault that its owner chooses, where a bundle's host asks for it.
_CHOSEN = "${user_config.vault}"

#: The same date in every zip, so that the same sources give the same bytes.
_DATE = (2020, 1, 1, 0, 0, 0)

Files = Mapping[str, str | bytes]


def make_plugin() -> dict[str, str]:
    """Return the files of the Claude Code plugin, which is a marketplace of its own as well.

    The vault is that around the folder of work.
    """
    client = CLIENTS["claude-code"]
    assert client.hooks is not None  # noqa: S101
    options = ["--agent", client.name]
    hooks = {
        name: [fill_item(client.hooks, " ".join([ENTRY, "hook", event, *options]), name)]
        for name, event in client.hooks.events.items()
    }
    manifest = {
        "name": ENTRY,
        "version": __version__,
        "description": DESCRIPTION,
        "author": AUTHOR,
        "license": LICENSE,
        "keywords": ["memory", "markdown", "git"],
    }
    market = {
        "name": ENTRY,
        "description": DESCRIPTION,
        "owner": AUTHOR,
        "plugins": [{"name": ENTRY, "source": "./", "description": DESCRIPTION}],
    }
    entry = fill_entry(client, [ENTRY, "mcp", *options])
    return {
        ".claude-plugin/plugin.json": _dump(manifest),
        ".claude-plugin/marketplace.json": _dump(market),
        ".mcp.json": _dump({"mcpServers": {ENTRY: entry}}),
        "hooks/hooks.json": _dump({"description": DESCRIPTION, "hooks": hooks}),
        f"skills/{ENTRY}/SKILL.md": read_skill(),
    }


def make_bundle(wheel: Path) -> dict[str, str | bytes]:
    """Return the files of the bundle, which uv makes an environment of."""
    package = wheel.name.partition("-")[0].replace("_", "-")
    project = f"""[project]
name = "{ENTRY}-bundle"
version = "{__version__}"
requires-python = ">=3.11"
dependencies = ["{package}[mcp]"]

[tool.uv]
package = false

[tool.uv.sources]
{package} = {{ path = "{wheel.name}" }}
"""
    words = ["mcp", "--vault", _CHOSEN, "--agent", "claude-desktop"]
    manifest = {
        "manifest_version": "0.4",
        "name": ENTRY,
        "display_name": ENTRY,
        "version": __version__,
        "description": DESCRIPTION,
        "author": AUTHOR,
        "license": LICENSE,
        "server": {
            "type": "uv",
            "entry_point": "server.py",
            "mcp_config": {
                "command": "uv",
                "args": ["run", "--directory", "${__dirname}", "server.py", *words],
            },
        },
        "user_config": {
            "vault": {
                "type": "directory",
                "title": "Vault",
                "description": "The folder of notes; git has to be installed.",
                "required": True,
            }
        },
        "compatibility": {"runtimes": {"python": ">=3.11"}},
    }
    return {
        "manifest.json": _dump(manifest),
        "pyproject.toml": project,
        "server.py": "from vaultmem.__main__ import main\n\nmain()\n",
        wheel.name: wheel.read_bytes(),
    }


def make_entry(bundle: Path, name: str, url: str) -> str:
    """Return the registry's server.json; it has the bundle where that can be got from a URL."""
    told: dict[str, Any] = {
        "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
        "name": name,
        "title": ENTRY,
        "description": DESCRIPTION,
        "version": __version__,
    }
    if url:
        package = {
            "registryType": "mcpb",
            "identifier": f"{url.rstrip('/')}/{bundle.name}",
            "version": __version__,
            "fileSha256": hashlib.sha256(bundle.read_bytes()).hexdigest(),
            "transport": {"type": "stdio"},
        }
        told["packages"] = [package]
    return _dump(told)


def main() -> None:
    """Build all three from a wheel."""
    parser = argparse.ArgumentParser(description="Build the plugin, the bundle and server.json.")
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--into", type=Path, default=Path("dist"))
    parser.add_argument("--name", default=f"local/{ENTRY}", help="The registry's name for it.")
    parser.add_argument("--url", default="", help="The folder from which the bundle is got.")
    asked = parser.parse_args()
    plugin = asked.into / f"{ENTRY}-plugin"
    _write(plugin, make_plugin())
    bundle = asked.into / f"{ENTRY}-{__version__}.mcpb"
    _pack(bundle, make_bundle(asked.wheel))
    (asked.into / "server.json").write_text(make_entry(bundle, asked.name, asked.url), "utf-8")
    print(f"{plugin}\n{bundle}\n{asked.into / 'server.json'}")


def _write(folder: Path, files: Files) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text.encode() if isinstance(text, str) else text)


def _pack(file: Path, files: Files) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(name, _DATE), text, zipfile.ZIP_DEFLATED)


def _dump(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    main()
