"""Say what it takes to have git forget a note too; nothing of it is done here."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from vaultmem.core.safe_text import name_some
from vaultmem.errors import RefusedError
from vaultmem.services.finding.receipts import list_receipts
from vaultmem.services.notes.purge_scope import PurgeScope, find_scope
from vaultmem.storage.git.text_search import FoundText, find_texts
from vaultmem.storage.machines import find_own
from vaultmem.vault import Vault


class PurgeStep(NamedTuple):
    """One thing to do: why, and the commands for it, if it can be done by commands."""

    why: str
    commands: tuple[str, ...] = ()


class Purge(NamedTuple):
    """What has to be done, in order; `paths` are all names that the notes ever had.

    `commits` is how many commits hold them now. `others` are paths of other notes with the very
    bytes of a version; the steps leave them.
    """

    paths: tuple[str, ...]
    commits: int
    others: tuple[str, ...]
    steps: tuple[PurgeStep, ...]


def plan_purge(vault: Vault, paths: Sequence[str]) -> Purge:
    """Return the steps that remove every version of these notes, present or removed, from git.

    The vault must be in sync and in a repository.

    Raises:
        NoteNotFoundError: no note is or was called that.
    """
    scope = find_scope(vault, paths)
    return Purge(*scope, tuple(_list_steps(vault, scope)))


def find_remains(vault: Vault, words: str) -> list[FoundText]:
    """Return where git still has one of the texts that were to go, by their lines.

    `words` is a file of `git filter-repo`: a text a line, and what replaces it after `==>`.

    Raises:
        RefusedError: there is no text in it, or one that is no literal text.
    """
    texts: dict[int, str] = {}
    for number, line in enumerate(words.splitlines(), 1):
        text = line.rpartition("==>")[0] or line
        if text.startswith(("regex:", "glob:")):
            raise RefusedError(f"line {number}: a pattern; write the text itself, to look for it")
        if text.strip():
            texts[number] = text.removeprefix("literal:")
    if not texts:
        raise RefusedError(
            "the file of texts is empty; write each text that must be gone on a line"
        )
    numbers = list(texts)
    found = find_texts(vault.history, list(texts.values()))
    return [each._replace(number=numbers[each.number]) for each in found]


def _list_steps(vault: Vault, scope: PurgeScope) -> Iterator[PurgeStep]:
    history, paths = vault.history, scope.paths
    inside = [f"{history.prefix}{path}" for path in paths]
    options = " ".join(f"--path={shlex.quote(path)}" for path in inside)
    yield PurgeStep(
        "If it was a key, password or token, change it now, where it is used. Whoever saw it has "
        "it; no rewriting takes it back. That alone may be enough."
    )
    if scope.others:
        yield PurgeStep(
            "These are other notes, and they stay: they have, or once had, the same bytes as one "
            f"of its versions: {name_some(scope.others)}. If one of them has to go as well, begin "
            "again with its name too."
        )
    yield PurgeStep(
        "Keep a copy of the repository, until you know that the rewriting was right. The copy "
        "holds the note too: remove it in the end.",
        (f"git clone --mirror {shlex.quote(str(vault.root))} ../before-purge.git",),
    )
    yield PurgeStep(
        "Commit or put away everything, then rewrite every commit of every branch and tag (git "
        "filter-repo is a program of its own: `pip install git-filter-repo`). All later commits "
        "get new ids; receipts, links to commits and signatures of the old ones end. Which agent "
        "wrote what plain git committed is kept: the next vaultmem command carries it over.",
        (f"git filter-repo --force --invert-paths {options}",),
    )
    names = dict.fromkeys(PurePosixPath(path).stem for path in paths)
    yield PurgeStep(
        "Write each text that must be gone into ../words.txt: the key, a name, a sentence of the "
        "note, one a line as TEXT==>***. Messages of commits may still have it; they name the "
        "note, and a session's tell its goal and how its summary begins. See which they are, and "
        "rewrite them.",
        (
            *(f"git log --all -F --grep={shlex.quote(name)}" for name in names),
            "git filter-repo --force --replace-message ../words.txt",
        ),
    )
    yield PurgeStep(
        "Git keeps what nothing names for a while. Drop it.",
        ("git reflog expire --expire=now --expire-unreachable=now --all", "git gc --prune=now"),
    )
    yield PurgeStep(
        "See that the texts are nowhere in git: this prints nothing then, and else where they "
        "are. `git filter-repo --force --replace-text ../words.txt` takes them out of other files.",
        ("vaultmem forget --verify ../words.txt",),
    )
    yield from _list_remotes(vault)
    yield PurgeStep(
        "Every other clone, work tree, fork, backup and CI cache still has it, and one push from "
        "an old clone brings it back. Have each deleted and cloned again, not pulled."
    )
    yield from _list_own(vault, paths)


def _list_remotes(vault: Vault) -> Iterator[PurgeStep]:
    remotes = vault.history.git.run("remote", check=False).splitlines()
    if not remotes:
        yield PurgeStep("This repository has no remote, so nothing was pushed from here.")
        return
    commands = []
    for name in remotes:
        url = vault.history.git.run("remote", "get-url", name, check=False) or "URL"
        quoted = shlex.quote(name)
        commands += [
            f"git remote add {quoted} {shlex.quote(url)}",
            f"git push --force --all {quoted}",
            f"git push --force --tags {quoted}",
        ]
    yield PurgeStep(
        "filter-repo removes the remotes, so that nothing is pushed by accident. Add them again "
        "and overwrite what they have. A host such as GitHub keeps old commits reachable by their "
        "ids and in pull requests: ask its support to remove them.",
        tuple(commands),
    )


def _list_own(vault: Vault, paths: tuple[str, ...]) -> Iterator[PurgeStep]:
    """Yield what vaultmem itself keeps outside of the repository."""
    shown = [
        receipt.id
        for receipt in list_receipts(vault)
        if {section.path for section in (*receipt.shown, *receipt.unshown)} & set(paths)
    ]
    if shown:
        yield PurgeStep(
            "Packs that agents were given showed it, and their receipts say so. Remove these "
            f"files: {', '.join(f'{name}.json' for name in shown)}.",
        )
    yield from _list_evidence(vault)
    yield PurgeStep(
        "vaultmem's own index is made from the notes and made again without them.",
        (f"rm -r {shlex.quote(str(vault.state_folder))}", "vaultmem index"),
    )


def _list_evidence(vault: Vault) -> Iterator[PurgeStep]:
    """Yield what becomes of evidence of use, which names notes."""
    own = find_own(vault.history, vault.state)
    if own.commit:
        remotes = vault.history.git.run("remote", check=False).splitlines()
        pushed = (f"git push {shlex.quote(name)} :{own.name}" for name in remotes)
        yield PurgeStep(
            "What this machine wrote of the vault's use names the note: remove it, here and where "
            "it was pushed. The next `vaultmem sync` writes what is left of it under a new name.",
            (f"git update-ref -d {own.name}", *pushed),
        )
