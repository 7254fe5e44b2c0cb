"""Pages for users avoid words that a reader of English as a second language has to guess at."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from vaultmem.cli.app import build_commands
from vaultmem.config import Config

ROOT = Path(__file__).parents[2]

PAGES = [ROOT / "README.md", ROOT / "docs/README.md", ROOT / "docs/tutorial.md"]
PAGES += [
    ROOT / f"docs/how-to/{name}.md"
    for name in ("a-day", "agents", "everyday", "history", "obsidian")
]
PAGES += [
    ROOT / f"docs/how-to/{name}.md"
    for name in (
        "maintenance",
        "machines",
        "import-export-backup",
        "projects",
        "truth",
        "past-sessions",
    )
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

PACKAGE = ROOT / "vaultmem"
FILES = [*(PACKAGE / "cli/topics").glob("*.*"), PACKAGE / "services/clients/SKILL.md"]
FILES += [file for file in (ROOT / "templates").rglob("*") if file.is_file()]
FILES = [file for file in FILES if file.suffix != ".py"]

TEMPLATES = sorted((PACKAGE / "web/templates").glob("*.html"))
SCRIPTS = sorted((PACKAGE / "web/static").glob("*.js"))

#: In templates: expressions, quoted strings, attributes whose values users read, and tags.
EXPRESSION = re.compile(r"\{%.*?%\}|\{\{.*?\}\}", re.DOTALL)
QUOTED = re.compile(r'"([^"\n]*)"|\'([^\'\n]*)\'|`([^`]*)`')
ATTRIBUTE = re.compile(r'\b(?:title|placeholder|aria-label)="([^"]*)"')
TAG = re.compile(r"<[^>]*>")

#: Strings of the package that nobody reads as a sentence, or that notes have recorded.
DATA = {
    "core/anchors.py": "the label of an anchor, `cannot tell here`",
    "core/indexing/section_texts.py": "a pattern of who speaks",
    "core/similarity/tokens.py": "patterns of English",
    "core/notes/conflict.py": "the title of a callout, which is in people's notes",
    "services/vaults/demo_vault.py": "a decision of the sample vault",
    "web/web_app.py": "an address",
}

#: Banned words in each part of the package, names too: they may only fall.
CODE_WORDS = {
    "cli": 27,
    "client": 0,
    "core": 121,
    "hub": 5,
    "integrations": 0,
    "mcp_server": 6,
    "operations": 77,
    "ray_fleet": 0,
    "serve": 1,
    "services": 121,
    "storage": 18,
    "web": 19,
    ".": 9,
}

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


def walk_commands(command: Any, name: str = "vaultmem", above: Any = None) -> Iterator[str]:
    """Yield the help of a command and of all below it, as it is printed."""
    context = command.make_context(name, [], parent=above, resilient_parsing=True)
    yield command.get_help(context)
    for each in command.list_commands(context) if hasattr(command, "list_commands") else ():
        yield from walk_commands(command.get_command(context, each), f"{name} {each}", context)


def find_words(text: str) -> list[str]:
    """Return the banned words of a text, but for names of options and words in code."""
    return [match[0] for match in BANNED.finditer(re.sub(r"`[^`]*`|--[\w-]+", "", text))]


def list_strings(tree: ast.AST) -> Iterator[str]:
    """Yield the strings of a module that have words, without its docstrings."""
    docs = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if id(node) in docs or not isinstance(node, ast.Constant):
            continue
        if isinstance(node.value, str) and re.search(r"\s", node.value.strip()):
            yield node.value


def test_no_help_has_a_banned_word() -> None:
    pages = list(walk_commands(build_commands()))

    assert len(pages) > 100
    assert [(page[:40], words) for page in pages if (words := find_words(page))] == []


def test_no_option_says_else_for_its_default() -> None:
    pages = list(walk_commands(build_commands()))

    assert [page[:40] for page in pages if "; else" in page] == []


def test_the_topic_on_settings_names_settings_that_exist() -> None:
    text = (PACKAGE / "cli/topics/settings.txt").read_text(encoding="utf-8")
    named = re.findall(r"^  (\w+):", text, re.MULTILINE)

    assert len(named) > 5
    assert set(named) <= set(Config._fields)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_topics_templates_and_the_skill_have_no_banned_word(file: Path) -> None:
    assert find_words(CODE.sub("", file.read_text(encoding="utf-8"))) == []


def list_sentences(text: str) -> Iterator[str]:
    """Yield the quoted strings of a template's expressions or of a script that have words."""
    for groups in QUOTED.findall(text):
        if re.search(r"\s", (value := "".join(groups)).strip()):
            yield value


def list_template_texts(template: str) -> Iterator[str]:
    """Yield what users read of a template, and its comments."""
    for expression in EXPRESSION.findall(template):
        yield from list_sentences(expression)
    plain = EXPRESSION.sub(" ", template)
    yield from ATTRIBUTE.findall(plain)
    yield TAG.sub(" ", plain)


@pytest.mark.parametrize("file", TEMPLATES, ids=lambda file: file.name)
def test_no_template_has_a_banned_word(file: Path) -> None:
    texts = list_template_texts(file.read_text(encoding="utf-8"))

    assert [word for each in texts for word in find_words(each)] == []


@pytest.mark.parametrize("file", SCRIPTS, ids=lambda file: file.name)
def test_no_script_has_a_banned_word(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    texts = [*re.findall(r"//.*", text), *list_sentences(text)]

    assert [word for each in texts for word in find_words(each)] == []


def test_what_users_read_of_a_template_is_found() -> None:
    template = '{# It tells. #}<b class="told" title="It stands">Said{{ x.told or "No talk" }}</b>'
    words = [word for each in list_template_texts(template) for word in find_words(each)]

    assert sorted(words) == ["Said", "stands", "talk", "tells"]


def test_no_string_of_the_package_has_a_banned_word() -> None:
    """Errors, output, the texts of MCP and what is written into files are all such strings."""
    found = {}
    for file in sorted(PACKAGE.rglob("*.py")):
        name = str(file.relative_to(PACKAGE))
        strings = list_strings(ast.parse(file.read_text(encoding="utf-8")))
        if words := [word for each in strings for word in find_words(each)]:
            found[name] = words

    assert found.keys() == DATA.keys(), found


@pytest.mark.parametrize("room", sorted(CODE_WORDS))
def test_banned_words_in_code_only_get_fewer(room: str) -> None:
    files = sorted(PACKAGE.glob("*.py")) if room == "." else sorted((PACKAGE / room).rglob("*.py"))
    texts = (file.read_text(encoding="utf-8").replace("is None", "") for file in files)
    count = sum(len(BANNED.findall(text)) for text in texts)

    assert count <= CODE_WORDS[room], "write the sentence without them, and lower the number"


def test_every_room_has_a_number() -> None:
    rooms = {file.parent.name for file in PACKAGE.glob("*/__init__.py")}

    assert CODE_WORDS.keys() == {*rooms, "."}
