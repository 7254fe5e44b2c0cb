"""Every rule of the ranking, on real notes, by way of the real index."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import pytest
from conftest import Make, Open

from vaultmem.core.search.query import WEIGHTS, Hit, NoteFilter, is_strong, parse_query
from vaultmem.services.health.doctor import check_dates
from vaultmem.services.search.recall import recall
from vaultmem.services.views.update_index import sync_vault
from vaultmem.vault import Vault

Fill = Callable[..., Vault]

#: Words that stand for other notes, so that no word of a test is in every note.
OTHERS = {
    f"other/n{n}.md": f"Gangway {n} was painted at pier {n} by crew {n}.\n" for n in range(12)
}


@pytest.fixture
def fill(make_vault: Make, opened: Open) -> Iterator[Callable[..., Vault]]:
    """Return a function that makes a synced vault of notes, and of a dozen others."""

    def fill_one(notes: Mapping[str, str], name: str = "vault") -> Vault:
        vault = opened(make_vault({**OTHERS, **notes}, name))
        sync_vault(vault)
        return vault

    return fill_one


def ask(vault: Vault, text: str, limit: int = 20, **only: object) -> list[Hit]:
    return recall(vault, parse_query(text, limit, NoteFilter(**only)))  # type: ignore[arg-type]


def paths(vault: Vault, text: str, **only: object) -> list[str]:
    return [hit.record.path for hit in ask(vault, text, **only)]


def sum_up(hit: Hit) -> float:
    words = sum(match.score for match in hit.matches)
    added = hit.closeness + hit.passage + hit.named + hit.neighbours + hit.recency
    return (words + added) * hit.state_weight


def test_a_full_phrase_beats_an_equal_number_of_words(fill: Fill) -> None:
    vault = fill(
        {
            "a.md": "The queue for a release timeout is long.\n",
            "b.md": "The long release queue timeout is a thing.\n",
            "c.md": "The timeout of the queue is for a release.\n",
        }
    )
    found = ask(vault, "release queue timeout")
    assert found[0].record.path == "b.md"
    assert found[0].closeness > 0
    assert len({len(hit.matches) for hit in found[:3]}) == 1


def test_a_word_in_the_title_beats_the_same_word_in_a_tag_and_that_one_in_the_text(
    fill: Fill,
) -> None:
    vault = fill(
        {
            "a.md": "---\ntitle: One\n---\nsome words about mooring there\n",
            "b.md": "---\ntitle: Two\ntags: [mooring]\n---\nsome words about it there\n",
            "c.md": "---\ntitle: Three mooring\n---\nsome words about it there\n",
        }
    )
    assert paths(vault, "mooring") == ["c.md", "b.md", "a.md"]


def test_rare_words_count_more_than_common_ones(fill: Fill) -> None:
    vault = fill({"a.md": "The pier has a winch.\n", "b.md": "The crew painted a pier.\n"})
    assert paths(vault, "crew pier winch")[0] == "a.md"


def test_question_words_and_auxiliaries_find_nothing(fill: Fill) -> None:
    vault = fill({"a.md": "Who did what, and how has it been done?\n"})
    assert ask(vault, "who did what and has it been done") == []


def test_weak_words_count_half_beside_others_but_are_found_alone(fill: Fill) -> None:
    notes = {"a.md": "Please remember the kettle.\n", "b.md": "A winch.\n"}
    vault = fill(notes)
    assert paths(vault, "please remember") == ["a.md"]
    alone = ask(vault, "please kettle")[0].matches
    assert alone[0].term == "pleas"
    assert alone[0].score < alone[1].score


def test_irregular_forms_are_found_by_each_other(fill: Fill) -> None:
    vault = fill({"a.md": "She taught the children to row.\n"})
    assert paths(vault, "who teaches a child?") == ["a.md"]


def test_a_long_note_is_found_by_its_best_passage(fill: Fill) -> None:
    filler = "The harbour master wrote of tides, ropes, weather and cargo that day. " * 60
    fact = "The winch of the north pier needs grease every March. "
    together = fact + filler
    apart = fact.replace(" needs", ". " + filler + "It needs").replace(" every", ". " + filler)
    vault = fill({"a-apart.md": apart, "b-together.md": together})
    found = ask(vault, "winch grease march north")
    assert [hit.record.path for hit in found[:2]] == ["b-together.md", "a-apart.md"]
    assert found[0].passage > 2 * found[1].passage


def test_of_short_and_long_notes_with_the_same_words_the_short_one_is_first(fill: Fill) -> None:
    vault = fill(
        {
            "a-long.md": "Winch. " + "Rope and cargo and tide. " * 12,
            "b-short.md": "Winch. Rope.\n",
        }
    )
    assert paths(vault, "winch")[0] == "b-short.md"


def session_note(number: int, text: str, tags: str = "voyage", day: int = 1) -> str:
    when = f"2026-05-{day:02}T10:{number:02}:00"
    return f"---\ntags: [{tags}]\ncreated: {when}\n---\n{text}\n"


def test_a_short_note_gets_a_share_of_those_written_just_before_and_after(fill: Fill) -> None:
    turns = {
        "log/a1.md": session_note(1, "The winch of the ferry broke."),
        "log/z2.md": session_note(2, "A winch was ordered then."),
        "log/a3.md": session_note(3, "The ferry winch arrived on a truck."),
        "log/m9.md": session_note(1, "A winch was ordered then.", "elsewhere", 20),
    }
    found = {hit.record.path: hit for hit in ask(fill(turns), "ferry winch")}
    assert found["log/z2.md"].neighbours > 0 == found["log/m9.md"].neighbours
    order = list(found)
    assert order.index("log/z2.md") < order.index("log/m9.md")
    beside = [found[path] for path in ("log/a1.md", "log/a3.md")]
    own = [h.score - h.recency - h.neighbours for h in beside]
    assert found["log/z2.md"].neighbours == pytest.approx(WEIGHTS.neighbours[0] * sum(own))


def test_the_first_places_belong_to_what_answers_by_itself(fill: Fill) -> None:
    turns = {f"log/t{n}.md": session_note(n, f"The ferry winch, part {n}.") for n in range(1, 6)}
    exact = session_note(1, "The winch on which the ferry depends broke.", "elsewhere", 20)
    found = ask(fill(turns | {"log/exact.md": exact}), "when did the ferry winch break?")
    assert found[0].record.path == "log/exact.md"
    assert found[0].neighbours == 0 < min(hit.neighbours for hit in found[1:])


def test_a_weak_note_loses_where_its_subject_answers_less_than_another(fill: Fill) -> None:
    notes = {
        "log/a1.md": session_note(1, "The ferry needs a winch."),
        "log/a2.md": session_note(2, "A winch for the ferry, of steel."),
        "log/b1.md": session_note(1, "The ferry needs a winch.", "cooking"),
        "log/b2.md": session_note(2, "Soup for six.", "cooking"),
        "log/c1.md": session_note(1, "The ferry needs a winch.", "alone"),
        "log/d1.md": "The ferry needs a winch.\n",
    }
    vault, question = fill(notes), "which ferry winch did Aksel order in Bergen last spring?"
    found = {hit.record.path: hit for hit in ask(vault, question)}
    order = list(found)
    assert order.index("log/a1.md") < order.index("log/b1.md") == len(order) - 1
    assert found["log/b1.md"].neighbours < 0 == found["log/c1.md"].neighbours
    assert found["log/d1.md"].neighbours == 0
    assert found["log/b1.md"].strength == pytest.approx(found["log/c1.md"].strength)
    strong = {hit.record.path: hit for hit in ask(vault, "ferry winch")}
    assert strong["log/b1.md"].neighbours == 0


def test_a_turn_of_a_session_that_answers_more_is_first(fill: Fill) -> None:
    between = ["Omar: Fine weather.", "Maren: Tea."] * 3
    turns = write_turns("s-1", "Maren: Soup.", *between, "Omar: The winch needs grease.")
    turns |= write_turns("s-2", "Maren: The ferry.", *between, "Omar: The winch needs grease.")
    question = "who brought grease for the winch of the ferry to Bergen last spring?"
    found = [hit.record.path for hit in ask(fill(turns), question)]
    assert found.index("log/s-2-7.md") < found.index("log/s-1-7.md")


def test_recency_counts_more_for_a_long_message_than_for_a_short_question(fill: Fill) -> None:
    notes = {
        "old.md": "---\ncreated: 2025-01-01\n---\nThe winch needs grease, ropes.\n",
        "new.md": "---\ncreated: 2026-05-01\n---\nThe winch needs grease, cargo.\n",
    }
    vault = fill(notes)
    long = " ".join(f"word{n}" for n in range(30))
    gaps = []
    for question in ("winch grease", f"winch grease {long}"):
        found = {hit.record.path: hit for hit in ask(vault, question)}
        gaps.append(found["new.md"].recency - found["old.md"].recency)
    assert 0 < 3 * gaps[0] < gaps[1]


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("Wie öffne ich die Verbindung?", "Eine Datenbankverbindung, die Verbindungszeit."),
        ("Wo ist die Datenbankverbindung?", "Es gibt eine Datenbank."),
        ("où sont les installations ?", "Une installation."),
    ],
)
def test_joined_words_and_parts_are_found(fill: Fill, question: str, text: str) -> None:
    assert paths(fill({"a.md": f"{text}\n"}), question) == ["a.md"]


@pytest.mark.parametrize(
    ("question", "wanted"),
    [
        ("tokens refresh", "page.md"),
        ("how do I refresh tokens?", "page.md"),
        ("fresh starts", "other.md"),
    ],
)
def test_the_page_comes_first_whose_title_or_alias_has_all_words(
    fill: Fill, question: str, wanted: str
) -> None:
    """Index pages and pages beside it have the same words, often more of them."""
    links = "".join(
        f"- [Refresh {name} tokens early](x{name}.md)\n" for name in ("all", "old", "new")
    )
    notes = {
        "page.md": "# Refresh tokens\n\nA token lives for an hour. "
        + "Each is checked by the gateway and by the service behind it. " * 30,
        "other.md": "---\naliases: [Fresh start]\n---\n# Clean slate\n\nWhat it does.\n",
        "index.md": f"# Tokens\n\n## In this section\n\nRefresh tokens and their pages:\n\n{links}",
        "beside.md": "# Rotate tokens\n\nRefresh tokens, then rotate. Refresh tokens twice.\n\n"
        "## See also\n\n- Refresh tokens\n- Fresh start, fresh starts\n",
    }
    assert paths(fill(notes), question)[0] == wanted


@pytest.mark.parametrize(
    "said",
    [
        "**Maren:** the ferry leaves too early for all of us",
        "Maren: the ferry leaves too early for all of us",
        'Maren said, "The ferry leaves too early for all of us."',
        "---\nsource: Maren\n---\nthe ferry leaves too early for all of us, she says, Maren",
    ],
)
def test_what_somebody_said_comes_first_where_the_question_names_them(
    fill: Fill, said: str
) -> None:
    vault = fill({"a.md": "Omar: Maren, is the ferry late, Maren?\n", "b.md": f"{said}\n"})

    found = ask(vault, "what does maren think about the ferry")

    assert [hit.record.path for hit in found] == ["b.md", "a.md"]
    assert [hit.named > 0 for hit in found] == [True, False]


def test_a_conversation_is_said_by_nobody(fill: Fill) -> None:
    turns = "Maren: the ferry is late\nOmar: the ferry is always late\n"
    vault = fill({"a.md": turns})

    assert [hit.named for hit in ask(vault, "what does Maren think about the ferry")] == [0]


def test_a_list_of_links_comes_after_what_says_something(fill: Fill) -> None:
    vault = fill(
        {
            "a.md": "# Rope lockers\n\n## See also\n\n- [[Ferry tickets]]\n- [[Ferry]]\n",
            "b.md": "# Ferry prices\n\nWhat each pier asks for, tickets of children included.\n",
        }
    )

    assert paths(vault, "ferry tickets") == ["b.md", "a.md"]


def test_nothing_is_found_for_its_neighbours_alone(fill: Fill) -> None:
    turns = {
        "log/a1.md": session_note(1, "The winch of the ferry broke."),
        "log/a2.md": session_note(2, "Nobody was surprised."),
    }
    assert paths(fill(turns), "ferry winch") == ["log/a1.md"]


@pytest.mark.parametrize(
    ("why", "second"),
    [
        ("no tag in common", session_note(2, "A winch.", "elsewhere")),
        ("more than 30 days apart", "---\ntags: [voyage]\ncreated: 2026-07-01\n---\nA winch.\n"),
        ("without a date", "---\ntags: [voyage]\n---\nA winch.\n"),
        ("long", session_note(2, "A winch. " + "Ropes, cargo and tides. " * 60)),
        ("of several sections", session_note(2, "A winch.\n\n# One\nropes\n\n# Two\ncargo")),
        (
            "archived",
            "---\nkind: semantic_fact\nstate: archived\n" + session_note(2, "A winch.")[4:],
        ),
    ],
)
def test_notes_are_no_neighbours_when(fill: Fill, why: str, second: str) -> None:
    vault = fill({"a.md": session_note(1, "A winch of the ferry."), "b.md": second})
    found = {hit.record.path: hit for hit in ask(vault, "ferry winch", any_state=False)}
    assert found["a.md"].neighbours == 0, why
    assert all(hit.neighbours == 0 for hit in found.values())


def test_notes_of_one_session_are_neighbours_whatever_lies_between(fill: Fill) -> None:
    notes = {
        f"{name}.md": f"---\nsession: {session}\ncreated: 2026-0{month}-01\n---\n{text}\n"
        for name, session, month, text in [
            ("a", "s-1", 1, "The ferry has a winch."),
            ("b", "s-2", 2, "Another winch."),
            ("c", "s-1", 6, "Another winch."),
        ]
    }
    found = {hit.record.path: hit for hit in ask(fill(notes), "ferry winch")}
    assert found["c.md"].neighbours > 0 == found["b.md"].neighbours


def write_turns(session: str, *texts: str) -> dict[str, str]:
    head = f"---\nsession: {session}\ncreated: 2026-05-01T10:{{:02}}:00\n---\n"
    return {f"log/{session}-{n}.md": f"{head.format(n)}{text}\n" for n, text in enumerate(texts)}


def test_an_answer_without_a_word_of_the_question_is_found_behind_the_turn_that_asks(
    fill: Fill,
) -> None:
    asked = write_turns("s-1", "Maren: Who lights the lantern?", "Omar: Bob, after supper.")
    told = write_turns("s-2", "Maren: Bob lights the lantern.", "Omar: Good to know.")
    found = {hit.record.path: hit for hit in ask(fill(asked | told), "who lights the lantern?")}
    assert set(found) == {"log/s-1-0.md", "log/s-1-1.md", "log/s-2-0.md"}
    answer = found["log/s-1-1.md"]
    assert answer.neighbours > 0 == len(answer.matches)
    assert not is_strong(answer)


def test_a_turn_gains_more_behind_a_question(fill: Fill) -> None:
    turns = write_turns("s-1", "Maren: The ferry winch?", "Omar: A winch.")
    turns |= write_turns("s-2", "Maren: The ferry winch.", "Omar: A winch.")
    found = {hit.record.path: hit.neighbours for hit in ask(fill(turns), "ferry winch")}
    assert found["log/s-1-1.md"] > found["log/s-2-1.md"] > 0


def test_of_equal_notes_the_newer_one_is_first_and_an_old_better_one_before_both(
    fill: Fill,
) -> None:
    notes = {
        "old-one.md": "---\ncreated: 2025-01-01\n---\nThe winch needs grease.\n",
        "two-new.md": "---\ncreated: 2026-05-01\n---\nThe winch needs grease.\n",
        "one-better.md": "---\ncreated: 2020-01-01\n---\nThe winch needs grease in March.\n",
    }
    vault = fill(notes)
    assert paths(vault, "winch grease march") == ["one-better.md", "two-new.md", "old-one.md"]
    assert paths(vault, "winch grease")[:2] == ["two-new.md", "old-one.md"]


def test_a_note_of_the_future_makes_nothing_else_older(fill: Fill, opened: Open) -> None:
    def scores(vault: Vault) -> dict[str, tuple[float, float]]:
        return {hit.record.path: (hit.score, hit.recency) for hit in ask(vault, "winch grease")}

    notes = {
        "old.md": "---\ncreated: 2025-01-01\n---\nThe winch needs grease.\n",
        "new.md": "---\ncreated: 2026-05-01\n---\nThe winch needs paint and some grease.\n",
        "far.md": "---\ncreated: 2026-05-01\n---\nThe quay is of stone.\n",
    }
    vault = fill(notes)
    before = scores(vault)
    (vault.root / "far.md").write_text(notes["far.md"].replace("2026-05-01", "2030-01-01"))
    assert scores(opened(vault.root)) == before
    (vault.root / "old.md").write_text(notes["old.md"].replace("2025-01-01", "2031-01-01"))
    assert scores(opened(vault.root))["old.md"] > before["old.md"]
    again = opened(vault.root)
    late = check_dates(again, again.now())
    assert late.paths == ("far.md: 2030-01-01", "old.md: 2031-01-01")
    assert late.verdict == "warning"


def test_the_same_notes_are_ranked_alike_whenever_they_are_asked(fill: Fill, opened: Open) -> None:
    notes = {
        "old.md": "---\ncreated: 2025-01-01\n---\nThe winch needs grease.\n",
        "new.md": "---\ncreated: 2026-05-01\n---\nThe winch needs paint and some grease.\n",
    }
    vault = fill(notes)
    before = [(hit.record.path, hit.score, hit.recency) for hit in ask(vault, "winch grease")]
    assert before[0][2] != before[1][2]
    for days in (1, 30, 400, 4_000):
        now = vault.now() + days * 86_400
        later = replace(opened(vault.root), now=lambda now=now: now)
        found = [(hit.record.path, hit.score, hit.recency) for hit in ask(later, "winch grease")]
        assert found == before, days


def test_recency_can_be_turned_off_and_up_in_the_settings(fill: Fill, opened: Open) -> None:
    notes = {
        "old-one.md": "---\ncreated: 2025-01-01\n---\nThe winch needs grease.\n",
        "two-new.md": "---\ncreated: 2026-05-01\n---\nThe winch needs paint and some grease.\n",
    }
    vault = fill(notes)
    query = parse_query("winch grease")
    for share, first in (("0", "old-one.md"), ("1", "two-new.md")):
        (vault.root / "vaultmem.yaml").write_text(f"recency_weight: {share}\n")
        again = opened(vault.root)
        assert paths(again, "winch grease")[0] == first
        assert recall(vault, query._replace(recency=float(share)))[0].record.path == first


def test_a_template_without_words_makes_no_note_older(fill: Fill) -> None:
    notes = {
        "old.md": "---\ncreated: 2025-01-01\n---\nThe winch needs grease.\n",
        "new.md": "---\ncreated: 2025-06-01\n---\nThe winch needs grease.\n",
    } | {path: f"---\ncreated: 2025-01-01\n---\n{text}" for path, text in OTHERS.items()}
    empty = {"MEMORY.md": "# Memory\n\n## Project\n\n<!-- What this is. -->\n"}
    found = [
        [(hit.record.path, hit.recency) for hit in ask(fill(each, name), "winch grease")]
        for name, each in (("plain", notes), ("begun", notes | empty))
    ]
    assert found[0] == found[1]
    assert found[0][0] == ("new.md", pytest.approx(0))


def test_doubtful_notes_rank_lower_and_hidden_ones_not_at_all(fill: Fill) -> None:
    states = ["active", "candidate", "stale", "archived", "deprecated", "quarantined"]
    notes = {
        f"{5 - n}.md": f"---\nkind: reflection\nstate: {s}\n---\nA winch.\n"
        for n, s in enumerate(states)
    }
    found = ask(fill(notes), "winch")
    assert [(hit.record.state, round(hit.state_weight, 3)) for hit in found] == [
        ("active", 1.0),
        ("candidate", 0.9),
        ("stale", 0.7),
    ]


@pytest.mark.campaign
def test_equal_scores_are_in_the_order_of_path_even_where_many_are_cut_off(fill: Fill) -> None:
    same = "---\ncreated: 2026-05-01\n---\nThe winch.\n"
    vault = fill({f"same/{(n * 37) % 300:03}.md": same for n in range(300)})
    assert paths(vault, "winch") == [f"same/{n:03}.md" for n in range(20)]


def test_the_parts_of_a_score_add_up(fill: Fill) -> None:
    turns = {
        "log/a1.md": session_note(1, "The winch of the ferry broke."),
        "log/a2.md": session_note(2, "The ferry winch was ordered. " + "Rope and cargo. " * 90),
        "log/a3.md": "---\nkind: semantic_fact\nstate: stale\n"
        + session_note(3, "A ferry had no winch.")[4:],
    }
    found = ask(fill(turns), "ferry winch")
    assert len(found) == 3
    for hit in found:
        assert hit.score == pytest.approx(sum_up(hit), rel=1e-4)
    assert {match.fields for hit in found for match in hit.matches} == {("body",)}


@pytest.mark.campaign
def test_a_filter_gives_the_scores_of_a_vault_of_just_those_notes(fill: Fill) -> None:
    kept = {
        f"kept/{n}.md": session_note(n, f"The winch {'grease ' * n} of pier {n}.", "voyage")
        for n in range(1, 7)
    }
    noise = {f"noise/{n}.md": f"winch pier {n} grease\n" for n in range(30)}
    mixed = ask(fill({**kept, **noise}), "winch grease pier", paths=("kept",))
    alone = ask(fill(kept, "alone"), "winch grease pier", paths=("kept",))
    assert [(h.record.path, round(h.score, 5), round(h.neighbours, 5)) for h in mixed] == [
        (h.record.path, round(h.score, 5), round(h.neighbours, 5)) for h in alone
    ]
    assert len(mixed) == 6
    assert any(hit.neighbours for hit in mixed)


def test_a_hit_is_what_the_file_says_and_a_lost_segment_is_built_again(fill: Fill) -> None:
    matter = '---\ntitle: "Wïnch: a \\"tale\\""\ntags: [a, b]\nconfidence: 0.5\n---\n'
    note = f"{matter}pre\n\n# Héad\n漢字 winch\n"
    vault = fill({"a.md": note})
    (hit,) = [h for h in ask(vault, "漢字") if h.record.path == "a.md"]
    assert vault.view.records_of([hit.record.document])[hit.record.document] == hit.record
    section = vault.view.sections_of([hit.record.document], [hit.section.ordinal])
    assert list(section.values()) == [hit.section]
    assert hit.text == note[hit.section.start : hit.section.end].strip() == "漢字 winch"
    for file in (vault.state_folder / "index").glob("*.arrays"):
        file.unlink()
    vault.close()
    (again,) = [h for h in ask(vault, "漢字") if h.record.path == "a.md"]
    assert (again.text, again.score, again.matches) == (hit.text, hit.score, hit.matches)


@pytest.mark.parametrize(
    "question", ["sail-locker", "Sail locker?", "Where the canvas lives", "a sock"]
)
def test_the_note_comes_first_that_is_called_as_the_question_is(fill: Fill, question: str) -> None:
    names = "title: Where the canvas lives\naliases: [A sock]"
    notes = {
        "deep/sail-locker.md": f"---\n{names}\n---\nIt is dry.\n",
        "a.md": "# Sail\n\n## Sail locker\n\nThe sail locker is a locker of sails.\n",
        "b.md": "# Canvas\n\n## Where the canvas lives\n\nWhere the canvas lives is not said.\n",
    }
    assert paths(fill(notes), question)[0] == "deep/sail-locker.md"
