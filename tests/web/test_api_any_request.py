"""Whatever the API is asked, it answers or says what is wrong; nothing is a defect."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlencode

import conftest
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from in_process import run_here
from visiting import Served

NOTES = {
    "MEMORY.md": "# Memory\n\nSee [[pier]].\n",
    "notes/pier.md": "---\ntags: [wood]\n---\n# Pier\n\nThe pier is of oak.\n",
    "sessions/s-1.md": "---\nstatus: ok\n---\n# Goal\n\nMend.\n",
    "tasks/mend.md": "---\ntitle: Mend\nstatus: open\n---\n# Mend\n",
}

#: What comes near to something that is there, and what people try.
_LIKELY = ["pier", "notes/pier.md", "pier#Pier", "HEAD", "main", "2026-10-01", "s-1", "mend", ""]
_HOSTILE = ["../x", "/etc/passwd", "-x", "--help", "a\0b", "\ud800", "🛶" * 99, "%s", "~"]
_WORDS = st.one_of(
    st.sampled_from(_LIKELY),
    st.sampled_from(_HOSTILE),
    st.text(max_size=12),
    st.text("01", max_size=3),
)
_ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | _WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_WORDS, inner, max_size=3),
    max_leaves=6,
)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("any")
    with pytest.MonkeyPatch.context() as patch:
        conftest._isolate(patch, folder / "home")
        root = folder / "vault"
        for name, text in NOTES.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        assert run_here("init", ".", cwd=root).code == 0
        assert run_here("checkpoint", "first", cwd=root).code == 0
        made = Served(root, folder)
        yield made
        made.workers.close()


def _values(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Return values of a schema most of the time, else something else."""
    kind = schema.get("type")
    fit: st.SearchStrategy[Any] = _WORDS
    if "enum" in schema:
        fit = st.sampled_from(schema["enum"])
    elif kind == "integer":
        fit = st.integers(schema["minimum"], min(schema["maximum"], 2_000))
    elif kind == "boolean":
        fit = st.booleans()
    elif kind == "array":
        fit = st.lists(_values(schema["items"]), max_size=3)
    return st.one_of(fit, fit, fit, _ANYTHING)


def _write_parameter(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return [_write_parameter(each) for each in value]
    return _clean(str(value))


def _clean(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _ask(served: Served, data: st.DataObject) -> None:
    program = served.connect()
    document = _read_document(served)
    place = data.draw(st.sampled_from(sorted(document["paths"].keys() - {"/events", "/doctor"})))
    method = data.draw(st.sampled_from(sorted(document["paths"][place])))
    described = document["paths"][place][method]
    query: dict[str, Any] = {}
    for each in described["parameters"]:
        if each.get("in") == "path":
            part = data.draw(_WORDS)
            place = place.replace(f"{{{each['name']}}}", quote(_clean(part), safe=""))
        elif each.get("in") == "query" and (each["required"] or data.draw(st.booleans())):
            query[each["name"]] = _write_parameter(data.draw(_values(each["schema"])))
    body = None
    if "requestBody" in described:
        fields = described["requestBody"]["content"]["application/json"]["schema"]["properties"]
        chosen = data.draw(st.sets(st.sampled_from(sorted(fields)), max_size=4))
        body = json.dumps({name: data.draw(_values(fields[name])) for name in sorted(chosen)})
    address = f"/api/v1{place}?{urlencode(query, doseq=True)}"
    headers = {"Content-Type": "application/json", "If-Match": "*"}
    answer = program.request(method.upper(), address, content=body, headers=headers)
    assert answer.status_code < 500, (method, address, body, answer.text)
    if answer.status_code >= 400:
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["detail"]


def _read_document(served: Served, kept: list[Any] = []) -> Any:  # noqa: B006 - read once.
    if not kept:
        kept.append(served.connect().get("/api/v1/openapi.json").json())
    return kept[0]


_PROFILE = {
    "deadline": None,
    "phases": [Phase.generate],
    "suppress_health_check": list(HealthCheck),
}


@pytest.mark.campaign
@settings(max_examples=40, **_PROFILE)
@given(data=st.data())
def test_no_request_ends_in_a_defect(served: Served, data: st.DataObject) -> None:
    _ask(served, data)


@pytest.mark.long
@settings(max_examples=4_000, **_PROFILE)
@given(data=st.data())
def test_no_request_of_thousands_ends_in_a_defect(served: Served, data: st.DataObject) -> None:
    _ask(served, data)
