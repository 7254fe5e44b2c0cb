"""A note that any program reads as hidden is hidden, or in doubt; honest text stays text."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.odd_frontmatter import BLOCKS, BODY, SLIPS, TEXTS, list_states, make_text
from vaultmem.core.lifecycle import HIDDEN_STATES, NoteState
from vaultmem.core.notes.frontmatter import read_frontmatter
from vaultmem.core.notes.note import Note, parse_note

MEMORY, OWN_WORDS = PurePosixPath("notes/x.md"), PurePosixPath("x.md")

HIDING = {
    **{name: make_text(block) for name, block in BLOCKS.items()},
    **{f"{name} (slip)": make_text(block) for name, block in SLIPS.items()},
    **TEXTS,
}

#: Texts that no program reads as a state of the note.
HONEST = {
    "thematic break": "---\n\nThe ferry leaves at seven.\n\n---\n\nIt comes back.\n",
    "state in prose": "---\nThe state of the archived files is good.\n---\nMore.\n",
    "states listed": "---\n- deprecated\n- archived\n---\nMore.\n",
    "a question": "---\nIs the state archived?\n---\nMore.\n",
    "template": "---\n{{date}} of {{title}}\n---\nMore.\n",
    "emphasis": "---\n*Archived* files have a **state**.\n---\n",
    "list of emphasis": "---\n- *word* is in the state\n- `archived`\n---\n",
    "picture": "---\n![[ferry.png]]\n---\n",
    "quote": "---\n> The state, deprecated or not, pays.\n---\n",
    "fence": "---\n```yaml\n- x\n```\n---\n",
    "code in the body": "# States\n\n```yaml\nstate: quarantined\n```\n",
    "code far down": "# States\n" + "Words.\n" * 2_000 + "```yaml\nstate: archived\n```\n",
    "TOML without a state": '+++\ntitle = "x"\n+++\nThe ferry.\n',
    "JSON without a state": '{"title": "x"}\n\nThe `"state": "archived"` of a file.\n',
    "text in braces": "{: .class}\n\nstate is archived\n",
}


def parse(text: str, path: PurePosixPath = MEMORY) -> Note:
    return parse_note(path, text.encode("utf-8", "surrogatepass"))


def is_held_back(note: Note) -> bool:
    """Tell whether a note is hidden, or in doubt with a reason."""
    return note.state in HIDDEN_STATES or (
        note.state is NoteState.UNREADABLE and note.problem != ""
    )


def test_there_are_many_odd_blocks_and_programs_read_nearly_all() -> None:
    texts = [*map(make_text, BLOCKS.values()), *TEXTS.values()]
    read = [text for text in texts if list_states(text) & HIDDEN_STATES]
    assert len(HIDING) >= 120
    assert len(read) >= 105


@pytest.mark.guarantee
@pytest.mark.parametrize("name", HIDING)
def test_block_that_hides_a_note_elsewhere_never_leaves_it_active(name: str) -> None:
    text = HIDING[name]
    note, own = parse(text), parse(text, OWN_WORDS)
    assert is_held_back(note)
    if "quarantined" in list_states(text):
        assert (note.state, own.state) == (NoteState.QUARANTINED, NoteState.QUARANTINED)
    assert not note.pinned


@pytest.mark.parametrize("name", [*BLOCKS, *SLIPS])
@pytest.mark.parametrize("mark", ["\ufeff", "\r\n", "trailing"])
def test_marks_around_such_a_block_change_nothing(name: str, mark: str) -> None:
    text = make_text((BLOCKS | SLIPS)[name])
    text = text.replace("\n", "\r\n") if mark == "\r\n" else text
    text = f"\ufeff{text}" if mark == "\ufeff" else text
    text = text.replace("---\n", "--- \t\n") if mark == "trailing" else text
    assert is_held_back(parse(text))


@pytest.mark.parametrize("name", HONEST)
def test_honest_text_is_body_and_active(name: str) -> None:
    text = HONEST[name]
    note = parse(text)
    assert (note.state, note.problem, note.body) == (NoteState.ACTIVE, "", text)
    assert parse(text, OWN_WORDS).state is NoteState.ACTIVE


def test_a_persons_own_states_and_names_stay_theirs() -> None:
    for block in ("State: archived", "<<: {state: archived}", "build:\n  state: archived"):
        note = parse(make_text(block), OWN_WORDS)
        assert (note.state, note.problem) == (NoteState.ACTIVE, "")
    for block in ("build:\n  state: archived", "Title: quarantined wards", "Estate: archived"):
        note = parse(make_text(block))
        assert (note.state, note.problem) == (NoteState.ACTIVE, "")


def test_a_block_that_is_not_read_is_no_body() -> None:
    for block in ("{title: x, y: &a 1}", "&a title: x", "? &a title\n: x", "'a': !y 1"):
        matter = read_frontmatter(make_text(block))
        assert matter.problem
        assert make_text(block)[matter.body :] == BODY


LETTERS = st.sampled_from(["{0}", "{0}", "{0}", "\\x{1:02x}", "\\u{1:04x}", "\\U{1:08x}"])
SIDES = st.sampled_from(["", "", "", "&a ", "!!str ", "!x ", "&a !!str "])
ENDS = st.sampled_from(["\n", "\n", "\n", "\r\n", "\r"])
OTHERS = st.sampled_from(
    [
        *("title: x", "state: active", "'state': active", "State: active", "x: &b 1", "y: !z 1"),
        *('"u": "\\/"', "tags: [a, b]", "? k\n: v", "# state", "<<: {a: b}", "l:\n- m", "a: b: c"),
    ]
)
FLOW_OTHERS = st.sampled_from(
    [
        "title: x",
        "state: active",
        '"state": active',
        "x: &b 1",
        '"u": "\\/"',
        "t: [a]",
        "k",
        "<<: {a: b}",
    ]
)


@st.composite
def spellings(draw: st.DrawFn, word: str) -> str:
    """Spell a word plain or in quotes, some of its letters escaped or in another case."""
    word = draw(st.sampled_from([word, word, word.title(), word.upper()]))
    quote = draw(st.sampled_from(["", "", "'", '"', '"']))
    if quote == '"':
        word = "".join(draw(LETTERS).format(letter, ord(letter)) for letter in word)
    return f"{draw(SIDES)}{quote}{word}{quote}"


@st.composite
def hiding_blocks(draw: st.DrawFn) -> str:
    """Make a block that says somewhere, in some way, that its note is hidden."""
    state = draw(st.sampled_from(["quarantined", "quarantined", "deprecated", "archived"]))
    name, value = draw(spellings("state")), draw(spellings(state))
    colon = draw(st.sampled_from([": ", ": ", " : ", ":  ", ":\n  ", ": # c\n  "]))
    if draw(st.booleans()):
        parts = [f"{name}{colon}{value}", *draw(st.lists(FLOW_OTHERS, max_size=3))]
        inside = draw(st.sampled_from([", ", ",\n  "])).join(draw(st.permutations(parts)))
        return (
            draw(st.sampled_from(["{%s}", "{ %s }", "!!map {%s}", "&m {%s}", "<<: {%s}"])) % inside
        )
    lines = [f"{name}{colon}{value}", *draw(st.lists(OTHERS, max_size=3))]
    return "\n".join(draw(st.permutations(lines)))


@pytest.mark.campaign
@given(hiding_blocks(), ENDS, st.sampled_from(["", "\ufeff", "\n", " \n"]))
def test_odd_spellings_that_a_program_reads_hold_the_note_back(
    block: str, end: str, before: str
) -> None:
    text = before + make_text(block).replace("\n", end)
    read = list_states(text) & HIDDEN_STATES
    note = parse(text)
    assert not read or is_held_back(note)
    if "quarantined" in read:
        assert note.state is parse(text, OWN_WORDS).state is NoteState.QUARANTINED
