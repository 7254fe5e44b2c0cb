"""Measure how often anchors to code report a change that git sees, and one that it does not.

    python benchmarks/anchor_truth.py REPOSITORY... [--anchors 60] [--commits 50]

Anchors are made at an old commit of each repository and checked at later ones, each checked out in
a clone. git alone computes the truth. Lines are unchanged if `git blame -M` traces them to the old
commit, in one run: the first one to its line there, the others to equal ones. A symbol of Python is
unchanged if its text in both versions is the same, by its indentation. A file that git finds no
successor of is changed.
"""

from __future__ import annotations

import argparse
import random
import re
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from measure import isolate

_SOURCES = (".c", ".go", ".h", ".js", ".md", ".py", ".rs", ".toml", ".yml")
_DEFINES = re.compile(r"(?:async )?(?:def|class) (?P<name>\w+)")


@dataclass(frozen=True)
class Sample:
    """An anchor as a person writes it, and what it covers in the old version: 1-based lines."""

    place: str
    path: str
    first: int
    last: int
    symbol: str = ""


@dataclass
class Tally:
    """Checks by truth and report; `wrong` are examples of the two kinds of mistakes."""

    counts: Counter[tuple[bool, bool]] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def add(self, is_changed: bool, is_reported: bool, what: str) -> None:
        """Count a check."""
        self.counts[is_changed, is_reported] += 1
        if is_changed != is_reported:
            self.wrong.append(f"{'missed' if is_changed else 'false'}: {what}")

    @property
    def found(self) -> float:
        """The share of changed anchors that are reported."""
        return _share(self.counts[True, True], self.counts[True, False])

    @property
    def false(self) -> float:
        """The share of unchanged anchors that are reported as changed."""
        return _share(self.counts[False, True], self.counts[False, False])


def _share(part: int, other: int) -> float:
    return part / (part + other) if part + other else float("nan")


def main() -> None:
    """Print the rates for each repository and for all of them."""
    given = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    given.add_argument("repositories", nargs="+", type=Path)
    given.add_argument("--anchors", type=int, default=60)
    given.add_argument("--commits", type=int, default=50)
    given.add_argument("--wrong", type=int, default=0, help="Mistakes of each repository to print.")
    asked = given.parse_args()
    total = Tally()
    for repository in asked.repositories:
        with tempfile.TemporaryDirectory() as folder:
            started = time.perf_counter()
            found = measure_repository(repository, Path(folder), asked.anchors, asked.commits)
            _print_tally(repository.parent.name, found, time.perf_counter() - started)
            for line in found.wrong[:: len(found.wrong) // max(1, asked.wrong) + 1]:
                if asked.wrong:
                    print(f"    {line}")
        total.counts += found.counts
    _print_tally("all", total, 0)


def _print_tally(name: str, tally: Tally, seconds: float) -> None:
    changed = tally.counts[True, True] + tally.counts[True, False]
    same = tally.counts[False, True] + tally.counts[False, False]
    print(
        f"{name:<24} changed {changed:>6,}, reported {tally.found:7.2%}   "
        f"unchanged {same:>6,}, reported as changed {tally.false:6.2%}   {seconds:4.0f} s",
        flush=True,
    )


def measure_repository(repository: Path, folder: Path, anchors: int, commits: int) -> Tally:
    """Return what the checks of one repository's anchors at its later commits report."""
    from vaultmem import create_vault, open_vault
    from vaultmem.services.projects.project_table import ensure_project

    isolate(folder)
    clone = folder / "code" / repository.parent.name
    run_git(folder, "clone", "-q", "--shared", "--no-checkout", str(repository), str(clone))
    old, later = choose_commits(clone, commits)
    samples = choose_samples(clone, old, anchors)
    root = folder / "memory"
    root.mkdir()
    create_vault(root)
    run_git(clone, "checkout", "-qf", old)
    vault = open_vault(root, here=clone)
    project = ensure_project(vault, clone)
    assert project is not None
    tally = Tally()
    for commit in later:
        run_git(clone, "checkout", "-qf", commit)
        reports = _check(vault, clone, project.name, old, samples)
        truth = [is_changed(clone, old, commit, each) for each in samples]
        for sample, was_changed, (is_reported, told) in zip(samples, truth, reports, strict=True):
            what = f"{sample.place} {old[:8]}..{commit[:8]}: {told}"
            tally.add(was_changed, is_reported, what)
    vault.store.close()
    return tally


def _check(
    vault: object, clone: Path, project: str, old: str, samples: Sequence[Sample]
) -> list[tuple[bool, str]]:
    """Return for each anchor whether it is reported as changed, and in which words."""
    from vaultmem.core.anchors import parse_anchor
    from vaultmem.services.anchors.check import CitedAnchor, check_anchors

    cited = []
    for each in samples:
        anchor = parse_anchor(each.place)
        assert anchor is not None
        pinned = anchor._replace(commit=old[:10], blob=_read_blob(clone, old, each.path)[:10])
        cited.append(CitedAnchor(pinned, project))
    checks = check_anchors(vault, cited)  # type: ignore[arg-type]
    return [(not check.is_same, check.verdict) for check in checks if check is not None]


def run_git(folder: Path, *words: str, check: bool = True) -> str:
    """Run git and return what it printed."""
    done = subprocess.run(["git", *words], cwd=folder, capture_output=True, check=False)
    assert not check or done.returncode == 0, (words, done.stderr)
    return done.stdout.decode("utf-8", "surrogateescape")


def choose_commits(clone: Path, count: int) -> tuple[str, list[str]]:
    """Return an old commit, and so many later ones in even steps up to the newest."""
    line = run_git(clone, "rev-list", "--first-parent", "HEAD").split()
    span = min(len(line) * 6 // 10, 1_500)
    newer = line[:span][::-1]
    step = max(1, len(newer) / count)
    return line[span], [newer[min(len(newer) - 1, int((n + 1) * step) - 1)] for n in range(count)]


def choose_samples(clone: Path, old: str, count: int) -> list[Sample]:
    """Return anchors at an old commit: lines, whole files, and symbols of Python."""
    chance = random.Random(44)
    names = [
        name
        for name in run_git(clone, "ls-tree", "-r", "--name-only", old).splitlines()
        if name.endswith(_SOURCES) and len(_read_lines(clone, old, name)) >= 30
    ]
    chosen = chance.sample(names, min(len(names), max(1, count // 4)))
    made: list[Sample] = []
    while len(made) < count:
        path = chance.choice(chosen)
        lines = _read_lines(clone, old, path)
        kind = chance.random()
        symbols = [*_find_symbols(lines)] if path.endswith(".py") else []
        if kind < 0.35 and symbols:
            name, first, last = chance.choice(symbols)
            made.append(Sample(f"{path}:{name}", path, first, last, name))
        elif kind < 0.9:
            first = chance.randint(1, len(lines))
            last = min(len(lines), first + chance.choice([0, 2, 5, 10, 20]))
            if any(re.search(r"\w{3}", line) for line in lines[first - 1 : last]):
                made.append(Sample(f"{path}#L{first}-{last}", path, first, last))
        else:
            made.append(Sample(path, path, 1, len(lines)))
    return made


def _find_symbols(lines: Sequence[str]) -> Iterator[tuple[str, int, int]]:
    """Yield the functions and classes at the left margin whose name is there once."""
    names = Counter(found["name"] for line in lines if (found := _DEFINES.match(line)))
    for number, line in enumerate(lines, 1):
        found = _DEFINES.match(line)
        if found and names[found["name"]] == 1:
            yield found["name"], number, _find_end(lines, number)


def _find_end(lines: Sequence[str], first: int) -> int:
    """Return the last line of a definition: the last one that is indented or closes its head."""
    last = first
    for number in range(first + 1, len(lines) + 1):
        line = lines[number - 1]
        if line.strip() and not line[0].isspace() and not line.startswith((")", "]")):
            break
        if line.strip():
            last = number
    return last


def is_changed(clone: Path, old: str, commit: str, sample: Sample) -> bool:
    """Tell by git alone whether what an anchor covers is another text at a later commit."""
    path = _find_path(clone, old, commit, sample.path)
    if not path:
        return True
    if sample.symbol:
        before, after = _read_lines(clone, old, sample.path), _read_lines(clone, commit, path)
        there = {name: after[first - 1 : last] for name, first, last in _find_symbols(after)}
        return there.get(sample.symbol) != before[sample.first - 1 : sample.last] or (
            _read_decorators(before, sample.first)
            != _read_decorators(after, _find_first(after, sample.symbol))
        )
    if "#" not in sample.place:
        return _read_blob(clone, old, sample.path) != _read_blob(clone, commit, path)
    origins = _blame(clone, old, commit, path)
    before, after = _read_lines(clone, old, sample.path), _read_lines(clone, commit, path)
    numbers = range(sample.first, sample.last + 1)
    first = next(n for n in numbers if re.search(r"\w{3}", before[n - 1]))
    kept = {line for lines in origins.values() for line in lines}

    def is_at(number: int, line: int) -> bool:
        is_traced = line in origins.get((sample.path, number), ())
        return is_traced or (line in kept and after[line - 1] == before[number - 1])

    shifts = [line - first for line in origins.get((sample.path, first), ())]
    return not any(all(is_at(n, n + shift) for n in numbers) for shift in shifts)


def _find_first(lines: Sequence[str], symbol: str) -> int:
    return next(first for name, first, _ in _find_symbols(lines) if name == symbol)


def _read_decorators(lines: Sequence[str], first: int) -> list[str]:
    """Return the lines above a definition back to the last blank or indented-less other line."""
    found: list[str] = []
    for line in reversed(lines[: first - 1]):
        if not line.strip() or line.startswith("#"):
            break
        found.append(line)
    return found


@cache
def _find_path(clone: Path, old: str, commit: str, path: str) -> str:
    """Return where a file is at a later commit, "" for nowhere."""
    if run_git(clone, "ls-tree", commit, "--", path):
        return path
    walked = run_git(
        *(clone, "log", "-z", "--reverse", "--topo-order", "-M", "--diff-filter=R"),
        *("--name-status", "--format=", f"{old}..{commit}"),
    )
    fields = iter(each.lstrip("\n") for each in walked.split("\0"))
    now = path
    for status in fields:
        if status.startswith("R"):
            before, after = next(fields), next(fields)
            now = after if before == now else now
    return now if now != path and run_git(clone, "ls-tree", commit, "--", now) else ""


@cache
def _blame(clone: Path, old: str, commit: str, path: str) -> dict[tuple[str, int], list[int]]:
    """Return where the lines of the old commit are now, by their file and number then.

    A line can be in several places, where it was copied.
    """
    out = run_git(clone, "blame", "--porcelain", "-M", f"{old}..{commit}", "--", path)
    found: dict[tuple[str, int], list[int]] = {}
    is_old: dict[str, bool] = {}
    names: dict[str, str] = {}
    waiting: list[tuple[str, int, int]] = []
    for line in out.split("\n"):
        if head := re.fullmatch(r"([0-9a-f]{40}) (\d+) (\d+)(?: \d+)?", line):
            waiting.append((head[1], int(head[2]), int(head[3])))
        elif line == "boundary":
            is_old[waiting[-1][0]] = True
        elif line.startswith("filename "):
            names[waiting[-1][0]] = line.removeprefix("filename ")
        elif line.startswith("\t"):
            name, number, now = waiting[-1]
            if is_old.get(name):
                found.setdefault((names[name], number), []).append(now)
    return found


@cache
def _read_lines(clone: Path, commit: str, path: str) -> tuple[str, ...]:
    text = run_git(clone, "show", f"{commit}:{path}").replace("\r\n", "\n")
    return tuple(text.removesuffix("\n").split("\n"))


@cache
def _read_blob(clone: Path, commit: str, path: str) -> str:
    return run_git(clone, "rev-parse", f"{commit}:{path}").strip()


if __name__ == "__main__":
    main()
