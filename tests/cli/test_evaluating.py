"""`eval` measures by questions of one's own, changes nothing, and compares commits and settings."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from conftest import Make, RunCli
from in_process import run_here
from rerank_service import RerankingService
from support import git, hash_tree, write_notes

from vaultmem.services.packs import evaluate

FILLING = " ".join(
    f"Line {n} of the log says that nothing happened at berth {n}." for n in range(60)
)
NOTES = {
    "MEMORY.md": "# Memory\n\nFerries.\n",
    "notes/pier.md": "---\naliases: [the jetty]\n---\n# Where the pier is\n\nThe pier is of oak.\n",
    "notes/quay.md": "# Quay, old\n\n## Stone\n\nThis is of stone.\n\n## Depth\n\nFour metres.\n",
    "notes/log.md": f"# Log\n\n{FILLING} Gesine is the harbour master.\n",
    "notes/gone.md": "---\nstate: quarantined\n---\n# Crane\n\nThe crane is rusty.\n",
}
QUESTIONS = """\
# Mine

| question | notes | says |
|---|---|---|
| what is the pier made of? | [[pier]] | |
| what is the quay made of | quay, old | is of stone |
| how deep is it at the quay | the jetty, [[notes/quay#Depth\\|there]] | |
| what is the state of the crane? | notes/gone.md | |
"""


@pytest.fixture
def asked(home: Path, tmp_path: Path) -> Path:
    file = tmp_path / "questions.md"
    file.write_text(QUESTIONS)
    return file


@pytest.mark.campaign
def test_figures_and_what_came_instead_are_told(
    make_vault: Make, start_cli: RunCli, asked: Path, tmp_path: Path
) -> None:
    root = make_vault(NOTES)
    done = start_cli("eval", asked, "-k", "3", cwd=root)
    assert (done.code, done.err) == (0, "")
    head, now, interval, sure, _, *rest = done.out.splitlines()
    names = ["4 questions", "recall@3", "nDCG@3", "in packs of 500", "1,000", "2,000"]
    assert re.split(r" {2,}", head) == names
    assert now.split()[:2] == ["now", "0.625"]
    assert interval.startswith("  95 % interval")
    assert re.fullmatch(r"with such a note, by how sure recall was:(,? \w+ \d of \d)+", sure)
    assert rest[0] == "2 not answered among the first 3 results:"
    assert re.fullmatch(r"questions.md:7  how deep is it at the quay  \(\w+\)", rest[1])
    assert rest[2] == "    not found  notes/pier.md"
    assert rest[-2].startswith("questions.md:8  what is the state of the crane?  (")
    assert rest[-1] == "    not found  notes/gone.md (quarantined)"


def test_evidence_is_the_words_or_else_the_notes(make_vault: Make, asked: Path) -> None:
    root = make_vault(NOTES)
    asked.write_text(
        '{"question": "who is the harbour master", "notes": ["log"], "says": "Gesine is NOT"}\n'
        '{"question": "who is the harbour master", "notes": ["Log"], "says": ["IS  the"]}\n'
        '{"question": "depth of the quay", "notes": ["[[quay#Depth]]", "pier"]}\n'
    )
    done = run_here("eval", asked, "--budget", "2000", "--json", cwd=root).json
    assert [each["answers"][0]["packs"] for each in done["questions"]] == [[0.0], [1.0], [0.5]]
    assert [each["answers"][0]["places"] for each in done["questions"]] == [[1], [1], [1, 0]]
    assert done["questions"][2]["notes"] == ["notes/quay.md#Depth", "notes/pier.md"]
    assert done["runs"][0]["packs"][0]["mean"] == 0.5


@pytest.mark.campaign
def test_an_evaluation_changes_nothing(make_vault: Make, asked: Path, home: Path) -> None:
    root = make_vault(NOTES)
    before = hash_tree(root), run_here("stats", "--json", cwd=root).json
    run_here("eval", asked, "--against", "HEAD", "--set", "recency_weight=0", "--json", cwd=root)
    run_here("--agent", "claude", "eval", asked, "--json", cwd=root)
    assert (hash_tree(root), run_here("stats", "--json", cwd=root).json) == before
    assert run_here("receipts", "--json", cwd=root).json == {"receipts": []}


@pytest.mark.campaign
def test_another_commit_answers_as_it_did(make_vault: Make, asked: Path) -> None:
    root = make_vault(
        {"notes/log.md": NOTES["notes/log.md"], "notes/pier.md": "# Pier\n\nOf oak.\n"}
    )
    git(root, "mv", "notes/pier.md", "notes/old pier.md")
    git(root, "commit", "-qm", "moved")
    (root / "notes/old pier.md").rename(root / "notes/new pier.md")
    write_notes(root, {"notes/quay.md": NOTES["notes/quay.md"]})
    asked.write_text(
        "| question | notes |\n|---|---|\n| what is of oak | pier |\n| quay stone | [[quay]] |\n"
    )
    done = run_here("eval", asked, "--against", "HEAD~1", "--json", cwd=root).json
    first, second = done["questions"]
    assert first["notes"] == ["notes/new pier.md"]
    assert [each["found"][0] for each in first["answers"]] == ["notes/new pier.md", "notes/pier.md"]
    assert [each["places"] for each in second["answers"]] == [[1], [0]]
    assert [each["states"] for each in second["answers"]] == [["active"], [""]]
    assert done["difference"]["recall"]["mean"] == -0.5
    shown = run_here("eval", asked, "--against", "HEAD~1", cwd=root).out
    assert "\nat HEAD~1 (" in shown
    assert "1 of 2 questions are answered otherwise there:\nworse   questions.md:4  quay" in shown
    assert "    notes/quay.md: place 1, there not found (not there)" in shown


@pytest.mark.campaign
def test_a_question_is_asked_at_its_own_time(make_vault: Make, asked: Path) -> None:
    root = make_vault({"notes/pier.md": "# Pier\n\nOf oak.\n"})
    git(root, "mv", "notes/pier.md", "notes/jetty.md")
    git(root, "commit", "-qm", "moved")
    asked.write_text('{"question": "what is of oak", "notes": "jetty", "at": "HEAD~1"}')
    done = run_here("eval", asked, "--json", cwd=root).json
    assert done["questions"][0]["notes"] == ["notes/pier.md"]
    assert done["runs"][0]["recall"]["mean"] == 1
    asked.write_text('{"question": "what is of oak", "notes": "jetty", "at": "nope"}')
    done = run_here("eval", asked, cwd=root)
    assert done.code == 4
    assert "questions.md:1: nope: no branch, tag or commit" in done.err


@pytest.mark.campaign
def test_another_setting_answers_otherwise(make_vault: Make, asked: Path) -> None:
    old, new = (
        "---\ncreated: {}\n---\n# Berth {}\n\nThe ferry is at berth {}.\n" for _ in range(2)
    )
    root = make_vault({"notes/a.md": old.format("2020-01-01", 1, 1)})
    write_notes(root, {"notes/z.md": new.format("2026-01-01", 2, 2)})
    git(root, "add", "-A")
    git(root, "commit", "-qm", "later")
    asked.write_text("question | notes\n--|--\nwhich berth has the ferry | a\n")
    done = run_here("eval", asked, "--set", "recency_weight=0", "--json", cwd=root).json
    assert [each["places"] for each in done["questions"][0]["answers"]] == [[2], [1]]
    assert done["runs"][1]["settings"] == ["recency_weight=0"]
    assert done["difference"]["ndcg"]["mean"] > 0.3
    assert (
        "better  questions.md:3"
        in run_here("eval", asked, "--set", "recency_weight=0", cwd=root).out
    )


def test_a_setting_is_checked_as_vaultmem_yaml_is(make_vault: Make, asked: Path) -> None:
    root = make_vault(NOTES)
    yaml = "not a setting; write it as KEY=VALUE"
    for setting, code, told in (
        ("recency_wait=0", 5, 'unknown key "recency_wait"; did you mean recency_weight'),
        ("recency_weight=7", 5, '"recency_weight" cannot be "7"; it takes 0 to 1'),
        ("recency_weight", 5, yaml),
        ("recency_weight=0\nsemantic: onnx", 5, yaml),
        ("ignore=x", 5, "no answer here depends on that; set one of recency_weight, semantic,"),
        ("semantic=clever", 1, '"clever" is not a semantic model'),
    ):
        done = run_here("eval", asked, "--set", setting, cwd=root)
        assert (done.code, done.out) == (code, "")
        assert told in done.err


def test_each_setting_that_an_answer_reads_can_be_set() -> None:
    services = Path(evaluate.__file__).parents[1]
    files = [file for room in ("search", "packs") for file in (services / room).glob("*.py")]
    code = "".join(file.read_text(encoding="utf-8") for file in files)
    read = set(re.findall(r"\bconfig\.(\w+)", code)) - {"budget", "recall_limit"}
    assert read == set(evaluate.SETTINGS)


@pytest.mark.campaign
def test_a_model_decides_or_it_is_told_that_none_did(
    make_vault: Make, asked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = "# Pier, pier\n\nThe pier.\n", "# Oak\n\nThe pier is worth 9.0 at least.\n"
    root = make_vault({"notes/first.md": first, "notes/second.md": second})
    asked.write_text('{"question": "pier", "notes": "second"}\n' * 2)
    with RerankingService() as service:
        for name, value in service.environment().items():
            monkeypatch.setenv(name, value)
        done = run_here("eval", asked, "--set", "rerank=endpoint", "--json", cwd=root).json
        assert [each["places"] for each in done["questions"][1]["answers"]] == [[2], [1]]
        service.failures = [(401, {}, b"{}")]
        refused = run_here("eval", asked, "--set", "rerank = endpoint", cwd=root)
        assert (refused.code, refused.out) == (1, "")
        assert "error: rerank = endpoint: the service 127.0.0.1" in refused.err
        (root / "vaultmem.yaml").write_text("rerank: endpoint\n")
        service.failures = [(401, {}, b"{}")]
        told = run_here("eval", asked, "--budget", "500", cwd=root)
        assert told.code == 0
        assert "without a model that was to decide, now: 1 of 2 answers: the service" in told.err


def test_a_note_that_is_not_there_is_named_with_its_line(make_vault: Make, asked: Path) -> None:
    root = make_vault(NOTES)
    write_notes(root, {"notes/a.md": "# Same\n\nOne.\n", "notes/b.md": "# Same\n\nTwo.\n"})
    for note, told in (
        ("peir", 'no note is called "peir"; did you mean pier?'),
        ("[[Quay, new]]", 'no note is called "Quay, new"; did you mean quay?'),
        ("quay#Width", 'notes/quay.md has no heading "Width"'),
        ("Same", '"Same" could be notes/a.md, notes/b.md; name one'),
    ):
        asked.write_text(f"{QUESTIONS}| why? | {note} | |\n")
        done = run_here("eval", asked, cwd=root)
        assert (done.code, done.out) == (4, "")
        assert done.err == f"vaultmem: error: questions.md:9: {told}\n"


def test_wrong_files_and_usage_are_refused(make_vault: Make, asked: Path) -> None:
    root = make_vault(NOTES)
    assert run_here("eval", "nope.md", cwd=root).code == 4
    assert run_here("eval", asked, "extra", cwd=root).code == 2
    assert run_here("eval", asked, "--budget", "many", cwd=root).code == 2
    assert run_here("eval", asked, "--budget", "50", cwd=root).code == 5
    assert run_here("eval", asked, "-k", "0", cwd=root).code == 5
    nowhere = run_here("eval", asked, "--against", "nope", cwd=root)
    assert (nowhere.code, nowhere.err[:37]) == (4, "vaultmem: error: nope: no branch, tag")
    asked.write_text("")
    assert "there is no question in it; write a table" in run_here("eval", asked, cwd=root).err
    asked.write_bytes(b"| question | notes |\n|--|--|\n| gr\xfcn | a |\n")
    assert "it is not UTF-8 (byte 33)" in run_here("eval", asked, cwd=root).err
    if os.name == "posix":
        assert run_here("eval", "/dev/null", cwd=root).code == 4


@pytest.mark.campaign
def test_the_file_of_questions_does_not_answer_itself(make_vault: Make, asked: Path) -> None:
    root = make_vault({**NOTES, "it's/questions.md": QUESTIONS})
    outside = run_here("eval", asked, "--against", "HEAD", "--json", cwd=root).json
    inside = run_here("eval", "it's/questions.md", "--against", "HEAD", "--json", cwd=root).json
    assert (outside["omitted"], inside["omitted"]) == (None, "it's/questions.md")
    for answers in (each["answers"] for each in inside["questions"]):
        assert all("it's/questions.md" not in answer["found"] for answer in answers)
    assert "it's/questions.md" in json.dumps(outside["questions"])
    assert "list it under `ignore`" in run_here("eval", "it's/questions.md", cwd=root).out


def test_a_question_is_taken_from_a_receipt(make_vault: Make, asked: Path) -> None:
    root = make_vault(NOTES)
    run_here("--agent", "claude", "pack", "pier | quay", "--budget", "300", cwd=root)
    (kept,) = run_here("receipts", "--json", cwd=root).json["receipts"]
    (root / "notes/pier.md").rename(root / "notes/oak.md")
    done = run_here("eval", asked, "--add", kept["id"][:18], cwd=root)
    assert done.out == "added  pier | quay  (notes/oak.md, notes/quay.md)\n"
    assert asked.read_text() == QUESTIONS + "| pier \\| quay | [[notes/oak]], [[notes/quay]] |  |\n"
    again = run_here("eval", asked, "--add", kept["id"], cwd=root)
    assert again.out == "questions.md:9 has this question already; nothing was added.\n"
    new = asked.with_name("new.jsonl")
    named = run_here("eval", new, "quay", "--add", kept["id"], "--json", cwd=root).json
    assert named == {"question": "pier | quay", "notes": ["notes/quay.md"], "added": True}
    assert json.loads(new.read_text()) == {"question": "pier | quay", "notes": ["notes/quay.md"]}
    assert run_here("eval", new, "nope", "--add", kept["id"], cwd=root).code == 4
    run_here("--agent", "claude", "pack", cwd=root)
    listed = run_here("receipts", "--json", cwd=root).json["receipts"]
    (empty,) = (each["id"] for each in listed if not each["query"])
    refused = run_here("eval", asked, "--add", empty, cwd=root)
    assert (refused.code, "without a question" in refused.err) == (5, True)
