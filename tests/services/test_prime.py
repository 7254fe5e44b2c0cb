"""Priming real files: two hundred headings, what a change touches, and what it never does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conftest import Make, Open
from support import git, hash_tree, write_notes

from vaultmem.errors import NoteNotFoundError, RefusedError
from vaultmem.services.exchange.import_reference import (
    SourceFile,
    list_sources,
    prime_source,
    read_sources,
    unprime_source,
)
from vaultmem.services.views.update_index import sync_vault
from vaultmem.vault import Vault

BOOK = "# Book\n\nIntro.\n\n" + "".join(
    f"{'#' * (2 + n % 3)} Chapter {n // 2}\n\nWords of part {n}.\n\n```\n# code {n}\n```\n\n"
    for n in range(200)
)


def prime(vault: Vault, text: str, **options: bool) -> Any:
    return prime_source(vault, "book", [SourceFile("book.md", "", text)], **options)


@pytest.mark.campaign
def test_two_hundred_headings_twice_change_nothing_and_one_text_changes_one_note(
    vault: Vault,
) -> None:
    first = prime(vault, BOOK)
    assert len(first.added) == 201
    before = hash_tree(vault.root)
    times = {f: f.stat().st_mtime_ns for f in (vault.root / "primed").rglob("*.md")}

    again = prime(vault, BOOK)
    assert (again.added, again.changed, again.removed, len(again.unchanged)) == ((), (), (), 201)
    assert hash_tree(vault.root) == before
    assert {f: f.stat().st_mtime_ns for f in (vault.root / "primed").rglob("*.md")} == times

    changed = prime(vault, BOOK.replace("Words of part 77.", "Other words."))
    after = hash_tree(vault.root, skip=(".git",))
    differing = {path for path in after if after[path] != before.get(path)}
    assert differing == set(changed.changed)
    assert len(differing) == 1
    assert (changed.added, changed.removed) == ((), ())

    shorter = prime(vault, BOOK.rpartition("## Chapter")[0] + "# New\n\nAdded.\n")
    assert (len(shorter.added), len(shorter.changed), len(shorter.removed)) == (1, 1, 1)


@pytest.mark.campaign
def test_edit_by_hand_survives_and_a_crashed_run_is_finished_by_the_next(vault: Vault) -> None:
    prime(vault, BOOK)
    edited, gone = vault.root / "primed/book/chapter-3.md", vault.root / "primed/book/chapter-4.md"
    edited.write_text(edited.read_text() + "By hand.\n")
    gone.unlink()
    plan = prime(vault, BOOK.replace("Words of part 6.", "New words."))
    assert "primed/book/chapter-3.md" in plan.kept_notes
    assert plan.added == ("primed/book/chapter-4.md",)
    assert "By hand." in edited.read_text()
    taken = prime(vault, BOOK.replace("Words of part 6.", "New words."), overwrite=True)
    assert taken.changed == ("primed/book/chapter-3.md",)
    assert "By hand." in git(vault.root, "log", "-p", "--all", "--", "primed/book/chapter-3.md")


def test_folder_is_taken_in_file_by_file_and_no_link_is_followed(
    vault: Vault, tmp_path: Path
) -> None:
    write_notes(
        tmp_path / "docs",
        {
            "guide.md": "# Same\n\nguide\n",
            "sub/ref.MARKDOWN": "# Same\n\nref\n",
            ".hidden.md": "# H\n\nx\n",
            "x.txt": "# T\n\nx\n",
        },
    )
    (tmp_path / "secret.md").write_text("# Secret\n\nx\n")
    (tmp_path / "docs/link.md").symlink_to(tmp_path / "secret.md")
    plan = prime_source(vault, "docs", read_sources(tmp_path / "docs"))
    assert plan.added == ("primed/docs/guide/same.md", "primed/docs/sub/ref/same.md")
    with pytest.raises(NoteNotFoundError):
        read_sources(tmp_path / "nowhere.md")


def test_documents_that_are_not_utf8_are_taken_in_as_notes_are_read(
    vault: Vault, tmp_path: Path
) -> None:
    texts = {"latin": ("Größe „A“", "cp1252"), "sixteen": ("Fähre", "utf-16"), "plain": ("B", "")}
    documents = {
        f"{name}.md": f"# {words}\n\nThe {words}.\n".encode(how or "utf-8-sig")
        for name, (words, how) in texts.items()
    }
    write_notes(tmp_path / "docs", documents)
    plan = prime_source(vault, "docs", read_sources(tmp_path / "docs"))
    assert len(plan.added) == 3
    for path, (words, _) in zip(plan.added, [texts[name] for name in sorted(texts)], strict=True):
        note = (vault.root / path).read_bytes().decode("utf-8")
        assert f"The {words}." in note, path
        assert "\ufeff" not in note
    assert hash_tree(tmp_path / "docs").keys() == documents.keys()
    write_notes(tmp_path / "docs", {"binary.md": b"# A\n\n\0\xe9\n"})
    with pytest.raises(RefusedError, match=r"binary\.md: it contains NUL"):
        read_sources(tmp_path / "docs")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "# A\n\n\nkey AKIAIOSFODNN7EXAMPLE\n",
            r"section at line 5 has .* looks like a credential",
        ),
        ("# A\n\n" + "x" * 1_100_000, "section at line 5 is over 1 MiB"),
        ("\n", "no text to import; `vaultmem reference --remove book` removes the source"),
    ],
)
def test_bad_document_is_refused_whole(vault: Vault, text: str, message: str) -> None:
    before = hash_tree(vault.root)
    with pytest.raises(RefusedError, match=message):
        prime(vault, f"# Good\n\nfine\n\n{text}" if text.strip() else text)
    assert hash_tree(vault.root) == before


def test_a_refused_document_from_a_pipe_has_a_name(vault: Vault) -> None:
    file = SourceFile("", "", "key AKIAIOSFODNN7EXAMPLE\n")
    with pytest.raises(RefusedError, match=r"^standard input: the section at line 1 has .* \(aws"):
        prime_source(vault, "pipe", [file])


@pytest.mark.parametrize("name", ["", "../x", "a/b", "a\\b", ".git", "/abs", ".hidden", "CON"])
def test_unsafe_source_is_refused(vault: Vault, name: str) -> None:
    with pytest.raises(RefusedError):
        prime_source(vault, name, [SourceFile("f.md", "", "# A\n\nx\n")])


def test_sources_are_listed_and_removed_without_what_is_somebody_s(vault: Vault) -> None:
    prime(vault, "# A\n\none\n\n# B\n\ntwo\n", pin=True)
    write_notes(vault.root, {"primed/book/own.md": "Own.\n", "primed/book2/x.md": "Other.\n"})
    a = vault.root / "primed/book/a.md"
    a.write_text(a.read_text() + "edited\n")
    sync_vault(vault)
    book, other = list_sources(vault)
    assert (book.name, book.notes, book.pinned, book.edited, book.by_hand) == ("book", 3, 2, 1, 1)
    assert (other.name, other.notes, other.by_hand) == ("book2", 1, 1)
    before = hash_tree(vault.root, skip=(".git",))
    shown = unprime_source(vault, "book", dry_run=True)
    assert hash_tree(vault.root, skip=(".git",)) == before
    assert unprime_source(vault, "book") == shown
    assert shown.removed == ("primed/book/b.md",)
    assert shown.kept_notes == {
        "primed/book/a.md": "edited here",
        "primed/book/own.md": "written by hand",
    }
    unprime_source(vault, "book", everything=True)
    assert [each.name for each in list_sources(vault)] == ["book2"]
    assert "two" in git(vault.root, "log", "-p", "--", "primed/book/b.md")
    with pytest.raises(NoteNotFoundError, match="did you mean book2"):
        unprime_source(vault, "book")


def test_on_a_branch_that_is_not_checked_out_it_is_one_commit(vault: Vault, opened: Open) -> None:
    git(vault.root, "branch", "side")
    other = opened(vault.root, ref="side")
    assert len(prime(other, "# A\n\none\n").added) == 1
    assert prime(other, "# A\n\none\n").unchanged == ("primed/book/a.md",)
    assert git(vault.root, "rev-list", "--count", "main..side") == "1"
    assert not (vault.root / "primed").exists()


@pytest.mark.campaign
def test_commands_prime_from_a_file_and_from_standard_input(
    run_cli: Any, make_vault: Make, tmp_path: Path
) -> None:
    root = make_vault()
    file = tmp_path / "api.md"
    file.write_text("# Oars\n\nTwo of them.\n")
    done = run_cli("reference", file, "--source", "boat", cwd=root)
    assert "boat: 1 added, 0 changed, 0 removed, 0 unchanged, 0 kept" in done.out
    note = (root / "primed/boat/oars.md").read_text()
    assert "aliases:\n  - Oars\n" in note
    assert "source:" not in note
    piped = run_cli(
        "reference", "-", "--source", "boat", "--json", cwd=root, stdin="# Oars\n\nFour.\n"
    )
    assert piped.json["changed"] == ["primed/boat/oars.md"]
    assert run_cli("recall", "four oars", "--json", cwd=root).json["hits"][0]["title"] == "Oars"
    assert run_cli("primed", "--json", cwd=root).json["sources"][0]["notes"] == 1
    dry = run_cli("reference", "--remove", "boat", cwd=root)
    assert "Nothing was removed; add --yes" in dry.out
    assert run_cli("reference", "--remove", "boat", "--yes", "--json", cwd=root).json["removed"]
    assert run_cli("reference", "nowhere.md", "--source", "x", cwd=root).code == 4
