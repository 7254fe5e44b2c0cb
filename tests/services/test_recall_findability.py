"""What is written is found, however it is asked for: tables through the real index."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Make, Open, RunCli

from vaultmem.core.search.query import NoteFilter, RecallQuery, parse_query
from vaultmem.errors import RefusedError
from vaultmem.services.packs.build import make_pack
from vaultmem.services.search.recall import find_hits, recall
from vaultmem.services.search.run_query import Query, run_query
from vaultmem.services.search.vault_set import VaultSet
from vaultmem.services.views.update_index import sync_vault
from vaultmem.vault import Vault

#: Each note is one text; its name is what the tables below call it.
TEXTS = {
    "cafe": "Das Café am Hafen: façade, naïve Größe, Ångström.",
    "kana": "認証トークンは一時間で失効します。",
    "hanzi": "认证令牌使用RS256签名，每小时过期。",
    "hangul": "인증 토큰은 한 시간 후에 만료됩니다.",
    "wide": "Ｆｕｌｌ ｗｉｄｔｈ ＡＢＣ１２３ and ﬁle ligature",
    "snake": "Call get_user_name before parse_config.",
    "camel": "Call fetchRefundQueue or HTTPServerError.",
    "path": "See api/workers/refund_queue.py and docs/setup.md for it.",
    "error": "It fails with E1234 and ERR-77, not E9999.",
    "version": "Pinned to Python 3.11.2 and numpy 1.26.",
    "price": "It costs 1,750,000 krona, or 0.5% of 42.",
    "hyphen": "Send an e-mail about the long-term follow-up of IL-6.",
    "url": "Documented at https://example.org/api/v2/refunds.html today.",
    "greek": "Η ταυτότητα λήγει σε μία ώρα.",
    "cyrillic": "Токен истекает через час, ёлка.",
    "arabic": "ينتهي الرمز بعد ساعة",
    "devanagari": "टोकन एक घंटे में समाप्त",
    "thai": "โทเค็น หมดอายุ",
    "plural": "Batteries were charged by the running engines.",
}


@pytest.fixture
def vault(make_vault: Make, opened: Open) -> Vault:
    notes = {f"notes/{name}.md": f"---\ntitle: note\n---\n{text}\n" for name, text in TEXTS.items()}
    made = opened(make_vault(notes))
    sync_vault(made)
    return made


def find(vault: Vault, text: str) -> list[str]:
    return [Path(hit.record.path).stem for hit in recall(vault, parse_query(text, 30))]


QUESTIONS = {
    "cafe": ["cafe", "CAFÉ", "cafe\u0301", "facade", "naive", "grosse", "angstrom", "ANGSTRÖM"],
    "kana": ["トークン", "認証", "一時間", "失効"],
    "hanzi": ["令牌", "签名", "rs256", "每小时", "认证令牌"],
    "hangul": ["토큰", "만료", "인증"],
    "wide": ["full width", "abc123", "file", "ＦＵＬＬ"],
    "snake": ["get_user_name", "user name", "getUserName", "parse config", "GET_USER_NAME"],
    "camel": ["fetchRefundQueue", "fetchrefundqueue", "fetch refund queue", "http server error"],
    "path": ["api/workers/refund_queue.py", "refund_queue.py", "setup.md", "workers"],
    "error": ["E1234", "e1234", "ERR-77", "err77"],
    "version": ["3.11.2", "python 3.11.2", "numpy 1.26"],
    "price": ["1,750,000", "1750000", "0.5%"],
    "hyphen": ["email", "e-mail", "long term", "longterm", "il6", "IL-6", "follow-up"],
    "url": ["example.org", "refunds.html", "https://example.org/api/v2/refunds.html"],
    "greek": ["ταυτοτητα", "ΤΑΥΤΌΤΗΤΑ"],
    "cyrillic": ["токен", "елка", "ЁЛКА"],
    "arabic": ["الرمز"],
    "devanagari": ["टोकन"],
    "thai": ["โทเค็น"],
    "plural": ["battery", "charge", "run", "engine"],
}


def test_each_spelling_finds_its_note_first(vault: Vault) -> None:
    wrong = {
        f"{name}: {text}": found
        for name, texts in QUESTIONS.items()
        for text in texts
        if (found := find(vault, text))[:1] != [name]
    }
    assert wrong == {}


def test_the_first_question_takes_in_a_vault_that_was_never_indexed(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault({"a.md": "The gangway opens at six.\n"})
    assert find(opened(root), "gangway") == ["a"]
    assert "at six" in make_pack(opened(root), "gangway").text


def test_what_is_not_written_is_not_found(vault: Vault) -> None:
    assert "error" not in find(vault, "E123")
    assert "version" not in find(vault, "9.8.7")
    assert "hanzi" not in find(vault, "令证")


def test_a_whole_identifier_comes_before_its_words(make_vault: Make, opened: Open) -> None:
    made = opened(
        make_vault(
            {
                "a.md": "The user has a name; get it. get user, get name, name the user.\n",
                "b.md": "Somewhere in a longer text get_user_name is called by the worker.\n",
                "c.md": "Version 11 of 3, and 2 more of 3.\n",
                "d.md": "We are on 3.11.2 since the spring, which took some work to do.\n",
            }
        )
    )
    sync_vault(made)
    assert find(made, "get_user_name")[0] == "b"
    assert find(made, "3.11.2")[0] == "d"


MEANT = [
    ("ligatrue", {"ligatrue": "ligature"}),
    ("whidth of it", {"whidth": "width"}),
    ("batterries", {"batterries": "batteries"}),
    ("workesr documentd", {"workesr": "workers", "documentd": "documented"}),
    ("кокен", {"кокен": "токен"}),
    ("ligature width", {}),
    ("E1235", {}),
    ("who did what", {}),
    ("zzzzqqqq", {}),
    ("cta", {}),
]


def test_a_misspelt_word_gets_a_word_of_the_vault(vault: Vault) -> None:
    assert [(text, find_replaced(vault, parse_query(text))) for text, _ in MEANT] == MEANT


def find_replaced(vault: Vault, query: RecallQuery) -> dict[str, str]:
    searched, _ = find_hits(VaultSet([vault]), query, query.limit)
    return dict(searched.replaced)


def test_words_that_the_filter_hides_are_not_suggested(make_vault: Make, opened: Open) -> None:
    made = opened(
        make_vault({"a.md": "---\nagent: x\nstate: archived\n---\nA gangway.\n", "b.md": "x\n"})
    )
    sync_vault(made)
    assert find_replaced(made, parse_query("gangwya")) == {}
    shown = NoteFilter(any_state=True)
    assert find_replaced(made, parse_query("gangwya", 5, shown)) == {"gangwya": "gangway"}


def test_the_command_says_what_may_have_been_meant(make_vault: Make, run_cli: RunCli) -> None:
    root = make_vault({"a.md": "A gangway.\n"})
    told = run_cli("recall", "--vault", root, "gangwya")
    assert '"gangwya" is not in this vault; searched for "gangway"' in told.out  # type: ignore[attr-defined]
    told = run_cli("recall", "--vault", root, "--json", "gangwya")
    assert told.json["corrections"] == {"gangwya": "gangway"}  # type: ignore[attr-defined]


ASKED = {
    "school.md": "# School\n\nThe education of the children is paid until May.\n",
    "fair.md": "# Fair\n\nThe festival begins on Friday; the harbour is closed.\n",
    "will.md": "# Papers\n\nSo where is my will? It lies with the notary in Kiel.\n",
    "noise.md": "# Noise\n\nThis will be what it is, and there it will stay where my cat is.\n",
    "title.md": "# To be or not to be\n\nHamlet.\n",
}


@pytest.fixture
def asked(make_vault: Make, opened: Open) -> Vault:
    made = opened(make_vault(ASKED))
    sync_vault(made)
    return made


@pytest.mark.parametrize(
    ("question", "replaced", "first"),
    [
        ("educaton", {"educaton": "education"}, "school.md"),
        ("edcuation of children", {"edcuation": "education"}, "school.md"),
        ("fesetival", {"fesetival": "festival"}, "fair.md"),
        ("harbor", {"harbor": "harbour"}, "fair.md"),
        ("12345678", {}, ""),
        ("xylophone", {}, ""),
    ],
)
def test_a_word_that_the_vault_does_not_have_is_searched_as_the_nearest(
    asked: Vault, question: str, replaced: dict[str, str], first: str
) -> None:
    answer = run_query(asked, Query(question))
    assert answer.replaced == replaced
    assert [hit.record.path for hit in answer.hits[:1]] == [first] * bool(first)
    pack = make_pack(asked, question)
    assert dict(pack.replaced) == replaced


def test_the_nearest_word_counts_less_than_the_word_itself(asked: Vault) -> None:
    right, wrong = (
        run_query(asked, Query(word)).hits[0].score for word in ("festival", "fesetival")
    )
    assert 0 < wrong < right


@pytest.mark.parametrize(
    ("question", "first"),
    [("where is my will", "will.md"), ("not to be", "title.md"), ("my will", "will.md")],
)
def test_words_that_are_not_indexed_are_found_where_there_are_no_others(
    asked: Vault, question: str, first: str
) -> None:
    answer = run_query(asked, Query(question))
    assert answer.hits[0].record.path == first
    assert "Papers" in make_pack(asked, "where is my will").text
    assert run_query(asked, Query("whom")).hits == []


@pytest.mark.campaign
def test_nothing_is_forgotten_by_words_that_are_not_indexed(asked: Vault, run_cli: RunCli) -> None:
    run_cli("forget", "--vault", asked.root, "--query", "where is my will", "--yes")
    assert (asked.root / "will.md").exists()


@pytest.mark.campaign
def test_a_question_of_any_length_is_answered_by_its_rarest_terms(asked: Vault) -> None:
    words = " ".join(f"word{n} is of no use" for n in range(4_000))
    for question in (f"{words} festival {words}", f"notary {'the cat ' * 12_000}"):
        assert len(question) > 90_000
        answer = run_query(asked, Query(question))
        assert answer.hits
        assert make_pack(asked, question).text
    assert run_query(asked, Query(f"{words} festival {words}")).hits[0].record.path == "fair.md"
    assert run_query(asked, Query("x" * 100_000)).hits == []
    with pytest.raises(RefusedError):
        parse_query("x" * 1_000_001)


@pytest.mark.parametrize(
    ("texts", "question", "other"),
    [
        (("Eine Datei.", "Viele Dateien und eine Datei."), "Wo sind die Dateien?", "dateien"),
        (("Quiero cambiar.", "Estamos cambiando."), "¿Por qué están cambiando?", "cambiando"),
    ],
)
def test_forms_of_a_german_or_spanish_word_count_as_one_term(
    make_vault: Make, opened: Open, texts: tuple[str, str], question: str, other: str
) -> None:
    names = [f"notes/{number}.md" for number in range(2)]
    made = opened(make_vault(dict(zip(names, texts, strict=True))))
    asked = parse_query(question)
    hits = recall(made, asked)

    assert sorted(hit.record.path for hit in hits) == names
    assert [[match.term for match in hit.matches if match.term == other] for hit in hits] == [
        [other]
    ] * 2
    assert VaultSet([made]).count(asked).counts[other] == 2
    assert VaultSet([made]).count(parse_query(f"the {other}")).counts[other] == 1


def test_german_function_words_count_less_than_what_is_asked(
    make_vault: Make, opened: Open
) -> None:
    texts = {"a.md": "Nach dem Essen vor dem Haus über den Zaun.", "b.md": "Sicherung."}
    made = opened(make_vault({**texts, **{f"{n}.md": "Anderes." for n in range(8)}}))
    hits = recall(made, parse_query("Was kommt nach und vor der Sicherung?"))
    assert [hit.record.path for hit in hits[:2]] == ["b.md", "a.md"]


def test_a_letter_written_as_a_reference_is_found(make_vault: Make, opened: Open) -> None:
    made = opened(make_vault({"a.md": "# R&eacute;ponse\n\nni&ntilde;o", "b.md": "Autre."}))
    for question in ("réponse", "niño", "r&eacute;ponse"):
        assert [hit.record.path for hit in recall(made, parse_query(question))] == ["a.md"]
