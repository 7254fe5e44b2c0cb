"""Packs: within the budget, with an account that is right, and nothing silently cut."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.builders import make_hit
from vaultmem.core.packs.pack_item import PackForm, PackItem, PackPart, PackSource, quote
from vaultmem.core.packs.pack_sections import MIN_BUDGET, build_pack, order_by_worth
from vaultmem.core.packs.pack_text import Pack, PackUsage, build_handle, count_items, render_pack
from vaultmem.core.search.query import Hit
from vaultmem.core.text.display import clean_text
from vaultmem.core.text.token_count import count_tokens
from vaultmem.errors import RefusedError

SOURCE = PackSource("main", "1a2b3c4d5e6f7a8b9c0d1e2f3a4b5c6d7e8f9a0b", 1_795_257_000)
LABEL = re.compile(r"\[([0-9a-f]{4})(?: \| [^\[\]|]+)*\]")
SESSION = re.compile(r"\[session [^\[\]|]*(?: \| (?:@|from )[^\[\]|]*)? \| \d+ Nov(?: 2026)?\]")
LINK = re.compile(r"- [^\[\]|]*: [^\[\]|]*|- and \d+ more|- \d+ sections?")
FRAME = re.compile(
    r"# Context  \(vault .*\)|## Instructions|## Evidence|## Pinned, not shown|"
    r"Nothing in this vault answers that\.|<!-- vaultmem: \d+ pinned \+ .* -->|"
)

#: Every line break that some reader knows, and the marks that a pack is made of.
BREAKS = ["\n", "\r", "\r\n", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"]
MARKS = ["# Context", "## Instructions", "### x   [policy_rule | trusted]", "> ", "```", "-->"]
PARTS = [
    *BREAKS,
    *MARKS,
    "<!-- vaultmem: 1 pinned",
    "- a: x",
    "\u202e",
    "\x1b[31m",
    "a",
    "。",
    ". ",
]
NASTY = st.one_of(st.text(max_size=30), st.lists(st.sampled_from(PARTS), max_size=40).map("".join))


def build(
    pinned: list[Hit], relevant: list[Hit], budget: int, source: PackSource = SOURCE, flat: int = 0
) -> Pack:
    trusted = frozenset(hit.note for hit in relevant[::2])
    return build_pack(pinned, relevant, trusted, source, budget, 0.5, flat)


@st.composite
def hits(draw: st.DrawFn, document: int, pinned: bool) -> Hit:
    text = draw(NASTY) * draw(st.sampled_from([1, 1, 3, 9]))
    return make_hit(
        text,
        draw(NASTY),
        draw(NASTY.filter(bool)),
        document,
        draw(st.one_of(st.just(""), NASTY)),
        kind=draw(st.sampled_from(["decision", "policy_rule", "procedural_skill"])),
        state=draw(st.sampled_from(["active", "stale"])),
        agent=draw(st.one_of(st.just(""), NASTY)),
        session=draw(st.one_of(st.just(""), NASTY)),
        source=draw(NASTY),
        confidence=draw(st.sampled_from([None, 0.25])),
        pinned=pinned,
    )


@st.composite
def hit_lists(draw: st.DrawFn, first: int, pinned: bool) -> list[Hit]:
    count = draw(st.integers(0, 4))
    return [draw(hits(first + number, pinned)) for number in range(count)]


@pytest.mark.campaign
@settings(max_examples=60, deadline=None)
@given(
    hit_lists(0, True),
    hit_lists(10, False),
    st.integers(MIN_BUDGET, 700),
    st.builds(
        PackSource,
        NASTY,
        st.sampled_from(["", SOURCE.commit]),
        st.just(SOURCE.at),
        st.lists(st.tuples(NASTY, st.just(SOURCE.commit)), max_size=3).map(tuple),
    ),
    st.integers(0, 10**7),
)
def test_pack_is_within_its_budget_and_no_note_begins_a_line(
    pinned: list[Hit], relevant: list[Hit], budget: int, source: PackSource, flat: int
) -> None:
    made = build(pinned, relevant, budget, source, flat)
    assert made.account.sent == count_tokens(made.text) <= budget
    assert f", {made.account.sent} of {budget} tokens, flat memory {flat}, " in made.text
    assert made.text.splitlines() == made.text.removesuffix("\n").split("\n")
    labels = set()
    for line in made.text.splitlines():
        if label := LABEL.fullmatch(line):
            labels.add(label[1])
        known = label or FRAME.fullmatch(line) or LINK.fullmatch(line) or SESSION.fullmatch(line)
        assert known or line == ">" or line.startswith("> "), line
    assert labels == {build_handle(item.hit) for item in made.items}
    assert all(clean_text(line) == line for line in made.text.splitlines())
    assert made == build(pinned, relevant, budget, source, flat)


@pytest.mark.campaign
@settings(max_examples=40, deadline=None)
@given(hit_lists(0, True), st.integers(MIN_BUDGET, 500))
def test_every_pinned_section_is_shown_named_or_counted(pinned: list[Hit], budget: int) -> None:
    pinned = [hit._replace(text=f"{n} unlike{n} {hit.text}") for n, hit in enumerate(pinned)]
    made = build(pinned, [], budget)
    seen = {" ".join(sorted(set(hit.text.split()))) for hit in pinned}
    shown = len(made.items) + len(made.omitted_pins) + made.unlisted_pin_count
    assert len(seen) - 3 <= shown <= len(pinned)
    if made.unlisted_pin_count:
        assert (
            f"- and {made.unlisted_pin_count} more" in made.text
            or f"- {made.unlisted_pin_count} section" in made.text
        )


def test_pinned_sections_that_do_not_fit_are_named_or_counted() -> None:
    words = [" ".join(f"x{n}y{i}" for i in range(99)) for n in range(90)]
    pinned = [make_hit(text, document=number) for number, text in enumerate(words)]
    made = build(pinned, [], 200)
    assert made.items == ()
    assert made.omitted_pins
    assert f"- and {made.unlisted_pin_count} more" in made.text
    assert len(made.omitted_pins) + made.unlisted_pin_count == 90


def test_pinned_sections_take_half_of_the_budget_at_most() -> None:
    def texts(start: int) -> list[Hit]:
        return [
            make_hit(" ".join(f"w{n}x{i}" for i in range(12)), f"N{n}", f"{n}.md", n)
            for n in range(start, start + 40)
        ]

    made = build(texts(0), texts(100), 1000)
    pinned = [item for item in made.items if item.pinned]
    assert count_items(pinned, PackForm()) <= 500
    assert len(made.items) > len(pinned) > 0


def test_budget_that_is_too_small_is_refused() -> None:
    with pytest.raises(RefusedError, match="100 tokens or more, not 99"):
        build([], [], MIN_BUDGET - 1)


def test_section_that_does_not_fit_makes_way_for_a_shorter_one() -> None:
    one_word = make_hit("unbroken" * 500, "Long", "long.md", 1)
    made = build([], [one_word, make_hit("Short enough.", "Short", "short.md", 2)], 200)
    assert [item.hit.record.title for item in made.items] == ["Short"]


def test_pinned_section_is_not_repeated_as_a_relevant_one() -> None:
    hit = make_hit("Deploys happen on Tuesdays.", pinned=True)
    made = build([hit], [hit], 500)
    assert [item.pinned for item in made.items] == [True]


FILE = Path(__file__).parent / "data" / "near_misses.txt"
NEAR_MISSES = [
    line.split(" | ")[1:] for line in FILE.read_text("utf-8").splitlines() if line[0] != "#"
]


def test_of_two_facts_that_look_alike_none_is_hidden() -> None:
    for one, other in NEAR_MISSES:
        hits = [make_hit(one, one, "a.md", 1), make_hit(other, other, "b.md", 2)]
        assert len(build([], hits, 500).items) == 2, (one, other)


def test_of_long_sections_that_differ_in_a_number_none_is_hidden() -> None:
    text = " ".join(f"Part {n} of the plan names {chr(97 + n) * 4}." for n in range(20))
    hits = [make_hit(text, document=1), make_hit(text.replace("Part 7", "Part 71"), document=2)]
    assert len(build([], hits, 2000).items) == 2


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Retries are capped at three.", "retries are **capped** at 3"),
        ("In May 2024 we moved to Oslo.", "We moved to Oslo in May 2024."),
    ],
)
def test_of_notes_that_say_one_thing_the_better_one_is_shown_and_counted(
    one: str, other: str
) -> None:
    by_agent = make_hit(one, one, "a.md", 1, agent="claude", source="agent")
    by_person = make_hit(other, other, "b.md", 2, source="human", updated="2020-01-01")
    newer = make_hit(one, one, "c.md", 3, agent="codex", source="agent", updated="2026-11-20")

    made = build([], [by_agent, newer, by_person], 500)
    assert [item.hit.record.path for item in made.items] == ["b.md"]
    assert "| 3 alike |" in made.text
    made = build([], [by_agent, newer], 500)
    assert [item.hit.record.path for item in made.items] == ["c.md"]
    assert made.account.sent == count_tokens(made.text)


def test_one_text_below_titles_that_say_more_is_shown_twice() -> None:
    text = "Tokens live 15 minutes."
    hits = [make_hit(text, "Web login", "a.md", 1), make_hit(text, "Mobile login", "b.md", 2)]
    assert len(build([], hits, 500).items) == 2


def test_pinned_section_without_text_is_left_out() -> None:
    made = build([make_hit(""), make_hit("")], [], 500)
    assert made.items == made.omitted_pins == ()


def test_account_counts_right_where_the_ratio_grows_a_digit() -> None:
    hit = make_hit("Deploys happen on Tuesdays.")
    for flat in range(70_000, 110_000, 250):
        made = build([], [hit], 500, flat=flat)
        assert made.account.sent == count_tokens(made.text)


def test_only_an_active_trusted_policy_or_skill_instructs() -> None:
    for kind in ("policy_rule", "procedural_skill", "semantic_fact", "decision", "reflection"):
        for state in ("active", "stale", "candidate"):
            for trusted in (True, False):
                item = PackItem(make_hit("x", kind=kind, state=state), "x", True, trusted, False)
                wanted = (
                    trusted and state == "active" and kind in {"policy_rule", "procedural_skill"}
                )
                assert (item.part is PackPart.INSTRUCTIONS) is wanted
                text = render_pack([item], [], 0, SOURCE, PackUsage(1, 0, 0, 100, 0))
                assert ("## Instructions" in text) is wanted
                assert ("## Evidence" in text) is not wanted


@settings(max_examples=100, deadline=None)
@given(NASTY)
def test_quote_puts_every_line_behind_its_mark(text: str) -> None:
    for line in quote(text).splitlines():
        assert line == ">" or line.startswith("> ")


def test_of_equal_scores_what_costs_less_comes_first_and_a_clearly_better_one_before_it() -> None:
    long = make_hit(" ".join(["They keep the gate open until nine."] * 40), document=1)
    short = make_hit("The gate closes at nine.", document=2)
    best = make_hit(f"{long.text} It is so.", document=3)._replace(score=1.6)

    assert order_by_worth([long, short, best]) == [best, short, long]


def test_a_further_section_of_a_note_gives_way_to_another_note_of_about_its_score() -> None:
    first, other, weak = (make_hit(f"Gate {n} closes at nine.", document=n) for n in (1, 2, 3))
    second = first._replace(text="Gate 4 closes at nine.")
    hits = [first, second, other._replace(score=0.95), weak._replace(score=0.8)]

    assert order_by_worth(hits) == [first, hits[2], second, hits[3]]


def test_a_long_section_leaves_room_for_others_and_is_extended_by_what_they_leave() -> None:
    long = make_hit(" ".join(f"Gate {n} is kept open until nine." for n in range(140)))
    others = [make_hit(f"Door {n} is locked at nine. " * 60, document=n) for n in (2, 3)]

    beside = build([], [long, *others], budget=2_000).items

    assert [item.shortened for item in beside] == [True, False, False]
    assert build([], [long], budget=2_000).items[0].text == long.text


def test_hits_without_a_score_stay_in_their_order() -> None:
    hits = [make_hit("word " * (9 - n), document=n)._replace(score=0.0) for n in range(5)]

    assert order_by_worth(hits) == hits
