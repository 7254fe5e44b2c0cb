"""The curator: each kind of proposal on real notes, and what `--apply` does and refuses."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from clocks import DAY, Clock, ask, tell
from conftest import Make, Open
from support import git, hash_tree, write_notes

from vaultmem.core.curation.proposal import Action, Proposal, Report, format_report, parse_report
from vaultmem.core.lifecycle import NoteKind, NoteState
from vaultmem.errors import ConflictError, RefusedError
from vaultmem.services.changes.commit import save_checkpoint
from vaultmem.services.curation.curate import curate
from vaultmem.services.curation.decide import apply_report
from vaultmem.services.lifecycle.transition import change_state
from vaultmem.services.memory.remember import Memory
from vaultmem.services.views.read_notes import get_note
from vaultmem.services.views.update_index import sync_vault
from vaultmem.vault import Vault

AGES = "stale_after_days: 90\narchive_after: 180\nsummary_after: 60\nkeywords_after: 120\n"

BELL = Memory("The bell rings at seven in the morning.", context="day")


@pytest.fixture
def vault(make_vault: Make, opened: Open, clock: Clock) -> Vault:
    return opened(make_vault({"vaultmem.yaml": AGES}), agent="claude", now=clock)


def look(vault: Vault) -> Report:
    sync_vault(vault)
    return curate(vault)


def find(report: Report, action: Action) -> list[Proposal]:
    return [each for each in report.proposals if each.action is action]


def test_what_nobody_asked_for_is_stale_after_its_days_and_not_before(
    vault: Vault, clock: Clock
) -> None:
    tell(vault, BELL)
    clock.pass_days(89)
    assert look(vault).proposals == ()
    clock.pass_days(2)

    (found,) = look(vault).proposals

    assert (found.action, found.path) == (
        Action.DEMOTE_STALE,
        "notes/day/the-bell-rings-at-seven-in-the-morning.md",
    )
    assert found.reason == "not asked for in 91 days"
    assert found.evidence == ("written 2026-01-05", "never recalled")


def test_a_recall_starts_the_days_anew(vault: Vault, clock: Clock) -> None:
    tell(vault, BELL)
    clock.pass_days(80)
    assert ask(vault, "when does the bell ring")
    clock.pass_days(80)
    assert look(vault).proposals == ()
    clock.pass_days(11)
    (found,) = look(vault).proposals
    assert found.evidence == ("written 2026-01-05", "recalled once, last 2026-03-26")


def test_a_stale_note_is_archived_and_an_old_candidate_deprecated(
    vault: Vault, clock: Clock
) -> None:
    guess = Memory("Rooks may nest in the tower.", context="day", state=NoteState.CANDIDATE)
    bell, rooks = tell(vault, BELL, guess)
    change_state(vault, [bell], NoteState.STALE)
    clock.pass_days(181)

    report = look(vault)

    assert [each.path for each in find(report, Action.ARCHIVE)] == [bell]
    (deprecate,) = find(report, Action.DEPRECATE)
    assert (deprecate.path, deprecate.reason) == (
        rooks,
        "never promoted, and not asked for in 181 days",
    )


def test_what_another_note_replaces_is_deprecated(vault: Vault, clock: Clock) -> None:
    (bell,) = tell(vault, BELL)
    link = bell.removesuffix(".md")
    new = f'---\nsupersedes:\n  - "[[{link}]]"\n---\nThe bell has been sold.\n'
    write_notes(vault.root, {"notes/day/sold.md": new})

    (found,) = find(look(vault), Action.DEPRECATE)

    assert (found.path, found.reason) == (bell, "superseded by [[notes/day/sold]]")
    assert found.evidence == ("notes/day/sold.md is active",)


def test_old_claims_moved_refs_and_doubts_are_to_be_checked(vault: Vault, clock: Clock) -> None:
    git(vault.root, "commit", "-q", "--allow-empty", "-m", "code")
    write_notes(vault.root, {"templates/tower.txt": "a", "templates/gone.txt": "b"})
    save_checkpoint(vault, "files")
    text = "Joanna and Nate talked on 23 January 2022. The tests cannot run here without the VPN."
    claim = Memory(text, title="Talk")
    rests = Memory("The tower has two doors.", cites=("templates/tower.txt", "templates/gone.txt"))
    doubt = Memory("Rooks like the tower.", confidence=0.3)
    sure = Memory("Bells are made of bronze.", confidence=0.9)
    claim_path, rests_path, doubt_path, _ = tell(vault, claim, rests, doubt, sure)
    clock.pass_days(3)
    write_notes(vault.root, {"templates/tower.txt": "changed"})
    (vault.root / "templates/gone.txt").unlink()
    save_checkpoint(vault, "moved on")
    clock.pass_days(58)

    found = {each.path: each for each in find(look(vault), Action.REVALIDATE)}

    assert set(found) == {claim_path, rests_path, doubt_path}
    assert found[claim_path].reason == "an old claim of what does not work or exist"
    assert found[claim_path].evidence[0].startswith('"The tests cannot run here')
    assert not any("talked" in each for each in found[claim_path].evidence)
    assert found[rests_path].reason == "the code that it cites has changed"
    assert found[rests_path].evidence == (
        "templates/tower.txt changed (1 line)",
        "templates/gone.txt gone",
    )
    assert found[doubt_path].evidence == ("confidence 0.3, written 2026-01-05, 61 days ago",)


def test_refs_into_the_code_repository_are_followed(
    make_vault: Make, opened: Open, clock: Clock, tmp_path: Path
) -> None:
    code = tmp_path / "code"
    write_notes(code, {"api/keys.py": "old", "web/a.js": "same"})
    git(tmp_path, "init", "-q", "code")
    git(code, "add", ".")
    git(code, "commit", "-q", "-m", "code")
    root = make_vault({"vaultmem.yaml": f"code_repository: {code}\n"})
    vault = opened(root, agent="claude", now=clock)
    clock.at = time.time() - 100 * DAY
    (path, _) = tell(
        vault,
        Memory("Keys are made there.", cites=("api/keys.py:1", "../outside.py", "-x")),
        Memory("All is said in the manual.", cites=("https://example.org/web/a.js", "/etc/passwd")),
    )
    clock.at = time.time()
    write_notes(code, {"api/keys.py": "new"})
    git(code, "commit", "-q", "-a", "-m", "new keys")
    sync_vault(vault)

    found = find(curate(vault), Action.REVALIDATE)

    assert [each.path for each in found] == [path]
    assert found[0].evidence == ("api/keys.py#L1 changed (1 line)",)


def test_pinned_is_told_and_left_alone(vault: Vault, clock: Clock) -> None:
    (path,) = tell(vault, Memory("The bell is never to be sold.", pinned=True))
    clock.pass_days(100)
    before = (vault.root / path).read_bytes()
    report = look(vault)

    (found,) = report.proposals

    assert (found.action, found.path) == (Action.SKIP_PINNED, path)
    assert "pinned: only a person moves it" in found.evidence
    assert report.changes == ()
    apply_report(vault, report)
    assert (vault.root / path).read_bytes() == before


def test_quarantined_notes_are_named_with_their_reason(vault: Vault) -> None:
    (path,) = tell(vault, BELL)
    change_state(vault, [path], NoteState.QUARANTINED, "from a web page")
    (found,) = look(vault).proposals
    assert (found.action, found.path) == (Action.REVIEW_QUARANTINED, path)
    assert found.evidence == ("from a web page", "by claude")


def test_duplicates_are_merged_and_contradictions_shown(vault: Vault, clock: Clock) -> None:
    first = Memory("Holmpay answers 429 above 120 refunds a minute.", title="Holmpay limit")
    other = Memory("Holmpay answers 429 above 300 refunds a minute.", title="Refund limit")
    one, two, against = tell(vault, first, first, other)

    report = look(vault)

    (merge,) = find(report, Action.MERGE_DUPLICATES)
    assert {merge.path, merge.into} == {one, two}
    pairs = find(report, Action.CONTRADICTION)
    assert all(against in {each.path, each.into} for each in pairs)
    assert any("120" in line and "300" in line for each in pairs for line in each.evidence)
    done = apply_report(vault, report)
    assert [each.path for each in done.proposals] == [merge.path]
    dropped = get_note(vault, merge.path).note
    assert dropped.state is NoteState.DEPRECATED
    assert f'"[[{Path(merge.into).stem}]]"' in dropped.text


def test_broken_links_are_named_with_their_lines(vault: Vault) -> None:
    write_notes(vault.root, {"notes/a.md": "# A\n\nSee [[nowhere]].\n"})
    (found,) = look(vault).proposals
    assert (found.action, found.path) == (Action.BROKEN_LINKS, "notes/a.md")
    assert found.evidence == ("nowhere (line 3)",)


def test_apply_makes_exactly_the_changes_of_the_report_in_one_commit(
    vault: Vault, clock: Clock
) -> None:
    bell, clock_note, kept = tell(
        vault,
        BELL,
        Memory("The clock is slow by a minute.", context="day"),
        Memory(
            "Ask for the key.", context="day", kind=NoteKind.POLICY_RULE, state=NoteState.ACTIVE
        ),
    )
    change_state(vault, [clock_note], NoteState.STALE)
    clock.pass_days(200)
    report = parse_report(format_report(look(vault)))
    head = git(vault.root, "rev-parse", "HEAD")

    done = apply_report(vault, report)

    assert {each.path for each in done.proposals} == {bell, clock_note}
    assert git(vault.root, "rev-list", "--count", f"{head}..HEAD") == "1"
    changed = git(vault.root, "diff", "--name-only", head, "HEAD").splitlines()
    assert set(changed) == {bell, clock_note}
    added = git(vault.root, "diff", "-U0", head, "HEAD", "--", bell)
    assert "+state: stale" in added
    assert "+state_reason: not asked for in 200 days" in added
    message = git(vault.root, "log", "-1", "--format=%s%n%b")
    assert message.startswith("curate: the-bell-rings-at-seven-in")
    assert message.partition("\n")[0].endswith(" and 1 more (1 archived, 1 stale)")
    assert f"{bell}: demote stale, not asked for in 200 days" in message
    assert git(vault.root, "status", "--porcelain") == ""
    assert get_note(vault, kept).note.state is NoteState.ACTIVE


def test_an_outdated_report_is_refused_as_a_whole(vault: Vault, clock: Clock) -> None:
    bell, other = tell(vault, BELL, Memory("The clock is slow by a minute.", context="day"))
    clock.pass_days(100)
    report = look(vault)
    with open(vault.root / other, "a") as file:
        file.write("\nNot any more.\n")
    before = hash_tree(vault.root, skip=(".git",))
    head = git(vault.root, "rev-parse", "HEAD")

    with pytest.raises(ConflictError, match="changed since the report"):
        apply_report(vault, report)

    assert hash_tree(vault.root, skip=(".git",)) == before
    assert git(vault.root, "rev-parse", "HEAD") == head
    (vault.root / bell).unlink()
    with pytest.raises(ConflictError):
        apply_report(vault, Report("", "", (report.proposals[0],)))


def test_two_curators_at_once_make_one_change(make_vault: Make, opened: Open, clock: Clock) -> None:
    root = make_vault({"vaultmem.yaml": AGES})
    first = opened(root, agent="claude", now=clock)
    (bell,) = tell(first, BELL)
    clock.pass_days(100)
    report = look(first)
    head = git(root, "rev-parse", "HEAD")
    start = threading.Barrier(2)
    done: list[int] = []

    def run() -> None:
        vault = opened(root, agent="claude", now=clock)
        start.wait()
        done.append(len(apply_report(vault, report).proposals))
        vault.close()

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(done) == [0, 1]
    assert git(root, "rev-list", "--count", f"{head}..HEAD") == "1"
    assert get_note(first, bell).note.state is NoteState.STALE


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace('"version": 1', '"version": 9'),
        lambda text: text.replace("demote_stale", "forget"),
        lambda text: text.replace("notes/day", "../day"),
        lambda text: text[:-20],
        lambda text: "[" * 100_000,
        lambda text: "null",
    ],
)
def test_what_is_no_report_is_refused(
    vault: Vault, clock: Clock, change: Callable[[str], str]
) -> None:
    tell(vault, BELL)
    clock.pass_days(100)
    text = format_report(look(vault))
    assert parse_report(text).changes
    with pytest.raises(RefusedError):
        parse_report(change(text))


def test_a_report_can_do_no_more_than_a_machine_may(vault: Vault, clock: Clock) -> None:
    pinned, rule = tell(
        vault,
        Memory("The bell is never to be sold.", pinned=True),
        Memory("Sell nothing.", kind=NoteKind.POLICY_RULE, state=NoteState.ACTIVE),
    )
    before = hash_tree(vault.root, skip=(".git",))
    for path in (pinned, rule):
        blob = get_note(vault, path).note.blob
        forged = Proposal(Action.DEMOTE_STALE, path, blob, "because")
        with pytest.raises(RefusedError):
            apply_report(vault, Report("", "", (forged,)))
    assert hash_tree(vault.root, skip=(".git",)) == before
