"""Ask a vault: from a question to the sections that answer it, the same for every front end."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from vaultmem.core.finding.grouping import group_hits
from vaultmem.core.finding.hit import Hit
from vaultmem.core.finding.query import NoteFilter, RecallQuery, parse_query
from vaultmem.core.finding.reranking import Reranked
from vaultmem.core.finding.sureness import Sureness, judge_hits, tell_replaced, tell_sureness
from vaultmem.core.safe_text import name_some
from vaultmem.errors import VaultError
from vaultmem.services.finding.any_question import find_any
from vaultmem.services.finding.caution import add_cautions
from vaultmem.services.finding.count import count_hit, count_recall
from vaultmem.services.finding.parts import How
from vaultmem.services.finding.reach import Reach, Together
from vaultmem.services.finding.shown_lines import add_shown_lines
from vaultmem.services.reading.behind import sync_once
from vaultmem.services.reading.heal import heals
from vaultmem.vault import Vault

if TYPE_CHECKING:
    from vaultmem.services.embedding.score import DenseScorer, DenseScorers
    from vaultmem.services.finding.rerank import ModelReranker

#: Makes what is told of long work (`services.reading.indexing.Progress`), given what that is.
TellProgress = Callable[[str], Callable[[int, int], None]]


class Ask(NamedTuple):
    """A question, and how it is asked; what is left out is as vaultmem.yaml has it.

    `limit` is how many notes at most, 0 for `results` of vaultmem.yaml; the best `offset` are
    passed over. `at` is a branch, tag, commit or date, and `refs` are looked at together with it.
    `semantic` says whether meaning counts, None if vaultmem.yaml does. With `expand_links`, what
    the best link to is found as well; with `by_section`, each section is a hit of its own and
    counts; with `suggests`, archived notes and other branches are looked at where the answer is not
    sure. Who does not wait (`waits`) is answered with the vectors that there are, and without a
    reranker. What nobody is shown is not counted (`counts`).
    """

    question: str
    limit: int = 0
    offset: int = 0
    filter: NoteFilter = NoteFilter()
    at: str = ""
    refs: tuple[str, ...] = ()
    semantic: bool | None = None
    expand_links: bool = False
    by_section: bool = False
    suggests: bool = False
    waits: bool = True
    counts: bool = True


class ByMeaning(NamedTuple):
    """Which model scored, the share of the score by words, how many sections have vectors."""

    model: str
    weight: float
    embedded: int
    sections: int


class Models(NamedTuple):
    """What scores a question besides its words; `problem` is why meaning could not be had."""

    dense: DenseScorer | DenseScorers | None = None
    problem: str = ""
    reranker: ModelReranker | None = None

    def describe(self) -> tuple[ByMeaning | None, str, Reranked | None]:
        """Return, after a question, what scored by meaning, why none did, and what reranked."""
        reranked = self.reranker.done if self.reranker else None
        dense = self.dense
        if dense is None or dense.problem:
            return None, dense.problem if dense else self.problem, reranked
        name = dense.meaning.embedder.name
        meaning = ByMeaning(name, dense.weight, dense.embedded, dense.sections)
        none = "no section has a vector yet; run `vaultmem embed`"
        return meaning, "" if dense.embedded else none, reranked


class Answer(NamedTuple):
    """The notes that answer, best first, each as its best section, and what is to be said of them.

    `has_more` tells whether others come behind these, `replaced` which words the vault does not
    have and what was searched instead, `elsewhere` which note that was not asked answers. Where
    nothing answers, `too_large` are the notes that were not searched because of their size.
    `meaning` is None where words alone decided; `words_alone` says why, if it was not asked for so.
    `reranked` says what put the best in order, None where nothing was to. `shown` are the
    hits that somebody was shown, each with what was shown of it.
    """

    question: str
    terms: tuple[str, ...]
    hits: list[Hit]
    has_more: bool
    replaced: dict[str, str]
    meaning: ByMeaning | None
    words_alone: str
    reranked: Reranked | None
    sureness: Sureness
    elsewhere: str = ""
    too_large: tuple[str, ...] = ()
    shown: Sequence[tuple[Hit, str]] = ()


#: What a front end shows of an answer of the vault as it was looked at: hits, each with its text.
#: None if it says nothing at all.
Show = Callable[[Vault, Answer], Sequence[tuple[Hit, str]] | None]


#: Notes that are looked at for a budget.
MOST_FITTING = 50


def show_texts(_: Vault, answer: Answer) -> list[tuple[Hit, str]]:
    """Show the whole text of every hit."""
    return [(hit, hit.text) for hit in answer.hits]


def fit_texts(budget: int) -> Show:
    """Return what shows the whole text of the first hits that fit into so many tokens."""

    def show(_: Vault, answer: Answer) -> list[tuple[Hit, str]]:
        left = budget
        shown = []
        for hit in answer.hits:
            left -= count_hit(hit, hit.text)
            if left < 0:
                break
            shown.append((hit, hit.text))
        return shown

    return show


def ask(
    vault: Vault, asked: Ask, show: Show = show_texts, progress: TellProgress | None = None
) -> Answer:
    """Answer a question, and count what `show` shows of the answer.

    Raises:
        NoteNotFoundError: a ref does not exist.
        RefusedError: the question is too long, the limit under 1, or a ref's name unsafe.
    """
    reach, answer = _find(vault, asked, progress)
    return count_shown(reach, asked, answer, show(reach.vault, answer))


def count_shown(
    reach: Reach, asked: Ask, answer: Answer, shown: Sequence[tuple[Hit, str]] | None
) -> Answer:
    """Return an answer with what is shown of it, counted in each vault what is its own.

    It counts in the first in any case, in others where something of theirs is shown.
    """
    if asked.counts and shown is not None:
        texts = {hit.address: text for hit, text in shown}
        own = {0: [], **reach.divide(hit for hit, _ in shown)}
        given = {
            place: (asked.question, hits, [texts[hit.address] for hit in hits])
            for place, hits in own.items()
        }
        reach.keep(count_recall, given)
    return answer._replace(shown=shown or ())


@heals
def _find(vault: Vault, asked: Ask, progress: TellProgress | None) -> tuple[Together, Answer]:
    """Return what was looked at, and the answer."""
    seen = look(vault, asked.at, asked.refs, progress)
    models = open_models(seen, asked.semantic, asked.waits, progress)
    now = seen.view.sources[0].at if seen.view.sources else seen.now()
    reach = Together(seen)
    return reach, find_answer(reach, asked, models, now)


def find_answer(reach: Reach, asked: Ask, models: Models, now: float) -> Answer:
    """Return the answer of vaults that are in sync; `now` is what counts as now, in seconds."""
    limit = asked.limit or reach.config.results
    query = parse_query(asked.question, asked.offset + limit, asked.filter)
    by_note = not asked.by_section
    how = How(models.dense, beyond=1, reranker=models.reranker, by_note=by_note)
    query, found = find_any(reach, query, how)
    meaning, words_alone, reranked = models.describe()
    expanded = _expand(reach, asked, query, found)
    hits = group_hits(expanded) if by_note else expanded
    sureness = judge_hits(found)
    return Answer(
        question=asked.question,
        terms=tuple(map(query.words.__getitem__, query.terms)),
        hits=reach.change(hits[asked.offset : query.limit], partial(_complete, at=now)),
        has_more=len(hits) > query.limit,
        replaced=dict(query.replaced),
        meaning=meaning,
        words_alone=words_alone,
        reranked=reranked,
        sureness=sureness,
        elsewhere=_look_elsewhere(reach, asked, query, sureness),
        too_large=() if hits and sureness is not Sureness.NONE else _list_too_large(reach),
    )


def _complete(vault: Vault, hits: Sequence[Hit], at: float) -> list[Hit]:
    """Return hits with what is to be said of each, and the sentence that shows it."""
    return add_shown_lines(vault, add_cautions(vault, hits, at))


def tell_how_sure(answer: Answer) -> list[str]:
    """Return what is to be said of an answer that is not sure, a line each."""
    sureness = answer.sureness if answer.hits else None
    lines = [*tell_replaced(answer.replaced), *tell_sureness(sureness, answer.elsewhere)]
    return [*lines, *_tell_too_large(answer.too_large)]


def _tell_too_large(paths: Sequence[str]) -> Iterator[str]:
    if paths:
        names = name_some(paths)
        yield f"Not searched, since over 1 MiB: {names}; divide them into smaller notes."


def _list_too_large(reach: Reach) -> tuple[str, ...]:
    """Return the notes that are in no index because of their size, behind their vault's name."""
    found = zip(reach.names, reach.each(_find_too_large), strict=True)
    is_alone = len(reach.names) == 1
    return tuple(path if is_alone else f"{name}:{path}" for name, own in found for path in own)


def _find_too_large(vault: Vault) -> list[str]:
    """Return the notes of a folder that are too large; those of a commit are not known."""
    return vault.manifest.too_large() if vault.view.is_work_tree else []


def look(
    vault: Vault, at: str = "", refs: Sequence[str] = (), progress: TellProgress | None = None
) -> Vault:
    """Return the vault at the ref or date asked for, else on its branch, else in the folder.

    Where nobody has brought it up to date, that is done first. A vault that looks at commits
    already stays as it is. So it is with those beside it.
    """
    if vault.beside:
        alone = copy.copy(vault)
        alone.beside = ()
        seen = look(alone, at, refs, progress)
        seen.beside = tuple(look(each, at, refs, progress) for each in vault.beside)
        return seen
    if not vault.view.sources:
        sync_once(vault, progress and progress("reading notes"))
    if not (at or refs or (vault.ref and not vault.view.sources)):
        return vault
    from vaultmem.services.reading.look import look_at

    return look_at(vault, at, refs, progress and progress("reading notes of git"))


def open_scorer(
    vault: Vault, wanted: bool | None, waits: bool, progress: TellProgress | None = None
) -> tuple[DenseScorer | DenseScorers | None, str]:
    """Return what scores by meaning, if it is wanted, and why it cannot be had."""
    if wanted is False or (wanted is None and vault.config.semantic == "off"):
        return None, ""
    from vaultmem.services.embedding.score import find_scorer

    tell = progress and progress("embedding sections")
    try:
        return find_scorer(vault, wanted, tell, waits=waits), ""
    except VaultError as error:
        return None, str(error)


def open_models(
    vault: Vault, semantic: bool | None, waits: bool, progress: TellProgress | None = None
) -> Models:
    """Return what scores a question besides its words; a reranker only where somebody waits."""
    scorer, problem = open_scorer(vault, semantic, waits, progress)
    if not waits or vault.config.rerank == "off":
        return Models(scorer, problem)
    from vaultmem.services.finding.rerank import ModelReranker

    return Models(scorer, problem, ModelReranker(vault.config, vault.environment))


def _expand(reach: Reach, asked: Ask, query: RecallQuery, hits: list[Hit]) -> list[Hit]:
    if not asked.expand_links:
        return hits
    from vaultmem.services.finding.links import expand_hits

    wanted = query._replace(limit=2 * len(hits))
    expanded = reach.change(hits, partial(expand_hits, query=wanted))
    return sorted(expanded, key=lambda hit: -round(hit.score, 5))


def _look_elsewhere(reach: Reach, asked: Ask, query: RecallQuery, sureness: Sureness) -> str:
    if not asked.suggests or sureness is Sureness.STRONG:
        return ""
    from vaultmem.services.finding.elsewhere import find_elsewhere

    return find_elsewhere(reach, query, sureness)
