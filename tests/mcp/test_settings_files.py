"""Clients' settings in odd forms: only our entry comes, and the very bytes come back."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from vaultmem.core.clients.agent_client import CLIENTS, find_place
from vaultmem.core.clients.agents import AGENTS
from vaultmem.core.clients.settings_formats import read_jsonc, remove_value
from vaultmem.errors import RefusedError
from vaultmem.services.clients.connect import SettingsScope, connect_client, disconnect_client
from vaultmem.storage import leases

BOM = "\ufeff"

JSON = {
    "empty": "",
    "blank lines": "\n\n",
    "byte order mark alone": BOM,
    "nothing in it": "{}",
    "byte order mark": BOM + '{\n  "mcpServers": {\n    "x": {"command": "x"}\n  }\n}\n',
    "CRLF": '{\r\n  "mcpServers": {\r\n    "x": {}\r\n  },\r\n  "a": 1\r\n}\r\n',
    "CRLF, no servers": '{\r\n  "mcpServers": {\r\n  }\r\n}\r\n',
    "no final newline": '{\n  "mcpServers": {}\n}',
    "tabs": '{\n\t"mcpServers": {\n\t\t"x": {\n\t\t\t"command": "x"\n\t\t}\n\t}\n}\n',
    "trailing commas": '{\n  "mcpServers": {\n    "x": {"command": "x",},\n  },\n}\n',
    "comments": '{\n  "mcpServers": {\n    "x": {} // last\n    // more\n  } /* end */\n}\n',
    "only a comment": '{\n  "mcpServers": {\n    // none\n  }\n}\n',
    "one line": '{"mcpServers":{"x":{"command":"x"}},"a":[1,2]}',
    "comments in a line": '/* t */ {"mcpServers": { /* a */ "x" /* b */ : {} /* c */ } } // end',
    "braces on lines": '{\n  "mcpServers":\n  {\n    "x":\n    {\n      "a": 1\n    }\n  }\n}\n',
    "nested": '{\n  "projects": {"/p": {"mcpServers": {"vaultmem": {"command": "mine"}}}}\n}\n',
    "CRLF and a comment": '{\r\n  "mcpServers": {\r\n    "x": {} // end\r\n  }\r\n}\r\n',
    "in one line, no servers": '{"a":1}',
    "spaces in it": '{ "mcpServers": { } }',
    "comments alone": "// none yet\n{ /* none */ }\n// end",
    "other letters": '{\n  "mcpServers": {\n    "имя": {"command": "ü\\u00e9"}\n  }\n}\n',
}

TOML = {
    "empty": "",
    "byte order mark": BOM + '[mcp_servers.x]\ncommand = "x"\n',
    "CRLF": 'model = "o1"\r\n\r\n[mcp_servers.x]\r\ncommand = "x"\r\n',
    "no final newline": '[mcp_servers.x]\ncommand = "x"  # mine',
    "blank lines": "[a]\nb = 1\n\n\n",
    "tabs": '\t[mcp_servers.x]\n\tcommand = "x"\n',
    "quoted": '["mcp_servers"."x"]\ncommand = "x"\n',
    "dotted": 'mcp_servers.x.command = "x"\n[tools]\nweb = true\n',
    "a comment at the end": "a = 1\n# end",
    "its servers' table": "[mcp_servers]\n",
    "comments": '# a\n[mcp_servers.x]\ncommand = "x"\n\n# b\n[tools]\nweb = true\n# end\n',
}

#: Forms in which the table cannot be set without touching what is not ours.
FOREIGN_TOML = {
    "inline": 'mcp_servers = { x = { command = "x" } }\n',
    "with a table below": '[mcp_servers.vaultmem]\na = "m"\n[mcp_servers.vaultmem.env]\nA = "1"\n',
    "in a text": 'a = """\n[mcp_servers.vaultmem]\n"""\n',
}


@pytest.mark.parametrize("form", JSON)
def test_json_of_any_form_gets_our_entry_and_its_bytes_back(form: str, tmp_path: Path) -> None:
    file = tmp_path / ".cursor/mcp.json"
    file.parent.mkdir()
    before = JSON[form].encode()
    file.write_bytes(before)
    connect_client("cursor", tmp_path, SettingsScope(tmp_path, True))
    after = file.read_bytes().decode()
    value = read_jsonc(after).value
    entry = value["mcpServers"].pop("vaultmem")
    assert entry["args"][-4:] == [*("--vault", str(tmp_path), "--agent", "cursor")]
    old = read_jsonc(JSON[form]).value if JSON[form].strip(f"{BOM}\n") else {}
    old.setdefault("mcpServers", {}).pop("vaultmem", None)
    assert value == old
    assert after.count("\n") == after.count("\r\n") or "CRLF" not in form
    assert (
        connect_client("cursor", tmp_path, SettingsScope(tmp_path, True))[0].action == "unchanged"
    )
    disconnect_client("cursor", SettingsScope(tmp_path, True))
    assert file.read_bytes() == before
    assert [each.name for each in file.parent.iterdir()] == ["mcp.json"]


@pytest.mark.parametrize("form", TOML)
def test_toml_of_any_form_gets_our_table_and_its_bytes_back(form: str, tmp_path: Path) -> None:
    file = tmp_path / ".codex/config.toml"
    file.parent.mkdir()
    before = TOML[form].encode()
    file.write_bytes(before)
    connect_client("codex", tmp_path, SettingsScope(tmp_path, True))
    after = file.read_bytes().decode()
    value = tomllib.loads(after.removeprefix(BOM))
    assert "--vault" in value["mcp_servers"].pop("vaultmem")["args"]
    old = tomllib.loads(TOML[form].removeprefix(BOM))
    old.setdefault("mcp_servers", {}).pop("vaultmem", None)
    assert value == old
    disconnect_client("codex", SettingsScope(tmp_path, True))
    assert file.read_bytes() == before


@pytest.mark.parametrize("form", FOREIGN_TOML)
def test_a_table_in_a_form_of_its_own_is_left_to_its_owner(form: str, tmp_path: Path) -> None:
    file = tmp_path / ".codex/config.toml"
    file.parent.mkdir()
    file.write_text(FOREIGN_TOML[form])
    with pytest.raises(RefusedError, match=r"by hand|vaultmem did not write"):
        connect_client("codex", tmp_path, SettingsScope(tmp_path, True))
    assert file.read_text() == FOREIGN_TOML[form]


def test_an_entry_of_our_name_that_somebody_else_wrote_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / ".cursor/mcp.json"
    file.parent.mkdir()
    for theirs in ('{"command": "mine"}', '{"command": "x", "args": ["mcp"]}', "7"):
        file.write_text(f'{{"mcpServers": {{"vaultmem": {theirs}}}}}')
        before = file.read_bytes()
        with pytest.raises(RefusedError, match="vaultmem did not write"):
            connect_client("cursor", tmp_path, SettingsScope(tmp_path, True))
        with pytest.raises(RefusedError, match="vaultmem did not write"):
            disconnect_client("cursor", SettingsScope(tmp_path, True))
        assert file.read_bytes() == before


def test_no_copy_stays_where_the_system_does_not_tell_who_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "_take", lambda *_: leases.Lease.UNKNOWN)
    file = tmp_path / ".cursor/mcp.json"
    file.parent.mkdir()
    file.write_text('{"mcpServers": {"x": {"env": {"KEY": "sk-verysecret"}}}}')
    mine = file.with_name(".vaultmem-0123456789ab-0123456789abcdef--other.json.old")
    mine.touch()
    connect_client("cursor", tmp_path, SettingsScope(tmp_path, True))
    disconnect_client("cursor", SettingsScope(tmp_path, True))
    assert sorted(file.parent.iterdir()) == [mine, file]


def test_comments_that_came_meanwhile_outlive_our_entry() -> None:
    for text, wanted in (
        ('{"a": {"v": 1, // ours\n  "x": 2}}', '{"a": { // ours\n  "x": 2}}'),
        ('{"a": {"x": 2, // kept\n  "v": 1}}', '{"a": {"x": 2 // kept\n}}'),
        ('{"a": {"x": 2 /* kept */, "v": 1, "y": 3}}', '{"a": {"x": 2 /* kept */, "y": 3}}'),
    ):
        left = remove_value(text, ("a", "v"))
        assert left == wanted
        assert "v" not in read_jsonc(wanted).value["a"]


def test_what_each_client_is_told() -> None:
    """The places and keys are those of the clients' own manuals."""
    found = {
        name: [each.project, find_place(each.user, "~", "linux", {}), ".".join(each.key)]
        for name, each in CLIENTS.items()
    }
    code = "~/.config/Code/User"
    assert found == {
        "claude-code": [".mcp.json", "~/.claude.json", "mcpServers"],
        "codex": [".codex/config.toml", "~/.codex/config.toml", "mcp_servers"],
        "cursor": [".cursor/mcp.json", "~/.cursor/mcp.json", "mcpServers"],
        "vscode": [".vscode/mcp.json", f"{code}/mcp.json", "servers"],
        "gemini": [".gemini/settings.json", "~/.gemini/settings.json", "mcpServers"],
        "claude-desktop": ["", "~/.config/Claude/claude_desktop_config.json", "mcpServers"],
        "opencode": ["opencode.json", "~/.config/opencode/opencode.json", "mcp"],
        "copilot": [".github/mcp.json", "~/.copilot/mcp-config.json", "mcpServers"],
        "windsurf": ["", "~/.codeium/windsurf/mcp_config.json", "mcpServers"],
        "zed": ["", "~/.config/zed/settings.json", "context_servers"],
        "cline": ["", "~/.cline/data/settings/cline_mcp_settings.json", "mcpServers"],
        "roo": [
            ".roo/mcp.json",
            f"{code}/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json",
            "mcpServers",
        ],
        "kilo": [".kilo/kilo.json", "~/.config/kilo/kilo.json", "mcp"],
        "continue": [
            ".continue/mcpServers/vaultmem.json",
            "~/.continue/mcpServers/vaultmem.json",
            "mcpServers",
        ],
        "junie": [".junie/mcp/mcp.json", "~/.junie/mcp/mcp.json", "mcpServers"],
        "jetbrains": ["", "", "mcpServers"],
        "amp": [".amp/settings.json", "~/.config/amp/settings.json", "amp.mcpServers"],
        "kiro": [".kiro/settings/mcp.json", "~/.kiro/settings/mcp.json", "mcpServers"],
        "qwen": [".qwen/settings.json", "~/.qwen/settings.json", "mcpServers"],
        "lmstudio": ["", "~/.lmstudio/mcp.json", "mcpServers"],
        "goose": ["", "~/.config/goose/config.yaml", "extensions"],
    }


def test_an_agent_is_called_as_its_client_is() -> None:
    assert {name for name, *_ in AGENTS} <= CLIENTS.keys()


@pytest.mark.parametrize(
    ("platform", "given", "place"),
    [
        ("linux", {}, "/h/.config/Code/User/mcp.json"),
        ("linux", {"XDG_CONFIG_HOME": "/x/"}, "/x/Code/User/mcp.json"),
        ("darwin", {"XDG_CONFIG_HOME": "/x"}, "/h/Library/Application Support/Code/User/mcp.json"),
        ("win32", {"APPDATA": "D:/Roaming"}, "D:/Roaming/Code/User/mcp.json"),
        ("win32", {}, "/h/AppData/Roaming/Code/User/mcp.json"),
    ],
)
def test_where_each_system_keeps_a_programs_settings(
    platform: str, given: dict[str, str], place: str
) -> None:
    assert find_place(CLIENTS["vscode"].user, "/h", platform, given) == place
