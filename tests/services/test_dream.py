"""Dreaming: what is promoted, in which words, and what no dream may do."""

from __future__ import annotations

from pathlib import Path

import pytest
from clocks import DAY, Clock, ask, tell
from conftest import Make, Open
from support import git, hash_tree, write_notes

from vaultmem.core.curation.dreaming import NoteHit, PromotionThresholds, Weights, measure_strength
from vaultmem.core.lifecycle import NoteKind, NoteState
from vaultmem.errors import RefusedError, VaultError
from vaultmem.services.changes.commit import save_checkpoint
from vaultmem.services.curation.compact import compact
from vaultmem.services.curation.dream import Dream, dream, dream_if_due
from vaultmem.services.lifecycle.supersede import supersede_note
from vaultmem.services.lifecycle.transition import change_state
from vaultmem.services.memory.forget import forget_notes, select_notes
from vaultmem.services.memory.remember import Memory
from vaultmem.services.views.read_notes import get_note
from vaultmem.services.views.update_index import sync_vault
from vaultmem.vault import Vault

EQUAL = Weights(1, 1, 1, 1, 1)
BELL = Memory("The bell rings at seven in the morning.", title="Bell", state=NoteState.CANDIDATE)
QUESTIONS = ("when does the bell ring", "bell in the morning", "what rings at seven")


@pytest.fixture
def vault(make_vault: Make, opened: Open, clock: Clock) -> Vault:
    return opened(make_vault(), agent="claude", now=clock)


def ask_often(vault: Vault, clock: Clock, questions: tuple[str, ...] = QUESTIONS) -> None:
    for question in questions:
        assert ask(vault, question)
        clock.pass_days(1)


def find_held(done: Dream) -> dict[str, str]:
    return {each.path: each.held for each in done.candidates}


def test_the_measures_are_those_of_the_formulas() -> None:
    now = 100.0 * DAY
    calls = [
        NoteHit(now - 14 * DAY, "red bell", 1),
        NoteHit(now - 14 * DAY, "red bell", 3),  # Another section of the same call.
        NoteHit(now - 15 * DAY, "the bell, red", 3),
        NoteHit(now + 1, "later", 1),
    ]
    found = measure_strength(calls, now, EQUAL)
    assert (found.recalls, found.queries, found.days) == (2, 1, 2)
    assert found.frequency == round(1.0986122886 / 2.5649493574, 4)
    assert found.relevance == 0.75
    assert found.recency == 0.5
    assert found.diversity == 0.2
    assert found.consolidation == 0.25
    assert found.score == pytest.approx((0.4283 + 0.75 + 0.5 + 0.2 + 0.25) / 5, abs=1e-4)
    assert measure_strength([], now, EQUAL).score == 0.0
    heavy = measure_strength(calls, now, Weights(0, 1, 0, 0, 0))
    assert heavy.score == 0.75


def test_each_gate_says_what_is_missing() -> None:
    calls = [NoteHit(float(n), "bell", 1) for n in range(3)]
    found = measure_strength(calls, 3.0, EQUAL)
    assert found.find_gate(PromotionThresholds(4, 1, 0.0)) == "recalled 3 of 4 times"
    assert found.find_gate(PromotionThresholds(3, 2, 0.0)) == "1 of 2 different questions"
    assert found.find_gate(PromotionThresholds(3, 1, 0.99)) == "scores below 0.99"
    assert found.find_gate(PromotionThresholds(3, 1, 0.1)) == ""


def test_a_dream_promotes_names_and_tells_in_one_commit(vault: Vault, clock: Clock) -> None:
    (bell,) = tell(vault, BELL)
    before = (vault.root / "MEMORY.md").read_text()
    ask_often(vault, clock)
    head = git(vault.root, "rev-parse", "HEAD")

    done = dream(vault)

    assert [each.path for each in done.promoted] == [bell]
    assert get_note(vault, bell).note.state is NoteState.ACTIVE
    after = (vault.root / "MEMORY.md").read_text()
    line = "- Bell: [[bell]]\n"
    assert after.replace(f"\n{line}", "") == before
    assert after.index("## Project") < after.index(line) < after.index("## Conventions")
    score = f"{done.promoted[0].strength.score:.2f}"
    diary = (vault.root / "DREAMS.md").read_text()
    assert diary.endswith(f"\n- 2026-01-08: [[bell]] {score}\n")
    assert git(vault.root, "rev-list", "--count", f"{head}..HEAD") == "1"
    message = git(vault.root, "log", "-1", "--format=%s%n%b")
    assert message.startswith("promote: bell, by dream\n")
    assert f"{bell}: candidate to active, score {score}, 3 recalls, 3 questions, 3 days" in message
    assert "Vault-Event: promote" in message
    assert git(vault.root, "log", "-1", "--format=%ct") == str(int(clock.at))
    assert git(vault.root, "status", "--porcelain") == ""


def test_a_second_dream_changes_nothing(vault: Vault, clock: Clock) -> None:
    (bell,) = tell(vault, BELL)
    ask_often(vault, clock)
    dream(vault)
    head = git(vault.root, "rev-parse", "HEAD")
    before = hash_tree(vault.root, skip=(".git",))

    again = dream(vault)

    assert again.promoted == ()
    assert find_held(again) == {bell: "promoted before"}
    assert hash_tree(vault.root, skip=(".git",)) == before
    assert git(vault.root, "rev-parse", "HEAD") == head


def test_what_a_person_took_out_of_memory_is_not_put_back(vault: Vault, clock: Clock) -> None:
    tell(vault, BELL)
    ask_often(vault, clock)
    dream(vault)
    memory = vault.root / "MEMORY.md"
    memory.write_text(memory.read_text().replace("- Bell: [[bell]]\n", ""))
    ask_often(vault, clock)
    assert dream(vault).promoted == ()
    assert "Bell" not in memory.read_text()


def test_a_dry_run_weighs_and_changes_nothing(vault: Vault, clock: Clock) -> None:
    (bell,) = tell(vault, BELL)
    ask_often(vault, clock, QUESTIONS[:2])
    assert find_held(dream(vault)) == {bell: "recalled 2 of 3 times"}
    ask(vault, QUESTIONS[2])
    before = hash_tree(vault.root)

    done = dream(vault, is_dry=True)

    assert find_held(done) == {bell: ""}
    assert hash_tree(vault.root) == before


def test_a_dream_gives_nobody_authority(vault: Vault, opened: Open, clock: Clock) -> None:
    rule = Memory("Always ring the bell at seven.", title="Rule", kind=NoteKind.POLICY_RULE)
    (path,) = tell(vault, rule)
    ask_often(vault, clock, ("ring the bell", "always at seven", "seven o'clock bell rule"))
    person = opened(vault.root, now=clock)

    done = dream(person)

    assert find_held(done) == {path: "a policy_rule: only its owner promotes it"}
    assert get_note(vault, path).note.state is NoteState.CANDIDATE
    assert person.trust.notes() == {}


def test_a_dream_of_a_person_is_told_from_the_person(
    vault: Vault, opened: Open, clock: Clock
) -> None:
    tell(vault, BELL)
    ask_often(vault, clock)
    person = opened(vault.root, now=clock)
    with open(vault.root / "MEMORY.md", "a") as file:
        file.write("\nMine, not committed.\n")

    dream(person)

    who = git(vault.root, "log", "-2", "--format=%an: %s").splitlines()
    assert who == ["vaultmem: promote: bell, by dream", "Maren Person: edit: MEMORY"]
    blame = git(vault.root, "blame", "MEMORY.md").splitlines()
    (mine,) = [line for line in blame if "Mine, not committed." in line]
    (bullet,) = [line for line in blame if "[[bell]]" in line]
    assert "(Maren Person " in mine
    assert "(vaultmem " in bullet
    assert (vault.root / "MEMORY.md").read_text().endswith("\nMine, not committed.\n")


def test_hidden_pinned_and_credential_titles_are_left(vault: Vault, clock: Clock) -> None:
    pinned, quarantined = tell(
        vault,
        Memory("The bell is made of bronze.", title="Bell bronze", pinned=True),
        Memory("The bell hangs in the tower.", title="Bell tower"),
    )
    questions = ("bell bronze", "bell tower", "where hangs the bell")
    ask_often(vault, clock, questions)
    note = vault.root / quarantined
    note.write_text(note.read_text().replace("created:", "state: quarantined\ncreated:"))
    assert dream(vault).promoted == ()
    assert pinned not in find_held(dream(vault))


def test_a_note_that_has_ended_or_not_begun_is_left(vault: Vault, clock: Clock) -> None:
    ended, early = tell(
        vault,
        BELL._replace(valid_until="2020-01-01"),
        Memory("The bell rings at nine in summer.", title="Summer bell", valid_from="2999-01-01"),
    )
    ask_often(vault, clock)
    done = dream(vault)
    assert done.promoted == ()
    assert find_held(done)[ended] == "expired since 2020-01-01"
    assert find_held(done)[early] == "not valid before 2999-01-01"


def test_a_title_cannot_become_markup(vault: Vault, clock: Clock) -> None:
    title = "Bell]] `code <!-- %% [[USER]] #tag\u202e rings"
    write_notes(vault.root, {"notes/b.md": f'---\ntitle: "{title}"\n---\nThe bell rings.\n'})
    ask_often(vault, clock, ("bell rings", "the bell", "ring a bell"))
    dream(vault)
    (line,) = [x for x in (vault.root / "MEMORY.md").read_text().splitlines() if "[[b]]" in x]
    head, _, link = line.rpartition(": ")
    assert link == "[[b]]"
    assert not set("[]<>`%#") & set(head)


def test_memory_stays_within_its_room_and_what_may_go_is_named(
    make_vault: Make, opened: Open, clock: Clock
) -> None:
    mine = "# Memory\n\n## Project\n\n- Mine, without a note.\n- Old: [[notes/old]]\n"
    notes = {"MEMORY.md": mine, "notes/old.md": "Old.\n", "vaultmem.yaml": "memory_lines: 7\n"}
    vault = opened(make_vault(notes), agent="claude", now=clock)
    bell, drum = tell(
        vault, BELL, Memory("The drum is beaten at nine.", title="Drum", state=NoteState.CANDIDATE)
    )
    for question in ("bell seven", "drum nine", "drum beaten", "bell rings", "bell", "drum"):
        ask(vault, question)
        clock.pass_days(0.5)
    before = (vault.root / "MEMORY.md").read_text()

    done = dream(vault)

    held = find_held(done)
    assert sorted(held.values()) == ["", "no room in MEMORY.md"]
    after = (vault.root / "MEMORY.md").read_text()
    assert after.startswith(before)
    assert after.count("\n") == 7
    (move,) = done.moves
    assert (move.line, move.note, move.reason) == (6, "notes/old.md", "no room")
    waiting = next(path for path, reason in held.items() if reason)
    assert get_note(vault, waiting).note.state is NoteState.CANDIDATE
    (vault.root / "MEMORY.md").write_text(after.replace("- Old: [[notes/old]]\n", ""))
    assert [each.path for each in dream(vault).promoted] == [waiting]
    assert waiting in {bell, drum}


def read_memory(vault: Vault) -> str:
    return (vault.root / "MEMORY.md").read_text()


def test_a_bullet_is_a_whole_sentence_with_a_short_link_or_there_is_none(
    vault: Vault, clock: Clock
) -> None:
    fact = (
        "The refund queue stood still on Friday because Holmpay answered 429 to each refund after "
        "the 120th, and nobody was paged before 16:30 since the alert counts errors < 500 only."
    )
    endless = f"The refund queue {', and then it ' * 20} stood."
    short, _ = tell(vault, Memory(f"{fact} The rest is history."), Memory(endless))
    ask_often(vault, clock, ("refund queue stood", "queue of refunds", "why stood the queue still"))

    done = dream(vault)

    assert f"- {fact} [[{Path(short).stem}]]\n" in read_memory(vault)
    assert " ..." not in read_memory(vault)
    held = [each.held for each in done.candidates if each.held]
    assert held == ["its first sentence is too long for MEMORY.md; give it a title"]


def test_the_bullet_of_a_note_without_a_title_of_its_own_is_a_sentence(
    vault: Vault, clock: Clock
) -> None:
    (bell,) = tell(vault, Memory("The bell rings at seven in the morning."))
    note = vault.root / bell
    note.write_text(note.read_text().replace("rings at seven", "now rings at seven"))
    ask_often(vault, clock)

    dream(vault)

    link = f"[[{Path(bell).stem}]]"
    assert f"- The bell now rings at seven in the morning. {link}\n" in read_memory(vault)


def test_a_name_that_two_notes_have_is_linked_by_its_path(vault: Vault, clock: Clock) -> None:
    write_notes(vault.root, {"notes/drums/bell.md": "The drum is beaten at nine.\n"})
    tell(vault, BELL)
    ask_often(vault, clock)
    dream(vault)
    assert "- Bell: [[notes/inbox/bell]]\n" in read_memory(vault)


@pytest.mark.parametrize("how", ["archived", "superseded", "forgotten", "compacted"])
def test_a_bullet_goes_in_the_commit_that_takes_its_note_out_of_sight(
    vault: Vault, clock: Clock, how: str
) -> None:
    bell, new = tell(vault, BELL, Memory("Somebody beats a gong.", title="Gong"))
    before = read_memory(vault)
    ask_often(vault, clock)
    dream(vault)
    assert "[[bell]]" in read_memory(vault)
    head = git(vault.root, "rev-parse", "HEAD")

    if how == "archived":
        change_state(vault, [bell], NoteState.STALE)
        head = git(vault.root, "rev-parse", "HEAD")
        assert "[[bell]]" in read_memory(vault)
        change_state(vault, [bell], NoteState.ARCHIVED, "sold")
    elif how == "superseded":
        supersede_note(vault, bell, new)
    elif how == "forgotten":
        sync_vault(vault)
        forget_notes(vault, select_notes(vault, [bell]).notes, "sold")
    else:
        head = git(vault.root, "rev-parse", "HEAD")
        clock.pass_days(400)
        assert compact(vault).steps

    assert "[[bell]]" not in read_memory(vault)
    assert read_memory(vault).split() == before.split()
    assert git(vault.root, "rev-list", "--count", f"{head}..HEAD") == "1"
    assert "MEMORY.md" in git(vault.root, "diff", "--name-only", head, "HEAD").splitlines()
    assert git(vault.root, "status", "--porcelain") == ""


def test_a_bullet_that_a_person_edited_stays_and_may_go(
    vault: Vault, opened: Open, clock: Clock
) -> None:
    (bell,) = tell(vault, BELL)
    ask_often(vault, clock)
    assert dream(vault).moves == ()
    memory = vault.root / "MEMORY.md"
    memory.write_text(memory.read_text().replace("- Bell: [[", "- The bell, mine: [["))
    save_checkpoint(opened(vault.root, now=clock), "mine")
    sync_vault(vault)
    before = memory.read_bytes()

    change_state(vault, [bell], NoteState.DEPRECATED, "sold")

    assert memory.read_bytes() == before
    (move,) = dream(vault).moves
    assert (move.text, move.reason) == (
        "- The bell, mine: [[bell]]",
        "its note is deprecated",
    )
    assert memory.read_bytes() == before


@pytest.mark.parametrize("sharp", ["", " #1"])
def test_what_dream_limit_holds_back_is_told_and_left_for_the_next_night(
    make_vault: Make, opened: Open, clock: Clock, sharp: str
) -> None:
    texts = {"Bell": BELL.text, "Drum": "The drum is beaten at nine."}
    notes = {f"notes/{name}{sharp}.md": f"{text}\n" for name, text in texts.items()}
    files = {path: f"---\nstate: candidate\nagent: claude\n---\n{notes[path]}" for path in notes}
    root = make_vault({"vaultmem.yaml": "dream_limit: 1\n", **files})
    vault = opened(root, agent="claude", now=clock)
    for question in ("bell seven", "drum nine", "drum beaten", "bell rings", "bell", "drum"):
        ask(vault, question)
        clock.pass_days(0.5)
    first = dream(vault)
    before = hash_tree(vault.root, skip=(".git",))
    assert (len(first.promoted), len(first.remaining)) == (1, 1)

    again = dream(vault)

    assert (again.promoted, again.remaining) == ((), first.remaining)
    assert hash_tree(vault.root, skip=(".git",)) == before
    clock.pass_days(1)
    assert [each.path for each in dream(vault).promoted] == [first.remaining[0].path]


@pytest.mark.parametrize(("every", "nights"), [("day", [0, 1, 2, 3]), ("week", [0, 7])])
def test_the_watcher_dreams_once_a_night_or_week(
    make_vault: Make, opened: Open, clock: Clock, every: str, nights: list[int]
) -> None:
    root = make_vault({"vaultmem.yaml": f"dream_every: {every}\n"})
    vault = opened(root, agent="claude", now=clock)
    dreamt = []
    for hour in range(24 * nights[-1] + 23):
        if dream_if_due(vault) is not None:
            dreamt.append(hour)
        clock.pass_days(1 / 24)
    assert len(dreamt) == len(nights) + (1 if every == "day" else 0)
    assert dreamt[0] == 0
    assert all((9 + hour) % 24 == 3 for hour in dreamt[1:])


def test_it_does_not_dream_unasked(vault: Vault, make_vault: Make, opened: Open) -> None:
    assert dream_if_due(vault) is None
    other = make_vault({"vaultmem.yaml": "dream_every: hour\n"}, name="other")
    with pytest.raises(VaultError, match="it takes never, day, week"):
        opened(other)


def test_another_branch_is_refused(vault: Vault, opened: Open) -> None:
    git(vault.root, "branch", "draft")
    other = opened(vault.root, ref="draft")
    sync_vault(other)
    with pytest.raises(RefusedError, match="not checked out"):
        dream(other)
