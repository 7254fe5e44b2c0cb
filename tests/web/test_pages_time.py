"""The vault's time in a browser: its commits, what each changed, and a note's versions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
from conftest import Make
from support import git, write_notes
from visiting import HOST, Served

from vaultmem.services.history.commits import choose_evenly
from vaultmem.web.pages.history_pages import list_ticks

NOTE = "notes/pay.md"
HOSTILE = "<script>alert(1)</script>"


def commit(root: Path, text: str, message: str, path: str = NOTE) -> str:
    """Write a note as an editor does, commit it as git does, and return the commit."""
    write_notes(root, {path: text})
    git(root, "add", "-A")
    git(root, "commit", "-qm", message)
    return git(root, "rev-parse", "HEAD")


def sign(agent: str, session: str) -> str:
    return (
        f"\n\nVault-Event: checkpoint\nAgent-Id: {agent}\nSession-Id: {session}\n"
        "Intent: refine\nConfidence: 0.8\nTool-Call: call-7\n"
    )


@pytest.fixture
def told(make_vault: Make, tmp_path: Path) -> Iterator[Served]:
    """A vault whose note was changed by two agents and a person; its owner may write."""
    root = make_vault({NOTE: "---\ntags: [pay]\n---\n# Pay\n\nSettlement takes three days.\n"})
    commit(
        root,
        "---\ntags: [pay]\n---\n# Pay\n\nSettlement takes four days.\n",
        f"checkpoint: {HOSTILE}{sign('claude', 's-1')}",
    )
    commit(
        root,
        "---\ntags: [pay, bank]\n---\n# Pay\n\nSettlement takes four nights.\n",
        f"checkpoint: nights{sign('codex', 's-2')}",
    )
    commit(root, "Said by hand.\n", "A line of my own", "notes/hand.md")
    served = Served(root, tmp_path, may_write=True)
    yield served
    served.workers.close()


def test_commits_are_a_line_and_a_list_that_says_the_same(told: Served) -> None:
    page = told.enter().get("/time").text
    assert page.count('<a href="/commit/') == 2 * int(git(told.root, "rev-list", "--count", "HEAD"))
    assert 'class="agent"><title>checkpoint: nights' in page
    assert 'class="person"><title>A line of my own' in page
    assert page.index("A line of my own</bdi>") < page.index("checkpoint: nights</bdi>")
    assert HOSTILE not in page
    assert "&lt;script&gt;" in page
    assert "style=" not in page


def test_commits_are_chosen_by_who_event_and_session(told: Served) -> None:
    browser = told.enter()

    def list_subjects(place: str) -> list[str]:
        return re.findall(r"<bdi>(.*?)</bdi>", browser.get(place).text)

    assert list_subjects("/time?who=codex") == ["checkpoint: nights"]
    assert list_subjects("/time?session=s-2") == ["checkpoint: nights"]
    assert len(list_subjects("/time?event=checkpoint")) == 2
    person = git(told.root, "log", "-1", "--format=%an")
    assert "A line of my own" in list_subjects(f"/time?who={person}")
    assert list_subjects("/time?who=nobody") == []
    assert list_subjects("/time?at=HEAD~1")[0] == "checkpoint: nights"


def test_older_commits_are_on_further_pages(told: Served) -> None:
    head = git(told.root, "rev-parse", "HEAD")
    stream = "".join(
        f"commit refs/heads/main\ncommitter A <a@b.c> {1_790_000_000 + n} +0000\n"
        f"data {len(f'number {n}')}\nnumber {n}\n{'' if n else f'from {head}{chr(10)}'}"
        f"M 100644 inline notes/n.md\ndata {len(str(n))}\n{n}\n"
        for n in range(60)
    )
    git(told.root, "fast-import", "--quiet", stdin=stream)
    git(told.root, "reset", "-q", "--hard")
    browser = told.enter()
    first, second = (browser.get(f"/time?page={n}").text for n in (0, 1))
    assert first.count("data-item") == 50
    assert "number 59</bdi>" in first
    assert "number 5</bdi>" in second
    assert 'data-key="m"' in first
    assert 'data-key="m"' not in second
    assert "page=1" in first


def test_a_vault_without_git_says_so(tmp_path: Path, home: Path) -> None:
    root = tmp_path / "bare"
    write_notes(root, {"vaultmem.yaml": "", "notes/a.md": "A.\n"})
    served = Served(root, tmp_path)
    assert "No commits yet" in served.enter().get("/time").text
    served.workers.close()


def test_commit_says_who_why_and_what_word_by_word(told: Served) -> None:
    page = told.enter().get("/commit/HEAD~1").text
    assert "takes four <del>days</del><ins>nights</ins>." in page
    assert "pay<ins>, bank</ins>" in page
    for fact in ("codex", "(agent)", "s-2", "refine", "0.8", "call-7", "checkpoint"):
        assert fact in page
    assert "Undo this commit" in page
    hostile = told.enter().get("/commit/HEAD~2").text
    assert HOSTILE not in hostile


def test_a_large_commit_shows_its_first_files_and_names_the_others(told: Served) -> None:
    write_notes(told.root, {f"notes/many/{n:03}.md": "Word.\n" * 300 for n in range(30)})
    git(told.root, "add", "-A")
    git(told.root, "commit", "-qm", "Many")
    browser = told.enter()
    page = browser.get("/commit/HEAD").text
    assert page.count('class="change op-add"') == 20
    assert "notes/many/029.md" in page
    assert "181 more lines" in page
    assert "all=1" in page
    assert "more lines" not in browser.get("/commit/HEAD?all=1").text


def test_history_shows_each_version_and_what_changed(told: Served) -> None:
    write_notes(told.root, {NOTE: "---\ntags: [pay]\n---\n# Pay\n\nSettlement takes a week.\n"})
    page = told.enter().get(f"/history/{NOTE}").text
    assert "Not committed yet" in page
    assert page.index("Not committed yet") < page.index("checkpoint: nights")
    assert "takes <del>three</del><ins>four</ins> days" in page
    assert HOSTILE not in page
    then = told.enter().get(f"/history/{NOTE}?at=HEAD~2").text
    assert "nights" not in then
    assert told.enter().get("/history/notes/none.md").status_code == 404


def test_a_version_is_brought_back_as_one_commit_that_can_be_undone(told: Served) -> None:
    browser = told.enter()
    before = int(git(told.root, "rev-list", "--count", "HEAD"))
    wanted = git(told.root, "rev-parse", "HEAD~2")
    form = {"action": "restore", "commit": wanted}
    done = browser.post(f"/note/{NOTE}", data=form, headers={"Origin": f"http://{HOST}"})
    assert done.headers["location"] == f"/note/{NOTE}"
    assert "four days" in (told.root / NOTE).read_text()
    assert int(git(told.root, "rev-list", "--count", "HEAD")) == before + 1
    assert git(told.root, "log", "-1", "--format=%s") == "restore: pay"
    page = browser.get(f"/note/{NOTE}").text
    assert f"{NOTE}: restored from {wanted[:7]}." in page
    assert f'value="{git(told.root, "rev-parse", "HEAD")}"' in page
    again = browser.post(f"/note/{NOTE}", data=form, headers={"Origin": f"http://{HOST}"})
    assert again.status_code == 303
    assert int(git(told.root, "rev-list", "--count", "HEAD")) == before + 1


def test_pages_are_shown_as_they_were(told: Served) -> None:
    browser = told.enter()
    head = git(told.root, "rev-parse", "HEAD~1")
    page = browser.get(f"/note/{NOTE}?at={head}~1").text
    assert "four days" in page
    assert f'data-load="/moments?of=notes%2Fpay.md&amp;at={head}~1"' in page
    assert "As of <strong>" in page
    assert f'href="/note/{NOTE}"' in page
    assert HOSTILE not in page
    home = browser.get(f"/?at={head}").text
    assert "checkpoint: nights</bdi>" in home
    assert "A line of my own</bdi>" not in home
    assert 'id="moment" role="status" hidden' in browser.get("/").text


def test_the_slider_has_the_moments_of_a_page(told: Served) -> None:
    browser = told.enter()
    listed = git(told.root, "rev-list", "--reverse", "HEAD").split()
    versions = git(told.root, "rev-list", "--reverse", "HEAD", "--", NOTE).split()
    found = re.search(r'value="(\d+)".*data-moments="(.*?)"', browser.get("/moments").text)
    assert found
    assert (int(found[1]), found[2].split()) == (len(listed), listed)
    found = re.search(
        r'value="(\d+)".*data-moments="(.*?)"',
        browser.get(f"/moments?of={NOTE}&at={versions[1]}").text,
    )
    assert found
    assert (int(found[1]), found[2].split()) == (1, versions)
    assert browser.get("/moments?of=notes/none.md").status_code == 404


def test_of_many_moments_some_are_chosen_evenly() -> None:
    assert choose_evenly(range(5), 9) == list(range(5))
    chosen = choose_evenly(range(1_000), 100)
    assert (chosen[0], chosen[-1], len(set(chosen))) == (0, 999, 100)


def test_nothing_is_brought_back_where_the_browser_may_only_read(served: Served) -> None:
    browser = served.enter()
    assert "Restore this version" not in browser.get("/history/MEMORY.md").text
    form = {"action": "restore", "commit": "HEAD"}
    answer = browser.post("/note/MEMORY.md", data=form, headers={"Origin": f"http://{HOST}"})
    assert answer.status_code == 403


@pytest.mark.parametrize(
    ("first", "last", "names"),
    [
        ("2026-11-28T09:10", "2026-11-28T13:20", ["2026-11-28", "11:00", "12:00", "13:00"]),
        ("2026-11-27T20:00", "2026-11-28T13:20", ["2026-11-27", "2026-11-28", "03:00", "06:00"]),
        ("2026-11-26T09:00", "2026-11-28T13:20", ["2026-11-26", "18:00", "2026-11-27", "06:00"]),
        ("2026-11-21T09:00", "2026-11-28T13:20", ["2026-11-22", "2026-11-23", "2026-11-24"]),
        ("2026-01-05T09:00", "2026-11-28T13:20", ["2026-02", "2026-03", "2026-04"]),
        ("2024-12-05T09:00", "2026-01-28T13:20", ["2025-01", "2025-04", "2025-07", "2025-10"]),
        ("2008-03-05T09:00", "2026-11-28T13:20", ["2010", "2012", "2014", "2016"]),
        ("2026-11-28T09:10", "2026-11-28T09:10", ["2026-11-28"]),
        ("0002-01-01T00:00", "9998-11-28T09:10", ["1000", "2000", "3000"]),
    ],
)
def test_the_line_names_hours_days_months_or_years(first: str, last: str, names: list[str]) -> None:
    start, end = (datetime.fromisoformat(each).timestamp() for each in (first, last))
    ticks = list_ticks(start, end)
    assert [name for name, _ in ticks][: len(names)] == names
    assert len(ticks) <= 12
    assert all(start <= at <= end for _, at in ticks)


def test_commits_are_as_far_apart_as_their_times(
    told: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    for hours, message in ((30, "noon"), (40, "evening")):
        (told.root / "notes/hand.md").write_text(message)
        at = f"{int(git(told.root, 'log', '-1', '--format=%ct')) + hours * 3_600} +0000"
        monkeypatch.setenv("GIT_COMMITTER_DATE", at)
        monkeypatch.setenv("GIT_AUTHOR_DATE", at)
        git(told.root, "commit", "-qam", message)
    page = told.enter().get("/time").text
    marks = dict(re.findall(r"<title>(.*?) —.*?cx=\"(\d+)\"", page))
    hand, noon, evening = (int(marks[name]) for name in ("A line of my own", "noon", "evening"))
    assert (noon - hand) / (evening - hand) == pytest.approx(30 / 70, abs=0.01)
