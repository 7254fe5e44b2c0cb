"""Pages of a vault whose notes have only long parts: all fit a phone, and people can use them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from axe import find_faults
from reading import Reader
from served_vault import serve
from story import give, say
from support import git, write_notes
from witness import Witness

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [pytest.mark.browser, pytest.mark.campaign]

PHONE = {"width": 390, "height": 844}
NOTES = 160

_WORD = "unbreakable" * 14
_URL = f"https://example.org/{'a-part-of-an-address/' * 9}?{'parameter=value&' * 9}"
_CELLS = " | ".join(f"column-{number}-{'x' * 12}" for number in range(24))
_LONG = {
    "a word": f"{_WORD} and `{_WORD}` and **{_WORD}**",
    "an address": f"{_URL} and [a link]({_URL}) and [[{'no-such-note-' * 14}]]",
    "a table": f"| {_CELLS} |\n|{'---|' * 24}\n| {_CELLS} |",
    "code": f"```python\nvalue = call({', '.join(f'argument_{n}={n}' for n in range(60))})\n```",
    "lists": "\n".join(f"{'  ' * depth}- [ ] depth {depth} {_WORD}" for depth in range(14)),
    "a heading": f"## {_WORD}\n\n> [!warning] {_WORD}\n> > {_URL}\n\n#{'tag' * 30}/{'sub' * 30}",
}
_DEEP = "/".join(f"a-folder-with-a-long-name-{depth:02}" for depth in range(9))
_TITLE = f"A title {'that goes on and on ' * 9}{_WORD}"
_BAD = "notes/contexts/note-0009.md"


def _path(number: int) -> str:
    return f"notes/{'contexts' if number % 7 else _DEEP}/note-{number:04}.md"


def _write(number: int) -> str:
    name, text = list(_LONG.items())[number % len(_LONG)]
    hub = f"[[hub]] after {_WORD}"
    return (
        f"---\ntitle: {_TITLE if number % 3 else 'A note'} {number}\nkind: decision\n"
        f"state: active\ntags: [{'topic' * 9}-{number % 40}]\n---\n"
        f"# About {name}\n\nThe harbour number {number}.\n\n{text}\n\n{hub}\n"
    )


_CLAUDE = f"claude-{'with-a-long-name-' * 4} s-0502"
_SAYS = "2026-11-14T10:00"


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[Reader]:
    """Return a reader with a phone, in front of the vault."""
    root = tmp_path_factory.mktemp("big") / "vault"
    write_notes(root, {_path(number): _write(number) for number in range(NOTES)})
    write_notes(root, {"notes/hub.md": f"# Hub\n\n[[note-0003]] [[note-0005]] {_WORD}\n"})
    write_notes(root, {"notes/cut-off.md": f"---\ntitle: [{_WORD}\n"})
    git(root, "init", "-qb", "main")
    give(root, [say("2026-11-12T08:00", "", "init", "--yes")])
    git(root, "add", "-A")
    git(root, "commit", "-qm", f"All notes {_WORD}")
    write_notes(root, {_path(3): f"{_write(3)}\n{_URL} changed\n"})
    remembered = ("remember", f"The quay has {_WORD} bollards.", "--title", _TITLE, "--force")
    give(
        root,
        [
            say("2026-11-13T09:00", "", "checkpoint", f"changed {_WORD}"),
            say(_SAYS, _CLAUDE, "session", "start", "--id", "s-0502", "--goal", _TITLE),
            say(_SAYS, _CLAUDE, "pack", f"harbour number 3 {_WORD}", "--budget", "1200"),
            say(_SAYS, _CLAUDE, "recall", f"xyzzy{_WORD}"),
            say(_SAYS, _CLAUDE, *remembered),
            say(_SAYS, _CLAUDE, "session", "close", "s-0502", "--summary", _WORD),
            say("2026-11-15T09:00", "", "state", _BAD, "quarantined", "--reason", _WORD),
        ],
    )
    with serve(root) as served:
        context = browser.new_context(viewport=PHONE, has_touch=True, is_mobile=True)
        witness = Witness(context, served.origin)
        page = context.new_page()
        page.goto(served.link)
        page.wait_for_url(f"{served.origin}/")
        yield Reader(page, witness, root)
        context.close()
        witness.check()


PLACES = [
    *("/", "/notes", "/notes?page=3", f"/notes?tag={'topic' * 9}-3", f"/notes?context={'x' * 90}"),
    *("/search?q=harbour", f"/search?q=xyzzy{_WORD}", "/search?q=harbour&kind=decision"),
    *("/pack?q=harbour+number+3&budget=1200", "/pack?q=bollards", "/receipts", "/sessions"),
    *("/session/s-0502", f"/agent/{_CLAUDE.split()[0]}", "/review", "/conflicts", "/health"),
    *("/time", "/commit/HEAD", "/commit/HEAD~2", "/bisect?q=harbour+number+3&good=HEAD~3"),
    *("/packs/compare?q=harbour+number+3&left_at=HEAD~3", "/?at=HEAD~2", "/note/notes/hub.md"),
    *("/graph/notes/hub.md", f"/history/{_path(3)}", f"/spread/{_path(3)}", f"/note/{_BAD}"),
    *("/note/notes/cut-off.md", *(f"/note/{_path(number)}" for number in range(6))),
]


def test_nothing_overflows_a_phone_or_keeps_people_out(reader: Reader) -> None:
    assert len(set(PLACES)) >= 30
    faults = []
    for place in PLACES:
        reader.go(place)
        root = "document.scrollingElement"
        if reader.page.evaluate(f"{root}.scrollWidth > {root}.clientWidth"):
            faults += [f"{place}: too wide: {each}" for each in reader.find_wide(PHONE["width"])]
        faults += [f"{place}: {each}" for each in find_faults(reader.page)]
    assert not faults, "\n".join(faults)
