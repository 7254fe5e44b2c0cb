"""What is valid comes first, and with `--as-of` what was valid then."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path, PurePosixPath

import pytest
from conftest import RunCli
from support import git

from vaultmem.core.validity import find_end
from vaultmem.errors import RefusedError
from vaultmem.services.memory.new_note import NoteUpdate, update_note
from vaultmem.services.memory.remember import Memory, remember
from vaultmem.vault import Vault

Make = Callable[..., Path]
Open = Callable[..., Vault]

#: The question, the value until 2026-03-01, and the value since; the first often has more words of
#: the question.
UPDATES = [
    ("refund limit of Holmpay", "The refund limit of Holmpay is 120.", "Holmpay refunds 240 now."),
    ("who owns the pier", "Tuuli owns the pier at Holm.", "The pier belongs to Gullmar Shipping."),
    ("port of the staging database", "The staging database listens on port 5432.", "Staging 6432."),
    ("timeout of the gateway", "The gateway has a timeout of 30 s.", "The gateway waits 45 s."),
    ("which Python does the build use", "The build uses Python 3.11.", "Python 3.13 builds it."),
    ("who is on call for payments", "Ada is on call for payments.", "Ben is on call, payments."),
    ("retention of audit logs", "Audit logs have a retention of 90 days.", "Audit logs: 1 year."),
    (
        "office of the Lisbon team",
        "The Lisbon team's office is in Alfama.",
        "Lisbon: Belém.",
    ),
    (
        "primary colour of the brand",
        "The brand's primary colour is teal.",
        "The brand is blue.",
    ),
    ("default branch of the repository", "The default branch is master.", "Default branch: main."),
    ("Wie hoch ist das Limit für Rückgaben?", "Das Limit für Rückgaben ist 50.", "Rückgaben: 80."),
    ("Wem gehört der Kran?", "Der Kran gehört Tuuli.", "Der Kran ist Eigentum der Reederei."),
    ("Öffnungszeiten des Lagers", "Öffnungszeiten des Lagers: 8 Uhr.", "Das Lager öffnet um 9."),
    ("Wer leitet das Team Zahlung?", "Ada leitet das Team Zahlung.", "Ben führt Team Zahlung."),
    ("Version des Servers", "Die Version des Servers ist 4.2.", "Der Server läuft mit 5.0."),
    ("Adresse der Werkstatt", "Adresse der Werkstatt: Kai 3.", "Werkstatt, neue Adresse: Kai 9."),
    ("maximum upload size", "The maximum upload size is 10 MB.", "Uploads: 25 MB maximum."),
    ("fare of the ferry", "The fare of the ferry is 12 euros.", "The ferry fare went to 14."),
    ("name of the search service", "The search service's name is finder.", "Search is now seeker."),
    ("memory of the small runner", "The small runner has 4 GB of memory.", "Small runner: 8 GB."),
]


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    notes = {}
    for number, (_, before, since) in enumerate(UPDATES):
        ends = "created: 2025-01-05\nvalid_until: 2026-03-01\n"
        starts = "created: 2026-03-01\nvalid_from: 2026-03-01\n" if number % 2 else ""
        notes[f"notes/before{number}.md"] = f"---\n{ends}---\n# Note {number}\n\n{before}\n"
        starts = starts or "created: 2026-03-01\n"
        notes[f"notes/since{number}.md"] = f"---\n{starts}---\n# Note {number}\n\n{since}\n"
    return notes


def count_first(run_cli: RunCli, root: Path, name: str, *words: str) -> int:
    right = 0
    for number, (question, *_) in enumerate(UPDATES):
        hits = run_cli("recall", question, "--json", "-n", "1", *words, cwd=root).json["hits"]
        right += bool(hits) and hits[0]["path"] == f"notes/{name}{number}.md"
    return right


def test_the_valid_value_is_first(make_vault: Make, run_cli: RunCli, texts: dict[str, str]) -> None:
    assert count_first(run_cli, make_vault(texts), "since") >= 18


def test_as_of_is_answered_with_what_was_valid_then(
    make_vault: Make, run_cli: RunCli, texts: dict[str, str]
) -> None:
    root = make_vault(texts)
    assert count_first(run_cli, root, "before", "--as-of", "2025-06-01") >= 18
    assert count_first(run_cli, root, "since", "--as-of", "2026-03-01") >= 18


def test_an_expired_note_is_labelled_and_shown_last(
    make_vault: Make, run_cli: RunCli, texts: dict[str, str]
) -> None:
    root = make_vault(texts)
    hits = run_cli("recall", UPDATES[0][0], "--json", cwd=root).json["hits"]
    (expired,) = (hit for hit in hits if hit["path"] == "notes/before0.md")
    assert expired["caution"] == "expired since 2026-03-01"
    pack = run_cli("pack", UPDATES[0][0], cwd=root).out
    assert pack.index("Holmpay refunds 240") < pack.index("limit of Holmpay is 120")
    assert "expired since 2026-03-01" in pack
    then = run_cli("pack", UPDATES[0][0], "--as-of", "2025-06-01", cwd=root).out
    assert "expired" not in then
    assert "not valid before" not in then.partition("limit of Holmpay is 120")[0]


def test_a_pinned_note_that_is_expired_is_labelled(make_vault: Make, run_cli: RunCli) -> None:
    head = "---\npinned: true\nvalid_until: 2026-01-02\n---\n"
    root = make_vault({"notes/a.md": f"{head}The freeze holds.\n"})
    assert "expired since 2026-01-02" in run_cli("pack", cwd=root).out


def test_a_tag_ends_a_note_once_it_is_there(make_vault: Make, run_cli: RunCli) -> None:
    root = make_vault({"notes/a.md": "---\nvalid_until: v2.0\n---\nThe old API answers.\n"})
    run_cli("checkpoint", "first", cwd=root)
    hits = lambda: run_cli("recall", "old API", "--json", cwd=root).json["hits"]  # noqa: E731
    assert not hits()[0]["caution"]
    git(root, "tag", "v2.0")
    assert hits()[0]["caution"].startswith("expired since 20")


def test_remember_asks_for_the_end_that_a_text_names(root_vault: Vault) -> None:
    text = "The deploy freeze of Gullmar holds until Friday."
    done = remember(root_vault, Memory(text))
    today = root_vault.local_time().date()
    assert datetime.date.fromisoformat(done.ends).isoweekday() == 5
    assert 0 < (datetime.date.fromisoformat(done.ends) - today).days <= 7
    assert "valid_until" not in (root_vault.root / done.path).read_text()
    again = remember(root_vault, Memory(text, valid_until=done.ends))
    assert (again.path, again.ends) == (done.path, "")
    assert f"valid_until: {done.ends}\n" in (root_vault.root / done.path).read_text()


@pytest.fixture
def root_vault(make_vault: Make, opened: Open) -> Vault:
    return opened(make_vault({"notes/a.md": "The ferry.\n"}))


@pytest.mark.parametrize(
    "limit", ["next week", "someday", "2026-13-01", "2026/10/01", "1.10.2026", "2026-10"]
)
def test_a_limit_that_is_none_is_refused(root_vault: Vault, limit: str) -> None:
    for name in ("valid_from", "valid_until"):
        with pytest.raises(RefusedError, match=f'{name} "{limit}": not a date'):
            remember(root_vault, Memory("The pier is closed.", **{name: limit}))


def test_a_limit_can_be_a_tag_that_has_a_number_or_is_there(root_vault: Vault) -> None:
    with pytest.raises(RefusedError):
        remember(root_vault, Memory("The pier is closed.", valid_until="stable"))
    git(root_vault.root, "tag", "stable")
    for limit in ("stable", "v2.0", "2026.11.2", "payments/v2"):
        remember(root_vault, Memory(f"Pier {limit} is closed.", valid_until=limit))


def test_a_limit_is_checked_against_the_other_and_in_an_update(root_vault: Vault) -> None:
    memory = Memory("The pier is closed.", valid_from="2026-12-01")
    for end in ("2026-12-01", "2026-11-30T10:00"):
        with pytest.raises(RefusedError, match="not after valid_from 2026-12-01"):
            remember(root_vault, memory._replace(valid_until=end))
    path = PurePosixPath("notes/a.md")
    for name in ("valid_from", "valid_until"):
        with pytest.raises(RefusedError, match=f'{name} "next week": not a date'):
            update_note(root_vault, path, NoteUpdate({name: "next week"}))
    update_note(root_vault, path, NoteUpdate({"valid_until": "2026-12-01"}))
    update_note(root_vault, path, NoteUpdate({"valid_until": None}))
    assert "valid_until" not in (root_vault.root / path).read_text()


SATURDAY = datetime.date(2026, 11, 28)


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("The freeze holds until Friday.", "2026-12-04"),
        ("Der Stopp gilt bis Freitag.", "2026-12-04"),
        ("Nicht deployen bis zum 3. Dezember.", "2026-12-03"),
        ("Closed until 5 January.", "2027-01-05"),
        ("Closed until May.", "2027-05-01"),
        ("Valid until 2027-01-31.", "2027-01-31"),
        ("Gesperrt bis Ende des Monats.", "2026-12-01"),
        ("Frozen until the end of the week.", "2026-11-30"),
        ("Closed until tomorrow.", "2026-11-29"),
        ("Geschlossen bis morgen.", "2026-11-29"),
        ("Gesperrt bis 31.12.2026.", "2026-12-31"),
        ("Wait until the pod is ready.", None),
        ("It ran until 2020.", None),
        ("Der Zug fährt bis Hamburg.", None),
    ],
)
def test_the_end_that_a_text_names(text: str, end: str | None) -> None:
    found = find_end(text, SATURDAY)
    assert (found.isoformat() if found else None) == end


def test_curate_lists_expired_notes_and_pinned_ones_that_were_replaced(
    make_vault: Make, run_cli: RunCli
) -> None:
    old = "---\npinned: true\nsuperseded_by: '[[new]]'\n---\nThe fare is 12 euros.\n"
    ended = "---\nvalid_until: 2026-03-01\n---\nThe pier at Holm is closed.\n"
    notes = {"notes/old.md": old, "notes/new.md": "The fare is 14.\n", "notes/ended.md": ended}
    root = make_vault(notes)
    found = run_cli("curate", "--json", cwd=root).json["proposals"]
    told = {(each["action"], each["path"]): each["reason"] for each in found}
    assert told["revalidate", "notes/ended.md"] == "expired since 2026-03-01"
    assert told["skip_pinned", "notes/old.md"] == "superseded by [[notes/new]]"
    items = run_cli("review", "--json", cwd=root).json["items"]
    assert "expired since 2026-03-01" in {each["reason"] for each in items}


@pytest.mark.parametrize("text", ["kann keine Bilder lesen", "The agent cannot read images."])
def test_an_old_claim_of_what_an_agent_cannot_do_is_checked(
    make_vault: Make, run_cli: RunCli, text: str
) -> None:
    root = make_vault({"notes/agent.md": f"---\ncreated: 2025-01-05\n---\n{text}\n"})
    (hit,) = run_cli("recall", text, "--json", cwd=root).json["hits"]
    assert hit["caution"].startswith("check before use: ")
