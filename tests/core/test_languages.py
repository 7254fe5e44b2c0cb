"""Word tables: each can be read and says a thing once, and a folder is enough for a language."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from Stemmer import algorithms

import vaultmem
from vaultmem.core.languages import list_languages, read_lines, read_pairs

PACKAGE = Path(vaultmem.__file__).parent
FOLDER = PACKAGE / "core" / "languages"
PAGE = PACKAGE.parent / "docs/reference/languages.md"

WORD = r"[^\sA-Z#]+"
LINES = {
    "language": r"stemmer [a-z]+|letters \w+|(?:capital_nouns|verb_last) (?:yes|no)",
    "relations": r"[a-z]+ [a-z,]+(?: [^A-Z#]+)+",
    "updates": r"[a-z]+ [^A-Z#]+",
    "times": r"[a-z]+ [^A-Z#]+",
    "words": rf"{WORD}(?: [a-z-]+)+",
    "synonyms": rf"{WORD}(?: {WORD})+",
    "same": rf"{WORD}(?: {WORD})+",
    "contractions": rf"{WORD}(?: {WORD})+",
    "negated": f"{WORD} {WORD}",
    "numbers": rf"{WORD} \d+",
    "units": rf"{WORD} [a-z]+ [\d.e]+",
    "months": rf"{WORD} (?:[1-9]|1[012])",
    "weekdays": rf"{WORD} [1-7]",
    "rates": f"{WORD} {WORD}",
    "stop_words": WORD,
    "weak_words": WORD,
    "irregular_forms": f"{WORD} {WORD}",
    "joined_words": rf"{WORD} {WORD} {WORD}",
    "abbreviations": WORD,
    "claims": r"[a-z]+ [^A-Z#]+",
    "standing": r"[a-z-]+ [^A-Z#]+",
    "series": r"[a-z-]+ [^A-Z#]+",
}
#: Tables that are not sorted by their bytes.
ORDERED = {"numbers", "units", "months", "weekdays"}
#: Tables in which a word may stand in more than one line.
REPEATED = {"claims", "relations", "series", "standing", "synonyms", "times"}
REPEATED |= {"updates"}
#: Tables in which each line begins with its sort.
SORTED = ("claims", "relations", "series", "standing", "times", "updates")
LIMITS = {"negation", "exception", "condition", "only", "hedge", "quantifier"}
LIMITS |= {"obligation", "permission"}

TABLES = sorted(
    (each.parent.name, each.stem) for each in FOLDER.rglob("*") if each.suffix == ".txt"
)


@pytest.mark.parametrize(("language", "table"), TABLES)
def test_each_line_of_a_table_is_well_formed(language: str, table: str) -> None:
    lines = read_lines(table, language)
    assert lines
    assert [line for line in lines if not re.fullmatch(LINES[table], line)] == []
    assert (FOLDER / language / f"{table}.txt").read_bytes().endswith(b"\n")


@pytest.mark.parametrize(("language", "table"), TABLES)
def test_each_table_says_each_thing_once(language: str, table: str) -> None:
    lines = read_lines(table, language)
    assert len(set(lines)) == len(lines)
    if table not in REPEATED:
        assert len(read_pairs(table, language)) == len(lines)
    if table not in ORDERED:
        assert list(lines) == sorted(lines)


def test_every_folder_is_a_language_and_nothing_else_lies_there() -> None:
    assert {language for language, _ in TABLES} == set(list_languages()) == {"en", "de", "es", "fr"}
    assert list_languages()[0] == "en"
    for language in list_languages():
        assert {each.suffix for each in (FOLDER / language).iterdir()} == {".txt"}
        assert read_pairs("language", language)["stemmer"] in algorithms()


def test_the_page_names_every_table_and_every_trait() -> None:
    page = PAGE.read_text(encoding="utf-8")
    named = set(re.findall(r"`([a-z_-]+)(?:\.txt)?`", page))
    traits = {trait for line in read_lines("words") for trait in line.split()[1:]}
    sorts = {line.split()[0] for table in SORTED for line in read_lines(table)}
    assert set(LINES) | traits | sorts <= named


def test_what_limits_a_statement_is_a_function_word() -> None:
    for word, said in (line.split(" ", 1) for line in read_lines("words")):
        traits = said.split()
        assert len(set(traits)) == len(traits), word
        assert "function" in traits or not LIMITS & set(traits), word
        assert "relation" in traits or "clausal" not in traits, word


def test_a_folder_is_enough_for_a_new_language(tmp_path: Path) -> None:
    package = tmp_path / "vaultmem"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    tables = {
        "language": "letters ŵ\n",
        "words": "en function homograph\nnek function negation mark\nzan function mark\n",
        "synonyms": "brelo tomak\n",
        "numbers": "dut 2\n",
        "units": "horu time 3600\n",
        "stop_words": "# Dropped.\nzan\n",
    }
    folder = package / "core" / "languages" / "xx"
    folder.mkdir()
    for name, text in tables.items():
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")
    asked = """
from vaultmem.core.search.terms import term_sequence
from vaultmem.core.similarity.compare import KnownText, compare_texts
from vaultmem.core.similarity.words import guess_language

assert guess_language("zan brelo nek filat").code == "xx"
assert guess_language("brelo ŵilu").code == "xx"
assert guess_language("the server is down").code == "en"
assert guess_language("der Server ist aus").code == "de"
assert term_sequence("zan brelo") == ["brelo"]
same = compare_texts("zan brelo filat dut horu.", KnownText("zan tomak filat 7200 seconds."))
assert (same.similarity, [each.kind for each in same.differences]) == (1.0, ["wording"]), same
other = compare_texts("zan brelo nek filat.", KnownText("zan tomak filat."))
assert [each.kind for each in other.differences] == ["negation"], other
"""
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-P", "-c", asked]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
