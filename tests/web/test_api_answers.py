"""Each operation of the API answers what the command of its name prints with --json."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import re
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from in_process import run_here
from jsonschema import Draft202012Validator
from starlette.testclient import TestClient
from visiting import Served

from vaultmem.operations.declaration import Operation
from vaultmem.web.api.routes import OPERATIONS

NOTES = {
    "MEMORY.md": "# Memory\n\nThe harbour is at Husum. See [[pier]].\n",
    "notes/pier.md": "---\ntags: [harbour/wood]\n---\n# Pier\n\nThe pier is of oak.\n",
    "notes/quay.md": "---\nkind: decision\n---\n# Quay\n\n## Stone\n\nOf stone. [[no]]\n",
    "notes/old.md": "---\nstate: archived\n---\n# Old\n\nThe old lighthouse stood here.\n",
    "sessions/s-1.md": "---\ntitle: First\nstatus: ok\nagent: ada\n---\n# Goal\n\nMend the pier.\n",
    "primed/manual/ink.md": "# Ink\n\nThe printer takes black ink.\n",
    "tasks/mend.md": "---\ntitle: Mend\nstatus: open\nnext: buy oak\n---\n# Mend\n",
}

#: Operations as addresses, and the commands that say the same; `{commit}` is the first commit,
#: `{receipt}` a receipt.
SAME = [
    ("/notes", "list"),
    ("/notes?kind=decision&kind=policy_rule", "list --kind decision --kind policy_rule"),
    ("/notes?state=archived", "list --state archived"),
    ("/notes?limit=2", "list -n 2"),
    ("/notes?tag=harbour&pinned=false", "list --tag harbour"),
    ("/notes?path=notes&context=notes", "list --path notes --context notes"),
    ("/notes?at={commit}", "list --at {commit}"),
    ("/notes?ref=side", "list --ref side"),
    ("/notes/notes/pier.md", "show notes/pier.md"),
    ("/notes/pier", "show pier"),
    ("/notes/quay%23Stone", "show quay#Stone"),
    ("/notes/notes%2Fpier.md?at={commit}", "show pier --at {commit}"),
    ("/notes/pier?ref=side", "show pier --ref side"),
    ("/notes/pier?full=true", "show pier --full"),
    ("/pinned", "pinned"),
    ("/projects", "projects"),
    ("/links/quay", "links quay"),
    ("/backlinks/pier?at={commit}", "backlinks pier --at {commit}"),
    ("/broken", "links"),
    ("/orphans", "orphans"),
    ("/recall?query=oak+pier", "recall oak pier"),
    ("/recall?query=oak+pier&limit=1", "recall oak pier -n 1"),
    ("/recall?query=pier&at={commit}&semantic=false", "recall pier --at {commit} --no-semantic"),
    ("/recall?query=pier&budget=40", "recall pier --budget 40"),
    ("/recall?query=lighthouse&state=archived", "recall lighthouse --state archived"),
    ("/recall?query=pier&include_refs=side", "recall pier --include-refs side"),
    ("/pack?query=pier&receipt=false", "pack pier --no-receipt"),
    ("/pack?receipt=false&budget=300&labels=full", "pack --no-receipt --budget 300 --labels full"),
    ("/pack?query=pier&ref=side&receipt=false", "pack pier --ref side --no-receipt"),
    ("/pack?query=pier&at={commit}&receipt=false", "pack pier --at {commit} --no-receipt"),
    ("/receipts", "receipts"),
    ("/receipts/{receipt}/replay", "receipt {receipt}"),
    ("/assert?query=pier&says=oak", "assert pier --contains oak"),
    ("/assert?query=pier&says=oak&not=true", "assert pier --contains oak --absent"),
    (
        "/assert?query=pier&finds=notes/pier.md&at={commit}",
        "assert pier --contains-note notes/pier.md",
    ),
    ("/bisect?query=pier&says=oak&good={commit}", "bisect pier --contains oak --good {commit}"),
    ("/log?all=true", "log --all"),
    ("/log?event=write&limit=3", "log --event write -n 3"),
    ("/log?ref=side&all=true&path=notes", "log --ref side --all --path notes"),
    ("/commits/{commit}", "show {commit}"),
    ("/commits/side", "show side"),
    ("/diff?from={commit}", "diff {commit}"),
    ("/diff?from={commit}&to=side&path=notes", "diff {commit} side --path notes"),
    ("/blame/pier", "blame pier"),
    ("/blame/quay%23Stone?at={commit}", "blame quay#Stone --at {commit}"),
    ("/history/pier", "history pier"),
    ("/history/pier?limit=1&at={commit}", "history pier -n 1 --at {commit}"),
    ("/why?query=stone", "trace stone"),
    ("/why?query=stone&at={commit}&limit=2", "trace stone --at {commit} -n 2"),
    ("/branches", "branches"),
    ("/merge?branch=side", "merge side --dry-run"),
    ("/merge?branch=main&ref=side", "merge main --ref side --dry-run"),
    ("/sessions", "session list"),
    ("/sessions?status=ok&from_agent=ada", "session list --status ok --from-agent ada"),
    ("/sessions/s-1", "session show s-1"),
    ("/sessions/s-1/restore?budget=400", "session restore s-1 --budget 400"),
    ("/sessions/s-1/chain", "session links s-1"),
    ("/session-search?query=pier", "session search pier"),
    (
        "/session-search?file=pier.py&since=2026-11-01",
        "session search --file pier.py --since 2026-11-01",
    ),
    ("/sessions/s-1/turns?from=2&failed=true", "session turns s-1 --from 2 --failed"),
    ("/session-stats", "session stats"),
    ("/session-family?session=s-1", "session report s-1"),
    ("/tasks", "task list"),
    ("/tasks?all=true", "task list --all"),
    ("/tasks/mend", "task show mend"),
    ("/tasks/mend/history?budget=300", "task history mend --budget 300"),
    ("/stats", "stats"),
    ("/recent?limit=2", "queries -n 2"),
    ("/recent?note=pier", "queries pier"),
    ("/recent?says=pine&from_agent=ada", "queries --contains pine --from-agent ada"),
    ("/reference", "reference"),
    ("/reference/manual?at={commit}", "reference --source manual --at {commit}"),
    ("/status", "status --agent claude"),
    ("/doctor", "doctor"),
    ("/review", "review"),
    ("/review?only=candidate", "review --only candidate"),
    ("/conflicts", "conflicts"),
    ("/similar?text=notes/pier.md", "similar notes/pier.md"),
    ("/dedup", "dedup"),
    ("/curate", "curate"),
]


class Told:
    """A vault that is served, a program, and what stands for the names in the table."""

    def __init__(self, served: Served, names: dict[str, str]) -> None:
        self.served = served
        self.program: TestClient = served.connect()
        self.names = names

    def get(self, place: str) -> Any:
        return self.program.get(f"/api/v1{self.fill(place)}")

    def run(self, command: str) -> Any:
        return run_here(*self.fill(command).split(), "--json", cwd=self.served.root)

    def fill(self, text: str) -> str:
        return re.sub(r"\{(\w+)\}", lambda found: self.names[found[1]], text)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    """One vault for all that read."""
    import conftest

    folder = tmp_path_factory.mktemp("api")
    with pytest.MonkeyPatch.context() as patch:
        conftest._isolate(patch, folder / "home")
        patch.delenv("VAULTMEM_RECEIPTS")
        root = folder / "vault"
        root.mkdir()
        for name, text in NOTES.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        _run(root, "init", ".")
        _run(root, "checkpoint", "first")
        commit = _run(root, "log", "--all", "--json").json["commits"][0]["commit"]
        _run(root, "branch", "side")
        (root / "notes/pier.md").write_text("# Pier\n\nThe pier is of pine.\n")
        _run(root, "checkpoint", "another wood")
        (root / "notes/boat.md").write_text("---\nstate: candidate\n---\n# Boat\n\nIt leaks.\n")
        receipt = _run(root, "pack", "pier", "--agent", "ada", "--json").json["receipt"]
        served = Served(root, folder)
        yield Told(served, {"commit": commit, "receipt": receipt})
        served.workers.close()


def _run(root: Path, *words: str) -> Any:
    done = run_here(*words, cwd=root)
    assert done.code == 0, (words, done)
    return done


@pytest.mark.parametrize(("place", "command"), SAME, ids=[place for place, _ in SAME])
def test_an_operation_says_what_its_command_says(told: Told, place: str, command: str) -> None:
    answer = told.get(place)
    assert answer.status_code == 200, answer.text
    assert _settle(answer.json()) == _settle(told.run(command).json)
    Draft202012Validator(_find_operation(told.fill(place)).output_schema).validate(answer.json())


def _settle(value: Any) -> Any:
    """Return an answer without what changes by itself: a disk's room, a report's time."""
    if isinstance(value, dict) and "proposals" in value:
        return {name: each for name, each in value.items() if name != "made"}
    if isinstance(value, dict) and "checks" in value:
        return {**value, "checks": [each for each in value["checks"] if each["name"] != "disk"]}
    return value


def test_every_operation_that_reads_is_compared() -> None:
    reading = {each.name for each in OPERATIONS if each.method == "GET"}
    alone = {"get_receipt", "list_tags", "list_contexts"}  # No command says the same.
    alone |= {"expand_artifact"}
    assert {_find_operation(place).name for place, _ in SAME} == reading - alone


def _find_operation(place: str) -> Operation:
    """Return the operation that answers at an address: of several, the one that names it best."""
    path = place.partition("?")[0]
    fitting = [
        each
        for each in OPERATIONS
        if each.method == "GET" and re.fullmatch(re.sub(r"\{\w+\}", "[^?]+", each.path), path)
    ]
    return max(fitting, key=lambda each: len(each.path))


def test_a_receipt_is_read_by_its_id_alone(told: Told) -> None:
    listed = told.get("/receipts").json()["receipts"]
    assert told.get("/receipts/{receipt}").json() == listed[0]
    (told.served.root.parent / "file.json").write_text("{}")
    with contextlib.chdir(told.served.root.parent):
        answer = told.get("/receipts/file.json")
    assert answer.status_code == 404
    assert answer.json()["code"] == "NoteNotFoundError"


def test_tags_and_contexts_are_counted(told: Told) -> None:
    assert told.get("/tags?at={commit}").json() == {"tags": [{"name": "harbour/wood", "notes": 1}]}
    contexts = {each["name"]: each["notes"] for each in told.get("/contexts").json()["contexts"]}
    assert contexts == {"manual": 1, "sessions": 1, "tasks": 1}


FAILURES = [
    ("/notes/nowhere", "show nowhere", 404),
    ("/notes/..%2Fetc%2Fpasswd", "show ../etc/passwd", 422),
    ("/notes/pier?at=nowhere", "show pier --at nowhere", 404),
    ("/notes/pier?ref=-x", "show pier --ref=-x", 422),
    ("/notes?since=soon", "list --since soon", 422),
    ("/pack?query=pier&budget=20", "pack pier --budget 20", 422),
    ("/commits/nowhere~1", "show nowhere~1", 404),
    ("/sessions/nobody", "session show nobody", 404),
    ("/tasks/nothing", "task show nothing", 404),
    ("/receipts/nothing/replay", "receipt nothing", 404),
    ("/why?query=stone&ref=nowhere", "trace stone --ref nowhere", 404),
]


@pytest.mark.parametrize(("place", "command", "status"), FAILURES)
def test_what_fails_says_what_the_command_says(
    told: Told, place: str, command: str, status: int
) -> None:
    answer, ended = told.get(place), told.run(command)
    problem = answer.json()
    assert answer.status_code == problem["status"] == status, problem
    assert answer.headers["content-type"] == "application/problem+json"
    told_by_command = json.loads(ended.err.splitlines()[-1])
    assert told_by_command == {"error": problem["detail"], "exit_code": ended.code}
    assert problem["exit_code"] == ended.code


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("/notes?colour=red", 'list_notes: unknown parameter "colour"'),
        ("/tasks/mend/history?at=x", 'view_task: unknown parameter "at"; known are budget'),
        ("/branches?at=x", 'list_branches: unknown parameter "at"; known are format'),
        ("/recall", 'recall: "query" is missing'),
        ("/recall?query=", "recall: query: must have at least 1 character"),
        ("/recall?query=pier&limit=many", "recall: limit: must be an integer, such as 5"),
        ("/recall?query=pier&limit=0", "recall: limit: must be at least 1"),
        ("/recall?query=pier&semantic=maybe", "recall: semantic: must be true or false"),
        ("/recall?query=pier&query=quay", '"query" is given 2 times; give it once'),
        ("/notes?kind=song", "list_notes: kind[0]: must be one of working_context"),
        ("/pack?format=poem", "pack: format: must be one of markdown, text"),
        ("/recall?query=%ff", "the query is not UTF-8"),
    ],
)
def test_what_is_asked_wrongly_is_refused_with_what_it_should_be(
    told: Told, place: str, says: str
) -> None:
    answer = told.get(place)
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith(says)


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        (b'{"query": "pier"}', "application/json; charset=utf-8", 200),
        (b'{"query": "pier"}', "text/plain", 415),
        (b"query=pier", "application/x-www-form-urlencoded", 415),
        (b'{"query": ', "application/json", 422),
        (b'["query"]', "application/json", 422),
        (b'{"query": NaN}', "application/json", 422),
        (b'{"query": "\\ud800"}', "application/json", 422),
        (b"[" * 100_000, "application/json", 422),
        (b'{"query": 1' + b"0" * 9_000 + b"}", "application/json", 422),
        (b"\xff", "application/json", 422),
        (b"", "application/json", 422),
    ],
)
def test_a_body_is_json_and_nothing_else(
    told: Told, content: bytes, kind: str, status: int
) -> None:
    headers = {"Content-Type": kind}
    answer = told.program.post("/api/v1/recall", content=content, headers=headers)
    assert answer.status_code == status, answer.text


def test_a_long_question_is_asked_in_a_body(told: Told) -> None:
    body = {"query": "pier " * 5_000, "limit": 1}
    answer = told.program.post("/api/v1/recall?at=" + told.names["commit"], json=body)
    assert [hit["path"] for hit in answer.json()["hits"]] == ["notes/pier.md"]
    assert told.program.post("/api/v1/pack", json={"query": "pier"}).json()["receipt"]


def test_what_is_known_already_is_not_sent_again(told: Told) -> None:
    first = told.get("/notes/pier")
    tag = first.headers["etag"]
    assert tag == f'"{first.json()["blob"]}"'
    for known in (tag, f"W/{tag}", f'"x", {tag}', "*"):
        again = told.program.get("/api/v1/notes/pier", headers={"If-None-Match": known})
        assert (again.status_code, again.headers["etag"], again.content) == (304, tag, b"")
    other = told.program.get("/api/v1/notes/pier", headers={"If-None-Match": '"x"'})
    assert other.status_code == 200
    assert told.get("/notes/pier?at={commit}").headers["etag"] != tag


def test_a_list_has_another_version_when_a_note_has(told: Told) -> None:
    tag = told.get("/notes").headers["etag"]
    asked = {"If-None-Match": tag}
    assert tag.startswith('W/"')
    assert told.program.get("/api/v1/notes", headers=asked).status_code == 304
    (told.served.root / "notes/new.md").write_text("# New\n")
    try:
        assert told.program.get("/api/v1/notes", headers=asked).status_code == 200
    finally:
        (told.served.root / "notes/new.md").unlink()


#: Addresses whose operations have one of each form; the others are made by the same function.
_EACH_FORM = ["/recall", "/notes", "/notes/{path}", "/links/{path}", "/undo", "/events"]


@pytest.mark.parametrize("places", [_EACH_FORM, pytest.param((), marks=pytest.mark.long)])
def test_the_document_is_one_of_openapi(told: Told, places: Sequence[str]) -> None:
    document = told.get("/openapi.json").json()
    described = {each["operationId"] for p in document["paths"].values() for each in p.values()}
    assert described == {each.name for each in OPERATIONS} | {"listen"}
    document["paths"] = {
        name: place for name, place in document["paths"].items() if name in places or not places
    }
    meta = json.loads((Path(__file__).parent / "openapi-3.1-schema.json").read_text())
    Draft202012Validator(meta).validate(document)
    for place in document["paths"].values():
        for described in place.values():
            for parameter in described.get("parameters", ()):
                Draft202012Validator.check_schema(parameter.get("schema", {}))
            for answer in described["responses"].values():
                for content in answer.get("content", {}).values():
                    Draft202012Validator.check_schema(content["schema"])


def test_the_reference_names_every_operation_and_its_parameters() -> None:
    text = (Path(__file__).parents[2] / "docs/reference/http.md").read_text(encoding="utf-8")
    listed = [line for line in text.splitlines() if re.match(r"\| `[A-Z]+ /", line)][:-1]
    assert listed == [
        f"| `{each.method} {each.path}` | {each.purpose} | "
        f"{', '.join(f'`{name}`' for name in (*each.parameters, *each.body))} |"
        for each in OPERATIONS
    ]


def test_a_list_is_a_table_too_and_a_spreadsheet_runs_nothing_of_it(told: Told) -> None:
    (told.served.root / "notes/sum.md").write_text("---\ntitle: =1+1\n---\nText.\n")
    try:
        answer = told.program.get("/api/v1/notes?format=csv&path=notes")
        listed = told.get("/notes?path=notes").json()["notes"]
    finally:
        (told.served.root / "notes/sum.md").unlink()
    assert answer.headers["content-type"].startswith("text/csv")
    assert answer.headers["content-disposition"] == 'attachment; filename="notes.csv"'
    table = list(csv.DictReader(io.StringIO(answer.text)))
    assert [each["path"] for each in table] == [each["path"] for each in listed]
    assert {each["path"]: each["title"] for each in table}["notes/sum.md"] == "'=1+1"
    assert [each["tags"] for each in table] == [", ".join(each["tags"]) for each in listed]
    for place in ("/recall?query=pier&format=csv", "/recent?format=csv", "/doctor?format=csv"):
        assert told.program.get(f"/api/v1{place}").text.count(",") > 2, place
    assert told.program.get("/api/v1/notes?format=xml").status_code == 422
    assert told.program.get("/api/v1/status?format=csv").status_code == 422


def test_what_a_view_has_no_room_for_is_expanded(told: Told) -> None:
    view = told.get("/tasks/mend/history?budget=300").json()
    whole = told.get(f"/artifacts/{view['artifact']}").json()
    assert whole == told.run(f"task expand {view['artifact']}").json
    assert "Mend" in whole["text"]


def test_what_is_not_there_is_a_problem_too(told: Told) -> None:
    for answer in (told.get("/nowhere"), told.program.delete("/api/v1/status")):
        assert answer.headers["content-type"] == "application/problem+json"
        assert "/api/v1/openapi.json" in answer.json()["detail"]
    assert told.get("/nowhere").status_code == 404
    assert told.program.delete("/api/v1/status").status_code == 405


@pytest.mark.parametrize("place", ["/assert?query=pier", "/bisect?query=pier&good={commit}"])
def test_an_empty_expectation_is_refused_in_words_of_the_api(told: Told, place: str) -> None:
    answer = told.get(place)
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith("`finds` and `says` are missing")
    assert "--" not in answer.json()["detail"]


def test_a_defect_is_a_problem_without_a_traceback(
    told: Told, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("a secret")

    monkeypatch.setattr("vaultmem.services.views.read_notes.list_notes", fail)
    answer = told.get("/notes")
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert "doctor" in answer.json()["detail"]
    assert "ZeroDivisionError" in caplog.text


def test_a_long_question_keeps_no_other_waiting(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()
    monkeypatch.setattr(
        "vaultmem.services.packs.evaluate.bisect_history", lambda *_: go_on.wait(20) and None
    )
    asking = [
        threading.Thread(target=lambda: told.get("/bisect?query=pier&says=oak&good={commit}"))
        for _ in range(3)
    ]
    for each in asking:
        each.start()
    try:
        assert told.get("/notes/pier").status_code == 200
    finally:
        go_on.set()
        for each in asking:
            each.join()
