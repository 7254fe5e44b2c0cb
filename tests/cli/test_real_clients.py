"""Clients themselves, where they are installed: what they know of a vault once it is connected.

They are looked for on $VAULTMEM_CLIENTS (as $PATH is written) and $PATH. Each gets a home of the
test's own, no account, and a model that is made up: what that is asked tells what an agent saw.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from conftest import Make, RunCli
from made_up_model import SAID, Model, serve_model
from support import git, wait_until

NOTES = {
    "MEMORY.md": "# Memory\n\nThe ferry leaves at noon.\n",
    "notes/refunds.md": "# Refunds\n\nRefunds are queued, one job each.\n",
}
ASKED = "how are refunds queued?"
TOLD_AT_START, TOLD_WITH_PROMPT = "The ferry leaves at noon.", "Refunds are queued, one job each."


class Real(NamedTuple):
    """How a client lists its servers and what it then says; how it is asked one thing."""

    lists: list[str]
    says: str
    asks: Sequence[str] = ()
    settings: Mapping[str, str] = {}


#: Claude Code and Codex begin a first turn without the servers that are not there yet; not so here.
CODEX = {
    "mcp_servers.vaultmem.required": "true",
    "model": "m",
    "model_provider": "x",
    "model_providers.x.name": "x",
    "model_providers.x.base_url": "URL/v1",
    "model_providers.x.wire_api": "responses",
    "model_providers.x.env_key": "X_KEY",
}
REAL = {
    "claude-code": Real(
        ["claude", "mcp", "list"],
        "✔",
        ["claude", "-p", ASKED],
        {
            "ANTHROPIC_BASE_URL": "URL",
            "ANTHROPIC_API_KEY": "none",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "MCP_CONNECTION_NONBLOCKING": "0",
        },
    ),
    # Codex runs no hooks until its user has looked at them, by /hooks.
    "codex": Real(
        ["codex", "mcp", "list"],
        "enabled",
        [
            *("codex", "exec", "--skip-git-repo-check", "--dangerously-bypass-hook-trust"),
            *(word for key, value in CODEX.items() for word in ("-c", f"{key}={value}")),
            ASKED,
        ],
        {"X_KEY": "none"},
    ),
    "gemini": Real(
        ["gemini", "mcp", "list"],
        "✓",
        ["gemini", "-m", "gemini-2.5-flash", "-p", ASKED],
        {"GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": "URL"},
    ),
    "opencode": Real(["opencode", "mcp", "list"], "✓"),
    "copilot": Real(
        ["copilot", "mcp", "list"],
        "vaultmem",
        ["copilot", "-p", ASKED],
        {
            "COPILOT_OFFLINE": "true",
            "COPILOT_PROVIDER_BASE_URL": "URL/v1",
            "COPILOT_MODEL": "m",
        },
    ),
}
#: Where they are; read before the tests' environment is made empty.
PLACES = os.pathsep.join(filter(None, [os.environ.get("VAULTMEM_CLIENTS"), os.environ["PATH"]]))

pytestmark = pytest.mark.long


def need(program: str) -> None:
    if shutil.which(program, path=PLACES) is None:
        pytest.skip(f"{program} is neither on $VAULTMEM_CLIENTS nor on $PATH")


@pytest.fixture(params=REAL)
def client(request: pytest.FixtureRequest, home: Path, tmp_path: Path) -> str:
    """Give the name of a client that is installed, with settings of its user's own."""
    name: str = request.param
    need(REAL[name].lists[0])
    if name == "gemini":
        (home / ".gemini").mkdir()
        own = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
        (home / ".gemini/settings.json").write_text(json.dumps(own))
        trusted = {str(tmp_path): "TRUST_FOLDER"}
        (home / ".gemini/trustedFolders.json").write_text(json.dumps(trusted))
    return name


def run_real(
    words: list[str], folder: Path, settings: Mapping[str, str] | None = None, given: str = ""
) -> str:
    """Run a client in a folder with nothing of whoever runs the tests; return what it prints."""
    program = shutil.which(words[0], path=PLACES)
    assert program is not None
    env = {
        **{key: os.environ[key] for key in os.environ if key.startswith("XDG_")},
        "HOME": os.environ["HOME"],
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "TERM": "dumb",
        **(settings or {}),
    }
    done = subprocess.run(
        [program, *words[1:]],
        cwd=folder,
        env=env,
        input=given,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def ask(words: Sequence[str], folder: Path, model: Model, real: Real) -> str:
    """Run a client with a model; return what it prints."""
    settings = {key: each.replace("URL", model.url) for key, each in real.settings.items()}
    return run_real([word.replace("URL", model.url) for word in words], folder, settings)


def list_servers(client: str, folder: Path) -> str:
    """Return what a client says of the vault's server, which then is there for what follows."""
    line = ""
    for _ in range(3):  # Gemini CLI waits 5 seconds, which a busy machine may take to start one.
        told = run_real(REAL[client].lists, folder)
        line = next(line for line in told.splitlines() if "vaultmem" in line)
        if REAL[client].says in line:
            break
    return line


def test_a_client_lists_the_vault_as_connected(
    client: str, make_vault: Make, run_cli: RunCli, tmp_path: Path
) -> None:
    root = make_vault(NOTES)
    assert run_cli("connect", client, "--vault", root).code == 0
    assert REAL[client].says in list_servers(client, tmp_path)
    assert run_cli("connect", client, "--remove").code == 0
    assert "vaultmem" not in run_real(REAL[client].lists, tmp_path)


def test_what_the_memory_holds_comes_to_the_model(
    client: str, make_vault: Make, run_cli: RunCli, tmp_path: Path
) -> None:
    real = REAL[client]
    if not real.asks:
        pytest.skip(f"{client} has no hooks")
    root = make_vault(NOTES)
    assert run_cli("connect", client, "--hooks", "--vault", root).code == 0
    list_servers(client, tmp_path)
    with serve_model() as model:
        assert SAID in ask(real.asks, tmp_path, model, real)
    asked = next(each for each in model.asked if TOLD_WITH_PROMPT in each)
    assert TOLD_AT_START in asked
    assert "context_pack" in asked  # The server's tools, by whatever longer name.
    wait_until(lambda: "session-close" in git(root, "log", "-1", "--format=%s"), 60)
    assert git(root, "log", "-1", "--format=%an").strip() == client
    (kept,) = (root / "transcripts").glob("*.jsonl")
    assert SAID in kept.read_text()


@pytest.fixture(scope="session")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder with what `make bundles` builds."""
    folder = tmp_path_factory.mktemp("dist")
    project = Path(__file__).parents[2]
    run_here(["-m", "build", "-q", "--wheel", "--outdir", str(folder), "."], project)
    (wheel,) = folder.glob("*.whl")
    run_here([str(project / "docs/bundles.py"), str(wheel), "--into", str(folder)], project)
    return folder


def run_here(words: list[str], folder: Path) -> None:
    subprocess.run([sys.executable, *words], cwd=folder, check=True, capture_output=True)


def test_the_plugin_is_valid_and_brings_memory_and_tools(bundles: Path, make_vault: Make) -> None:
    need("claude")
    plugin, root, real = bundles / "vaultmem-plugin", make_vault(NOTES), REAL["claude-code"]
    for file in ("plugin.json", "marketplace.json"):
        words = ["claude", "plugin", "validate", "--strict"]
        run_real([*words, str(plugin / ".claude-plugin" / file)], root)
    run_real(["claude", "plugin", "marketplace", "add", str(plugin)], root)
    run_real(["claude", "plugin", "install", "vaultmem@vaultmem"], root)
    assert real.says in list_servers("claude-code", root)
    with serve_model() as model:
        assert SAID in ask(real.asks, root, model, real)
    asked = next(each for each in model.asked if TOLD_WITH_PROMPT in each)
    assert TOLD_AT_START in asked
    assert "context_pack" in asked
    wait_until(lambda: "session-close" in git(root, "log", "-1", "--format=%s"), 60)


def test_the_bundle_is_valid(bundles: Path, tmp_path: Path) -> None:
    need("mcpb")
    run_real(["mcpb", "validate", str(unpack(bundles, tmp_path) / "manifest.json")], tmp_path)


def test_the_bundle_starts_a_server_of_its_own(
    bundles: Path, make_vault: Make, tmp_path: Path
) -> None:
    """Ask uv for the packages that vaultmem needs, and the server for its name."""
    need("uv")
    folder, root = unpack(bundles, tmp_path), make_vault(NOTES)
    config = json.loads((folder / "manifest.json").read_text())["server"]["mcp_config"]
    known = {"${__dirname}": str(folder), "${user_config.vault}": str(root)}
    hello = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }
    asked = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}) + "\n"
    words = [config["command"], *(known.get(word, word) for word in config["args"])]
    told = run_real(words, tmp_path, {"UV_SYSTEM_CERTS": "1"}, asked)
    assert '"serverInfo":{"name":"vaultmem"' in told


def unpack(bundles: Path, folder: Path) -> Path:
    (bundle,) = bundles.glob("*.mcpb")
    with zipfile.ZipFile(bundle) as archive:
        archive.extractall(folder / "bundle")
    return folder / "bundle"
