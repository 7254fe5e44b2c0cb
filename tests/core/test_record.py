"""What a session came to, gathered from the events of its transcript."""

from __future__ import annotations

import pytest

from vaultmem.core.sessions.session_note import render_told, write_told
from vaultmem.core.transcripts.dead_ends import DeadEnd
from vaultmem.core.transcripts.event import (
    EventKind,
    FileEffect,
    TranscriptEvent,
    TranscriptRecord,
    TranscriptSource,
    add_event,
    describe_answer,
    dump_record,
    find_commits,
    find_questions,
    format_command,
    is_answered,
    is_worth_telling,
    list_questions,
    load_record,
    shorten_answer,
)

SOURCE = TranscriptSource("s", "/w", "main", "codex")


def event(kind: EventKind, text: str = "", **more: object) -> TranscriptEvent:
    return TranscriptEvent(kind, SOURCE, "2026-11-20T10:00:00Z", text)._replace(**more)  # type: ignore[arg-type]


def ran(command: str, output: str = "", code: int = 0) -> list[TranscriptEvent]:
    failed = bool(code)
    return [
        event(EventKind.CALL, "x", call=command, command=command),
        event(EventKind.RESULT, output, call=command, exit=code, is_error=failed),
    ]


def gather(*events: TranscriptEvent) -> TranscriptRecord:
    record = TranscriptRecord()
    for each in events:
        add_event(record, each)
    assert load_record(dump_record(record)) == record
    return record


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("cd /w && FOO=1 pytest -q tests 2>&1 | tail -20", "pytest -q tests"),
        ("python - <<'EOF'\nprint(1)\nEOF", "python -"),
        ("# run it\nmake   test", "make test"),
        ("npm test | grep -v ok", "npm test"),
    ],
)
def test_a_command_is_named_without_what_shapes_its_output(command: str, name: str) -> None:
    assert format_command(command) == name


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("ls -la && cat a.py | head", False),
        ("cd x && git status --short", False),
        ("git commit -m x", False),
        ("rg TODO src; sed -n 1,20p a", False),
        ("cat a && make test", True),
        ("git push origin main", True),
        ("pytest", True),
    ],
)
def test_what_only_looks_around_is_not_told(command: str, told: bool) -> None:
    assert is_worth_telling(command) is told


def test_commits_are_known_by_what_git_says_or_by_the_message() -> None:
    said = "[main (root-commit) 1a2b3c4] Add the model\n 3 files changed\n"
    assert find_commits("git commit -m 'Add the model'", said) == [("1a2b3c4", "Add the model")]
    assert find_commits('git add . && git commit -qm "Add it"', "") == []
    assert find_commits('git commit -q -m "Add it"', "") == [("", "Add it")]
    assert find_commits("echo '[main 1a2b3c4] Add it'", "[main 1a2b3c4] Add it") == []
    record = gather(
        *ran("git commit -m a", "[main 1111111] Add it"),
        *ran("git commit --amend --no-edit", "[main 2222222] Add it"),
    )
    assert record.commits == [("2222222", "Add it")]


def test_a_command_is_told_as_it_ended_last() -> None:
    failing = "FAILED tests/a.py::test_x - assert 1\n1 failed in 0.1s"
    record = gather(
        *ran("pytest -q", failing, 1),
        *ran("make lint", "a.py:3: E501 too long\nmake: *** Error 1", 2),
        *ran("pytest -q 2>&1 | tail -3", "3 passed"),
        *ran("mypy | tail -1", "Found 3 errors in 1 file"),
    )
    assert [
        (name, each.runs, each.exit, each.trouble) for name, each in record.commands.items()
    ] == [
        ("make lint", 1, 2, "a.py:3: E501 too long"),
        ("pytest -q", 2, 0, ""),
        ("mypy", 1, 0, "Found 3 errors in 1 file"),
    ]


def test_files_count_only_where_the_call_did_not_fail() -> None:
    def call(name: str, path: str, deed: FileEffect, failed: bool = False) -> list[TranscriptEvent]:
        result = event(EventKind.RESULT, "", call=name, is_error=failed)
        return [event(EventKind.CALL, "x", call=name, path=path, deed=deed), result]

    record = gather(
        *call("1", "/w/a.py", FileEffect.CREATED),
        *call("2", "a.py", FileEffect.EDITED),
        *call("3", "b.py", FileEffect.EDITED, failed=True),
        *call("4", "c.py", FileEffect.WROTE),
        *ran("rm -f c.py *.pyc && git rm d.py"),
    )
    found = {path: (t.is_made, t.edits, t.is_gone) for path, t in record.files.items()}
    assert found == {
        "/w/a.py": (True, 1, False),
        "/w/c.py": (False, 1, True),
        "/w/d.py": (False, 0, True),
    }


def test_questions_stay_open_until_a_reply_takes_them_up() -> None:
    record = gather(
        event(EventKind.REQUEST, "Make the export."),
        event(
            EventKind.ANSWER,
            "Made.\n\n- Is a comma right as the delimiter?\n- Which role may export?",
        ),
        event(EventKind.REQUEST, "A semicolon as delimiter please, and add a test."),
        event(EventKind.ANSWER, "```\nreally?\n```\nAdded."),
    )
    assert list_questions(record) == ["Which role may export?"]
    assert is_answered("Shall I push it?", "yes")
    assert not is_answered(
        "Shall I push it to the server?", "now look at the failing lint job there"
    )
    assert find_questions("It works. Why? Because.") == []


def test_an_answer_in_few_words_has_its_head_and_what_is_open() -> None:
    text = (
        "## Done\n\nThe export is there.\n\n| a | b |\n|---|---|\n\n"
        + "".join(f"- It has column {n}.\n" for n in range(30))
        + "\n```python\nraise SystemExit\n```\n\n"
        + "The test still fails because the clock is not frozen."
    )
    told = shorten_answer(text, 100)
    assert told.startswith("Done")
    assert "The test still fails because the clock is not frozen." in told
    assert len(told) <= 100


def test_how_things_stood_is_the_end_of_a_turn_and_no_remark_between_calls() -> None:
    turn = (
        event(EventKind.REQUEST, "Make it so."),
        event(EventKind.ANSWER, "It is made, but not tested."),
    )
    under_way = (
        event(EventKind.REQUEST, "Test it then."),
        event(EventKind.ANSWER, "I look."),
        *ran("make test"),
    )
    assert describe_answer(gather(*turn)) == "It is made, but not tested."
    assert describe_answer(gather(*turn, *under_way)) == "It is made, but not tested."
    assert gather(*turn, *under_way).asked[1].outcome == ""


def test_helpers_and_credentials_are_no_part_of_a_record() -> None:
    key = "AKIA" + "ABCDEFGHIJKLMNOP"
    helper = SOURCE._replace(is_side=True)
    record = gather(
        event(EventKind.REQUEST, f"Use {key} for the upload."),
        event(EventKind.REQUEST, "Look around.", source=helper),
        event(EventKind.ANSWER, f"I used {key}."),
        *ran(f"deploy --key {key}", f"error: {key} is refused", 1),
    )
    assert len(record.asked) == 1
    assert key not in dump_record(record)
    assert key not in render_told(record, str)


def test_a_record_stays_bounded() -> None:
    events = [event(EventKind.REQUEST, f"Do thing {n} " + "x " * 400) for n in range(200)]
    for n in range(300):
        events += ran(f"build target-{n}", "boom " * 100, 1)
        events.append(
            event(EventKind.CALL, "x", call=f"f{n}", path=f"f{n}.py", deed=FileEffect.EDITED)
        )
        events.append(event(EventKind.RESULT, "", call=f"f{n}"))
    record = gather(*events, event(EventKind.ANSWER, "word " * 10_000))
    assert len(dump_record(record)) < 100_000
    assert len(render_told(record, str)) < 20_000
    assert record.asked[0].text.startswith("Do thing 0")


def test_what_is_quoted_is_no_mark_of_the_note() -> None:
    record = gather(event(EventKind.REQUEST, "See [[secret]] <!-- and %%hidden%% \u202e# here"))
    told = render_told(record, str)
    assert not any(mark in told for mark in ("[[", "<!--", "%%", "\u202e"))


NOTE = "---\nkind: episodic_trace\n---\n# s\n\n## Summary\n\nMine.\n"


def section(word: str) -> str:
    return f"## From the transcript\n\n### Asked\n\n- {word}"


@pytest.mark.parametrize("eol", ["\n", "\r\n"])
def test_the_section_is_written_anew_until_somebody_edits_it(eol: str) -> None:
    first = write_told(NOTE.replace("\n", eol), section("one"))
    assert first.count("From the transcript") == 1
    below = f"{first}{eol}## Mine too{eol}{eol}Below.{eol}"

    second = write_told(below, section("two"))
    assert "- one" not in second
    assert "- two" in second
    assert second.endswith(f"- two{eol}{eol}## Mine too{eol}{eol}Below.{eol}")

    mine = second.replace("- two", f"- two, as I say{eol}- and this")
    third = write_told(mine, section("three"))
    assert f"- two, as I say{eol}- and this" in third
    assert third.rstrip().endswith("- three")
    fourth = write_told(third, section("four"))
    assert "- two, as I say" in fourth
    assert "- three" not in fourth
    assert "\n" not in fourth.replace("\r\n", "") or eol == "\n"


def test_a_section_that_somebody_removed_stays_away() -> None:
    text = write_told(NOTE, section("one"))
    removed = text[: text.index("## From the transcript")]
    assert write_told(removed, section("two")) == removed


# Dead ends: what failed while something else worked; the usual loop of work is none.

CHANGED = ("limit = 3", "limit = 4")


def edited(path: str, before: str, after: str, call: str = "e") -> list[TranscriptEvent]:
    made = {"path": path, "deed": FileEffect.EDITED, "change": (before, after)}
    return [
        event(EventKind.CALL, "x", call=call, **made),
        event(EventKind.RESULT, "Edited", call=call),
    ]


def find_ends(*moves: list[TranscriptEvent]) -> list[DeadEnd]:
    return gather(*(each for move in moves for each in move)).trials.ends


@pytest.mark.parametrize(
    ("tried", "output", "code", "worked"),
    [
        ("npm publish", "npm error code E403", 1, "npm publish --access public"),
        ("npm publish --tag next", "E403", 1, "npm publish --access public"),
        ("pip install psycopg2", "Error: pg_config not found", 1, "pip install psycopg2-binary"),
        ("docker-compose up -d", "unknown shorthand flag", 1, "docker compose up -d"),
        ("make deploy", "make: *** Error 2", 2, "./scripts/deploy.sh"),
        ("pytest tests", "bash: pytest: command not found", 127, "uv run pytest tests"),
        ("python -m pytest -q", "No module named pytest", 1, ".venv/bin/python -m pytest -q"),
    ],
)
def test_a_command_that_failed_and_another_with_its_target_that_worked(
    tried: str, output: str, code: int, worked: str
) -> None:
    (end,) = find_ends(ran(tried, output, code), ran("ls"), ran(tried, output, code), ran(worked))
    assert (end.command, end.trouble, end.worked, end.runs) == (tried, output, worked, 2)


@pytest.mark.parametrize(
    "moves",
    [
        [ran("pytest -q", "FAILED a.py::test", 1), ran("pytest -q a.py", "1 passed")],
        [ran("cargo build", "error: x", 101), ran("cargo build --release", "ok")],
        [ran("npm publish", "E403", 1), ran("npm publish", "ok")],
        [ran("npm publish", "E403", 1), ran("npm publish --tag x"), ran("npm publish")],
        [ran("npm publish", "E403", 1), ran("npm publish --dry-run")],
        [ran("npm publish", "E403", 1), ran("npm install left-pad")],
        [ran("pip install a1", "no match", 1), ran("pip install b2")],
        [ran("npm i --save a1", "no match", 1), ran("npm i --save b2")],
        [ran("python tools/a.py", "can't open file 'tools/a.py'", 2), ran("python bin/a.py")],
        [ran("python a.py", "KeyError: x", 1), edited("a.py", *CHANGED), ran("python a.py -v")],
        [ran("npm publish", "The user doesn't want to proceed", 1), ran("npm publish --tag x")],
        [ran("terraform apply", "error: x", 1), ran("terraform plan")],
        [edited("a.py", *CHANGED), ran("pytest", "1 failed", 1), ran("pytest", "1 passed")],
        [edited("a.py", *CHANGED), edited("a.py", *reversed(CHANGED)), ran("pytest")],
        [
            edited("a.py", "x = 1", "x = 1\nprint(x)"),
            ran("pytest", "1 failed", 1),
            edited("a.py", "x = 1\nprint(x)", "x = 1"),
            ran("pytest", "1 passed"),
        ],
    ],
)
def test_what_is_no_dead_end(moves: list[list[TranscriptEvent]]) -> None:
    assert find_ends(*moves) == []


def test_an_edit_that_was_reverted_and_another_after_which_the_tests_pass() -> None:
    (end,) = find_ends(
        edited("a.py", *CHANGED),
        ran("pytest -q", "FAILED tests/a.py::test_x", 1),
        edited("a.py", *reversed(CHANGED)),
        edited("b.py", "x", "wait(limit)"),
        ran("pytest -q", "9 passed"),
    )
    assert end == DeadEnd(
        *("pytest -q", "tests/a.py::test_x", "pytest -q"),
        edit=end.edit,
    )
    tried = end.edit
    assert tried is not None
    assert (tried.path, tried.line) == ("/w/a.py", "limit = 4")
    assert (tried.next_path, tried.next_line) == ("/w/b.py", "wait(limit)")


def test_git_reverts_an_edit_too() -> None:
    (end,) = find_ends(
        edited("src/a.py", *CHANGED),
        ran("pytest -q", "1 failed", 1),
        ran("git checkout -- src/a.py"),
        ran("pytest -q", "9 passed"),
    )
    tried = end.edit
    assert tried is not None
    assert (tried.path, tried.line, tried.next_path) == ("/w/src/a.py", "limit = 4", "")
