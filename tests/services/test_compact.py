"""Compaction: what is left of a text, when, of which notes, and that nothing is lost."""

from __future__ import annotations

import shutil
from pathlib import Path, PurePosixPath

import pytest
from clocks import Clock, ask, tell
from conftest import Make, Open, RunCli
from support import git, hash_tree, write_notes

from vaultmem.core.curation.compaction import (
    DecayStep,
    Fidelity,
    find_keywords,
    rank_sentences,
    read_fidelity,
    shorten_note,
)
from vaultmem.core.lifecycle import NoteKind, NoteState
from vaultmem.core.notes.note import parse_note
from vaultmem.core.search.query import Hit
from vaultmem.core.text.blob import blob_id
from vaultmem.core.text.token_count import count_tokens
from vaultmem.errors import NoteNotFoundError, RefusedError
from vaultmem.mcp_server.note_tools import read_tool, update_tool
from vaultmem.mcp_server.search_tools import recall_tool
from vaultmem.services.changes.commit import save_checkpoint
from vaultmem.services.curation.compact import compact, plan_compaction
from vaultmem.services.curation.curate import curate
from vaultmem.services.history.restore_note import restore_note
from vaultmem.services.memory.remember import Memory
from vaultmem.services.search.run_query import Query, run_query
from vaultmem.services.views.read_notes import get_note
from vaultmem.services.views.update_index import sync_vault
from vaultmem.vault import Vault

AGES = "stale_after_days: 90\narchive_after: 180\nsummary_after: 60\nkeywords_after: 120\n"

TRACE = """## What happened

The refund job stopped at 14:05. Holmpay answered 429 to each refund after the 120th. The queue of
refunds grew to 3,400 jobs. Nobody was paged, because the alert counts errors and not refunds. The
weather was fine. Maren raised the refund queue's pause to 600 ms, and the queue drained by 16:30.
Somebody made coffee. A refund that was retried kept its key. The key is made in
api/refunds/keys.py. Later the team talked about lunch.

## What follows

- The alert has to count refunds in the queue. #alerting
- The pause of the refund queue stays at 600 ms.
- The party is on Friday.
- Holmpay is asked for a higher limit than 120 refunds a minute, with the numbers of this Friday,
  and Maren writes to their support before the end of the month.
- The refund job logs each pause of the queue, so that the next one who looks sees why it stands.
"""


@pytest.fixture
def vault(make_vault: Make, opened: Open, clock: Clock) -> Vault:
    return opened(make_vault({"vaultmem.yaml": AGES}), agent="claude", now=clock)


def run(vault: Vault) -> dict[str, DecayStep]:
    return {each.path: each.step for each in compact(vault).steps}


def test_sentences_that_the_others_lead_to_rank_first() -> None:
    sentences = [
        "The refund queue pauses for 600 ms.",
        "Lunch was late.",
        "A pause of the refund queue keeps Holmpay from answering 429.",
        "Each refund in the queue keeps its key.",
    ]
    ranks = rank_sentences(sentences)
    assert ranks[1] == min(ranks)
    assert ranks == rank_sentences(list(sentences))
    assert rank_sentences(["one"]) == [0.15]


def test_what_a_sentence_shares_with_the_topic_raises_it() -> None:
    sentences = ["The bell was cast in 1871.", "The drum is new.", "The drum was dear and new."]
    assert rank_sentences(sentences)[0] == min(rank_sentences(sentences))
    asked = rank_sentences(sentences, "when was the bell cast")
    assert asked[0] == max(asked)


def test_keywords_keep_numbers_and_names_as_written() -> None:
    words = find_keywords("The job in api/keys.py retried 3,400 refunds and waited 600 ms.", 4)
    assert [word for word in words if not word.isalpha()] == ["api/keys.py", "3,400", "600"]
    assert find_keywords("", 4) == []


@pytest.mark.parametrize("eol", ["\n", "\r\n"])
def test_a_summary_is_about_a_fifth_of_sentences_that_stood_there(eol: str) -> None:
    text = f"---\nkind: episodic_trace\nmine: 1\n---\n# Friday\n\n{TRACE}".replace("\n", eol)
    note = parse_note(PurePosixPath("notes/x.md"), text.encode())

    short = parse_note(note.path, shorten_note(note, Fidelity.SUMMARY).encode())

    assert read_fidelity(short) is Fidelity.SUMMARY
    share = count_tokens(short.body) / count_tokens(note.body)
    assert 0.1 < share < 0.4
    assert (short.title, short.tags) == ("Friday", ("alerting",))
    assert short.frontmatter.get("mine").value == "1"
    original = " ".join(note.body.split())
    prose = [line for line in short.body.splitlines() if line and not line.startswith("#")]
    assert prose
    for line in prose:
        for sentence in line.removeprefix("- ").split(". "):
            assert sentence.strip(". ") in original
    assert ("\r\n" in short.text) == (eol == "\r\n")
    assert shorten_note(note, Fidelity.SUMMARY) == shorten_note(note, Fidelity.SUMMARY)


def test_what_would_hardly_be_shorter_stays() -> None:
    note = parse_note(PurePosixPath("notes/x.md"), b"---\ntitle: Bell\n---\nIt rings at 7.\n")
    assert shorten_note(note, Fidelity.SUMMARY) == ""
    assert shorten_note(note, Fidelity.KEYWORDS) == ""


def test_documents_stay_and_long_texts_take_no_long_time() -> None:
    for count, is_short in ((9_000, True), (90_000, False)):
        text = " ".join(f"Bell number {n} rings at w{n:x}." for n in range(count // 30))
        note = parse_note(PurePosixPath("notes/x.md"), f"---\ntitle: T\n---\n{text}\n".encode())
        for level in (Fidelity.SUMMARY, Fidelity.KEYWORDS):
            assert bool(shorten_note(note, level)) == is_short


def test_a_note_decays_step_by_step_and_each_step_is_a_commit(vault: Vault, clock: Clock) -> None:
    (path,) = tell(vault, Memory(TRACE, title="Refunds stood still", kind=NoteKind.EPISODIC_TRACE))
    full = (vault.root / path).read_bytes()
    heads = [git(vault.root, "rev-parse", "HEAD")]
    steps = []
    for days in (59, 2, 58, 2, 58, 2):
        clock.pass_days(days)
        found = run(vault)
        steps.append(found.get(path))
        if found:
            heads.append(git(vault.root, "rev-parse", "HEAD"))
            assert git(vault.root, "rev-list", "--count", f"{heads[-2]}..HEAD") == "1"
            assert git(vault.root, "diff", "--name-only", heads[-2], "HEAD") == path

    assert steps == [None, DecayStep.SUMMARY, None, DecayStep.KEYWORDS, None, DecayStep.ARCHIVED]
    note = get_note(vault, path).note
    assert (note.state, read_fidelity(note)) == (NoteState.ARCHIVED, Fidelity.KEYWORDS)
    assert "600" in note.body
    subjects = git(vault.root, "log", "-3", "--format=%s").splitlines()
    assert subjects == [
        "compact: refunds-stood-still archived",
        "compact: refunds-stood-still to keywords",
        "compact: refunds-stood-still to a summary",
    ]
    assert run(vault) == {}
    body = git(vault.root, "log", "-1", "--format=%b", heads[1])
    command = body.splitlines()[0]
    assert command.startswith("What they were: vaultmem restore NOTE --at ")
    restored = restore_note(vault, path, command.split()[-1])
    assert restored.is_changed
    assert (vault.root / path).read_bytes() == full


def test_what_was_restored_has_its_time_anew(vault: Vault, clock: Clock) -> None:
    (path,) = tell(vault, Memory(TRACE, title="Refunds stood still"))
    head = git(vault.root, "rev-parse", "HEAD")
    clock.pass_days(61)
    assert run(vault) == {path: DecayStep.SUMMARY}
    restore_note(vault, path, head)
    save_checkpoint(vault, "wanted again")
    clock.pass_days(59)
    assert run(vault) == {}
    clock.pass_days(2)
    assert run(vault) == {path: DecayStep.SUMMARY}


def test_what_was_asked_for_is_in_the_summary(vault: Vault, clock: Clock) -> None:
    (path,) = tell(vault, Memory(TRACE, title="A day"))
    ask(vault, "where is the key of a refund made")
    clock.pass_days(61)
    run(vault)
    assert "api/refunds/keys.py" in get_note(vault, path).note.body


def test_what_compaction_left_of_two_notes_does_not_make_them_one(
    vault: Vault, clock: Clock
) -> None:
    other = TRACE.replace("weather was fine", "weather was bad")
    one, two = (Memory(t, title="A day", context=c) for t, c in ((TRACE, "x"), (other, "y")))
    paths = tell(vault, one, two)
    for days in (61, 60):
        clock.pass_days(days)
        assert len(run(vault)) == 2
    bodies = {get_note(vault, path).note.body for path in paths}
    assert len(bodies) == 1
    sync_vault(vault)
    assert not any(each.into for each in curate(vault).proposals)


def test_a_recall_resets_the_clock(vault: Vault, clock: Clock) -> None:
    (path,) = tell(vault, Memory(TRACE, title="Refunds stood still"))
    clock.pass_days(59)
    assert ask(vault, "why did the refunds stand still")
    clock.pass_days(59)
    assert run(vault) == {}
    clock.pass_days(2)
    assert run(vault) == {path: DecayStep.SUMMARY}


def test_short_notes_go_to_the_archive_at_once_in_their_own_words(
    vault: Vault, clock: Clock
) -> None:
    (path,) = tell(vault, Memory("The bell rings at seven."))
    body = get_note(vault, path).note.body
    clock.pass_days(179)
    assert run(vault) == {}
    clock.pass_days(2)
    (step,) = plan_compaction(vault).steps
    assert step.text == get_note(vault, path).text.replace(
        "\n---\n\n", "\nstate: archived\n---\n\n"
    )
    assert run(vault) == {path: DecayStep.ARCHIVED}
    note = get_note(vault, path).note
    assert (note.body, note.state) == (body, NoteState.ARCHIVED)
    assert run(vault) == {}


@pytest.mark.parametrize(
    ("days", "step"),
    [(61, DecayStep.SUMMARY), (121, DecayStep.KEYWORDS), (400, DecayStep.ARCHIVED)],
)
def test_what_is_overdue_takes_the_last_step_at_once_and_a_second_run_does_nothing(
    vault: Vault, clock: Clock, days: int, step: DecayStep
) -> None:
    (path,) = tell(vault, Memory(TRACE, title="Refunds stood still"))
    clock.pass_days(days)
    (planned,) = plan_compaction(vault).steps
    assert planned.tokens_left <= planned.tokens + count_tokens("state: archived\n")
    assert run(vault) == {path: step}
    head = git(vault.root, "rev-parse", "HEAD")
    assert run(vault) == {}
    assert git(vault.root, "rev-parse", "HEAD") == head


def test_what_others_lean_on_or_nobody_else_knows_stays(vault: Vault, clock: Clock) -> None:
    linked, _, standing, number, shared, _ = tell(
        vault,
        Memory("The bell hangs in the tower of the old school.", title="Tower"),
        Memory("Where the bell hangs: [[tower]]. Asked by the school.", title="Where"),
        Memory("From now on, always ring the bell before the lessons begin.", title="Ring"),
        Memory("The door of the tower opens with 4711.", title="Door"),
        Memory("The bell weighs 300 kilograms.", title="Weight"),
        Memory("The rope carries 300 kilograms.", title="Rope"),
    )
    clock.pass_days(400)

    done = compact(vault)

    left = {each.path for each in done.steps}
    assert not left & {linked, standing, number}
    assert shared in left
    assert done.exempt == {
        "pinned": 2,
        "linked by another note": 1,
        "a lasting instruction": 1,
        "a number that no other note has": 1,
    }


def test_what_is_exempt_stays_byte_for_byte(vault: Vault, opened: Open, clock: Clock) -> None:
    tell(
        vault,
        Memory(TRACE, title="Pinned", pinned=True),
        Memory(TRACE, title="Policy", kind=NoteKind.POLICY_RULE, state=NoteState.ACTIVE),
        Memory(TRACE, title="Skill", kind=NoteKind.PROCEDURAL_SKILL, state=NoteState.ACTIVE),
        Memory(TRACE, title="Edited", context="e"),
    )
    person = opened(vault.root, now=clock)
    tell(person, Memory(TRACE, title="A person's"))
    write_notes(vault.root, {"notes/by-hand.md": f"# By hand\n\n{TRACE}"})
    edited = vault.root / "notes/e/edited.md"
    edited.write_text(edited.read_text().replace("weather was fine", "weather was bad"))
    save_checkpoint(person, "hands")
    write_notes(vault.root, {"sessions/s.md": f"---\nagent: claude\n---\n{TRACE}"})
    sync_vault(vault)
    clock.pass_days(400)
    before = hash_tree(vault.root, skip=(".git",))

    plan = plan_compaction(vault)

    assert plan.steps == ()
    reasons = plan.exempt
    assert reasons["a policy or skill"] == 2
    assert reasons["written or edited by a person"] == 3
    assert reasons["a session, task or reference material"] == 1
    compact(vault)
    assert hash_tree(vault.root, skip=(".git",)) == before


def test_what_no_commit_has_is_not_shortened(vault: Vault, clock: Clock) -> None:
    (path,) = tell(vault, Memory(TRACE, title="Refunds stood still"))
    file = vault.root / path
    file.write_text(file.read_text() + "\nJust added.\n")
    sync_vault(vault)
    clock.pass_days(100)
    assert plan_compaction(vault).exempt == {"in no commit yet": 1}
    assert run(vault) == {}
    assert file.read_text().endswith("\nJust added.\n")


def test_a_dry_run_changes_nothing(vault: Vault, clock: Clock) -> None:
    (path,) = tell(vault, Memory(TRACE, title="Refunds stood still"))
    clock.pass_days(100)
    sync_vault(vault)
    before = hash_tree(vault.root)
    (step,) = plan_compaction(vault).steps
    assert (step.path, step.step) == (path, DecayStep.SUMMARY)
    assert step.tokens_left < step.tokens
    assert hash_tree(vault.root) == before


def test_without_git_nothing_is_compacted(tmp_path: Path, home: Path, opened: Open) -> None:
    root = tmp_path / "plain"
    write_notes(root, {"notes/a.md": "---\nagent: x\ncreated: 2020-01-01\n---\nOld.\n"})
    vault = opened(root)
    sync_vault(vault)
    with pytest.raises(RefusedError, match="needs git"):
        plan_compaction(vault)


def find(vault: Vault, question: str, at: str = "") -> list[Hit]:
    return run_query(vault, Query(question, counts=False, at=at)).hits


LOST = "who made coffee"  # Of a sentence that no summary of `TRACE` keeps.


@pytest.fixture
def shortened(vault: Vault, clock: Clock) -> tuple[str, bytes]:
    """Return the path of a note that was shortened to keywords, and what it was."""
    (path,) = tell(vault, Memory(TRACE, title="A day", context="days"))
    full = (vault.root / path).read_bytes()
    clock.pass_days(121)
    assert run(vault) == {path: DecayStep.KEYWORDS}
    assert "coffee" not in (vault.root / path).read_text()
    return path, full


def check_found(vault: Vault, path: str, at: str = "") -> None:
    (hit, *_) = find(vault, LOST, at)
    assert hit.record.path == path
    assert {match.term for match in hit.matches} >= {"coffe"}
    head = hit.record.full_text.partition("@")[2]
    assert hit.caution == f"shortened; full text at {head}"


@pytest.mark.guarantee
def test_what_was_shortened_is_found_by_its_full_text(
    vault: Vault, shortened: tuple[str, bytes]
) -> None:
    path, full = shortened
    check_found(vault, path)
    found = get_note(vault, path, full=True)
    assert found.text.encode() == full
    assert get_note(vault, f"{path}#What follows", full=True).text.startswith("- The alert")
    commit = get_note(vault, path).note.full_text.partition("@")[2]
    read = read_tool(vault, {"path": path})
    assert f"shortened; full text at {commit}; read again with full" in read.text
    assert "> Somebody made coffee." in read_tool(vault, {"path": path, "full": True}).text
    assert restore_note(vault, path, commit).is_changed
    assert (vault.root / path).read_bytes() == full
    assert find(vault, LOST)[0].caution == ""


@pytest.mark.parametrize(("days", "step"), [(61, DecayStep.SUMMARY), (121, DecayStep.KEYWORDS)])
def test_what_is_shortened_ranks_as_it_did(
    vault: Vault, clock: Clock, days: int, step: DecayStep
) -> None:
    (path, _) = tell(vault, Memory(TRACE, title="A day"), Memory("Tariq made tea.", title="Tea"))
    asked = (LOST, "party on Friday", "what follows", "refund queue of a day", "keys.py")

    def rank() -> list[list[tuple[str, float]]]:
        return [[(h.record.path, round(h.score, 4)) for h in find(vault, each)] for each in asked]

    before = rank()
    assert all(found[0][0] == path for found in before)
    clock.pass_days(days)
    assert run(vault)[path] is step
    assert rank() == before
    assert not find(vault, "keywords")


def test_the_line_that_shows_a_shortened_note_is_of_its_full_text(
    vault: Vault, shortened: tuple[str, bytes], run_cli: RunCli
) -> None:
    path, _ = shortened
    (hit,) = find(vault, LOST)
    assert hit.shown_line == "Somebody made coffee."
    vault.close()
    at = ("--vault", str(vault.root))
    assert "    Somebody made coffee.\n" in run_cli(*at, "recall", LOST).out
    (row,) = run_cli(*at, "recall", LOST, "--json").json["hits"]
    assert (row["path"], row["shown_line"]) == (path, "Somebody made coffee.")
    assert "> ... Somebody made coffee." in recall_tool(vault, {"query": LOST}).text
    assert find(vault, "keys.py")[0].shown_line == ""  # What is left has it.


def test_a_section_that_shows_several_full_texts_is_named_once(
    vault: Vault, shortened: tuple[str, bytes]
) -> None:
    path, _ = shortened
    asked = Query("refund queue", counts=False)
    (by_note,) = run_query(vault, asked).hits
    (by_section,) = run_query(vault, asked._replace(by_section=True)).hits
    assert (by_note.record.path, by_note.related_sections) == (path, ())
    assert by_section.section == by_note.section


def test_the_full_text_is_found_by_files_and_git_alone(
    vault: Vault, opened: Open, shortened: tuple[str, bytes], tmp_path: Path, clock: Clock
) -> None:
    path, _ = shortened
    head = git(vault.root, "rev-parse", "HEAD")
    vault.close()
    shutil.rmtree(vault.state_folder)
    again = opened(vault.root, now=clock)
    check_found(again, path)
    check_found(again, path, at=head)
    git(tmp_path, "clone", "-q", str(vault.root), "clone")
    clone = opened(tmp_path / "clone", now=clock)
    check_found(clone, path)
    git(clone.root, "mv", path, "notes/moved.md")
    clone = opened(clone.root, now=clock)
    check_found(clone, "notes/moved.md")


def test_without_the_full_text_a_note_is_found_by_what_is_left(
    vault: Vault, opened: Open, shortened: tuple[str, bytes], tmp_path: Path, clock: Clock
) -> None:
    path, _ = shortened
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{vault.root}", "clone")
    clone = opened(tmp_path / "clone", now=clock)
    sync_vault(clone)
    assert find(clone, "api/refunds/keys.py")[0].record.path == path
    assert path not in {hit.record.path for hit in find(clone, LOST)}
    with pytest.raises(NoteNotFoundError, match="its full text is not here"):
        get_note(clone, path, full=True)


def test_keywords_come_from_the_full_text(vault: Vault, clock: Clock) -> None:
    late, soon = tell(
        vault,
        Memory(TRACE, title="A day", context="x"),
        Memory(TRACE + "\nNobody knows why.\n", title="A day", context="y"),
    )
    ask(vault, "nobody knows why a day", limit=1)
    for days in (61, 60):
        clock.pass_days(days)
        run(vault)
    direct = parse_note(PurePosixPath("x.md"), TRACE.encode())
    words = get_note(vault, late).note.body.strip().removeprefix("Keywords: ").split(", ")
    assert words == find_keywords(direct.body, 8)
    assert read_fidelity(get_note(vault, soon).note) is Fidelity.KEYWORDS


def test_what_was_added_to_a_summary_is_found_and_stays(vault: Vault, clock: Clock) -> None:
    (path,) = tell(vault, Memory(TRACE, title="A day"))
    clock.pass_days(61)
    assert run(vault) == {path: DecayStep.SUMMARY}
    file = vault.root / path
    file.write_text(file.read_text() + "\nThe giraffe was told later.\n")
    sync_vault(vault)
    save_checkpoint(
        vault,
        "an agent's",
    )
    assert find(vault, "giraffe")[0].record.path == path
    check_found(vault, path)
    clock.pass_days(121)
    run(vault)
    assert "giraffe" in file.read_text()


def test_archived_notes_answer_labelled_beside_strong_answers(vault: Vault, clock: Clock) -> None:
    (path,) = tell(vault, Memory(TRACE, title="A day"))
    for days in (121, 60):
        clock.pass_days(days)
        run(vault)
    (hit, *_) = find(vault, LOST)
    assert (hit.record.path, hit.record.state) == (path, "archived")
    tell(vault, Memory("Tariq made coffee for all who were there.", title="Coffee"))
    assert path in {hit.record.path for hit in find(vault, LOST)}


def test_archived_notes_rank_with_others(vault: Vault, clock: Clock) -> None:
    lyra, orion = tell(
        vault,
        Memory("The page size of Lyra is small.", title="Lyra"),
        Memory("Maren measured Orion twice.", title="Orion"),
    )
    clock.pass_days(181)
    assert run(vault) == dict.fromkeys((lyra, orion), DecayStep.ARCHIVED)
    (vega,) = tell(vault, Memory("The page size of Vega is large.", title="Page size of Vega"))
    found = find(vault, "what is the page size of Vega, and who measured Orion")
    assert [hit.record.path for hit in found] == [vega, orion, lyra]


def test_no_agent_names_another_full_text(vault: Vault, shortened: tuple[str, bytes]) -> None:
    path, _ = shortened
    given = {"path": path, "property": "full_text", "value": "0123456789ab@0123456"}
    with pytest.raises(RefusedError, match="stays as it is"):
        update_tool(vault, given)
    note = get_note(vault, path).note
    new = {"old_text": note.full_text, "new_text": "0123456789ab@0123456", "blob": note.blob}
    with pytest.raises(NoteNotFoundError, match="not in its body"):
        update_tool(vault, {"path": path, **new})
    (other,) = tell(vault, Memory(f"---\nfull_text: {note.full_text}\n---\nThe pier is old."))
    assert get_note(vault, other).note.full_text == ""


def test_a_full_text_that_somebody_else_wrote_opens_nothing_quarantined(vault: Vault) -> None:
    """A hand or a pull may name any blob that git has: as much as it could write itself."""
    trick = "---\nstate: quarantined\n---\nIgnore the harbour master.\n"
    write_notes(vault.root, {"notes/trick.md": trick, "notes/plain.md": "The mole is long.\n"})
    broken = trick.replace("---\nIgnore", "tags: [\n---\nIgnore")
    write_notes(vault.root, {"notes/broken.md": broken})
    save_checkpoint(vault, "by hand")
    head = git(vault.root, "rev-parse", "HEAD")
    tree = git(vault.root, "rev-parse", "HEAD^{tree}")
    tricks = {"trick": blob_id(trick.encode()), "broken": blob_id(broken.encode())}
    named = {**tricks, "tree": tree, "commit": head, "none": "0" * 40}
    texts = {
        f"notes/of-{name}.md": f"---\nfull_text: {blob[:12]}@{head[:7]}\n---\nA quay {name}.\n"
        for name, blob in named.items()
    }
    write_notes(vault.root, texts)
    sync_vault(vault)
    assert find(vault, "harbour master ignore") == []
    for path in texts:
        with pytest.raises(NoteNotFoundError, match="its full text is not here"):
            get_note(vault, path, full=True)
    plain = blob_id(b"The mole is long.\n")
    named_so = texts["notes/of-none.md"].replace("0" * 12, plain[:12])
    write_notes(vault.root, {"notes/of-plain.md": named_so})
    sync_vault(vault)
    assert get_note(vault, "notes/of-plain.md", full=True).text == "The mole is long.\n"
