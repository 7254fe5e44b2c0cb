"""The stories of many notes say what `blame` says of each."""

from __future__ import annotations

from pathlib import PurePosixPath

from conftest import Make, Open
from support import git

from vaultmem.services.history.blame import blame_note
from vaultmem.services.history.explain import describe_stories, group_changes, walk_history
from vaultmem.services.views.read_notes import read_bytes
from vaultmem.services.views.update_index import sync_vault

FIRST = "# A\n\none\ntwo\nthree\nfour\nfive\n"


def test_stories_say_who_wrote_each_line_as_blame_does(make_vault: Make, opened: Open) -> None:
    root = make_vault({"notes/a.md": FIRST, "notes/b.md": "b\n", "notes/c.md": "c\n"})

    def commit(name: str, text: str, who: str) -> None:
        (root / name).write_text(text)
        git(root, "add", "-A")
        author = f"{who} <{who}@example.org>"
        git(root, "commit", "-q", "-m", f"{who} writes", "--author", author)

    commit("notes/a.md", FIRST.replace("two", "TWO"), "Ada")
    git(root, "mv", "notes/a.md", "notes/moved.md")
    commit("notes/b.md", "b\nmore\n", "Bea")
    git(root, "checkout", "-q", "-b", "side")
    commit("notes/moved.md", FIRST.replace("two", "TWO").replace("five", "FIVE"), "Cleo")
    git(root, "checkout", "-q", "-")
    commit("notes/moved.md", FIRST.replace("two", "TWO").replace("one", "ONE"), "Dan")
    git(root, "merge", "-q", "--no-edit", "side")
    commit("notes/c.md", "other\n", "Eve")
    commit("notes/c.md", "c\n", "Fay")
    (root / "notes/b.md").write_text("b\nmore\nnot committed\n")
    vault = opened(root)
    sync_vault(vault)
    paths = [record.path for record in vault.view.records()]
    texts = {path: read_bytes(vault, PurePosixPath(path)) for path in paths}
    found = dict(describe_stories(vault, group_changes(walk_history(vault), iter(paths)), texts))
    assert {path: story.lines for path, story in found.items()} == {
        path: blame_note(vault, path).lines for path in paths
    }
    versions = [version.author for version in found["notes/moved.md"].versions]
    assert set(versions) > {"Ada", "Bea", "Cleo", "Dan"}
