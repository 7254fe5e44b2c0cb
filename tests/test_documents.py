"""Documents name files that are there, and link to pages that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/*.md")])

#: From where documents name a file of ours.
BASES = ["", "vaultmem", "vaultmem/core", "vaultmem/storage", "vaultmem/services", "vaultmem/cli"]


#: A file with its folder, or a room: `storage/files.py`, `services/finding/ask`, `core/packs`.
_ROOMS = "core|storage|services|answers|mcp_server|cli"
NAMED = re.compile(rf"`((?:{_ROOMS})/[a-z_/]+(?:\.py)?|(?:[a-z_]+/)+[a-z_]+\.py)`")

LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)[^)\s]*\)")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_documents_name_what_is_there(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    links = set(LINK.findall(re.sub(r"`[^`]*`", "", text)))

    assert {name for name in NAMED.findall(text) if not _is_there(name)} == set()
    assert {link for link in links if not (document.parent / link).exists()} == set()


def test_the_index_names_every_page() -> None:
    """A page in no group of the index is found by nobody."""
    index = ROOT / "docs/README.md"
    named = {(index.parent / link).resolve() for link in LINK.findall(index.read_text("utf-8"))}
    pages = {page for page in index.parent.rglob("*.md") if page.parent.name != "decisions"}
    assert pages - named == {index}


def test_each_guarantee_is_listed_with_its_tests() -> None:
    """The page names every test that is marked as a guarantee's, and no other."""
    page = (ROOT / "docs/explanation/recall.md").read_text(encoding="utf-8")
    listed = re.findall(r"`([a-z_/]+\.py::test_\w+)`", page)
    mark = re.compile(r"^@pytest\.mark\.guarantee\n(?:[@ )\]].*\n)*def (test_\w+)", re.MULTILINE)
    marked = [
        f"{file.relative_to(ROOT / 'tests')}::{name}"
        for file in (ROOT / "tests").rglob("test_*.py")
        for name in mark.findall(file.read_text(encoding="utf-8"))
    ]
    assert sorted(listed) == sorted(marked)


def test_decisions_have_one_form_and_are_short() -> None:
    """A reader finds the same four parts in each record, and reads it in two minutes."""
    records = sorted((ROOT / "docs/decisions").iterdir())
    assert [record.name[:5] for record in records] == [
        f"{number:04}-" for number in range(1, len(records) + 1)
    ]
    for record in records:
        text = record.read_text(encoding="utf-8")
        parts = ["Context", "Decision", "Consequences", "Measurements"]
        assert re.findall(r"(?m)^## (.+)$", text) == parts, record.name
        assert re.match(r"# \S.*\n\n## Context\n", text), record.name
        assert len(re.findall(r"\S*\w\S*", text)) <= 400, record.name


def _is_there(name: str) -> bool:
    places = (ROOT / base / name for base in BASES)
    return any(place.exists() or place.with_suffix(".py").exists() for place in places)


def test_nothing_tells_anybody_to_install_a_strangers_package() -> None:
    """The name on the index is another's, so it is never named behind `install`."""
    wrong = re.compile(rb"install[^\n]{0,40}[ '\"]vaultmem(\[|['\"\s]*$)", re.MULTILINE)
    files = [
        file
        for folder in ("vaultmem", "docs", "templates")
        for file in (ROOT / folder).rglob("*")
        if file.is_file() and file.suffix != ".pyc"
    ]
    assert not [file for file in (*files, *DOCUMENTS) if wrong.search(file.read_bytes())]
