"""What reads people's text by expressions takes time that grows with the text, not with its square.

Each reader gets 200 kB that an expression may begin to match at every place. A quadratic one takes
minutes for one of these texts; all of them together take seconds.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

SIZE = 200_000
SECONDS = 120

#: The first are tried in the short campaign: expressions begin with them most often.
MARKS = ["[[", "[", "<div>", "<!--", "%%", "\t", "a: b\n", "```\n"]
MORE = [
    *("[a](", "[[a|", "![[a", "(", "{", "<", "<a ", "`", "``` ", "~~~\n", "# ", "# a\n", "---\n"),
    *("- ", "- a\n", "* ", "> ", "| ", "|---|\n", ": ", "a: ", "a:\n", " ", "\n", "\r", " \n"),
    *(
        "\t\n",
        "a",
        "a ",
        "A. ",
        "1,",
        "1.",
        "1. ",
        ".",
        ",",
        ";",
        "@",
        "a@",
        "#a",
        "#a/",
        "/",
        "=",
        "'",
    ),
    *(
        '"',
        "\\",
        "\\u0061",
        "*",
        "**a",
        "_",
        "*(",
        "http://a",
        "<<<<<<< a\n",
        "state: ",
        "漢",
        "\u2028",
    ),
    *("state: archived\n", "quarantined ", "&a ", "!a ", "? ", "+++\n", "> [!conflict] a\n", "$a$"),
    *("{{", "| question | notes |\n|---|---|\n"),
]

#: How a reader is called with `text`, by its name.
READERS = {
    "a note": "analyse_note(NOTE, text.encode())",
    "a frontmatter": r"analyse_note(NOTE, f'---\ntitle: x\n{text}\n---\nbody\n'.encode())",
    "a state": r"analyse_note(NOTE, f'---\nstate: {text}\n---\nbody\n'.encode())",
    "a heading": r"analyse_note(NOTE, f'# {text}\n\nbody\n'.encode())",
    "a canvas": "analyse_note(PurePosixPath('x.canvas'), canvas(text))",
    "an evaluation file": "list_questions(text)",
    "a cell": r"list_questions(f'| question | notes |\n|---|---|\n| q | {text} |\n')",
    "a cell's names": "split_notes(text)",
    "a question": "parse_query(text)",
    "a merge": r"merge_texts('notes/x.md', f'a\n{text}', f'b\n{text}', f'c\n{text}x')",
    "wishes": "find_standing('Always use tabs. ' + text, SpeakerRole.OWNER)",
    "credentials": "find_secrets('key secret token password api ' + text)",
    "reference material": "split_document(text)",
    "an import": "list(split_text(parse_markdown(('a.md',), ('a.md',), text, None).body))",
    "passages": "choose_passages(text, (), 500)",
    "an answer": "shorten_answer(text, 300)",
    "a command": "format_command(text)",
    "settings": "read_jsonc(text)",
    "a claim": "find_claim(text)",
    "a callout": r"find_callouts('> [!conflict] Also said by ann\n> ' + text)",
    "a property": "set_property(text, 'tags', ('a',))",
    "sentences": "split_sentences(text)",
    "a list of a session": "append_to_section(text, 'Learned', 'x')",
}

CHILD = """
import contextlib, json, sys
from pathlib import PurePosixPath
from vaultmem.core.packs.warnings import find_claim
from vaultmem.core.clients.settings_formats import read_jsonc
from vaultmem.core.search.query import parse_query
from vaultmem.core.search.evaluation import list_questions, split_notes
from vaultmem.core.imports.item import split_text, parse_markdown
from vaultmem.core.indexing.section_texts import analyse_note
from vaultmem.core.merging.merge_note import merge_texts
from vaultmem.core.notes.conflict import find_callouts
from vaultmem.core.notes.edit_properties import set_property
from vaultmem.core.packs.passages import choose_passages
from vaultmem.core.preferences import SpeakerRole, find_standing
from vaultmem.core.reference import split_document
from vaultmem.core.secrets.scan import find_secrets
from vaultmem.core.sessions.session_note import append_to_section
from vaultmem.core.similarity.statement import split_sentences
from vaultmem.core.transcripts.event import format_command
from vaultmem.core.transcripts.event import shorten_answer
from vaultmem.errors import VaultError

NOTE = PurePosixPath("notes/x.md")

def canvas(text):
    place = {"x": 0, "y": 0, "width": 1, "height": 1}
    card = {"id": "a", "type": "text", "text": text, **place}
    group = {"id": "b", "type": "group", "label": text, **place}
    return json.dumps({"nodes": [card, group]}).encode()

call, size, marks = json.load(sys.stdin)
for mark in marks:
    for end in ("", "\\x01z"):
        print(repr(mark + end), flush=True)
        text = mark * (size // len(mark)) + end
        with contextlib.suppress(VaultError, ValueError, RecursionError):
            eval(call)
print("all")
"""


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    "marks",
    [
        pytest.param(MARKS, marks=pytest.mark.campaign, id="few"),
        pytest.param(MORE, marks=pytest.mark.long, id="more"),
    ],
)
def test_hostile_text_is_read_in_time(reader: str, marks: list[str]) -> None:
    given = json.dumps([READERS[reader], SIZE, marks])
    try:
        done = subprocess.run(
            [sys.executable, "-c", CHILD],
            input=given,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        at = (error.stdout or b"").decode().splitlines()[-1:]
        pytest.fail(f"{reader}: not read in {SECONDS} seconds, at {at}")
    assert done.stdout.splitlines()[-1:] == ["all"], done.stderr[-500:]
