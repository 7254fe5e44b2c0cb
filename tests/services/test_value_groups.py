"""Readings are no contradictions, and several values of one thing are one decision."""

from __future__ import annotations

import re

from clocks import Clock, tell
from support import git, write_notes

from vaultmem.core.curation.proposal import (
    Action,
    Proposal,
    ProposalChoice,
    Report,
    format_report,
    parse_report,
)
from vaultmem.core.lifecycle import NoteState
from vaultmem.core.text.token_count import count_tokens
from vaultmem.services.changes.commit import save_checkpoint
from vaultmem.services.curation.decide import decide
from vaultmem.services.curation.review import list_queue
from vaultmem.services.memory.remember import Memory, remember
from vaultmem.services.packs.build import make_pack
from vaultmem.services.views.update_index import sync_vault
from vaultmem.services.watching.generated_context import render_contexts
from vaultmem.vault import Vault

READING = "On day {0} the boiler pressure was 1.{0} bar."
RENT = "The monthly rent of the flat is {} euros."


def tell_each(vault: Vault, clock: Clock, *texts: str) -> list[str]:
    """Remember texts, one a day; return their paths."""
    paths = []
    for text in texts:
        paths.append(remember(vault, Memory(text)).path)
        clock.pass_days(1)
    save_checkpoint(vault, "values")
    return paths


def look(vault: Vault) -> tuple[Proposal, ...]:
    sync_vault(vault)
    return list_queue(vault).proposals


def test_eight_readings_are_no_contradiction_anywhere(agent: Vault, clock: Clock) -> None:
    for day in range(1, 9):
        done = remember(agent, Memory(READING.format(day)))
        assert not any(each.contradicts for each in done.similar)
    assert look(agent) == ()
    for budget in (500, 2_000):
        pack = make_pack(agent, "boiler pressure", budget)
        assert "In conflict" not in pack.text
        assert all(f"On day {day} the" in pack.text for day in range(1, 9))
    render_contexts(agent)
    assert "In conflict" not in (agent.root / "CONTEXT.md").read_text()


def test_notes_of_days_and_rooms_are_told_apart_by_their_titles(agent: Vault) -> None:
    tell(
        agent,
        Memory("Boiler pressure was 1.1 bar.", title="2026-11-01"),
        Memory("Boiler pressure was 1.3 bar.", title="2026-11-02"),
        Memory("The door is open.", title="Room 12"),
        Memory("The door is closed.", title="Room 13"),
    )
    assert look(agent) == ()


def test_several_values_of_one_thing_are_one_decision_and_one_commit(
    agent: Vault, person: Vault, clock: Clock
) -> None:
    paths = tell_each(agent, clock, *(RENT.format(each) for each in (900, 920, 940, 960)))
    (group,) = look(person)
    assert group.action is Action.VALUE_GROUP
    assert [path for path, _ in group.places] == paths
    assert group.reason.startswith("4 values of one thing")
    assert parse_report(format_report(Report("", "", (group,)))).proposals == (group,)

    done = decide(person, group, ProposalChoice.ACCEPT)
    assert git(person.root, "rev-parse", "HEAD") == done.report.commit
    assert git(person.root, "log", "-1", "--format=%s").startswith("supersede: ")
    texts = [(person.root / path).read_text() for path in paths]
    assert [NoteState.DEPRECATED.value in text for text in texts] == [True, True, True, False]
    # Each held until the next one did.
    assert "valid_from: 2026-01-05\nvalid_until: 2026-01-06" in texts[0]
    assert "valid_from: 2026-01-07\nvalid_until: 2026-01-08" in texts[2]
    assert "valid_from: 2026-01-08" in texts[3]
    assert look(person) == ()


def test_values_that_all_hold_are_not_asked_for_again(
    agent: Vault, person: Vault, clock: Clock
) -> None:
    paths = tell_each(agent, clock, *(RENT.format(each) for each in (900, 920, 940, 960)))
    (group,) = look(person)
    before = git(person.root, "rev-list", "--count", "HEAD")
    decide(person, group, ProposalChoice.REJECT)
    assert int(git(person.root, "rev-list", "--count", "HEAD")) == int(before) + 1
    assert all("contradicts" not in (person.root / path).read_text() for path in paths)
    assert look(person) == ()

    tell_each(agent, clock, RENT.format(990))
    (again,) = look(person)
    assert again.into.endswith("990-euros.md")


def test_what_says_more_than_the_newest_stays(agent: Vault, person: Vault, clock: Clock) -> None:
    more = f"{RENT.format(900)} Ask Vogel for the key of the cellar."
    paths = tell_each(agent, clock, more, RENT.format(920), RENT.format(940))
    (group,) = look(person)
    decide(person, group, ProposalChoice.ACCEPT)
    states = ["state: deprecated" in (person.root / path).read_text() for path in paths]
    assert states == [False, True, False]
    assert "supersedes_part:" in (person.root / paths[2]).read_text()


def test_two_values_and_a_copy_are_no_group(agent: Vault) -> None:
    tell(agent, *(Memory(RENT.format(each)) for each in (900, 900, 940)))
    assert Action.VALUE_GROUP not in {each.action for each in look(agent)}


def test_a_pack_has_one_mark_for_a_group_and_names_only_what_it_shows(
    agent: Vault, clock: Clock
) -> None:
    tell_each(agent, clock, *(RENT.format(each) for each in range(900, 980, 10)))
    for budget in (200, 500, 2_000):
        pack = make_pack(agent, "monthly rent", budget)
        marks = [line for line in pack.text.splitlines() if line.startswith("In conflict")]
        assert len(marks) == 1
        assert count_tokens(marks[0]) <= 0.15 * budget
        named = re.findall(r"\[([0-9a-f]+)\]", marks[0])
        labels = re.findall(r"^\[([0-9a-f]+) \|", pack.text, re.M)
        assert sorted(named) == sorted(labels)
    assert marks[0].startswith("In conflict, the later one counts more: ")
    assert named == labels[::-1]  # As they were written, the oldest first.


def test_marks_take_a_share_of_the_budget_at_most(agent: Vault, clock: Clock) -> None:
    things = ("rent", "deposit", "water bill", "parking fee", "insurance", "heating bill")
    text = "---\n{}created: 2026-01-0{}\n---\nThe {} of the flat is {} euros.\n"
    notes = {}
    for number, thing in enumerate(things):
        link = f"contradicts:\n  - '[[v{number}-100]]'\n"
        notes[f"notes/v{number}-100.md"] = text.format("", 2, thing, 100)
        notes[f"notes/v{number}-200.md"] = text.format(link, 3, thing, 200)
    write_notes(agent.root, notes)
    sync_vault(agent)
    for budget in (150, 300, 600, 2_000):
        pack = make_pack(agent, "flat euros", budget)
        marks = [line for line in pack.text.splitlines() if line.startswith("In conflict")]
        assert marks or budget < 200
        assert sum(map(count_tokens, marks)) <= 0.15 * budget
        assert pack.account.sent <= budget
