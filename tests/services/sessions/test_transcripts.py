"""Transcripts: appended, bounded, never committed, whole after any crash."""

from __future__ import annotations

import hashlib
import json
import os
import random
from collections.abc import Iterable
from pathlib import Path

import pytest
from conftest import Make, Open
from support import git

from vaultmem.core.sessions.turns import (
    TranscriptLine,
    TranscriptPosition,
    Turn,
    add_lines,
    encode_line,
    join_turns,
)
from vaultmem.errors import RefusedError
from vaultmem.services.sessions.begin import NewSession, start_session
from vaultmem.services.sessions.windows import add_turns, read_last_turns, read_tally
from vaultmem.storage.session_table import Transcripts


def make_lines(count: int, size: int = 40, seed: int = 1) -> list[TranscriptLine]:
    chance, tally, lines = random.Random(seed), TranscriptPosition(), []
    for number in range(count):
        text = "".join(chance.choice("ab é渡\n") for _ in range(chance.randrange(size * 2)))
        added, tally = add_lines(Turn("user", f"{number} {text}"), tally)
        lines += added
    return lines


def is_chained(lines: Iterable[TranscriptLine | TranscriptPosition]) -> bool:
    """Tell whether each line's digest is that of the line and the one before it."""
    before = ""
    for line in lines:
        if isinstance(line, TranscriptLine):
            told = json.dumps(json.loads(encode_line(line)) | {"digest": before}, sort_keys=True)
            if line.digest != hashlib.sha256(told.encode()).hexdigest()[:32]:
                return False
        before = line.digest
    return True


@pytest.mark.campaign
def test_what_is_appended_is_read_from_both_ends(tmp_path: Path) -> None:
    transcripts = Transcripts(tmp_path, 10_000_000)
    lines = make_lines(500, 3_000)
    for start in range(0, 500, 50):
        transcripts.append("s", lines[start : start + 50])

    assert list(transcripts.read("s")) == lines
    assert list(transcripts.read_back("s")) == lines[::-1]
    assert is_chained(transcripts.read("s"))
    assert transcripts.tally("s") == TranscriptPosition(500, lines[-1].total, lines[-1].digest)


def test_a_turn_of_any_length_is_kept_whole(tmp_path: Path) -> None:
    transcripts = Transcripts(tmp_path, 50_000_000)
    text = "渡し船 \x00\x1b\ud800 ferry\n" * 40_000
    lines, tally = add_lines(Turn("tool", text, "2026-11-21T10:00:00"), TranscriptPosition())
    transcripts.append("s", lines)

    turns = list(
        join_turns(line for line in transcripts.read("s") if isinstance(line, TranscriptLine))
    )

    assert len(lines) > 10
    assert turns == [(1, Turn("tool", text.replace("\ud800", "?"), "2026-11-21T10:00:00"))]
    assert transcripts.tally("s") == tally


@pytest.mark.campaign
def test_a_file_that_grows_too_large_loses_its_oldest_lines_and_keeps_their_digest(
    tmp_path: Path,
) -> None:
    transcripts = Transcripts(tmp_path, 0)  # The smallest limit that there is.
    lines = make_lines(3_000, 400)
    for start in range(0, 3_000, 100):
        transcripts.append("s", lines[start : start + 100])
        assert transcripts.size("s") < 600_000

    kept = list(transcripts.read("s"))

    assert isinstance(kept[0], TranscriptPosition)
    assert kept[1:] == lines[kept[0].turns :]
    assert kept[0].digest == lines[kept[0].turns - 1].digest
    assert is_chained(kept)
    assert transcripts.tally("s").turns == 3_000
    assert [entry.name for entry in (tmp_path / "transcripts").iterdir()] == ["s.jsonl"]


@pytest.mark.parametrize("cut", [1, 7, 60])
def test_a_line_that_a_crash_cut_short_is_passed_over_and_ends_there(
    tmp_path: Path, cut: int
) -> None:
    transcripts = Transcripts(tmp_path, 10_000_000)
    lines = make_lines(4)
    transcripts.append("s", lines[:3])
    file = tmp_path / "transcripts/s.jsonl"
    whole = file.read_bytes()
    file.write_bytes(whole[:-cut])

    kept = lines[: 3 if cut == 1 else 2]
    assert transcripts.tally("s").digest == kept[-1].digest
    again, _ = add_lines(Turn("user", "after"), transcripts.tally("s"))
    transcripts.append("s", again)

    assert list(transcripts.read("s")) == [*kept, *again]
    assert list(transcripts.read_back("s")) == [*again, *reversed(kept)]


def test_a_changed_turn_breaks_the_chain(tmp_path: Path) -> None:
    lines = make_lines(5)

    assert is_chained(lines)
    assert not is_chained([*lines[:2], lines[2]._replace(text="other"), *lines[3:]])
    assert not is_chained([lines[0], *lines[2:]])


@pytest.mark.parametrize("what", ["file", "folder", "pipe"])
def test_nothing_is_written_through_a_link_or_into_a_pipe(tmp_path: Path, what: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "s.jsonl").write_text("mine\n")
    root = tmp_path / "vault"
    root.mkdir()
    if what == "folder":
        (root / "transcripts").symlink_to(outside)
    else:
        (root / "transcripts").mkdir()
        if what == "file":
            (root / "transcripts/s.jsonl").symlink_to(outside / "s.jsonl")
        else:
            os.mkfifo(root / "transcripts/s.jsonl")

    with pytest.raises(RefusedError):
        Transcripts(root, 10_000_000).append("s", make_lines(1))

    assert (outside / "s.jsonl").read_text() == "mine\n"


def test_credentials_are_left_out_and_nothing_is_committed(make_vault: Make, opened: Open) -> None:
    root = make_vault()
    (root / ".gitignore").unlink()
    vault = opened(root, agent="claude")
    start_session(vault, NewSession("s-1"))
    body = "abcDEF123+" * 6
    key = f"-----BEGIN RSA PRIVATE KEY-----\n{body}\n{body}\n-----END RSA PRIVATE KEY-----"
    aws = "AKIA" + "ABCDEFGHIJKLMNOP"

    add_turns(vault, "s-1", [Turn("user", f"before\n{key}\nthe id is {aws}\nafter")])

    data = (root / "transcripts/s-1.jsonl").read_text()
    assert "abc" not in data
    assert aws not in data
    [(_, turn)] = read_last_turns(vault, "s-1", 5)
    assert turn.text.splitlines()[0] == "before"
    assert turn.text.splitlines()[-1] == "after"
    assert "transcripts" not in git(root, "status", "--porcelain", "-uall")


def test_many_turns_are_added_in_one_call(make_vault: Make, opened: Open) -> None:
    vault = opened(make_vault(), agent="claude")
    start_session(vault, NewSession("s-1"))

    tally = add_turns(vault, "s-1", (Turn("user", f"turn {n}") for n in range(1_234)))

    assert tally.turns == 1_234
    assert read_tally(vault, "s-1") == tally
    last = read_last_turns(vault, "s-1", 3)
    assert [(number, turn.text) for number, turn in last] == [
        (n, f"turn {n - 1}") for n in (1_232, 1_233, 1_234)
    ]
