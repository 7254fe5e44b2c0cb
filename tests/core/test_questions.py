"""Files of questions are read as people write them, and measured as the literature has it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from vaultmem.core.search.evaluation import (
    Question,
    add_question,
    measure_ndcg,
    measure_recall,
    parse_questions,
    split_notes,
    summarise,
)
from vaultmem.errors import RefusedError

TABLE = """\
# Mine

```
| question | notes |
|---|---|
| in code | x |
```

Notes | Question | why | At
:-- | --: | - | -
[[a\\|b]] | what \\| who? | because | v1
"Harbour, old", c.md | when? | |

| name | size |
|---|---|
| not | mine |
"""


def test_a_table_is_read_whatever_is_around_it() -> None:
    assert parse_questions(TABLE, "q.md") == [
        Question(11, "what | who?", ("[[a|b]]",), "v1"),
        Question(12, "when?", ('"Harbour, old", c.md',)),
    ]


def test_json_lines_are_read() -> None:
    text = '\ufeff{"question": "a?", "notes": "n.md", "id": 7}\r\n\r\n{"question": "b?", '
    text += '"notes": ["m", "[[n#H]]"], "says": ["x", "y"], "at": "2026-10-01"}\n'
    assert parse_questions(text, "q") == [
        Question(1, "a?", ("n.md",)),
        Question(3, "b?", ("m", "[[n#H]]"), "2026-10-01", ("x", "y")),
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "q: there is no question in it"),
        ("# Text\n\n| a | b |\n|---|---|\n| c | d |\n", "q: there is no question in it"),
        ("| question | note |\n|---|---|\n| a | b |\n", 'q:1: the table has no column "notes"'),
        ("| question | notes |\n|---|---|\n| a | b | c |\n", "q:3: 3 cells in a table of 2"),
        (
            "| question | notes |\n|---|---|\n| a | |\n| | b |",
            'q:3: "notes" is empty; .*; q:4: "qu',
        ),
        ('{"question": "a", "notes": []}', 'q:1: "notes" is empty'),
        ('{"question": 3, "notes": ["a"]}', 'q:1: "question" has to be a text'),
        ('{"question": "a", "notes": ["a", 1]}', 'q:1: "notes" has to be a texts'),
        ('{"question": "a", "notes": "a"}\nnope\n', "q:2: not a JSON object"),
        ("{" * 100_000, "q:1: not a JSON object"),
        ('{"a": 1}\n' * 5, "q:1: .*q:3: .*; and 2 more such lines$"),
    ],
)
def test_what_is_wrong_is_told_by_its_line(text: str, told: str) -> None:
    with pytest.raises(RefusedError, match=f"^{told}"):
        parse_questions(text, "q")


def test_notes_in_a_cell_are_divided_outside_of_links() -> None:
    assert split_notes("a.md, [[b, c; d]]<br>e;[[f]] ,") == ["a.md", "[[b, c; d]]", "e", "[[f]]"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# Mine",
        "| at | notes | question |\n|---|---|---|\n| v1 | x | y |\n\nThe end.\n",
        "| question | notes |\r\n|---|---|\r\n| y | x |",
        '{"question": "y", "notes": ["x"]}\n',
    ],
)
@pytest.mark.parametrize("as_json", [True, False])
def test_an_added_question_is_read_again_and_all_else_stays(text: str, as_json: bool) -> None:
    question = Question(0, "who | what?", ("notes/a, b.md", "c.md#H"))
    grown = add_question(text, question, as_json)
    *before, added = parse_questions(grown, "q")
    assert before == (parse_questions(text, "q") if "y" in text else [])
    assert added.text == question.text
    names = added.notes if len(added.notes) > 1 else split_notes(*added.notes)
    assert [name.strip("[]").replace(".md", "") for name in names] == ["notes/a, b", "c#H"]
    assert all(line in grown.splitlines() for line in text.splitlines())
    assert ("\r\n" in grown) == ("\r\n" in text)


#: Reads the questions on its standard input, and says how many names their cells have.
CHILD = """
import sys
from vaultmem.core.search.evaluation import parse_questions, split_notes
for each in parse_questions(sys.stdin.read(), "q.md"):
    print(sum(len(split_notes(cell)) for cell in each.notes))
"""


def test_a_cell_of_open_links_is_read_in_linear_time() -> None:
    """Quadratic, it would take more than a minute."""
    table = f"| question | notes |\n|---|---|\n| when? | [[a, b]], {'[[' * 100_000} |\n"
    done = subprocess.run(
        [sys.executable, "-c", CHILD], input=table, capture_output=True, text=True, timeout=20
    )
    assert done.stdout == "2\n"


def test_measures_are_those_of_the_literature() -> None:
    ranked = ["a", "b", "c", "d"]
    assert measure_recall(ranked, ["b", "x"], 10) == 0.5
    assert measure_recall(ranked, ["d"], 3) == 0
    assert measure_ndcg(ranked, ["a", "b"], 10) == 1
    assert measure_ndcg(ranked, ["b"], 10) == pytest.approx(0.6309, abs=1e-4)
    assert measure_ndcg(ranked, ["a", "d", "x"], 3) == pytest.approx(
        1 / (1 + 0.6309 + 0.5), abs=1e-4
    )


def test_an_interval_holds_the_mean_and_is_the_same_again() -> None:
    import numpy as np

    values = np.array([[0.0, 1.0], [1.0, 1.0], [1.0, 1.0], [0.0, 1.0]])
    first, second = summarise(values)
    assert first.low < first.mean == 0.5 < first.high
    assert second == (1.0, 1.0, 1.0)
    assert summarise(values) == [first, second]
