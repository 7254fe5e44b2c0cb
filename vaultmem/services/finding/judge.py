"""Judge by its pack what a vault knows: now, or at each commit until the one that changed it."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from vaultmem.core.packs.expectation import Expectation, judge_pack
from vaultmem.errors import BusyError, RefusedError, VaultError
from vaultmem.services.finding.pack import make_unseen
from vaultmem.services.reading.look import look_at
from vaultmem.vault import Vault


class JudgedCommit(NamedTuple):
    """A commit that was judged: "good", "bad" or "skip", and why it is not good."""

    commit: str
    verdict: str
    reasons: tuple[str, ...]


class FirstBad(NamedTuple):
    """The first bad commit, or where some could not be judged all that it can be.

    `untested` counts the commits between that do not descend from the good one: merges brought
    them, and what they lack they never had.
    """

    commits: tuple[str, ...]
    untested: int


class Bisected(NamedTuple):
    """What a search found (see `FirstBad`), and its steps."""

    first_bad: tuple[str, ...]
    steps: tuple[JudgedCommit, ...]
    untested: int


_NOTHING: Mapping[str, JudgedCommit] = MappingProxyType({})

#: Called with a step when it is done, and about how many are left.
OnStep = Callable[[JudgedCommit, int], None]


def judge_vault(vault: Vault, expected: Expectation) -> list[str]:
    """Return why the vault's pack is not as expected."""
    return judge_pack(make_unseen(vault, expected.query, expected.budget or None), expected)


def bisect_history(
    vault: Vault, good: str, bad: str, expected: Expectation, on_step: OnStep | None = None
) -> Bisected:
    """Find the first commit at which the pack is not as expected; nothing is checked out.

    Raises:
        NoteNotFoundError: no such commit.
        RefusedError: the good commit is not good, the bad one not bad, or not its descendant.
        BusyError: a commit was never looked at, and others write.
    """
    steps: list[JudgedCommit] = []
    held: list[tuple[JudgedCommit, int]] = []  # The two ends, until both are as they should be.
    search = search_history(vault, good, bad, expected)

    def report() -> None:
        while on_step is not None and held:
            on_step(*held.pop(0))

    while True:
        try:
            step, left = next(search)
        except StopIteration as end:
            report()
            return Bisected(end.value.commits, tuple(steps), end.value.untested)
        steps.append(step)
        held.append((step, left))
        if len(steps) > 2:
            report()


def search_history(
    vault: Vault,
    good: str,
    bad: str,
    expected: Expectation,
    known: Mapping[str, JudgedCommit] = _NOTHING,
) -> Generator[tuple[JudgedCommit, int], None, FirstBad]:
    """Yield the steps of `bisect_history`, each with about how many are left; return where it ends.

    It may be left at any time, and begun again with what is `known` by then, by commit.
    """
    refs = vault.history.refs
    first, last = refs.resolve(good).commit, refs.resolve(bad).commit
    if first == last or not refs.is_ancestor(first, last):
        raise RefusedError(f"{good} is not before {bad}; name one in its history")

    def judge(commit: str) -> JudgedCommit:
        return known.get(commit) or _judge_commit(vault, commit, expected)

    tips, untested = refs.find_merged_in(last, first)
    left = _steps_left(len(refs.between(last, {first, *tips})))
    for name, commit, wanted in ((good, first, "good"), (bad, last, "bad")):
        yield (step := judge(commit)), left
        if step.verdict != wanted:
            raise RefusedError(_describe_surprise(name, step.verdict, wanted, step))
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
        seen = look_at(vault, commit)
        if not seen.view.totals()[0]:
            return JudgedCommit(commit, "skip", ("there are no notes yet",))
        reasons = judge_vault(seen, expected)
    except BusyError:  # That says nothing of the commit.
        raise
    except VaultError as error:
        return JudgedCommit(commit, "skip", (str(error),))
    return JudgedCommit(commit, "bad" if reasons else "good", tuple(reasons))


def _steps_left(commits: int) -> int:
    return math.ceil(math.log2(commits + 1))


def _describe_surprise(name: str, verdict: str, wanted: str, step: JudgedCommit) -> str:
    if verdict == "skip":
        return f"{name}: cannot be judged ({'; '.join(step.reasons)})"
    if wanted == "good":
        return f"{name}: not good: {'; '.join(step.reasons)}; name an earlier commit"
    return f"{name}: not bad: the pack is as expected there; name a later commit"
