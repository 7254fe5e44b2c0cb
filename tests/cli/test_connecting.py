"""Clients are told of a vault in their own settings, which stay theirs."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from conftest import Make, RunCli
from support import hash_tree

from vaultmem.core.clients.agent_client import CLIENTS, find_place
from vaultmem.core.clients.client_settings import fill_item, read_entry
from vaultmem.core.clients.settings_formats import read_jsonc

JSON = (
    '{\n  // my servers\n  "KEY": {\n    "x": { "command": "x" }, // keep\n  },\n  "theme": 1\n}\n'
)
TOML = '# mine\nmodel = "o1"\n\n[KEY.x]\ncommand = "x"  # keep\n\n[tools]\nweb = true\n'


def settings(home: Path, name: str) -> Path:
    known = {"XDG_CONFIG_HOME": str(home / "config")}
    return Path(find_place(CLIENTS[name].user, str(home), "linux", known))


def entry_of(file: Path, name: str) -> dict[str, object]:
    text = file.read_text()
    whole = tomllib.loads(text) if file.suffix == ".toml" else read_jsonc(text).value
    for key in CLIENTS[name].key:
        whole = whole[key]
    found: dict[str, object] = whole["vaultmem"]
    return found


#: One of each form; what all of them have is in tests/mcp/test_settings_files.py.
WRITTEN = ["claude-code", "codex", "cursor", "vscode", "opencode", "copilot", "zed", "amp"]
YAML = "# mine\nGOOSE_MODE: auto  # keep\nextensions:\n  x:\n    cmd: x\n"


@pytest.mark.parametrize("name", WRITTEN)
def test_each_client_gets_our_entry_and_its_old_bytes_back(
    name: str, make_vault: Make, run_cli: RunCli, home: Path
) -> None:
    root = make_vault()
    file = settings(home, name)
    file.parent.mkdir(parents=True, exist_ok=True)
    before = (TOML if file.suffix == ".toml" else JSON).replace("KEY", ".".join(CLIENTS[name].key))
    file.write_text(before)

    dry = run_cli("connect", name, "--vault", root, "--dry-run")
    assert (dry.code, file.read_text()) == (0, before)
    done = run_cli("connect", name, "--vault", root, "--json").json
    assert [each["action"] for each in done["changes"]] == ["changed"]
    assert [each.name for each in file.parent.glob(f"{file.name}*")] == [file.name]
    entry = entry_of(file, name)
    words = read_entry(CLIENTS[name], entry)
    assert Path(words[0]).is_file()
    assert words[-5:] == ["mcp", "--vault", str(root), "--agent", name]
    assert "keep" in file.read_text()

    assert "unchanged" in run_cli("connect", name, "--vault", root).out
    status = run_cli("connect", "--status", "--json", cwd=home).json["connections"]
    assert [(each["client"], each["root"], each["problem"]) for each in status] == [
        (name, str(root), "")
    ]

    assert run_cli("connect", name, "--remove").code == 0
    assert file.read_text() == before
    assert list(file.parent.glob("*vaultmem*")) == []


@pytest.mark.parametrize("name", WRITTEN)
def test_settings_that_were_not_there_go_again(
    name: str, make_vault: Make, run_cli: RunCli, home: Path
) -> None:
    root = make_vault()
    assert run_cli("connect", name, "--vault", root).code == 0
    assert settings(home, name).is_file()
    assert run_cli("connect", name, "--remove").code == 0
    assert not settings(home, name).exists()


def test_settings_in_yaml_keep_their_bytes(make_vault: Make, run_cli: RunCli, home: Path) -> None:
    file = settings(home, "goose")
    file.parent.mkdir(parents=True)
    file.write_text(YAML)
    root = make_vault()
    assert run_cli("connect", "goose", "--vault", root).code == 0
    assert 'vaultmem: {"name": "vaultmem", ' in file.read_text()
    status = run_cli("connect", "--status", "--json").json["connections"]
    assert [(each["client"], each["root"]) for each in status] == [("goose", str(root))]
    assert run_cli("connect", "goose", "--remove").code == 0
    assert file.read_text() == YAML


def test_nothing_is_written_if_one_of_the_files_is_not_understood(
    make_vault: Make, run_cli: RunCli, home: Path
) -> None:
    (home / ".claude").mkdir()
    (home / ".claude/settings.json").write_text("{")
    done = run_cli("connect", "claude-code", "--hooks", "--vault", make_vault())
    assert (done.code, settings(home, "claude-code").exists()) == (5, False)
    assert f"{home}/.claude/settings.json: line 1 of the settings is not JSON" in done.err


def test_what_the_client_wrote_meanwhile_is_kept(
    make_vault: Make, run_cli: RunCli, home: Path
) -> None:
    root = make_vault()
    file = settings(home, "claude-code")
    run_cli("connect", "claude-code", "--vault", root)
    whole = json.loads(file.read_text())
    file.write_text(json.dumps({"numStartups": 3, **whole}))
    assert run_cli("connect", "claude-code", "--remove").code == 0
    assert json.loads(file.read_text()) == {"numStartups": 3, "mcpServers": {}}


def test_a_second_vault_takes_the_place_of_the_first(
    make_vault: Make, run_cli: RunCli, home: Path
) -> None:
    file = settings(home, "cursor")
    file.parent.mkdir()
    file.write_text('{"mcpServers": {}}')
    run_cli("connect", "cursor", "--vault", make_vault(name="one"))
    two = make_vault(name="two")
    run_cli("connect", "cursor", "--vault", two)
    assert str(two) in str(entry_of(file, "cursor")["args"])
    run_cli("connect", "cursor", "--remove")
    assert file.read_text() == '{"mcpServers": {}}'


#: Clients with hooks, and their events.
HOOKED = {name: each.hooks for name, each in CLIENTS.items() if each.hooks}


@pytest.mark.parametrize("name", HOOKED)
def test_hooks_stand_beside_those_of_others(
    name: str, make_vault: Make, run_cli: RunCli, home: Path
) -> None:
    root, hooks = make_vault(), HOOKED[name]
    file = Path(find_place(hooks.user, str(home), "linux", {}))
    file.parent.mkdir(parents=True, exist_ok=True)
    first = next(iter(hooks.events))
    before = json.dumps({**hooks.head, "hooks": {first: [fill_item(hooks, "mine", first)]}})
    file.write_text(before)
    for _ in range(2):
        done = run_cli("connect", name, "--hooks", "--vault", root)
        assert done.code == 0
    assert hooks.note in done.out
    told = read_jsonc(file.read_text()).value["hooks"]
    assert {event: len(each) for event, each in told.items()} == {
        event: 2 if event == first else 1 for event in hooks.events
    }
    for event, ours in hooks.events.items():
        assert f"hook {ours} --vault {root} --agent {name}" in json.dumps(told[event])
    assert run_cli("connect", name, "--remove").code == 0
    assert file.read_text() == before


@pytest.mark.parametrize("name", HOOKED)
def test_hooks_that_stand_alone_go_with_their_file(
    name: str, make_vault: Make, run_cli: RunCli, home: Path
) -> None:
    before = hash_tree(home)
    assert run_cli("connect", name, "--hooks", "--vault", make_vault()).code == 0
    file = Path(find_place(HOOKED[name].user, str(home), "linux", {}))
    assert HOOKED[name].head.items() <= json.loads(file.read_text()).items()
    assert run_cli("connect", name, "--remove").code == 0
    assert not file.exists()
    assert hash_tree(home).items() >= before.items()


#: How tools of others that have hooks are called; and what else stands in such settings.
OTHERS = (
    '{"hooks": {"SessionStart": [{"matcher": "*", "hooks": [{"type": "command", "command":'
    ' "agent-strace hook session-start"}]}], "PreCompact": [{"hooks": [{"type": "command",'
    ' "command": "memd hook pre-compact --vault /m", "timeout": 5}, {"type": "command", "command":'
    ' "MINE hook pre-compact --vault /v && say done"}]}], "Stop": [], "SessionEnd": [{"hooks":'
    ' [{"type": "prompt", "prompt": "vaultmem hook session-end --vault"}]}]}}'
)


def test_hooks_of_other_tools_are_never_touched(
    make_vault: Make, run_cli: RunCli, home: Path
) -> None:
    root = make_vault()
    file = home / ".claude/settings.json"
    file.parent.mkdir()
    before = OTHERS.replace("MINE", "/opt/vaultmem")
    file.write_text(before)
    run_cli("connect", "claude-code", "--vault", root)
    assert run_cli("connect", "claude-code", "--remove").code == 0
    assert file.read_text() == before
    run_cli("connect", "claude-code", "--hooks", "--vault", root)
    hooks = json.loads(file.read_text())["hooks"]
    for event, items in json.loads(before)["hooks"].items():
        assert [each for each in hooks[event] if each in items] == items
    assert run_cli("connect", "claude-code", "--remove").code == 0
    assert file.read_text() == before


def test_hooks_that_an_earlier_version_wrote_are_found(
    make_vault: Make, run_cli: RunCli, home: Path
) -> None:
    """They name no agent, their user has added to one, and another tool has come between."""
    root = make_vault()
    file = home / ".claude/settings.json"
    file.parent.mkdir()
    line = f"/opt/my tools/vaultmem' hook prompt --vault '{root}"
    ours = {"type": "command", "command": f"'{line}'", "timeout": 7}
    theirs = {"type": "command", "command": "nmem hook prompt"}
    module = {"type": "command", "command": "/usr/bin/python3 -P -m vaultmem hook stop --vault /v"}
    hooks = {
        "UserPromptSubmit": [{"matcher": "", "hooks": [theirs, ours]}],
        "Stop": [{"hooks": [module]}],
    }
    file.write_text(json.dumps({"hooks": hooks}, indent=2))
    assert run_cli("connect", "claude-code", "--hooks", "--vault", root).code == 0
    (prompt,) = json.loads(file.read_text())["hooks"]["UserPromptSubmit"]
    assert [each.get("timeout") for each in prompt["hooks"]] == [None, 7]
    assert prompt["hooks"][1]["command"].endswith(" --agent claude-code")
    assert run_cli("connect", "claude-code", "--remove").code == 0
    left = {"UserPromptSubmit": [{"matcher": "", "hooks": [theirs]}]}
    assert json.loads(file.read_text()) == {"hooks": left}


@pytest.mark.campaign
def test_settings_with_keys_in_them_are_not_copied(
    make_vault: Make, run_cli: RunCli, home: Path
) -> None:
    """Copies that an earlier version left, which others could read, go with the next command."""
    root = make_vault()
    file = settings(home, "claude-code")
    before = '{"mcpServers": {"x": {"env": {"KEY": "sk-verysecret"}}}, "old": "'
    before += "x" * 1_200_000 + '"}'
    file.write_text(before)
    file.chmod(0o600)
    old = [file.with_name(f"{file.name}.vaultmem-0123456789a{n}") for n in "bc"]
    hooks = home / ".claude/settings.json.vaultmem-0123456789ab-new"
    hooks.parent.mkdir()
    hooks.touch()
    mine = file.with_name(f"{file.name}.vaultmem-is-great")
    for each in (*old, mine):
        each.write_text(before)
    dry = run_cli("connect", "claude-code", "--dry-run", "--vault", root)
    assert "removed, an old copy" in dry.out
    assert old[0].exists()
    done = run_cli("connect", "claude-code", "--vault", root, "--json").json
    assert done["changes"][0]["dropped"] == [str(each) for each in old]
    assert done["changes"][1]["dropped"] == [str(hooks)]
    assert file.stat().st_mode & 0o777 == 0o600
    file.write_text(file.read_text().replace('"old"', '"new"'))
    run_cli("connect", "claude-code", "--vault", root)
    mine.unlink()
    found = [each for each in home.rglob("*") if each.is_file()]
    assert [each for each in found if b"sk-very" in each.read_bytes()] == [file]
    assert run_cli("connect", "claude-code", "--remove").code == 0
    assert file.read_text() == before.replace('"old"', '"new"')
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_file_that_is_made_for_the_user_is_the_users_alone(
    make_vault: Make, run_cli: RunCli, home: Path
) -> None:
    run_cli("connect", "codex", "--vault", make_vault())
    assert settings(home, "codex").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("name", "variable", "place"),
    [
        ("codex", "CODEX_HOME", "config.toml"),
        ("claude-code", "CLAUDE_CONFIG_DIR", ".claude.json"),
        ("gemini", "GEMINI_CLI_HOME", ".gemini/settings.json"),
        ("vscode", "XDG_CONFIG_HOME", "Code/User/mcp.json"),
    ],
)
def test_a_client_that_is_told_of_another_folder_is_found_there(
    name: str,
    variable: str,
    place: str,
    make_vault: Make,
    run_cli: RunCli,
    tmp_path: Path,
) -> None:
    root, given = make_vault(), {variable: str(tmp_path / "else")}
    assert run_cli("connect", name, "--vault", root, env=given).code == 0
    assert "vaultmem" in (tmp_path / "else" / place).read_text()
    status = run_cli("connect", "--status", "--json", env=given).json["connections"]
    assert [each["path"] for each in status] == [str(tmp_path / "else" / place)]
    assert run_cli("connect", name, "--remove", env=given).code == 0
    assert not (tmp_path / "else" / place).exists()


def test_what_its_owner_added_to_our_entry_stays_with_it(
    make_vault: Make, run_cli: RunCli, home: Path
) -> None:
    one, two = make_vault(name="one"), make_vault(name="two")
    file = settings(home, "gemini")
    run_cli("connect", "gemini", "--vault", one)
    whole = json.loads(file.read_text())
    entry = whole["mcpServers"]["vaultmem"]
    entry |= {
        "trust": True,
        "timeout": 9000,
        "env": {"A": "b"},
        "args": [*entry["args"], "--read-only"],
    }
    file.write_text("// mine\n" + json.dumps({"a": 1, **whole}, indent=4))
    assert run_cli("connect", "gemini", "--vault", two).code == 0
    wanted = [str(two) if each == str(one) else each for each in entry["args"]]
    assert entry_of(file, "gemini") == entry | {"args": wanted}
    assert run_cli("connect", "gemini", "--remove").code == 0
    assert read_jsonc(file.read_text()).value == {"a": 1}


def test_what_its_owner_added_to_our_table_stays_with_it(
    make_vault: Make, run_cli: RunCli, home: Path
) -> None:
    one, two = make_vault(name="one"), make_vault(name="two")
    file = settings(home, "codex")
    file.parent.mkdir()
    before = '# mine\nmodel = "x"\n'
    file.write_text(before)
    run_cli("connect", "codex", "--vault", one)
    added = "startup_timeout_sec = 20  # slow\n\n[mcp_servers.vaultmem.env]\nA = 'b'\n\n"
    tools = "[mcp_servers.vaultmem.tools.recall]\napproval_mode = 'approve'\n"
    after = "\n# trusted\n[projects.'/x']\ntrust_level = 'trusted'\n"
    file.write_text(file.read_text() + added + tools + after)
    assert run_cli("connect", "codex", "--vault", two).code == 0
    text = file.read_text()
    assert text.startswith(before)
    assert text.endswith(added + tools + after)
    entry = entry_of(file, "codex")
    assert entry["args"][2] == str(two)  # type: ignore[index]
    assert run_cli("connect", "codex", "--remove").code == 0
    assert file.read_text() == before + after


def test_a_project_has_settings_of_its_own(
    make_vault: Make, run_cli: RunCli, home: Path, tmp_path: Path
) -> None:
    root, project = make_vault(), tmp_path / "project"
    project.mkdir()
    assert run_cli("connect", "vscode", "--project", "--vault", root, cwd=project).code == 0
    assert "vaultmem" in json.loads((project / ".vscode/mcp.json").read_text())["servers"]
    assert not settings(home, "vscode").exists()
    assert run_cli("connect", "claude-desktop", "--project", "--vault", root, cwd=project).code == 5


def test_settings_behind_a_link_stay_where_they_are(
    make_vault: Make, run_cli: RunCli, home: Path, tmp_path: Path
) -> None:
    real = tmp_path / "dotfiles.json"
    real.write_text("{}")
    settings(home, "claude-code").symlink_to(real)
    run_cli("connect", "claude-code", "--vault", make_vault())
    assert settings(home, "claude-code").is_symlink()
    assert "vaultmem" in real.read_text()


@pytest.mark.parametrize("text", ["{", '{"mcpServers": []}', "[]", "\udcff"])
def test_what_is_not_understood_is_left_alone(
    text: str, make_vault: Make, run_cli: RunCli, home: Path
) -> None:
    root = make_vault()
    file = settings(home, "gemini")
    file.parent.mkdir()
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    before = hash_tree(home, ("state", "data", "config"))
    done = run_cli("connect", "gemini", "--vault", root)
    assert done.code == 5
    assert "by hand" in done.err
    assert hash_tree(home, ("state", "data", "config")) == before


def test_what_a_person_has_to_put_in_place_is_printed(make_vault: Make, run_cli: RunCli) -> None:
    root = make_vault()
    done = run_cli("connect", "jetbrains", "--vault", root)
    assert (done.code, "`vaultmem connect jetbrains --print` shows" in done.err) == (5, True)
    shown = run_cli("connect", "jetbrains", "--print", "--vault", root)
    assert "Settings | Tools | AI Assistant | MCP" in shown.err
    assert json.loads(shown.out)["mcpServers"]["vaultmem"]["args"][:3] == [
        "mcp",
        "--vault",
        str(root),
    ]
    toml = run_cli("connect", "codex", "--print", "--vault", root)
    assert tomllib.loads(toml.out)["mcp_servers"]["vaultmem"]["args"][-1] == "codex"
    both = run_cli("connect", "claude-code", "--print", "--hooks", "--vault", root, "--json").json
    assert [Path(each["place"]).name for each in both["shown"]] == [".claude.json", "settings.json"]
    assert "hook session-start --vault" in both["shown"][1]["text"]


def test_status_says_who_is_there_without_a_vault(
    make_vault: Make, run_cli: RunCli, home: Path
) -> None:
    (home / ".qwen").mkdir()
    (home / ".claude.json").write_text("{}")
    run_cli("connect", "kiro", "--vault", make_vault())
    told = run_cli("connect", "--status")
    assert "vaultmem connect qwen" in told.out
    assert "Not found here: codex, " in told.out
    status = run_cli("connect", "--status", "--json").json
    assert [each["client"] for each in status["connections"]] == ["kiro"]
    assert status["installed"] == ["claude-code", "qwen"]


def test_settings_with_comments_of_the_same_name_are_the_ones(
    make_vault: Make, run_cli: RunCli, home: Path
) -> None:
    file = home / "config/opencode/opencode.jsonc"
    file.parent.mkdir(parents=True)
    file.write_text('{\n  // mine\n  "theme": "x"\n}\n')
    run_cli("connect", "opencode", "--vault", make_vault())
    assert read_jsonc(file.read_text()).value["mcp"]["vaultmem"]["type"] == "local"
    assert run_cli("connect", "opencode", "--remove").code == 0
    assert file.read_text() == '{\n  // mine\n  "theme": "x"\n}\n'


def test_bad_names_and_places_are_refused(make_vault: Make, run_cli: RunCli) -> None:
    root = make_vault()
    assert "it knows claude-code" in run_cli("connect", "emacs", "--vault", root).err
    assert run_cli("connect", "codex", "--user", "--project", "--vault", root).code == 5
    done = run_cli("connect", "claude-desktop", "--hooks", "--vault", root)
    assert "no hooks are known" in done.err


@pytest.mark.campaign
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
    given = {"CLAUDE_CONFIG_DIR": str(home / "claude")}
    assert run_cli("skill", "install", env=given).code == 0
    assert (home / "claude/skills/vaultmem/SKILL.md").is_file()
