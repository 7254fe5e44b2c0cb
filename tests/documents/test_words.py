"""Pages for users avoid words that a reader of English as a second language has to guess at."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

PAGES = [ROOT / "README.md", ROOT / "docs/README.md", ROOT / "docs/tutorial.md"]
PAGES += [
    ROOT / f"docs/how-to/{name}.md"
    for name in ("a-day", "agents", "everyday", "history", "obsidian")
]
PAGES += [
    ROOT / f"docs/how-to/{name}.md"
    for name in ("maintenance", "machines", "import-export-backup", "projects", "truth")
]
PAGES += [ROOT / f"docs/{name}.md" for name in ("reference/vault-format", "explanation/recall")]
PAGES += [ROOT / "CHANGELOG.md", ROOT / "SECURITY.md"]

_WORDS = (
    r"tell(s|ing)?|told|says|said|stand(s|ing)?|stood|mend(s|ed|ing)?|moments?|whoever|somebody"
    r"|nobody|on record|take(s|n)? in|let(s)? no|(?<!there )is none|(?<!there )is no (?!longer)"
    r"|behind|beside|of (ours|git's|Obsidian's)|the very|for there is|as it has them"
    r"|comes? to nothing|talks?"
)
BANNED = re.compile(rf"\b({_WORDS})\b", re.IGNORECASE)

#: Commands with their output, and words in code, are named elsewhere.
CODE = re.compile(r"^ *(`{3,4}).*?^ *\1$|^    .*?$|`[^`]*`", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_has_no_banned_word(page: Path) -> None:
    prose = CODE.sub("", page.read_text(encoding="utf-8"))

    assert [match[0] for match in BANNED.finditer(prose)] == []


def test_a_banned_word_is_found_in_prose_alone() -> None:
    code = "```console\n$ says who stands\n```\n\n    it stands\n\n`told`"
    text = f"A test tells.\n\n{code}: There is no x."

    assert [match[0] for match in BANNED.finditer(CODE.sub("", text))] == ["tells"]
