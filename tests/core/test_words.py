"""What differs between two texts, by their words."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from vaultmem.core.notes.changes import diff_text
from vaultmem.core.text.line_diff import DiffPiece, Passage, WordMark, diff_words, mark_diff

TEXTS = st.text(alphabet="ab \n.,1é退\r", max_size=60)


def mark(old: str, new: str) -> str:
    """Write what differs as `[-old-]{+new+}`."""
    signs = {WordMark.SAME: "{}", WordMark.DEL: "[-{}-]", WordMark.INS: "{{+{}+}}"}
    return "".join(signs[piece.mark].format(piece.text) for piece in diff_words(old, new))


def test_words_that_differ_are_marked() -> None:
    assert mark("It takes three days.", "It takes four days.") == "It takes [-three-]{+four+} days."
    assert mark("Holds last 12.5 minutes", "Holds last 12.0 minutes") == (
        "Holds last [-12.5-]{+12.0+} minutes"
    )
    assert mark("退款三天到账", "退款四天到账") == "退款[-三-]{+四+}天到账"
    assert mark("same", "same") == "same"
    assert mark("", "new") == "{+new+}"


def test_little_between_two_changes_is_changed_with_them() -> None:
    assert mark("takes three days, then", "takes four nights, then") == (
        "takes [-three days-]{+four nights+}, then"
    )
    assert mark("A cat sat on a mat", "The dog lay in the hay") == (
        "[-A cat sat on a mat-]{+The dog lay in the hay+}"
    )


@given(TEXTS, TEXTS)
def test_both_texts_are_in_the_pieces(old: str, new: str) -> None:
    pieces = diff_words(old, new)
    assert "".join(piece.text for piece in pieces if piece.mark is not WordMark.INS) == old
    assert "".join(piece.text for piece in pieces if piece.mark is not WordMark.DEL) == new


@given(TEXTS, TEXTS)
def test_a_diff_is_marked_by_its_words(old: str, new: str) -> None:
    diff, _, _ = diff_text(old, new)
    passages = mark_diff(diff)
    assert len(passages) == sum(line.startswith("@@") for line in diff)
    added = [p.text for each in passages for p in each.pieces if p.mark is WordMark.INS]
    assert "".join(new.split()).count("".join("".join(added[:1]).split())) or not added


def test_a_diff_names_the_line_of_each_passage() -> None:
    old = "".join(f"line {n}\n" for n in range(1, 30))
    new = old.replace("line 4\n", "line four\n").replace("line 25\n", "")
    first, second = mark_diff(diff_text(old, new)[0])
    assert first == Passage(
        1,
        (
            DiffPiece(WordMark.SAME, "line 1\nline 2\nline 3\nline "),
            DiffPiece(WordMark.DEL, "4"),
            DiffPiece(WordMark.INS, "four"),
            DiffPiece(WordMark.SAME, "\nline 5\nline 6\nline 7"),
        ),
    )
    assert second.line == 22
    assert DiffPiece(WordMark.DEL, "line 25\n") in second.pieces


def test_long_texts_without_much_in_common_take_no_minute() -> None:
    old, new = (" ".join(str(n * n % m) for n in range(6_000)) for m in (97, 89))
    assert diff_words(old, new)
