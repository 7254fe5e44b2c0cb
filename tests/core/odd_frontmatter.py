"""Notes whose frontmatter hides them, in spellings that one program reads and another does not.

`list_states` is the oracle: the states that PyYAML (YAML 1.1), ruamel.yaml (1.2), tomllib and json
read in such a text, where a key given twice, or merged, counts with each of its values.
"""

from __future__ import annotations

import contextlib
import functools
import json
import re
import tomllib
import warnings
from collections.abc import Iterator
from typing import Any

import yaml
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

BODY = "\n# The ferry\n\nIt leaves at seven.\n"

#: Blocks between two lines `---`. Each has a state that hides the note in a program that reads it.
BLOCKS = {
    "plain": "state: quarantined",
    "deprecated": "state: deprecated",
    "archived": "state: archived",
    # Mappings in one line.
    "flow": "{state: quarantined}",
    "flow with more": "{title: x, state: quarantined, tags: [a]}",
    "flow over lines": "{\n  title: x,\n  state: quarantined\n}",
    "flow, indented": "   {state: quarantined, x: 1}",
    "flow with an anchor": "{state: quarantined, x: &a 1}",
    "flow with a tag": '{"state": "quarantined", "x": !y 1}',
    "flow with YAML's tags": '{"state": !!str "quarantined", "x": !!binary "eA=="}',
    "flow, deprecated with an anchor": "{state: deprecated, x: &a 1}",
    "JSON": '{"state": "quarantined"}',
    "JSON without spaces": '{"title":"x","state":"quarantined"}',
    "JSON with an escaped slash": '{"state": "quarantined", "url": "http:\\/\\/x"}',
    "JSON, all escaped": '{"st\\u0061te": "\\u0071uarantined", "url": "http:\\/\\/x"}',
    "flow with a comment": "{state: quarantined, # why\n x: &a 1}",
    "flow, its key last": "{x: &a 1, y: *a, state: quarantined}",
    "flow of an explicit key": "{? state : quarantined, x: &a 1}",
    # Keys and values in other spellings.
    "double quotes": '"state": quarantined',
    "single quotes": "'state': 'quarantined'",
    "escaped letter": '"st\\u0061te": quarantined',
    "escaped by two digits": '"\\x73tate": quarantined',
    "escaped by eight digits": '"stat\\U00000065": quarantined',
    "escaped value": 'state: "\\x71uarantined"',
    "escaped both": '"st\\u0061te": "quar\\u0061ntined"',
    "value over two lines": 'state: "quaran\\\n  tined"',
    "key that is an anchor": "&a state: quarantined",
    "value that is an anchor": "state: &a quarantined",
    "value that is an alias": "x: &a quarantined\nstate: *a",
    "key that is an alias": "x: &k state\n*k : quarantined",
    "tagged key": "!!str state: quarantined",
    "tagged value": "state: !!str quarantined",
    "tag of its own": "title: !x y\nstate: quarantined",
    "tag without a shorthand": "state: !<tag:yaml.org,2002:str> quarantined",
    "tagged mapping": "!!map {state: quarantined}",
    "tagged mapping of lines": "!!map\nstate: quarantined",
    "ordered mapping": "!!omap\n- state: quarantined",
    "explicit key": "? state\n: quarantined",
    "explicit key with an anchor": "? &a state\n: quarantined",
    "explicit key over lines": "? |-\n  state\n: quarantined",
    "literal value": "state: |\n  quarantined",
    "folded value": "state: >-\n  quarantined",
    "value in the next line": "state:\n  quarantined",
    "value behind a comment": "state: # why\n  quarantined",
    "space before the colon": "state : quarantined",
    "trailing comment": "state: quarantined # until read",
    "indented": "  state: quarantined\n  title: x",
    "value in capitals": "state: QUARANTINED",
    "value of an equals sign": "state: !!str {=: quarantined}",
    "list of one": "state: [quarantined]",
    "list of lines": "state:\n  - quarantined",
    "set": "state: {quarantined}",
    # Names in another case.
    "capital": "State: quarantined",
    "capitals": "STATE: quarantined",
    "capital beside": "State: quarantined\nstate: active",
    "capital behind": "state: active\nState: quarantined",
    "capital, quoted": '"State": quarantined\nstate: active',
    "capital, deprecated": "State: deprecated\nstate: active",
    "capital, archived alone": "State: archived",
    "capital in flow": "{State: quarantined, state: active}",
    "long s": "\u017ftate: quarantined\nstate: active",
    # Said twice.
    "twice": "state: quarantined\nstate: active",
    "twice, the last": "state: active\nstate: quarantined",
    "twice in flow": "{state: quarantined, state: active}",
    "twice in flow, the last": "{state: active, state: quarantined}",
    "twice, one escaped": '"st\\u0061te": quarantined\nstate: active',
    "twice, one quoted": "'state': quarantined\nstate: active",
    "twice, one explicit": "? state\n: quarantined\nstate: active",
    "twice in capitals": "State: quarantined\nState: active\nstate: active",
    "thrice": "state: active\nstate: archived\nstate: active",
    # Merged mappings.
    "merged": "<<: {state: quarantined}\ntitle: x",
    "merged, and a state": "<<: {state: quarantined}\nstate: active",
    "merged list": "<<: [{title: x}, {state: quarantined}]",
    "merged alias": "base: &b {state: quarantined}\n<<: *b",
    "merged alias, deprecated": "base: &b\n  state: deprecated\n<<: *b\ntitle: x",
    "merged by a tag": "!!merge m: {state: quarantined}\ntitle: x",
    "merged, archived": "<<: {state: archived}",
    # Line ends and marks.
    "carriage returns inside": "title: x\rstate: quarantined\rtags: []",
    "next line": "title: x\x85state: quarantined",
    "line separator": "title: x\u2028state: quarantined",
    "version": "%YAML 1.2\n---\nstate: quarantined",
    "end of the document": "state: quarantined\n...",
    "second document": "title: x\n--- {state: quarantined}",
    "comment first": "# mine\n\n{state: quarantined, x: &a 1}",
    "tab behind": "state:\tquarantined",
    "tab before the colon": "state\t: quarantined",
    # Too much for the limits.
    "deep": "{state: quarantined, x: " + "[" * 40 + "]" * 40 + "}",
    "deep before": "{x: " + "[" * 40 + "]" * 40 + ", state: quarantined}",
    "long": "{state: quarantined, x: [" + "a, " * 6_000 + "]}",
    "long before": "x: [" + "a, " * 6_000 + "]\nstate: quarantined",
    "large": "{state: quarantined, x: " + "a" * 70_000 + "}",
    "large before": "title: " + "a" * 70_000 + "\nstate: quarantined",
}

#: What no program reads as a state, and a person may have meant as one.
SLIPS = {
    "no space": "state:quarantined",
    "no space, more lines": "state:quarantined\ntitle: x",
    "equals sign": "state= quarantined",
    "equals sign and quotes": 'state = "quarantined"',
    "list of a mapping": "- state: quarantined",
    "list in one line": "[state: quarantined]",
    "a property inside": "review:\n  state: quarantined",
    "another property": "status: quarantined",
    "unfinished": "{state: quarantined, x: [",
    "unfinished, escaped": '{"st\\u0061te": quarantined, x: [',
    "word alone": "quarantined",
    "no space, deprecated": "state:deprecated",
    "set of the state": "state: {quarantined: true}",
}

#: Whole texts that begin as other programs' frontmatter does.
TEXTS = {
    "CR line ends": "---\rstate: quarantined\rtitle: x\r---\r\rThe ferry.\r",
    "CR line ends in flow": "---\r{state: quarantined, x: &a 1}\r---\rThe ferry.\r",
    "CR line ends of the block": "---\rstate: quarantined\r---\rThe ferry.\nIt leaves.\n",
    "TOML": f'+++\ntitle = "x"\nstate = "quarantined"\n+++\n{BODY}',
    "TOML, quoted": f"+++\n'state' = 'quarantined'\n+++\n{BODY}",
    "TOML, escaped": f'+++\n"st\\u0061te" = "\\u0071uarantined"\n+++\n{BODY}',
    "TOML, deprecated": f'+++\nstate = "deprecated"\n+++\n{BODY}',
    "TOML over lines": f'+++\nstate = """\nquarantined"""\n+++\n{BODY}',
    "JSON alone": f'{{\n  "title": "x",\n  "state": "quarantined"\n}}\n{BODY}',
    "JSON in one line": f'{{"state": "archived", "a": {{"b": 1}}}}\n{BODY}',
    "JSON with empty lines": f'{{\n\n"a": {{}},\n\n"state":\n"quarantined"\n}}\n{BODY}',
    "JSON, escaped": f'{{"\\u0073tate": "quarantine\\u0064"}}\n{BODY}',
    "semicolons": f';;;\n{{"state": "quarantined"}}\n;;;\n{BODY}',
    "semicolons without braces": f';;;\n"state": "quarantined"\n;;;\n{BODY}',
    "named JSON": f'---json\n{{"state": "quarantined"}}\n---\n{BODY}',
    "named TOML": f'---toml\nstate = "quarantined"\n---\n{BODY}',
    "four hyphens": f"----\n{{state: quarantined, x: &a 1}}\n----\n{BODY}",
    "blank line before": f"\n---\n{{state: quarantined, x: &a 1}}\n---\n{BODY}",
    "blanks before": f"  \n---\n&a state: !!str quarantined\n---\n{BODY}",
    "dots at the end": f"---\n{{state: quarantined, x: &a 1}}\n...\n{BODY}",
    "never closed": f"---\n# mine\nstate: quarantined\n{BODY}",
    "never closed, in flow": f"---\n{{state: quarantined, x: 1}}\n{BODY}",
    "no first line, far down": "title: x\n" + "a: b\n" * 2_000 + f"state: deprecated\n---\n{BODY}",
    "words before, far down": "See.\n---\n" + "a: b\n" * 2_000 + f"state: archived\n---\n{BODY}",
    "line far down": "See below.\n" * 600 + f"state: quarantined\n---\n{BODY}",
    "byte order mark": f"\ufeff---\n{{state: quarantined, x: &a 1}}\n---\n{BODY}",
    "byte order mark and a blank line": f"\ufeff\n---\nx: &a quarantined\nstate: *a\n---\n{BODY}",
}

_YAML = re.compile(r"\s*-{3,}[ \t]*\n(.*?)^(?:-{3,}|\.{3})[ \t]*$", re.MULTILINE | re.DOTALL)
_OTHER = re.compile(r"(\+{3}|;{3}|---\w+)\n(.*?)^(?:\+{3}|;{3}|---)$", re.MULTILINE | re.DOTALL)


def make_text(block: str) -> str:
    """Return a note with this block."""
    return f"---\n{block}\n---\n{BODY}"


@functools.cache
def list_states(text: str) -> set[str]:
    """Return what programs read as the state of a text's note, in lower case."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    found: set[str] = set()
    if block := _YAML.match(text):
        found = {*_list_yaml(block[1])}
    for inside in [text, *(other[2] for other in [_OTHER.match(text)] if other)]:
        for each in (inside, f"{{{inside}}}"):
            with contextlib.suppress(ValueError):
                found |= {*_list_given(json.JSONDecoder().raw_decode(each.strip())[0])}
        with contextlib.suppress(tomllib.TOMLDecodeError):
            found |= {*_list_given(tomllib.loads(inside))}
    return found


def _list_yaml(block: str) -> Iterator[str]:
    is_long = len(block) > 10_000  # Two of these are slow.
    for loader in (_FirstLoader, _LastLoader, *(() if is_long else (yaml.SafeLoader,))):
        with contextlib.suppress(yaml.YAMLError, ValueError, TypeError, RecursionError):
            yield from _list_given(yaml.load(block, loader))
    for kind in () if is_long else ("safe", "rt"):
        reader = YAML(typ=kind, pure=True)
        reader.allow_duplicate_keys = True
        with (
            contextlib.suppress(YAMLError, ValueError, TypeError, RecursionError),
            warnings.catch_warnings(action="ignore"),  # Of anchors that are used twice.
        ):
            yield from _list_given(reader.load(block))


class _LastLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Takes the last of keys that are given twice."""


class _FirstLoader(_LastLoader):
    """Takes the first of them."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        self.flatten_mapping(node)
        node.value.reverse()
        return super().construct_mapping(node, deep)


def _list_given(data: object) -> Iterator[str]:
    """Yield what a mapping has as its state, whatever the case."""
    if isinstance(data, list) and all(isinstance(each, tuple) and len(each) == 2 for each in data):
        data = dict(data)
    for name, value in data.items() if isinstance(data, dict) else ():
        if str(name).casefold() == "state":
            values = value if isinstance(value, (list, set, dict)) else [value]
            yield from (str(each).strip().lower() for each in values)
