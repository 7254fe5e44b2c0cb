"""Whatever somebody's settings look like, ours comes, is renewed, and goes to the byte."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from vaultmem.core.clients.agent_client import CLIENTS, AgentClient
from vaultmem.core.clients.client_settings import (
    add_entry,
    add_hooks,
    is_our_line,
    make_words,
    remove_entry,
    remove_hooks,
)
from vaultmem.core.clients.settings_formats import read_jsonc
from vaultmem.errors import RefusedError

SETTINGS = Path(__file__).parent / "data/settings"
COMMAND = ["/opt/vault's home/vaultmem"]
JSON = [each for each in CLIENTS.values() if each.name != "codex"]

_BLANK = st.sampled_from(["", "", " ", "\n", "\n  ", "\r\n\t", " // a, {\n", '/* [ " */', "\n\n"])
_KEYS = st.text('ab"\\ü/ {', max_size=4) | st.sampled_from(
    ["mcpServers", "servers", "hooks", "SessionStart", "Stop", "mcp", "version", "stop"]
)
_PLAIN = st.none() | st.booleans() | st.integers(-9, 9) | st.text('a"\\[,é\n', max_size=5)


@st.composite
def texts_of(draw: st.DrawFn, depth: int = 0) -> str:
    """Return a value as somebody might have typed it: blanks, comments and commas anywhere."""
    kind = draw(st.sampled_from("oool" if not depth else "oollpp" if depth < 4 else "p"))
    if kind == "p":
        return json.dumps(draw(_PLAIN), ensure_ascii=draw(st.booleans()))
    parts = []
    for _ in range(draw(st.integers(0, 3))):
        name = f"{json.dumps(draw(_KEYS))}{draw(_BLANK)}:{draw(_BLANK)}" if kind == "o" else ""
        parts.append(f"{draw(_BLANK)}{name}{draw(texts_of(depth + 1))}{draw(_BLANK)}")
    end = draw(st.sampled_from([",", ""])) + draw(_BLANK) if parts else draw(_BLANK)
    return ("{%s}" if kind == "o" else "[%s]") % (",".join(parts) + end)


@st.composite
def files_of(draw: st.DrawFn) -> str:
    blank = draw(st.sampled_from(["", "\ufeff", "\n", "// mine\n", "\n\n"]))
    return f"{blank}{draw(texts_of() | st.just(''))}{draw(_BLANK)}"


def connect(client: AgentClient, text: str | None, root: str) -> str:
    """Return a text with what the client has of us, in one file as if it kept all in one."""
    words = make_words(client, COMMAND, root)
    if client.hooks is None or not client.hooks.head:
        text = add_entry(client, "x.json", text, words)
    return add_hooks(client, client.hooks, text, words) if client.hooks else text or ""


def disconnect(client: AgentClient, text: str) -> str | None:
    left = remove_entry(client, "x.json", text)
    return remove_hooks(client.hooks, left) if client.hooks and left is not None else left


@pytest.mark.campaign
@settings(deadline=None, max_examples=80)
@given(files_of(), st.sampled_from(JSON))
def test_any_json_comes_back_to_the_byte(text: str, client: AgentClient) -> None:
    try:
        after = connect(client, text, "/v")
    except RefusedError:  # Something on the way is of another kind; nothing is written then.
        return
    assert "--vault" in after
    assert connect(client, after, "/v") == after
    renewed = connect(client, after, "/w w")
    assert "/w w" in renewed
    assert disconnect(client, renewed) == text
    assert read_jsonc(connect(client, renewed, "/v")).value == read_jsonc(after).value


@settings(deadline=None, max_examples=40)
@given(files_of(), st.sampled_from(JSON), st.sampled_from([None, 2, "\t"]))
def test_what_a_client_wrote_anew_keeps_all_that_is_not_ours(
    text: str, client: AgentClient, indent: int | str | None
) -> None:
    try:
        after = read_jsonc(connect(client, text, "/v")).value
    except RefusedError:
        return
    left = disconnect(client, json.dumps({**after, "new": 1}, indent=indent))
    assert left is not None
    assert "vaultmem" not in left
    head = client.hooks.head if client.hooks else {}
    before = read_jsonc(text).value if text.strip("\ufeff \t\r\n") else head
    assert _without_empty(read_jsonc(left).value) == _without_empty({**before, "new": 1})


@pytest.mark.parametrize("client", JSON, ids=lambda each: each.name)
def test_a_file_that_was_made_for_us_goes(client: AgentClient) -> None:
    made = connect(client, None, "/v")
    assert disconnect(client, made) is None
    assert disconnect(client, connect(client, "", "/v")) == ""
    anew = json.dumps(json.loads(made), indent=2)
    assert disconnect(client, anew) is None


@pytest.mark.parametrize("file", sorted(SETTINGS.iterdir()), ids=lambda each: each.name)
def test_settings_as_people_have_them_keep_what_others_wrote(file: Path) -> None:
    """The shapes are of clients' manuals and public repositories, other tools' hooks included."""
    name, _, place = file.name.partition(".")
    client, text = CLIENTS[name], file.read_bytes().decode()
    words = make_words(client, COMMAND, "/ROOT")
    hooks = client.hooks if client.hooks and client.hooks.project.endswith(place) else None
    has_entry = not hooks or client.project.endswith(place)
    after: str | None = text
    for _ in range(2):
        after = add_entry(client, place, after, words) if has_entry else after
        after = add_hooks(client, hooks, after, words) if hooks else after
    assert after is not None
    assert after.count("/ROOT") == has_entry + len(hooks.events if hooks else ())
    rest = iter(after)
    assert all(letter in rest for letter in text)  # In order, with nothing gone.
    left = remove_entry(client, place, after) if has_entry else after
    assert left is not None
    assert (remove_hooks(hooks, left) if hooks else left) == text


def _without_empty(value: Any) -> Any:
    """Return a value without objects and lists that hold nothing: whose they are is not told."""
    if isinstance(value, dict):
        inner = {key: _without_empty(each) for key, each in value.items()}
        return {key: each for key, each in inner.items() if each not in ({}, [])}
    if isinstance(value, list):
        return [each for each in map(_without_empty, value) if each not in ({}, [])]
    return value


_LINES = st.sampled_from(
    [
        *("", "# a [table]", "a = 1", 'b = "[x]"', "c = [1,\n  2]", "'d e' = {x = 1}"),
        *("[t]", "[t.u]", "[[list]]", "[mcp_servers]", "[mcp_servers.x]", '["mcp_servers"."y"]'),
        *("[mcp_servers.x.env]", 'K = """\nz\n"""', "  i = 1 # end"),
    ]
)


@settings(deadline=None, max_examples=80)
@given(st.lists(_LINES, max_size=8), st.sampled_from(["\n", "\r\n"]), st.booleans(), st.booleans())
def test_any_toml_comes_back_to_the_byte(
    lines: list[str], eol: str, is_ended: bool, has_mark: bool
) -> None:
    text = ("\ufeff" if has_mark else "") + eol.join(lines) + (eol if is_ended else "")
    client = CLIENTS["codex"]
    words = make_words(client, COMMAND, "/v")
    try:
        tomllib.loads(text.removeprefix("\ufeff").replace("\r\n", "\n"))
        after = add_entry(client, "c.toml", text, words)
    except (tomllib.TOMLDecodeError, RefusedError):
        return
    assert add_entry(client, "c.toml", after, words) == after
    renewed = add_entry(client, "c.toml", after, make_words(client, COMMAND, "/w"))
    assert remove_entry(client, "c.toml", renewed) == text
    more = f"{renewed}{eol}[mcp_servers.vaultmem.env]{eol}A = 'b'{eol}{eol}[z]{eol}"
    try:
        left = remove_entry(client, "c.toml", more)
    except RefusedError:  # The client's own tables stood in the text twice.
        return
    assert left is not None
    assert tomllib.loads(left.removeprefix("\ufeff"))["z"] == {}
    assert left.startswith(text)


_PAIRS = st.sampled_from(
    [
        *("", "# a: 1", "A: 1", "B: 'x: # y'", "C: [1, {d: 2}]  # c", "D:\n- 1\n- e: 2"),
        *("E: |\n  one\n\n  two: 2", "F: ü", "extensions: {}", "extensions:\n  x: {}\n"),
        *("extensions:\n    # mine\n    y:\n        cmd: y\n", "extensions: {z: 1}", "extensions:"),
    ]
)


@pytest.mark.campaign
@settings(deadline=None, max_examples=25)
@given(st.lists(_PAIRS, max_size=6), st.sampled_from(["\n", "\r\n"]), st.booleans(), st.booleans())
def test_any_yaml_comes_back_to_the_byte(
    pairs: list[str], eol: str, is_ended: bool, has_mark: bool
) -> None:
    text = "\n".join(pairs).replace("\n", eol) + (eol if is_ended else "")
    text = "\ufeff" + text if has_mark else text
    client = CLIENTS["goose"]
    words = make_words(client, COMMAND, "/v")
    try:
        after = add_entry(client, "c.yaml", text, words)
    except RefusedError:
        return
    assert add_entry(client, "c.yaml", after, words) == after
    assert remove_entry(client, "c.yaml", after) == text
    whole = yaml.safe_load(after)
    whole["extensions"]["vaultmem"] |= {"enabled": False, "available_tools": []}
    anew = yaml.safe_dump(whole, allow_unicode=True)
    renewed = add_entry(client, "c.yaml", anew, make_words(client, COMMAND, "/w"))
    entry = yaml.safe_load(renewed)["extensions"]["vaultmem"]
    assert (entry["enabled"], entry["available_tools"], entry["args"][2]) == (False, [], "/w")
    for each in (anew, renewed):
        left = yaml.safe_load(remove_entry(client, "c.yaml", each) or "") or {}
        assert {"extensions": {}, **left} == {"extensions": {}, **(yaml.safe_load(text) or {})}


def test_settings_in_yaml_that_were_made_for_us_go() -> None:
    client = CLIENTS["goose"]
    made = add_entry(client, "c.yaml", None, make_words(client, COMMAND, "/v"))
    assert remove_entry(client, "c.yaml", made) is None
    for wrong in ("extensions:", "- a", "a: [", "extensions: {x: 1}", "extensions: 7"):
        with pytest.raises(RefusedError, match="by hand"):
            add_entry(client, "c.yaml", wrong, make_words(client, COMMAND, "/v"))


@pytest.mark.parametrize(
    ("line", "is_ours"),
    [
        ("/x/vaultmem hook prompt --vault /v", True),
        ("C:/x/vaultmem.exe hook stop --vault 'D:/my vault'", True),
        ("python3 -P -m vaultmem hook stop --vault /v", True),
        ("/x/renamed hook stop --vault '/v;w' --agent claude-code", True),
        ("/x/renamed hook stop --vault /v --agent somebody", False),
        ("/x/renamed hook stop --vault /v", False),
        ("agent-strace hook session-start", False),
        ("nmem hook prompt --agent claude-code", False),
        ("vaultmem-notes hook prompt --vault /v", False),
        ("/x/vaultmem hook prompt --vault /v --agent codex; rm -r /", False),
        ("/x/vaultmem hook prompt --vault /v | mine", False),
        ("echo 'vaultmem hook prompt --vault /v'", False),
        ("/x/vaultmem hook prompt --vault '/v", False),
        ("vaultmem hook", False),
        ("", False),
        (7, False),
    ],
)
def test_only_our_own_line_is_ours(line: Any, is_ours: bool) -> None:
    assert is_our_line(line) is is_ours


@pytest.mark.parametrize(
    "text",
    [
        "mcp_servers = {vaultmem = OURS}\n",
        "[mcp_servers]\nvaultmem = OURS\n",
        "mcp_servers = {vaultmem = {a = 1}}\n",
        "[mcp_servers]\nvaultmem.a = 1\n",
        "a = \n",
        "mcp_servers = 3",
    ],
)
def test_an_entry_in_a_form_of_its_own_is_refused(text: str) -> None:
    client = CLIENTS["codex"]
    words = make_words(client, COMMAND, "/vault")
    inline = f'{{command = "{words[0]}", args = {json.dumps(words[1:])}, a = 1}}'

    with pytest.raises(RefusedError, match=r"by hand|vaultmem did not write"):
        add_entry(client, "config.toml", text.replace("OURS", inline), words)
