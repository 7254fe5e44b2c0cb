"""One member or item changes; every other byte of somebody's settings stays."""

from __future__ import annotations

import difflib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vaultmem.core.clients.settings_formats import (
    add_item,
    read_jsonc,
    remove_table,
    remove_value,
    set_table,
    set_value,
)
from vaultmem.errors import RefusedError

ENTRY = {"command": "/usr/bin/vaultmem", "args": ["mcp", "--vault", "/v"]}

TEXTS = {
    "nothing": "",
    "empty object": "{}",
    "empty object in lines": "{\n}\n",
    "no servers": '{\n  "theme": "dark"\n}\n',
    "another server": '{\n  "servers": {\n    "x": { "command": "x" }\n  }\n}\n',
    "tabs": '{\n\t"servers": {\n\t\t"x": {}\n\t}\n}',
    "one line": '{"servers": {"x": {"a": 1}}, "b": [1, 2]}',
    "comments": '// mine\n{\n  // servers\n  "servers": {\n    "x": {} // last\n  }, /* end */\n'
    '  "b": 1\n}\n',
    "trailing commas": '{\n  "servers": {\n    "x": {},\n  },\n}\n',
    "trailing comma and comment": '{\n  "servers": {\n    "x": {}, // last\n  }\n}\n',
    "windows lines": '{\r\n  "servers": {\r\n    "x": {}\r\n  }\r\n}\r\n',
    "byte order mark": '\ufeff{\n  "servers": {}\n}\n',
    "comment in an empty object": '{\n  "servers": {\n    // none yet\n  }\n}\n',
    "words in strings": '{\n  "a": "// no } comment {",\n  "servers": {"y": "\\"}"}\n}\n',
    "no last line end": '{\n    "servers": {\n        "x": 1\n    }\n}',
}


def inserted_only(before: str, after: str) -> bool:
    """Tell whether all characters of `before` are in `after`, in order, without any changed."""
    steps = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    return all(step[0] in {"equal", "insert"} for step in steps)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_member_is_put_in_and_nothing_else_changes(text: str) -> None:
    before = read_jsonc(text).value if text.strip() else {}
    after = set_value(text, ("servers", "vaultmem"), ENTRY)
    wanted = {**before, "servers": {**before.get("servers", {}), "vaultmem": ENTRY}}

    assert read_jsonc(after).value == wanted
    assert inserted_only(text, after)
    assert set_value(after, ("servers", "vaultmem"), ENTRY) == after
    assert remove_value(after, ("servers", "vaultmem")) == text


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_an_item_is_put_in_and_taken_out_again(text: str) -> None:
    once = add_item(text, ("hooks", "Start"), {"run": "vaultmem hook start"})
    twice = add_item(once, ("hooks", "Start"), {"run": "other"})

    assert read_jsonc(twice).value["hooks"]["Start"] == [
        {"run": "other"},
        {"run": "vaultmem hook start"},
    ]
    assert inserted_only(text, twice)
    left = remove_value(twice, ("hooks", "Start", 1))
    assert left
    assert read_jsonc(left).value["hooks"]["Start"] == [{"run": "other"}]
    assert remove_value(once, ("hooks", "Start", 0)) == text


def test_a_value_takes_the_place_of_another() -> None:
    text = '{\n  "servers": {\n    "vaultmem": {"old": true}, // ours\n    "x": 1\n  }\n}\n'
    after = set_value(text, ("servers", "vaultmem"), ENTRY)
    assert read_jsonc(after).value == {"servers": {"vaultmem": ENTRY, "x": 1}}
    assert "// ours\n" in after


@pytest.mark.parametrize(
    "text", ["{", "[1", '{"a" 1}', "{a: 1}", '{"a": 1} x', "[" * 100, '{"a": 01x}', "nul"]
)
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(RefusedError, match="by hand"):
        set_value(text, ("servers", "vaultmem"), ENTRY)


@pytest.mark.parametrize("text", ['{"servers": 3}', "[]", '{"servers": null}', '"x"'])
def test_a_place_of_another_kind_is_refused(text: str) -> None:
    with pytest.raises(RefusedError, match="not a JSON object"):
        set_value(text, ("servers", "vaultmem"), ENTRY)


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=8,
)


@pytest.mark.campaign
@settings(deadline=None)
@given(
    st.dictionaries(st.text(max_size=6).filter(lambda key: key != "servers"), _VALUES, max_size=4),
    st.dictionaries(st.text(max_size=6).filter(lambda key: key != "vaultmem"), _VALUES, max_size=3),
    st.sampled_from([None, 2, 4, "\t"]),
    st.booleans(),
)
def test_any_settings_keep_their_bytes(
    rest: dict[str, Any], servers: dict[str, Any], indent: Any, is_first: bool
) -> None:
    whole = {"servers": servers, **rest} if is_first else {**rest, "servers": servers}
    text = json.dumps(whole, indent=indent)
    after = set_value(text, ("servers", "vaultmem"), ENTRY)
    assert read_jsonc(after).value == {**whole, "servers": {**servers, "vaultmem": ENTRY}}
    assert inserted_only(text, after)
    assert remove_value(after, ("servers", "vaultmem")) == text


TOML = {
    "nothing": "",
    "a value": 'model = "o1"\n',
    "another table": '# mine\n[mcp_servers.x]\ncommand = "x" # keep\n\n[other]\na = 1\n',
    "no last line end": "[a]\nb = 1",
    "windows lines": "[a]\r\nb = 1\r\n",
    "ours in the middle": '[mcp_servers.vaultmem]\ncommand = "old"\n\n# about next\n[next]\n'
    "a = 1\n",
}


@pytest.mark.parametrize("text", TOML.values(), ids=TOML)
def test_a_table_is_put_in_and_nothing_else_changes(text: str) -> None:
    name = ("mcp_servers", "vaultmem")
    after = set_table(text, name, ENTRY)
    for line in text.splitlines():
        assert line in after.splitlines() or "old" in line
    assert set_table(after, name, ENTRY) == after
    left = remove_table(after, name)
    assert "vaultmem" not in (left or "")
    if "vaultmem" not in text:
        assert left == text
        assert after.startswith(text)
    assert "\n# about next\n[next]" in after or "next" not in text
