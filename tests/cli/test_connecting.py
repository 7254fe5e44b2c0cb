"""Clients are told of a vault in their own settings, which stay theirs."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import RunCli
from support import hash_tree

from vaultmem.core.clients.client import CLIENTS, ClientName
from vaultmem.core.clients.jsonc import read_jsonc

Make = Callable[..., Path]

JSON = (
    '{\n  // my servers\n  "KEY": {\n    "x": { "command": "x" }, // keep\n  },\n  "theme": 1\n}\n'
)
TOML = '# mine\nmodel = "o1"\n\n[KEY.x]\ncommand = "x"  # keep\n\n[tools]\nweb = true\n'


def settings(home: Path, name: ClientName) -> Path:
    return home / CLIENTS[name].user_file("linux")


def entry_of(file: Path, name: ClientName) -> dict[str, object]:
    text = file.read_text()
    whole = tomllib.loads(text) if file.suffix == ".toml" else read_jsonc(text).value
    found: dict[str, object] = whole[CLIENTS[name].key]["vaultmem"]
    return found


@pytest.mark.parametrize("name", list(ClientName))
def test_each_client_gets_our_entry_and_its_old_bytes_back(
    name: ClientName, make_vault: Make, run_cli: RunCli, home: Path
) -> None:
    root = make_vault()
    file = settings(home, name)
    file.parent.mkdir(parents=True, exist_ok=True)
    before = (TOML if file.suffix == ".toml" else JSON).replace("KEY", CLIENTS[name].key)
    file.write_text(before)

    dry = run_cli("connect", name, "--vault", root, "--dry-run")
    assert (dry.code, file.read_text()) == (0, before)
    done = run_cli("connect", name, "--vault", root, "--json").json
    assert [each["action"] for each in done["changes"]] == ["changed"]
    assert Path(done["changes"][0]["backup"]).read_text() == before
    entry = entry_of(file, name)
    assert Path(str(entry["command"])).is_file()
    assert entry["args"][-4:] == ["--vault", str(root), "--agent", name]  # type: ignore[index]
    assert "keep" in file.read_text()

    assert "unchanged" in run_cli("connect", name, "--vault", root).out
    status = run_cli("connect", "--status", "--json", cwd=home).json["connections"]
    assert [(each["client"], each["root"], each["problem"]) for each in status] == [
        (name, str(root), "")
    ]

    assert run_cli("connect", name, "--remove").code == 0
    assert file.read_text() == before
    assert list(file.parent.glob("*vaultmem*")) == []


@pytest.mark.parametrize("name", list(ClientName))
def test_settings_that_were_not_there_go_again(
    name: ClientName, make_vault: Make, run_cli: RunCli, home: Path
) -> None:
    root = make_vault()
    assert run_cli("connect", name, "--vault", root).code == 0
    assert settings(home, name).is_file()
    assert run_cli("connect", name, "--remove").code == 0
    assert not settings(home, name).exists()


def test_what_the_client_wrote_meanwhile_is_kept(
    make_vault: Make, run_cli: RunCli, home: Path
) -> None:
    root = make_vault()
    file = settings(home, ClientName.CLAUDE_CODE)
    run_cli("connect", "claude-code", "--vault", root)
    whole = json.loads(file.read_text())
    file.write_text(json.dumps({"numStartups": 3, **whole}))
    assert run_cli("connect", "claude-code", "--remove").code == 0
    assert json.loads(file.read_text()) == {"numStartups": 3, "mcpServers": {}}


def test_a_second_vault_takes_the_place_of_the_first(
    make_vault: Make, run_cli: RunCli, home: Path
) -> None:
    file = settings(home, ClientName.CURSOR)
    file.parent.mkdir()
    file.write_text('{"mcpServers": {}}')
    run_cli("connect", "cursor", "--vault", make_vault(name="one"))
    two = make_vault(name="two")
    run_cli("connect", "cursor", "--vault", two)
    assert str(two) in str(entry_of(file, ClientName.CURSOR)["args"])
    run_cli("connect", "cursor", "--remove")
    assert file.read_text() == '{"mcpServers": {}}'


def test_hooks_stand_beside_those_of_others(make_vault: Make, run_cli: RunCli, home: Path) -> None:
    root = make_vault()
    file = home / ".claude/settings.json"
    file.parent.mkdir()
    before = '{"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": "mine"}]}]}}'
    file.write_text(before)
    for _ in range(2):
        assert run_cli("connect", "claude-code", "--hooks", "--vault", root).code == 0
    hooks = read_jsonc(file.read_text()).value["hooks"]
    assert {name: len(each) for name, each in hooks.items()} == {
        "SessionStart": 2,
        "UserPromptSubmit": 1,
        "PreCompact": 1,
        "SessionEnd": 1,
    }
    assert run_cli("connect", "claude-code", "--remove").code == 0
    assert file.read_text() == before


def test_a_project_has_settings_of_its_own(
    make_vault: Make, run_cli: RunCli, home: Path, tmp_path: Path
) -> None:
    root, project = make_vault(), tmp_path / "project"
    project.mkdir()
    assert run_cli("connect", "vscode", "--project", "--vault", root, cwd=project).code == 0
    assert "vaultmem" in json.loads((project / ".vscode/mcp.json").read_text())["servers"]
    assert not settings(home, ClientName.VSCODE).exists()
    assert run_cli("connect", "claude-desktop", "--project", "--vault", root, cwd=project).code == 5


def test_settings_behind_a_link_stay_where_they_are(
    make_vault: Make, run_cli: RunCli, home: Path, tmp_path: Path
) -> None:
    real = tmp_path / "dotfiles.json"
    real.write_text("{}")
    settings(home, ClientName.CLAUDE_CODE).symlink_to(real)
    run_cli("connect", "claude-code", "--vault", make_vault())
    assert settings(home, ClientName.CLAUDE_CODE).is_symlink()
    assert "vaultmem" in real.read_text()


@pytest.mark.parametrize("text", ["{", '{"mcpServers": []}', "[]", "\udcff"])
def test_what_is_not_understood_is_left_alone(
    text: str, make_vault: Make, run_cli: RunCli, home: Path
) -> None:
    root = make_vault()
    file = settings(home, ClientName.GEMINI)
    file.parent.mkdir()
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    before = hash_tree(home, ("state", "data", "config"))
    done = run_cli("connect", "gemini", "--vault", root)
    assert done.code == 5
    assert "by hand" in done.err
    assert hash_tree(home, ("state", "data", "config")) == before


def test_bad_names_and_places_are_refused(make_vault: Make, run_cli: RunCli) -> None:
    root = make_vault()
    assert "known are claude-code" in run_cli("connect", "emacs", "--vault", root).err
    assert run_cli("connect", "codex", "--user", "--project", "--vault", root).code == 5
    assert "no hooks are known" in run_cli("connect", "codex", "--hooks", "--vault", root).err


def test_the_skill_is_put_in_its_place_and_never_over_another(run_cli: RunCli, home: Path) -> None:
    file = home / ".claude/skills/vaultmem/SKILL.md"
    assert run_cli("skill", "install", "--json").json["action"] == "added"
    assert file.read_text().startswith("---\nname: vaultmem\ndescription: ")
    assert run_cli("skill", "install", "--json").json["action"] == "unchanged"
    file.write_text("mine")
    assert run_cli("skill", "install").code == 5
    assert run_cli("skill", "remove").code == 5
    assert file.read_text() == "mine"
    assert run_cli("skill", "install", "--replace", "--json").json["action"] == "changed"
    assert run_cli("skill", "remove", "--json").json["action"] == "removed"
    assert not file.exists()
    assert run_cli("skill", "frobnicate").code == 5
