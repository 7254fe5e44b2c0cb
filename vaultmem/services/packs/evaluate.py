"""Check what a pack contains: now, at an older commit, or over a file of questions."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from vaultmem.config import override
from vaultmem.core.packs.receipt import Expectation, digest_text, find_expected, judge_pack
from vaultmem.core.search.evaluation import (
    Figure,
    Question,
    measure_ndcg,
    measure_recall,
    parse_questions,
    reject_lines,
    summarise,
)
from vaultmem.core.text.paths import is_note_name
from vaultmem.errors import LockTimeoutError, NoteNotFoundError, RefusedError, VaultError
from vaultmem.services.packs.build import AskPack, PackAnswer, ask_pack, make_unseen
from vaultmem.services.packs.question_file import WantedNotes, read_file
from vaultmem.services.search.run_query import Query, QueryResult, run_query
from vaultmem.services.search.vault_set import TellProgress, look
from vaultmem.services.views.open_view import view_at
from vaultmem.storage.query_log import ASSERTED, SignalStore
from vaultmem.storage.views import View
from vaultmem.vault import Vault


class JudgedCommit(NamedTuple):
    """A judged commit: "good", "bad" or "skip", and the reasons why it is not good."""

    commit: str
    verdict: str
    reasons: tuple[str, ...]


class FirstBad(NamedTuple):
    """The first bad commit, or all possible ones if some could not be judged.

    `untested` counts the commits in between that do not descend from the good one. Merges added
    them, and they never had the missing content.
    """

    commits: tuple[str, ...]
    untested: int


class BisectResult(NamedTuple):
    """The result of a search (see `FirstBad`), and its steps."""

    first_bad: tuple[str, ...]
    steps: tuple[JudgedCommit, ...]
    untested: int


_NO_JUDGED_COMMITS: Mapping[str, JudgedCommit] = MappingProxyType({})

#: Called with each finished step and the approximate number of steps left.
OnStep = Callable[[JudgedCommit, int], None]


def judge_vault(vault: Vault, expected: Expectation) -> list[str]:
    """Return the reasons why the vault's pack is not as expected.

    On the checked-out branch, record the expected notes in the pack as successes. If they were
    expected to be absent, record them as failures. For equal expectations, only the last result
    counts.
    """
    pack = make_unseen(vault, expected.query, expected.budget or None)
    has_branch = vault.view.is_work_tree and vault.head() is not None
    if has_branch and not vault.history.obstacle():  # It could be a step of a bisect.
        key_text = f"{expected.query}\0{expected.addresses}\0{expected.texts}\0{expected.negated}"
        name = f"{ASSERTED}{digest_text(key_text)[:16]}"
        with vault.leaving_to_next():
            signals = SignalStore(vault.state, vault.state_folder)
            signals.put_outcome(name, find_expected(pack, expected), not expected.negated)
    return judge_pack(pack, expected)


def bisect_history(
    vault: Vault, good: str, bad: str, expected: Expectation, on_step: OnStep | None = None
) -> BisectResult:
    """Find the first commit at which the pack is not as expected, without a checkout.

    Raises:
        NoteNotFoundError: no such commit.
        RefusedError: the good commit is not good, the bad one not bad, or not its descendant.
        LockTimeoutError: a commit is not indexed yet, and other processes write.
    """
    steps: list[JudgedCommit] = []
    pending_steps: list[tuple[JudgedCommit, int]] = []  # The two ends, until both are judged.
    search = search_history(vault, good, bad, expected)

    def report() -> None:
        while on_step is not None and pending_steps:
            on_step(*pending_steps.pop(0))

    while True:
        try:
            step, steps_left = next(search)
        except StopIteration as end:
            report()
            return BisectResult(end.value.commits, tuple(steps), end.value.untested)
        steps.append(step)
        pending_steps.append((step, steps_left))
        if len(steps) > 2:
            report()


def search_history(
    vault: Vault,
    good: str,
    bad: str,
    expected: Expectation,
    judged_commits: Mapping[str, JudgedCommit] = _NO_JUDGED_COMMITS,
) -> Generator[tuple[JudgedCommit, int], None, FirstBad]:
    """Yield the steps of `bisect_history` with the approximate number left; return the result.

    The search can be stopped at any time. To continue, pass the judged commits as `judged_commits`.
    """
    refs = vault.history.refs
    first, last = refs.resolve(good).commit, refs.resolve(bad).commit
    if first == last or not refs.is_ancestor(first, last):
        raise RefusedError(f"{good} is not before {bad}; name one in its history")

    def judge(commit: str) -> JudgedCommit:
        return judged_commits.get(commit) or _judge_commit(vault, commit, expected)

    tips, untested = refs.find_merged_in(last, first)
    steps_left = _steps_left(len(refs.between(last, {first, *tips})))
    for name, commit, expected_verdict in ((good, first, "good"), (bad, last, "bad")):
        yield (step := judge(commit)), steps_left
        if step.verdict != expected_verdict:
            raise RefusedError(_describe_surprise(name, step.verdict, expected_verdict, step))
    goods, skipped = {first, *tips}, set[str]()
    while True:
        candidates = refs.between(last, goods)
        open_ones = [each for each in candidates if each != last and each not in skipped]
        if not open_ones:
            doubtful = [each for each in candidates if each in skipped]
            return FirstBad((last, *doubtful), untested)
        commit = open_ones[0]
        yield (step := judge(commit)), _steps_left(len(open_ones) // 2)
        if step.verdict == "good":
            goods.add(commit)
        elif step.verdict == "bad":
            last = commit
        else:
            skipped.add(commit)


def _judge_commit(vault: Vault, commit: str, expected: Expectation) -> JudgedCommit:
    try:
        commit_vault = view_at(vault, commit)
        if not commit_vault.view.totals()[0]:
            return JudgedCommit(commit, "skip", ("there are no notes yet",))
        reasons = judge_vault(commit_vault, expected)
    except LockTimeoutError:  # This is not a result for the commit.
        raise
    except VaultError as error:
        return JudgedCommit(commit, "skip", (str(error),))
    return JudgedCommit(commit, "bad" if reasons else "good", tuple(reasons))


def _steps_left(commits: int) -> int:
    return math.ceil(math.log2(commits + 1))


def _describe_surprise(name: str, verdict: str, expected_verdict: str, step: JudgedCommit) -> str:
    if verdict == "skip":
        return f"{name}: cannot be judged ({'; '.join(step.reasons)})"
    if expected_verdict == "good":
        return f"{name}: not good: {'; '.join(step.reasons)}; name an earlier commit"
    return f"{name}: not bad: the pack is as expected there; name a later commit"


# Evaluate how well a vault answers a file of questions, now and compared to another commit. The
# questions are ordinary queries, but they are not logged and have no receipts.

#: The settings that change an answer. Budgets and limits are options of an evaluation.
SETTINGS = (
    *("recency_weight", "semantic", "rerank", "rerank_timeout_seconds"),
    *("pinned_share", "preference_share", "pack_labels"),
)

#: The settings that name a model.
_MODELS = ("semantic", "rerank")


class EvaluationOptions(NamedTuple):
    """Options of an evaluation: the first `depth` notes, and packs of these budgets (tokens).

    `comparison_ref` is a branch, tag, commit or date, and `settings` are as in `override`. With
    either, all questions are asked a second time with them.
    """

    depth: int = 10
    budgets: tuple[int, ...] = (500, 1_000, 2_000)
    comparison_ref: str = ""
    settings: tuple[str, ...] = ()


class JudgedQuestion(NamedTuple):
    """The result for one question: the retrieved notes, best first, and the shares of its evidence.

    `places` are the ranks of its expected notes, 0 if not retrieved. `states` are their states, ""
    if a note is missing. `match_strength` is that of the answer.
    """

    found: tuple[str, ...]
    places: tuple[int, ...]
    states: tuple[str, ...]
    match_strength: str
    recall: float
    ndcg: float
    packs: tuple[float, ...]

    @property
    def values(self) -> tuple[float, ...]:
        """All measurements: recall, nDCG, and a share for each budget."""
        return (self.recall, self.ndcg, *self.packs)


class Run(NamedTuple):
    """All questions asked with one ref and settings; `figures` are as `values`.

    `problem_summary` is the number of answers without a requested model, with the reason, or "".
    """

    at: str
    commit: str
    settings: tuple[str, ...]
    judged: list[JudgedQuestion]
    figures: list[Figure]
    problem_summary: str


class Evaluation(NamedTuple):
    """The questions with the addresses of their notes, and the results.

    `difference` is that of the second and the first run, empty without a second. `omitted_note` is
    the path of the question file if it is a note of the vault: it would be retrieved itself.
    """

    questions: list[Question]
    options: EvaluationOptions
    runs: list[Run]
    difference: list[Figure]
    omitted_note: str


def evaluate(
    vault: Vault, file: Path, options: EvaluationOptions, progress: TellProgress | None = None
) -> Evaluation:
    """Ask all questions of a file, and judge the answers by the expected notes.

    Raises:
        NoteNotFoundError: there is no such file, ref or note.
        RefusedError: the file, a setting or a budget is invalid.
        VaultError: the settings name a model that is not available.
    """
    import numpy as np

    file_questions = parse_questions(read_file(file), file.name)
    _check(vault, options)
    own_path = _find_inside(vault, file)
    views = _Views(vault, own_path, progress)
    for at in ("", options.comparison_ref):  # Report a missing ref before the questions are asked.
        views.see(at)
    questions = _resolve(views, file_questions, file.name)
    total = len(questions) * (2 if options.comparison_ref or options.settings else 1)
    step_progress = progress and progress("asking questions")
    results = [
        _run(
            views,
            questions,
            options._replace(comparison_ref="", settings=()),
            step_progress,
            0,
            total,
        )
    ]
    if options.comparison_ref or options.settings:
        results.append(_run(views, questions, options, step_progress, len(questions), total))
    values = [np.array([each.values for each in run.judged]) for run in results]
    runs = [run._replace(figures=summarise(v)) for run, v in zip(results, values, strict=True)]
    difference = summarise(values[1] - values[0]) if len(values) > 1 else []
    is_note = own_path and bool(look(vault).view.records("d.path = ?", [own_path]))
    return Evaluation(questions, options, runs, difference, own_path if is_note else "")


class _Views:
    """The vault's views for each ref or date, without the question file."""

    def __init__(self, vault: Vault, without: str, progress: TellProgress | None) -> None:
        self._vault, self._without, self._progress = vault, without, progress
        self._seen: dict[str, Vault] = {}
        self._notes: dict[str, WantedNotes] = {}

    def see(self, at: str) -> Vault:
        """Return the vault at a ref or date, "" for its current view."""
        if at not in self._seen:
            vault = look(self._vault, at, (), self._progress)
            view = View(vault.state, vault.view.sources, self._without)
            self._seen[at] = replace(vault, view=view)
        return self._seen[at]

    def notes(self, at: str) -> WantedNotes:
        """Return the notes of that view."""
        if at not in self._notes:
            self._notes[at] = WantedNotes(self.see(at), self.notes("") if at else None)
        return self._notes[at]


def _resolve(views: _Views, questions: Sequence[Question], name: str) -> list[Question]:
    """Return the questions with the addresses of their notes."""
    mistakes: dict[int, str] = {}
    resolved_questions = []
    for question in questions:
        try:
            addresses = views.notes(question.at).find_all(question)
            resolved_questions.append(question._replace(notes=addresses))
        except (NoteNotFoundError, RefusedError) as error:
            mistakes[question.line] = str(error)
    try:
        reject_lines(name, mistakes)
    except RefusedError as error:
        raise NoteNotFoundError(str(error)) from None
    return resolved_questions


def _run(
    views: _Views,
    questions: Sequence[Question],
    options: EvaluationOptions,
    step_progress: Callable[[int, int], None] | None,
    start: int,
    total: int,
) -> Run:
    """Ask all questions with one ref and settings; `start` of `total` were asked already."""
    judged_questions: list[JudgedQuestion] = []
    problems: list[str] = []
    for number, question in enumerate(questions, start + 1):
        at = question.at or options.comparison_ref
        vault = views.see(at)
        vault = replace(vault, config=override(vault.config, options.settings))
        notes = question.notes
        if at != question.at:
            notes = tuple(views.notes(at).follow(each) or each for each in notes)
        states = tuple(views.notes(at).state_of(each) for each in notes)
        try:
            answer = run_query(vault, Query(question.text, options.depth, counts=False))
        except RefusedError as error:
            raise RefusedError(f"line {question.line}: {error}") from None
        packs = [
            ask_pack(vault, AskPack(question.text, budget, receipt=False, counts=False))
            for budget in options.budgets
        ]
        answers: list[QueryResult | PackAnswer] = [answer, *packs]
        if problem := next(filter(None, map(_describe_lack, answers)), ""):
            if not judged_questions and any(map(_names_model, options.settings)):
                raise VaultError(f"{', '.join(options.settings)}: {problem}")
            problems.append(problem)
        judged_questions.append(
            _judge(question._replace(notes=notes), states, answer, packs, options.depth)
        )
        if step_progress is not None:
            step_progress(number, total)
    sources = views.see(options.comparison_ref).view.sources
    commit = sources[0].commit if sources else ""
    problem_summary = (
        f"{len(problems):,} of {len(judged_questions):,} answers: {problems[0]}" if problems else ""
    )
    return Run(
        options.comparison_ref, commit, options.settings, judged_questions, [], problem_summary
    )


def _judge(
    question: Question,
    states: tuple[str, ...],
    answer: QueryResult,
    packs: Sequence[PackAnswer],
    depth: int,
) -> JudgedQuestion:
    found_paths = tuple(dict.fromkeys(hit.record.path for hit in answer.hits))[:depth]
    paths = [address.partition("#")[0] for address in question.notes]
    places = tuple(found_paths.index(path) + 1 if path in found_paths else 0 for path in paths)
    expected_paths = list(dict.fromkeys(paths))
    evidence = len(question.texts or question.notes)
    missing_counts = [len(judge_pack(each.pack, _expect(question))) for each in packs]
    return JudgedQuestion(
        found=found_paths,
        places=places,
        states=states,
        match_strength=answer.match_strength.value,
        recall=measure_recall(found_paths, expected_paths, depth),
        ndcg=measure_ndcg(found_paths, expected_paths, depth),
        packs=tuple(1 - each / evidence for each in missing_counts),
    )


def _expect(question: Question) -> Expectation:
    """Return the expectation: the texts that must be shown, else the notes."""
    addresses = () if question.texts else question.notes
    return Expectation(question.text, addresses, question.texts)


def _describe_lack(answer: QueryResult | PackAnswer) -> str:
    """Return why a requested model did not score all sections, or ""."""
    meaning, reranked = answer.meaning, answer.reranked
    if meaning is not None and 0 < meaning.embedded < meaning.sections:
        count = meaning.sections - meaning.embedded
        return f"{count:,} of {meaning.sections:,} sections have no vector; run `vaultmem embed`"
    return answer.words_alone or (reranked.problem if reranked else "")


def _names_model(setting: str) -> bool:
    name, _, value = map(str.strip, setting.partition("="))
    return name in _MODELS and value != "off"


def _check(vault: Vault, options: EvaluationOptions) -> None:
    """Reject settings that vaultmem.yaml cannot have, and those that change no answer."""
    override(vault.config, options.settings)
    if options.depth < 1:
        raise RefusedError(f"{options.depth} results cannot be judged; take 1 or more")
    for setting in options.settings:
        if setting.partition("=")[0].strip() not in SETTINGS:
            names = ", ".join(SETTINGS)
            raise RefusedError(f'"{setting}": no answer here depends on that; set one of {names}')


def _find_inside(vault: Vault, file: Path) -> str:
    """Return a file's path in the vault if it can be a note, else ""."""
    full_path, root = file.resolve(), vault.root.resolve()
    path = full_path.relative_to(root).as_posix() if full_path.is_relative_to(root) else ""
    return path if is_note_name(path) else ""
