"""Pages as files: whole, safe wherever they are put, and never half done."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from conftest import Make
from hostile_notes import read_hostile_notes
from support import git, hash_tree, wait_until
from test_pages import HOSTILE

from vaultmem.environment import open_named_vault
from vaultmem.errors import RefusedError
from vaultmem.services.views.open_view import view_at
from vaultmem.services.views.update_index import sync_vault
from vaultmem.web.export.export_site import ExportResult, export_html, prepare_folder

#: What the names of files end with.
KEY = "?" * 16

PNG = bytes.fromhex("89504e470d0a1a0a")


class Links(HTMLParser):
    """Collects what of a page a browser might run, ask for or go to."""

    def __init__(self) -> None:
        super().__init__()
        self.faults: list[str] = []
        self.places: list[str] = []
        self.ids: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Look at one tag."""
        given = {name: value or "" for name, value in attrs}
        self.ids.add(given.get("id", ""))
        if tag in {"iframe", "object", "embed", "base", "style"} or "data-load" in given:
            self.faults.append(tag)
        if tag == "script" and "src" not in given:
            self.faults.append("inline")
        self.faults += [name for name in given if name.startswith("on") or name == "style"]
        for name in ("href", "src", "action"):
            is_outside = tag == "a" and given.get("class") == "external"
            if name in given and not is_outside:
                self.places.append(given[name])


def export(root: Path, folder: Path, at: str = "", ref: str = "") -> ExportResult:
    """Export a vault as it is, as it was, or as another branch has it."""
    with contextlib.closing(open_named_vault(root, ref=ref)) as vault:
        sync_vault(vault)
        return export_html(view_at(vault, at), folder, lambda *_: None)


def find_faults(folder: Path, has_all_headings: bool = True) -> list[str]:
    """Return what of an export's pages leads nowhere, or would run or ask for something."""
    pages = {file: Links() for file in folder.rglob("*.html")}
    for file, found in pages.items():
        found.feed(file.read_text("utf-8"))
    faults = []
    for file, found in pages.items():
        faults += [f"{file.name}: {fault}" for fault in found.faults]
        for place in found.places:
            parts = urlsplit(place)
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            is_there = target.is_relative_to(folder) and target.is_file()
            is_outside = parts.scheme or parts.netloc or place.startswith("/")
            is_known = target not in pages or unquote(parts.fragment) in {*pages[target].ids, ""}
            if is_outside or not is_there or not (is_known or not has_all_headings):
                faults.append(f"{file.name}: {place}")
    return faults


def read_page(folder: Path, pattern: str) -> str:
    """Return the only page of that name."""
    (found,) = folder.glob(pattern)
    return found.read_text("utf-8")


@pytest.mark.campaign
def test_every_link_of_the_sample_leads_to_a_file_that_is_there(
    sample: Path, tmp_path: Path
) -> None:
    done = export(sample, tmp_path / "pages")
    folder = tmp_path / "pages"
    assert find_faults(folder) == []
    assert done.notes == len(list(folder.glob("note/*/*.html")))
    page = read_page(folder, f"note/*/refund-rules-{KEY}.html")
    assert "Half refunds round up to the next cent" in page
    assert "Maren Person" in page
    assert "Content-Security-Policy" in page
    assert "data-watch" not in page
    assert "Refund amounts and deadlines" in read_page(folder, f"list/*/tag-payments-{KEY}.html")
    assert "Refund amounts and deadlines" in (folder / "search/notes.js").read_text()
    assert '"refund":[' in (folder / "search/terms-r.js").read_text()
    assert "Latest commits" in (folder / "time.html").read_text()


@pytest.mark.campaign
def test_sessions_of_another_branch_are_shown_as_it_has_them(sample: Path, tmp_path: Path) -> None:
    note = sample / "sessions/s-0412.md"
    git(sample, "branch", "side")
    note.write_text(note.read_text("utf-8").replace("opaque tokens in", "clay tablets in"))
    export(sample, tmp_path / "pages", ref="side")
    page = read_page(tmp_path / "pages", f"session/*/s-0412-{KEY}.html")
    assert "opaque tokens in PostgreSQL" in page
    assert "clay tablets" not in page


@pytest.mark.campaign
def test_names_and_texts_become_neither_markup_nor_other_files(
    make_vault: Make, tmp_path: Path
) -> None:
    title = HOSTILE.replace("'", "''")
    note = f"---\ntitle: '{title}'\ntags: ['<b>x']\n---\n# {HOSTILE}\nrefunds {HOSTILE}\n"
    long = "ü" * 120
    session = "---\nkind: episodic_trace\nsession_id: s-1\nstatus: ok\nagent: '<i>a'\n---\n"
    root = make_vault(
        {
            "notes/<img src=x onerror=alert(3)>.md": f"{note} [[s-1]] ![[../x.png]]\n",
            "notes/plain.md": f"[[{HOSTILE}|x]] [[<img src=x onerror=alert(3)>]] [[{long}]]\n",
            "notes/Plain.md": "[[notes/plain]] ![[p.png]] [[p.png]] ![[d.svg]] [[d.svg]]\n",
            f"notes/{long}.md": "#a/../../b [x](../../etc/passwd) [y](?q=1)\n",
            "notes/CON.md": "con\n",
            "notes/100%? #1.md": "[[CON]]\n",
            "notes/out.md": f"---\nstate: quarantined\n---\nsecretive {HOSTILE}\n",
            "notes/links-out.md": "[[out]] ![[out]]\n",
            "media/p.png": PNG,
            "media/d.svg": b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>",
            "sessions/s-1.md": f"{session}# {HOSTILE}\n",
        }
    )
    done = export(root, tmp_path / "pages")
    folder = tmp_path / "pages"
    assert find_faults(folder) == []
    assert (done.omitted, done.pictures) == (1, 1)
    names = [file.relative_to(folder).as_posix() for file in folder.rglob("*")]
    assert len({name.lower() for name in names}) == len(names)
    assert [
        name for name in names if not re.fullmatch(r"[a-z0-9./-]{1,100}|search/terms-_.js", name)
    ] == []
    everything = b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())
    assert b"secretive" not in everything
    assert b"onload" not in everything


def test_an_export_has_no_quarantined_text_no_query_and_no_removed_text(
    make_vault: Make, tmp_path: Path
) -> None:
    session = "---\nkind: episodic_trace\nsession_id: s-1\nstatus: ok\nstate: quarantined\n---\n"
    root = make_vault(
        {
            "notes/a.md": "# Alpha\nbefore: tealwood\n![[p.png]] [[b]] ![[b]] [[b#bad|x]]\n",
            "notes/b.md": "---\nstate: quarantined\ntags: [oakwood]\n---\n# Elmwood\nbeechwood\n",
            "sessions/s-1.md": f"{session}# Firwood\n",
            "media/p.png": PNG,
        }
    )
    git(root, "add", "--force", "media")
    git(root, "commit", "-qm", "Add a picture")
    (root / "notes/a.md").write_text("# Alpha\nnow ![[p.png]] [[b]] ![[b]] [[b#bad|x]]\n")
    (root / "media/p.png").write_bytes(PNG + b"later")
    git(root, "commit", "-qam", "Change a")
    command = [sys.executable, "-m", "vaultmem", "recall", "alpha larchwood", "--vault", root]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    for at, has_old in (("", False), ("HEAD~1", True)):
        folder = tmp_path / f"pages{at}"
        done = export(root, folder, at)
        assert (done.omitted, done.pictures) == (2, 1)
        assert find_faults(folder) == []
        files = [file for file in folder.rglob("*") if file.is_file()]
        everything = b"".join(file.read_bytes() for file in files).lower()
        hidden = (b"oakwood", b"elmwood", b"beechwood", b"firwood", b"larchwood")
        assert [word for word in hidden if word in everything] == []
        assert (b"tealwood" in everything) == has_old
        assert (b"later" in next(folder.glob("file/*/*")).read_bytes()) != has_old


@pytest.mark.campaign
def test_hostile_notes_stay_text(make_vault: Make, tmp_path: Path) -> None:
    notes = {
        f"notes/{number}.md": text.encode("utf-8", "surrogateescape")
        for number, text in enumerate(read_hostile_notes().values())
        if not re.search("[\ud800-\udc7f\udd00-\udfff]", text)
    }
    export(make_vault(notes), tmp_path / "pages")
    assert find_faults(tmp_path / "pages", has_all_headings=False) == []


@pytest.mark.campaign
def test_an_export_takes_the_place_of_an_earlier_one_and_of_nothing_else(
    make_vault: Make, tmp_path: Path
) -> None:
    root, folder = make_vault({"notes/a.md": "old [[b]]\n", "notes/b.md": "b\n"}), tmp_path / "p"
    folder.mkdir()
    many = export(root, folder).notes
    (root / "notes/a.md").write_text("new words\n")
    (root / "notes/b.md").unlink()
    assert export(root, folder).notes == many - 1
    assert "new words" in read_page(folder, f"note/*/a-{KEY}.html")
    assert "not committed" in read_page(folder, f"note/*/a-{KEY}.html")
    assert export(root, folder, "HEAD").notes == many
    assert "As of <strong>" in read_page(folder, f"note/*/a-{KEY}.html")
    (folder / "mine.txt").write_text("mine")
    for place in (folder, root, root / "pages", root.parent, root / "notes/a.md"):
        with pytest.raises(RefusedError):
            export(root, place)
    assert (folder / "mine.txt").read_text() == "mine"
    assert [name for name in os.listdir(tmp_path) if "vaultmem-" in name] == []


@pytest.mark.campaign
def test_an_export_that_is_ended_leaves_the_earlier_one_whole(
    make_vault: Make, tmp_path: Path
) -> None:
    root = make_vault({f"notes/{number}.md": "# n\ntext\n" for number in range(210)})
    folder = tmp_path / "pages"
    export(root, folder)
    before = hash_tree(folder)
    command = [sys.executable, "-m", "vaultmem", "export", "--html", folder, "--vault", root]
    for end in (signal.SIGINT, signal.SIGKILL):
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        fresh = tmp_path / f".pages.vaultmem-new-{process.pid}"
        wait_until(lambda fresh=fresh: (fresh / "index.html").exists(), 60)
        process.send_signal(end)
        assert process.wait(30) != 0
        assert hash_tree(folder) == before
        assert fresh.exists() == (end == signal.SIGKILL)
    with prepare_folder(folder) as other:
        assert not fresh.exists()
        (other / "index.html").touch()
    assert os.listdir(folder) == ["index.html"]
