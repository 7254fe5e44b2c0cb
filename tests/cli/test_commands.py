"""Every command as a process: what it prints, what it leaves, and its exit code."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import Make, RunCli
from in_process import run_here
from support import git, hash_tree, write_notes

from vaultmem.core.text.display import width
from vaultmem.core.text.token_count import count_tokens

NOTES = {
    "notes/auth/tokens.md": "---\ntags: [auth]\nkind: decision\n---\n# Tokens\n\nRS256 tokens.\n\n"
    "## Rotation\n\nKeys rotate weekly.\n",
    "notes/deploy/ferry.md": "---\nstate: archived\n---\nThe ferry gangway.\n",
    "notes/deploy/gangway.md": "---\npinned: true\n---\nGangway rules.\n",
    "sessions/tokens.md": "# Session\n\nTalked about tokens.\n",
}


@pytest.mark.campaign
def test_init_says_what_it_added_and_a_second_init_that_nothing_changed(
    run_cli: RunCli, tmp_path: Path
) -> None:
    first = run_cli("init", "v", cwd=tmp_path)
    before = hash_tree(tmp_path / "v")
    second = run_cli("init", "v", cwd=tmp_path)
    made = run_cli("init", "w", "--json", cwd=tmp_path).json

    assert (first.code, second.code) == (0, 0)
    assert "  adds     MEMORY.md, USER.md, .gitignore," in first.out
    assert "  makes    a git repository" in first.out
    assert "is a vault already; it lacks nothing." in second.out
    assert hash_tree(tmp_path / "v") == before
    assert made["commit"] == git(tmp_path / "w", "rev-parse", "HEAD")
    assert made["new_repository"] is True
    assert made["notes"] == 2


@pytest.mark.campaign
def test_remember_prints_the_path_and_the_note_is_found_by_the_next_command(
    run_cli: RunCli, root: Path
) -> None:
    done = run_cli("remember", "Crew", "sign", "in", "by", "code", "--json", cwd=root).json

    assert done["path"] == "notes/inbox/crew-sign-in-by-code.md"
    assert done["blob"] == git(root, "hash-object", done["path"])
    hits = run_cli("recall", "crew code", "-n", "5", "--json", cwd=root).json["hits"]
    assert hits[0]["path"] == done["path"]


@pytest.mark.campaign
def test_commands_find_what_was_saved_just_before_them(run_cli: RunCli, root: Path) -> None:
    for number in range(5):
        write_notes(root, {"notes/tide.md": f"# Tide\n\nAt ebb number{number} holds.\n"})
        found = run_cli("recall", f"number{number}", "--json", cwd=root).json
        assert [hit["path"] for hit in found["hits"]] == ["notes/tide.md"], number


def test_remember_reads_standard_input_and_every_option(run_cli: RunCli, root: Path) -> None:
    options = ["--title", "T: x", "--context", "a/b", "--kind", "policy_rule", "--tag", "one"]
    options += ["--tag", "two", "--confidence", "0.5", "--cite", "src/x.py", "--pin"]
    options += ["--agent", "claude", "--session", "s-9", "--json"]

    done = run_cli("remember", "-", *options, cwd=root, stdin="\ufeffline one\n\nline two — ✓\n")

    note = run_cli("show", done.json["path"], "--json", cwd=root).json
    assert done.json["state"] == note["state"] == "candidate"
    assert done.json["path"] == "notes/a/b/t-x.md"
    assert note["tags"] == ["one", "two"]
    assert note["pinned"] is True
    assert note["properties"]["confidence"] == 0.5
    assert note["properties"]["session"] == "s-9"
    assert note["text"].endswith("\n\nline one\n\nline two — ✓\n")


@pytest.mark.parametrize(
    ("arguments", "stdin", "code"),
    [
        (["-"], b"caf\xe9", 5),
        ([b"caf\xe9"], b"", 5),
        (["-"], b"  \n", 5),
        (["x", "--kind", "opinion"], b"", 5),
        (["x", "--state", "dne"], b"", 5),
        (["x", "--confidence", "2"], b"", 5),
        (["x", "--confidence", "high"], b"", 2),
        (["x", "--context", "../.."], b"", 5),
        ([], b"", 2),
    ],
)
def test_remember_refuses_what_is_wrong_with_one_line_and_writes_nothing(
    run_cli: RunCli, root: Path, arguments: list[Any], stdin: bytes, code: int
) -> None:
    before = hash_tree(root)

    done = run_cli("remember", *arguments, cwd=root, stdin=stdin)

    assert done.code == code
    assert done.out == ""
    if code == 5:
        assert done.err.startswith("vaultmem: error: ")
        assert done.err.count("\n") == 1
    assert hash_tree(root) == before


@pytest.mark.campaign
def test_get_finds_a_note_by_path_name_and_heading(run_cli: RunCli, root: Path) -> None:
    whole = NOTES["notes/auth/tokens.md"]

    assert run_cli("show", "notes/auth/tokens.md", cwd=root).out == whole
    assert run_cli("show", "auth/tokens", cwd=root).out == whole
    assert run_cli("show", "Ferry", cwd=root).out == NOTES["notes/deploy/ferry.md"]
    assert run_cli("show", "auth/tokens#rotation", cwd=root).out == "Keys rotate weekly.\n"
    ambiguous = run_cli("show", "tokens", cwd=root)
    assert ambiguous.code == 4
    assert "notes/auth/tokens.md, sessions/tokens.md" in ambiguous.err
    assert run_cli("show", "nothing", cwd=root).code == 4
    no_heading = run_cli("show", "auth/tokens#No", cwd=root)
    assert no_heading.code == 4
    assert "Tokens, Rotation" in no_heading.err


def test_get_gives_the_bytes_of_a_note_as_they_are(run_cli: RunCli, root: Path) -> None:
    data = "\ufeffa\r\n\x1b[31mred\x1b[0m \u202e\nno end".encode()
    write_notes(root, {"notes/raw.md": data})

    assert run_cli("show", "notes/raw.md", cwd=root).out.encode() == data


@pytest.mark.campaign
def test_columns_are_aligned_for_wide_and_combining_characters(make_vault: Make) -> None:
    names = ("a", "\u6e2f\u53e3", "e\u0301te\u0301", "\U0001f6a4 boat")
    root = make_vault({f"notes/{name}.md": f"# {name} note\n" for name in names})

    lines = run_here("list", cwd=root).out.splitlines()[:-1]

    notes = [line for line in lines if line.startswith("notes/")]
    assert len(notes) == len(names)
    assert len({width(line.partition("semantic_fact")[0]) for line in notes}) == 1


def test_list_filters_by_kind_state_tag_context_and_pin(run_cli: RunCli, root: Path) -> None:
    def paths(*options: str) -> set[str]:
        listed = run_cli("list", *options, "--json", cwd=root).json["notes"]
        return {note["path"] for note in listed}

    assert set(NOTES) < paths()
    assert paths("--kind", "decision") == {"notes/auth/tokens.md"}
    assert paths("--state", "archived") == {"notes/deploy/ferry.md"}
    assert paths("--tag", "auth") == {"notes/auth/tokens.md"}
    assert paths("--tag", "au") == set()
    assert paths("--context", "deploy") == {"notes/deploy/ferry.md", "notes/deploy/gangway.md"}
    assert paths("--pinned") == {"MEMORY.md", "USER.md", "notes/deploy/gangway.md"}
    assert len(paths("--limit", "2")) == 2
    assert run_cli("list", "--kind", "x", cwd=root).code == 5
    assert "6 notes" in run_cli("list", cwd=root).out


def test_edit_opens_the_editor_and_checks_the_note_afterwards(
    run_cli: RunCli, root: Path, tmp_path: Path
) -> None:
    script = tmp_path / "editor.py"
    script.write_text(
        "import sys\n"
        "path = sys.argv[-1]\n"
        "text = open(path).read().replace('RS256', 'EdDSA').replace('decision', 'choice')\n"
        "open(path, 'w').write(text)\n"
    )
    editor = {"EDITOR": f"{sys.executable} '{script}' --flag"}

    done = run_cli("edit", "auth/tokens", cwd=root, env=editor)

    assert done.code == 0
    assert 'unknown kind "choice"' in done.out
    hits = run_cli("recall", "eddsa", "-n", "5", "--json", cwd=root).json["hits"]
    assert [hit["path"] for hit in hits] == ["notes/auth/tokens.md"]
    assert "unchanged" in run_cli("edit", "Ferry", cwd=root, env={"EDITOR": "true"}).out
    assert run_cli("edit", "Ferry", cwd=root, env={"EDITOR": "false"}).code == 1
    missing = run_cli("edit", "Ferry", cwd=root, env={"EDITOR": "no-such-editor"})
    assert missing.err == (
        "vaultmem: error: the editor did not start (No such file or directory); "
        "set EDITOR to the command of your editor\n"
    )
    assert run_cli("edit", "Ferry", cwd=root, env={"TERM": "dumb"}).code == 1


@pytest.mark.campaign
def test_forget_shows_several_and_removes_them_only_with_yes(run_cli: RunCli, root: Path) -> None:
    write_notes(root, {f"notes/old/{n}.md": "---\ntags: [old]\n---\n" for n in range(3)})
    before = hash_tree(root)

    shown = run_cli("forget", "--tag", "old", cwd=root)
    assert "would forget" in shown.out
    assert "--yes" in shown.out
    assert run_cli("forget", "Ferry", "--dry-run", cwd=root).code == 0
    assert hash_tree(root) == before
    one = run_cli("forget", "deploy/ferry", "--json", cwd=root).json
    assert one["forgotten"] == ["notes/deploy/ferry.md"]
    several = run_cli("forget", "--tag", "old", "--yes", "--json", cwd=root).json
    assert several["forgotten"] == [f"notes/old/{n}.md" for n in range(3)]
    assert not (root / "notes/deploy/ferry.md").exists()
    assert list((root / "notes/old").iterdir()) == []
    assert run_cli("forget", cwd=root).code == 5
    assert run_cli("forget", "--older-than", "soon", cwd=root).code == 5


@pytest.mark.campaign
def test_forget_by_age_keeps_young_and_pinned_notes(run_cli: RunCli, root: Path) -> None:
    dated = "---\ncreated: 2020-01-01\npinned: {}\n---\nx\n"
    write_notes(root, {"notes/o.md": dated.format("false"), "notes/p.md": dated.format("true")})

    done = run_cli("forget", "--older-than", "90d", "--yes", "--json", cwd=root).json

    assert done == {"forgotten": ["notes/o.md"], "kept_pinned": ["notes/p.md"]}


def test_pin_unpin_and_tag_change_their_lines_only(run_cli: RunCli, root: Path) -> None:
    text = NOTES["notes/auth/tokens.md"]
    file = root / "notes/auth/tokens.md"

    assert run_cli("pin", "auth/tokens", "--json", cwd=root).json["pinned"] is True
    assert file.read_text() == text.replace("decision\n", "decision\npinned: true\n")
    assert run_cli("pin", "auth/tokens", "--remove", cwd=root).code == 0
    assert file.read_text() == text
    tagged = run_cli("tag", "auth/tokens", "b/c", "--remove", "auth", "--json", cwd=root).json
    assert tagged["tags"] == ["b/c"]
    assert file.read_text() == text.replace("[auth]", "[b/c]")


@pytest.mark.parametrize("tag", ["", " ", "two words", "#", "a,b"])
def test_tag_rejects_what_remember_rejects(run_cli: RunCli, root: Path, tag: str) -> None:
    before = hash_tree(root)

    tagged = run_cli("tag", "auth/tokens", tag, cwd=root)
    remembered = run_cli("remember", "The quay is wet.", "--tag", tag, cwd=root)

    assert (tagged.code, remembered.code) == (5, 5)
    assert "is not a tag; use letters, digits, - _ and /" in tagged.err
    assert hash_tree(root) == before


@pytest.mark.parametrize("text", ["- the quay is wet", "--the quay is wet", "-n is a flag"])
def test_a_text_that_begins_with_a_dash_needs_two_dashes(
    run_cli: RunCli, root: Path, text: str
) -> None:
    refused = run_cli("remember", text, cwd=root)

    assert refused.code == 2
    assert "put `--` before a text that begins with a dash" in refused.err
    assert run_cli("remember", "--", text, cwd=root).code == 0
    assert "put `--`" not in run_cli("remember", "The quay is wet.", "--titel", "x y", cwd=root).err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_help_on_a_full_disk_ends_with_one_line(root: Path) -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "vaultmem", "--help"]
        done = subprocess.run(command, cwd=root, stdout=full, stderr=subprocess.PIPE, text=True)

    assert done.returncode == 1
    assert done.stderr == ("vaultmem: error: the output is not complete: No space left on device\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("command", [["list"], ["list", "--json"], ["show", "crane"]])
def test_an_output_that_cannot_be_written_is_named(make_vault: Make, command: list[str]) -> None:
    root = make_vault({"notes/crane.md": "# Crane\n\nThe crane lifts 40 t.\n"})
    with open("/dev/full", "w") as full:
        words = [sys.executable, "-m", "vaultmem", *command]
        done = subprocess.run(words, cwd=root, stdout=full, stderr=subprocess.PIPE, text=True)

    assert done.returncode == 1
    assert "no note was written: standard output: No space left on device" in done.stderr


def test_a_note_that_has_the_name_already_is_not_moved(run_cli: RunCli, make_vault: Make) -> None:
    root = make_vault({"notes/crane.md": "# Crane\n\nThe crane lifts 40 t.\n"})

    moved = run_cli("mv", "crane", "notes/crane.md", cwd=root)
    data = run_cli("mv", "crane", "crane", "--json", cwd=root).json

    said = "notes/crane.md has that name already; nothing was changed.\n"
    assert (moved.code, moved.out, moved.err) == (0, said, "")
    assert (data["from"], data["to"], data["moved"]) == (*["notes/crane.md"] * 2, False)


def test_a_limited_list_counts_all_notes(run_cli: RunCli, make_vault: Make) -> None:
    root = make_vault({f"notes/{number}.md": f"Pier {number}.\n" for number in range(4)})
    for number in range(3):
        assert run_cli("tag", f"notes/{number}.md", "pier", cwd=root).code == 0

    assert run_cli("list", "--tag", "pier", "-n", "2", cwd=root).out.endswith("\n2 of 3 notes\n")
    assert run_cli("list", "--tag", "pier", "-n", "3", cwd=root).out.endswith("\n3 notes\n")
    assert len(run_cli("list", "-n", "2", "--json", cwd=root).json["notes"]) == 2


def test_long_queries_and_titles_are_printed_truncated(run_cli: RunCli, root: Path) -> None:
    run_cli("remember", "The quay is wet.", "--title", "quay " * 3000, cwd=root)
    run_cli("recall", "quay " * 3000, cwd=root)
    run_cli("recall", "zzz " * 3000, cwd=root)

    for command in (("recall", "quay"), ("queries",), ("stats",)):
        shown = run_cli(*command, cwd=root).out
        assert "quay quay" in shown or "zzz zzz" in shown
        assert max(map(len, shown.splitlines())) <= 210
    assert len(run_cli("queries", "--json", cwd=root).json["calls"][-1]["query"]) > 10_000


def test_status_counts_the_problems_that_it_does_not_name(run_cli: RunCli, root: Path) -> None:
    (root / "nul.md").write_bytes(b"a\0b")
    (root / "latin.md").write_bytes(b"L\xe9tin\n")
    (root / "large.md").write_text("word " * 300_000)
    (root / "link.md").symlink_to("nowhere")
    for name in ("pipe", "pipe2"):
        os.mkfifo(root / f"{name}.md")
    (root / "notes/odd.md").write_text("---\npinned: perhaps\n---\nx\n")

    lines = run_cli("status", cwd=root).out.splitlines()

    first = next(n for n, line in enumerate(lines) if line.startswith("problems    6; "))
    assert lines[first + 1].startswith("  2 notes: it is not a regular file")
    assert lines[first + 4] == "  and 2 more"
    assert "symbolic links: 1" in next(x for x in lines if x.startswith("not notes"))


def test_closed_standard_streams_are_like_empty_ones(root: Path) -> None:
    vaultmem = f"'{sys.executable}' -m vaultmem"
    script = f"""
        {vaultmem} remember - <&- 2>err; test $? = 5 || exit 1
        {vaultmem} recall tokens >&- || exit 2
        {vaultmem} remember "The quay is wet." <&- >&- 2>&- || exit 3
        {vaultmem} recall quay
    """
    done = subprocess.run(["sh", "-c", script], cwd=root, capture_output=True, text=True)

    assert (done.returncode, done.stderr) == (0, "")
    assert "The quay is wet." in done.stdout
    assert (root / "err").read_text().startswith("vaultmem: error: nothing to remember")


def test_recall_explains_each_part_of_a_score(run_cli: RunCli, root: Path) -> None:
    hits = run_cli("recall", "weekly", "rotation", "-n", "5", "--json", cwd=root).json["hits"]
    best = hits[0]
    assert (best["path"], best["heading"]) == ("notes/auth/tokens.md", "Rotation")
    parts = sum(match["score"] for match in best["explanation"]["matches"])
    parts += best["explanation"]["closeness"] + best["explanation"]["named"]
    assert best["score"] == pytest.approx(parts * best["explanation"]["state_weight"], rel=1e-3)

    shown = run_cli("recall", "weekly rotation", "-n", "5", "--explain", cwd=root).out
    assert "notes/auth/tokens.md#Rotation" in shown
    assert "score" in shown
    nothing = run_cli("recall", "zzz", "-n", "5", cwd=root)
    assert (nothing.code, nothing.out) == (0, "Nothing in this vault answers that.\n")


def test_a_recall_counts_its_tokens_and_weighs_age_as_the_query_sets_it(
    run_cli: RunCli, root: Path
) -> None:
    day = "---\ncreated: 20{}-01-02\n---\n# Keel {}\n\nThe keel is painted{}\n"
    notes = {f"notes/k{n}.md": day.format(n, n, " red" * (n == 25)) for n in (25, 26)}
    write_notes(root, notes)

    def ask(recency: str) -> dict[str, Any]:
        return run_cli("recall", "keel red", "--recency", recency, "--json", cwd=root).json

    assert [ask(recency)["hits"][0]["path"] for recency in ("off", "1")] == [*notes]
    tokens = ask("off")["tokens"]
    assert 0 < tokens["sent"] < tokens["full_vault_tokens"]
    assert tokens["ratio"] == pytest.approx(tokens["full_vault_tokens"] / tokens["sent"], abs=0.01)


@pytest.mark.campaign
def test_recall_shows_as_many_hits_as_fit_into_a_budget(run_cli: RunCli, root: Path) -> None:
    write_notes(root, {f"notes/n{n}.md": f"Tokens of pier {n} are blue." for n in range(30)})
    everything = run_cli("recall", "tokens pier", "-n", "50", cwd=root).out
    assert everything.count("why: tokens (") == 32
    for budget in (40, 200, 700):
        shown = run_cli("recall", "tokens pier", "--budget", str(budget), cwd=root).out
        *hits, left_out = shown.splitlines()
        if hits and left_out.endswith("x)"):  # The line of tokens.
            left_out = hits.pop()
        count = shown.count("why: ")
        assert count_tokens("\n".join(hits)) <= budget
        assert everything.startswith("".join(f"{line}\n" for line in hits))
        more = "more " if count else ""
        assert left_out.startswith(f"{32 - count} {more}found, for which {budget} tokens have no")
        found = run_cli("recall", "tokens pier", "--budget", str(budget), "--json", cwd=root).json
        assert len(found["hits"]) + found["omitted"] == 32
        assert sum(count_tokens(hit["text"]) for hit in found["hits"]) <= budget
    assert count > 10
    assert run_cli("recall", "tokens", "--json", cwd=root).json["omitted"] == 0
    last = run_cli("queries", "--json", "-n", "1", cwd=root).json["calls"]
    assert len(last[0]["shown"]) == 10


def test_recall_shows_who_and_when_and_what_is_not_as_with_most_notes(
    run_cli: RunCli, root: Path
) -> None:
    write_notes(
        root,
        {
            "notes/tide.md": "---\nagent: codex\ncreated: 2024-03-09\n---\nTide at noon.\n",
            "notes/ebb.md": "---\nkind: decision\nstate: candidate\ncreated: 2024-03-09\n---\n"
            "Ebb.\n",
        },
    )
    assert "notes/tide.md   [@codex | 9 Mar 2024]\n" in run_cli("recall", "tide", cwd=root).out
    told = run_cli("recall", "ebb", cwd=root).out
    assert "notes/ebb.md   [decision | candidate | 9 Mar 2024]\n" in told


def test_recall_shows_a_sentence_of_the_note_where_its_section_has_badges_alone(
    run_cli: RunCli, root: Path
) -> None:
    badge = "![GitHub all releases](https://img.shields.io/github/downloads/kepano/total)"
    note = f"{badge}\n\n# Minimal\n\nBy Dr. Kepano, e.g. for writing. It is plain.\n"
    write_notes(root, {"notes/minimal theme.md": note})
    told = run_cli("recall", "kepano total downloads", cwd=root).out
    assert "    By Dr. Kepano, e.g. for writing.\n" in told
    assert "img.shields" not in told


def test_recall_works_without_any_option(run_cli: RunCli, root: Path) -> None:
    done = run_cli("recall", "tokens", cwd=root)

    assert done.code == 0
    assert "notes/auth/tokens.md" in done.out


@pytest.mark.campaign
def test_recall_shows_archived_notes_and_filters_by_state(run_cli: RunCli, root: Path) -> None:
    def paths(*options: str) -> set[str]:
        hits = run_cli("recall", "gangway", "-n", "5", *options, "--json", cwd=root).json["hits"]
        return {hit["path"] for hit in hits}

    assert paths() == {"notes/deploy/gangway.md", "notes/deploy/ferry.md"}
    assert paths("--state", "active") == {"notes/deploy/gangway.md"}
    assert paths("--state", "archived") == {"notes/deploy/ferry.md"}
    assert paths("--context", "auth") == set()


@pytest.mark.campaign
def test_a_pack_has_the_same_bytes_twice_after_a_rebuild_and_from_elsewhere(
    run_cli: RunCli, root: Path, tmp_path: Path
) -> None:
    query = ["pack", "tokens rotation gangway", "--budget", "800", "--vault", str(root)]
    run_cli("checkpoint", "x", cwd=root)
    first = run_cli(*query, cwd=tmp_path)

    again = run_cli(*query, cwd=root, env={"PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo"})
    shutil.rmtree(os.environ["XDG_STATE_HOME"])
    rebuilt = run_cli(*query, cwd=root)
    fresh = run_cli(*query, cwd=root, env={"XDG_STATE_HOME": str(tmp_path / "other")})

    assert first.code == 0
    assert "RS256 tokens." in first.out
    assert first.out == again.out == rebuilt.out == fresh.out


@pytest.mark.campaign
def test_a_pack_without_a_query_holds_what_is_pinned_and_what_is_recent(
    run_cli: RunCli, root: Path
) -> None:
    made = run_cli("pack", "--json", cwd=root).json

    shown = [item["path"] for item in made["items"]]
    assert shown[0] == "notes/deploy/gangway.md"
    assert "notes/deploy/ferry.md" not in shown
    assert made["tokens"]["sent"] <= made["tokens"]["budget"] == 2000
    assert run_cli("pack", "x", "--budget", "50", cwd=root).code == 5


@pytest.mark.campaign
def test_checkpoint_promote_and_log_agree_with_git(run_cli: RunCli, root: Path) -> None:
    write_notes(root, {"notes/rule.md": "---\nkind: policy_rule\nstate: candidate\n---\nLint.\n"})
    done = run_cli("remember", "x", "--agent", "claude", "--session", "s-1", "--json", cwd=root)

    promoted = run_cli("promote", "notes/rule.md", "--json", cwd=root).json
    saved = run_cli("checkpoint", "the", "end", "--agent", "claude", "--json", cwd=root).json
    events = run_cli("log", "--json", cwd=root).json["commits"]

    assert promoted["promoted"] == [{"path": "notes/rule.md", "from": "candidate", "to": "active"}]
    assert promoted["trusted"] == ["notes/rule.md"]
    assert saved["commit"] == git(root, "rev-parse", "HEAD")
    assert saved["paths"] == [done.json["path"]]
    assert [event["subject"] for event in events][:2] == ["checkpoint: the end", "promote: rule"]
    assert events[0]["commit"] == saved["commit"]
    clean = run_cli("checkpoint", cwd=root)
    assert clean.code == 0
    assert git(root, "rev-parse", "HEAD") == saved["commit"]
    assert "checkpoint: the end" in run_cli("log", cwd=root).out


@pytest.mark.campaign
def test_a_promoted_policy_instructs_until_its_text_changes(run_cli: RunCli, root: Path) -> None:
    write_notes(root, {"notes/rule.md": "---\nkind: policy_rule\nstate: candidate\n---\nLint.\n"})

    assert "## Instructions" not in run_cli("pack", "lint", cwd=root).out
    run_cli("promote", "notes/rule.md", cwd=root)
    assert "## Instructions" in run_cli("pack", "lint", cwd=root).out
    (root / "notes/rule.md").write_text("---\nkind: policy_rule\n---\nNever lint.\n")
    assert "## Instructions" not in run_cli("pack", "lint", cwd=root).out


@pytest.mark.campaign
def test_sync_names_every_note_that_was_not_read(run_cli: RunCli, root: Path) -> None:
    write_notes(root, {"notes/bad.md": b"\xff", "notes/tab.md": "---\n\tx: 1\n---\nbody\n"})

    done = run_cli("index", "--json", cwd=root)
    shown = run_cli("index", cwd=root)

    problems = done.json["problems"]
    assert "notes/bad.md" in json.dumps(problems)
    assert "notes/tab.md" in json.dumps(problems)
    assert "2 files were not read" in shown.out


@pytest.mark.campaign
def test_the_vault_is_found_from_below_by_option_and_by_variable(
    run_cli: RunCli, root: Path, tmp_path: Path
) -> None:
    below = run_cli("show", "Ferry", cwd=root / "notes/auth")
    option = run_cli("show", "Ferry", "--vault", str(root), cwd=tmp_path)
    before = run_cli("--vault", str(root), "show", "Ferry", cwd=tmp_path)
    variable = run_cli("show", "Ferry", cwd=tmp_path, env={"VAULTMEM_VAULT": str(root)})
    nowhere = run_cli("show", "Ferry", cwd=tmp_path)

    outputs = {result.out for result in (below, option, before, variable)}
    assert outputs == {NOTES["notes/deploy/ferry.md"]}
    assert nowhere.code == 3
    assert "vaultmem init" in nowhere.err
    assert run_cli("list", "--vault", str(tmp_path / "no"), cwd=tmp_path).code == 3


def test_a_wrong_configuration_names_the_nearest_key(run_cli: RunCli, root: Path) -> None:
    (root / "vaultmem.yaml").write_text("buget: 100\n")

    done = run_cli("list", cwd=root)

    assert done.code == 1
    assert "did you mean budget" in done.err
