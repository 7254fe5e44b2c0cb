"""Judge a run by git and the words alone: what is lost, what cannot be read, what stands twice."""

from __future__ import annotations

import re
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml
from laptop import Laptop
from notes import list_notes, name_note, read_state, strip_note
from words import Oracle, find_words

_MARK = re.compile(r"(?m)^(?:<{7}|>{7}) ")
_MATTER = re.compile(r"\A---\n(.*?)^---$", re.DOTALL | re.MULTILINE)
_LOST = re.compile(r"(?m)^lost .*$")
#: What a git that is killed while it merges leaves.
_LITTER = re.compile(r"(?m)^\?\? \.merge_file_\w+\n?")
_HEAD = re.compile(r"(?m)^> \[!conflict")

#: From the state in which a note may do most to the one in which it may do least.
_FREEDOM = ("active", "stale", "candidate", "archived", "deprecated", "quarantined")
#: States in which a note stands for what it says.
_OPEN = {"active", "stale", "candidate"}


class _Loader(yaml.SafeLoader):
    """Reads YAML, and no property twice."""


def _make_map(loader: _Loader, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
    keys = [loader.construct_object(key, deep=True) for key, _ in node.value]
    if len(set(map(str, keys))) < len(keys):
        raise yaml.YAMLError(f"a property twice: {keys}")
    return yaml.SafeLoader.construct_mapping(loader, node, deep)  # type: ignore[no-any-return]


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _make_map)


class Repository:
    """The remote, as plain git shows it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._texts: dict[str, str] = {}

    def ask(self, *words: str, stdin: str = "") -> str:
        done = subprocess.run(
            ["git", *words],
            cwd=self.folder,
            input=stdin.encode(),
            capture_output=True,
            check=False,
        )
        return done.stdout.decode(errors="replace")

    def list_notes(self, commit: str) -> dict[str, str]:
        """Return the blob of each note of a commit, by path."""
        rows = self.ask("ls-tree", "-r", "-z", commit, "--", "notes").split("\0")
        pairs = (row.partition("\t") for row in rows if row.endswith(".md"))
        return {path: facts.split()[2] for facts, _, path in pairs}

    def read(self, blobs: Iterable[str]) -> dict[str, str]:
        """Return texts by blob."""
        fresh = sorted(set(blobs) - set(self._texts))
        if fresh:
            out = subprocess.run(
                ["git", "cat-file", "--batch"],
                cwd=self.folder,
                input="".join(f"{blob}\n" for blob in fresh).encode(),
                capture_output=True,
                check=True,
            ).stdout
            at = 0
            for blob in fresh:
                end = out.index(b"\n", at)
                size = int(out[at:end].split()[2])
                self._texts[blob] = out[end + 1 : end + 1 + size].decode(errors="replace")
                at = end + 2 + size
        return self._texts

    def read_notes(self, commit: str) -> dict[str, str]:
        """Return the text of each note of a commit, by path."""
        notes = self.list_notes(commit)
        texts = self.read(notes.values())
        return {path: texts[blob] for path, blob in notes.items()}


def judge(
    remote: Path,
    laptops: list[Laptop],
    oracle: Oracle,
    told: str,
    states: list[tuple[str, str, str]],
) -> dict[str, Any]:
    """Return what is wrong, by kind, each with where it is."""
    repository = Repository(remote)
    notes = repository.read_notes("main")
    ever = dict(_list_ever(repository))
    log = repository.ask("log", "--format=%B", "--all")
    folders = [path.read_text() for each in laptops for path in list_notes(each.root)]
    there = find_words("\n".join([*notes.values(), *folders]))
    missing = oracle.wanted() - there
    recorded = missing & find_words("\n".join(_LOST.findall(log)))
    in_history = find_words("\n".join(text for texts in ever.values() for text in texts))
    only_told = (missing - recorded) & find_words(told) & in_history
    trios = [*states, *_list_merges(repository)]
    freer, met = _find_freer(repository, laptops, trios)
    return {
        "lost": _explain(missing - recorded - only_told, oracle, told),
        "recorded": len(recorded | only_told),
        "callouts": sum(len(_HEAD.findall(text)) for text in notes.values()),
        "markers": sorted({path for path, texts in ever.items() if any(map(_is_marked, texts))}),
        "yaml": sorted({path for path, texts in ever.items() if any(map(_is_bad, texts))}),
        "twins": _find_twins(notes),
        "unequal": _find_unequal(repository, laptops),
        "freer": freer,
        "states": met,
        "rescues": _find_rescues(repository, there | recorded | only_told | oracle.gone()),
        "notes": len(notes),
        "commits": len(repository.ask("rev-list", "main").split()),
    }


def _explain(words: set[str], oracle: Oracle, told: str) -> list[str]:
    shown = []
    for word in sorted(words):
        said = " (told)" if word in find_words(told) else ""
        shown.append(f"{word} of {oracle.written[word]}{said}")
    return shown


def _list_ever(repository: Repository) -> Iterator[tuple[str, list[str]]]:
    """Yield each note's path and all texts that it ever had in a commit of the branch."""
    found: dict[str, set[str]] = defaultdict(set)
    for row in repository.ask("rev-list", "--objects", "main", "--", "notes").splitlines():
        blob, _, path = row.partition(" ")
        if path.endswith(".md"):
            found[path].add(blob)
    texts = repository.read(blob for blobs in found.values() for blob in blobs)
    for path, blobs in found.items():
        yield path, [texts[blob] for blob in blobs]


def _is_marked(text: str) -> bool:
    return bool(_MARK.search(text))


def _is_bad(text: str) -> bool:
    if not text.startswith("---\n"):
        return False
    match = _MATTER.match(text)
    if match is None:
        return True
    try:
        found = yaml.load(match[1], _Loader)
    except yaml.YAMLError:
        return True
    return not isinstance(found, dict)


def _find_twins(notes: dict[str, str]) -> list[str]:
    """Return what two open notes say, or what two notes are called by their first word."""
    said: dict[str, list[str]] = defaultdict(list)
    for path, text in notes.items():
        if read_state(text) in _OPEN:
            said[" ".join(strip_note(text).split())].append(path)
    named = Counter(filter(None, (name_note(text) for text in notes.values())))
    twins = [" = ".join(paths) for paths in said.values() if len(paths) > 1]
    known = {name_note(notes[twin.split(" = ")[0]]) for twin in twins}
    for word, count in named.items():
        if count > 1 and word not in known and not word.startswith("f"):
            paths = [path for path, text in notes.items() if name_note(text) == word]
            twins.append(f"{word}: " + " = ".join(paths))
    return sorted(twins)


def _find_unequal(repository: Repository, laptops: list[Laptop]) -> list[str]:
    tip = repository.ask("rev-parse", "main^{tree}").strip()
    found = []
    for laptop in laptops:
        mine = laptop.ask_git("rev-parse", "HEAD^{tree}")
        left = laptop.ask_git("status", "--porcelain", "-uall")
        left = _LITTER.sub("", left)
        if mine != tip or left:
            found.append(f"{laptop.name}: {mine[:7]} and not {tip[:7]}; {left}")
    return found


def _list_merges(repository: Repository) -> Iterator[tuple[str, str, str]]:
    for row in repository.ask("rev-list", "--merges", "--parents", "main").splitlines():
        merge, *parents = row.split()
        if len(parents) == 2:
            yield parents[0], parents[1], merge


def _find_freer(
    repository: Repository, laptops: list[Laptop], trios: list[tuple[str, str, str]]
) -> tuple[list[str], int]:
    """Return the notes that a merge let do more than both sides would have.

    And how many had their states changed by both.
    """
    found, met = [], 0
    for ours, theirs, merged in trios:
        place = next(
            (each for each in (repository, *map(_open, laptops)) if _has(each, ours)), None
        )
        if place is None or ours == merged or theirs == merged:
            continue
        bases = place.ask("merge-base", ours, theirs).split()
        sides = [_read_states(place, commit) for commit in (*bases[:1], ours, theirs, merged)]
        if len(sides) < 4:
            continue
        base, mine, other, now = sides
        for note in now.keys() & mine.keys() & other.keys():
            changed = [side[note] for side in (mine, other) if side[note] != base.get(note)]
            allowed = set(map(_rank, changed))
            met += len(changed) == 2
            if allowed and _rank(now[note]) < max(allowed):
                sides_told = f"{base.get(note)} -> {mine[note]} + {other[note]}"
                found.append(f"{merged[:9]} {note}: {sides_told} = {now[note]}")
    return found, met


def _open(laptop: Laptop) -> Repository:
    return Repository(laptop.root)


def _has(place: Repository, commit: str) -> bool:
    return bool(place.ask("cat-file", "-t", commit))


def _rank(state: str) -> int:
    return _FREEDOM.index(state) if state in _FREEDOM else -1


def _read_states(place: Repository, commit: str) -> dict[str, str]:
    texts = place.read_notes(commit).values()
    return {name_note(text): read_state(text) for text in texts if name_note(text)}


def _find_rescues(repository: Repository, known: set[str]) -> list[str]:
    """Return the rescue refs whose commits are not on the branch, nor all words that they hold.

    What was rebased since is on it as other commits.
    """
    listed = ("for-each-ref", "--format=%(objectname) %(refname)", "refs/vaultmem/rescue")
    found = []
    for row in repository.ask(*listed).splitlines():
        commit, _, ref = row.partition(" ")
        words = find_words("\n".join(repository.read_notes(commit).values()))
        on_branch = not repository.ask("rev-list", "--max-count=1", commit, "^main").strip()
        if not on_branch and words - known:
            found.append(ref)
    return found
