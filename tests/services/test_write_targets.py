"""What a transaction promises, asked of both places that it can write to: folder and branch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import pytest
from conftest import Make, Open
from support import git, write_notes

from vaultmem.core.text.blob import blob_id
from vaultmem.errors import ConflictError, NoteNotFoundError, RefusedError
from vaultmem.services.changes.change import Change
from vaultmem.services.changes.commit_parts import Event
from vaultmem.services.changes.write import replace_text, write, write_event
from vaultmem.vault import Vault

A, B, NEW = (PurePosixPath(f"notes/{name}.md") for name in ("a", "b", "new"))
NOTES = {"notes/a.md": "# A\n\nOne.\n", "notes/b.md": "# B\n\nTwo.\n", "notes/c.md": "# C\n"}
KEY = "The key is AKIA" + "IOSFODNN7EXAMPLE.\n"


@dataclass
class Target:
    """A place that is written to, and how it looks from outside."""

    vault: Vault
    ref: str
    is_folder: bool

    def files(self) -> dict[str, str]:
        root = self.vault.root
        if self.is_folder:
            found = sorted(root.glob("notes/**/*"))
            return {str(f.relative_to(root)): f.read_text() for f in found if f.is_file()}
        names = git(root, "ls-tree", "-r", "--name-only", self.ref, "notes/").splitlines()
        return {name: git(root, "show", f"{self.ref}:{name}") + "\n" for name in names}

    def log(self, form: str = "%an|%s") -> list[str]:
        return git(self.vault.root, "log", f"--format={form}", f"start..{self.ref}").splitlines()

    def interfere(self, path: str, text: str) -> None:
        """Change a note there as somebody else does at the same time."""
        root = self.vault.root
        if self.is_folder:
            write_notes(root, {path: text})
            return
        blob = git(root, "hash-object", "-w", "--stdin", stdin=text)
        index = {"GIT_INDEX_FILE": str(root / ".git/other-index")}
        script = (
            f"git read-tree {self.ref} && git update-index --add --cacheinfo 100644,{blob},{path}"
            f" && git update-ref refs/heads/{self.ref} $(git commit-tree -p {self.ref} -m other"
            " $(git write-tree))"
        )
        run_shell(root, script, index)


def run_shell(root: Path, script: str, environment: dict[str, str]) -> None:
    import os
    import subprocess

    subprocess.run(["sh", "-c", script], cwd=root, env={**os.environ, **environment}, check=True)


@pytest.fixture(params=["folder", "branch"])
def target(
    request: pytest.FixtureRequest,
    make_vault: Make,
    opened: Open,
) -> Target:
    root = make_vault(NOTES)
    git(root, "tag", "start")
    is_folder = request.param == "folder"
    if not is_folder:
        git(root, "branch", "side")
    ref = git(root, "symbolic-ref", "--short", "HEAD") if is_folder else "side"
    vault = opened(root, agent="claude", session="s-1", ref="" if is_folder else "side")
    return Target(vault, ref, is_folder)


def event(vault: Vault, subject: str = "state: two notes", *body: str) -> Event:
    return Event("state", subject, vault.author, body or ("because",), "refine")


def add(text: str) -> Callable[..., str]:
    return lambda note: note.text + text


def test_what_a_plan_says_is_one_commit_under_its_own_name(target: Target) -> None:
    def plan(change: Change) -> str:
        replace_text(change, change.read(A), add("More.\n"))
        note = change.read(B)
        change.remove(B, note.blob)
        change.put(NEW, b"# New\n")
        change.commit(event(target.vault))
        return "done"

    done = write(target.vault, plan)

    assert done.value == "done"
    assert target.files() == {
        "notes/a.md": "# A\n\nOne.\nMore.\n",
        "notes/c.md": "# C\n",
        "notes/new.md": "# New\n",
    }
    assert target.log() == ["claude|state: two notes"]
    message = git(target.vault.root, "log", "-1", "--format=%b", target.ref)
    assert message.splitlines() == [
        "because",
        "",
        "Agent-Id: claude",
        "Session-Id: s-1",
        "Intent: refine",
        "Vault-Event: state",
    ]
    assert [subject for _, subject in done.report.commits] == ["state: two notes"]
    assert done.report.commit == git(target.vault.root, "rev-parse", target.ref)


def test_a_plan_that_refuses_leaves_all_as_it_was(target: Target) -> None:
    def plan(change: Change) -> None:
        replace_text(change, change.read(A), add("More.\n"))
        raise RefusedError("not this one")

    with pytest.raises(RefusedError, match="not this one"):
        write(target.vault, plan)
    with pytest.raises(NoteNotFoundError):
        write(target.vault, lambda change: change.read(NEW))

    assert target.files() == NOTES
    assert target.log() == []


@pytest.mark.parametrize("wrong", ["put", "replace", "remove"])
def test_one_step_that_cannot_be_done_leaves_all_as_it_was(target: Target, wrong: str) -> None:
    def plan(change: Change) -> None:
        replace_text(change, change.read(A), add("More.\n"))
        if wrong == "put":
            change.put(B, b"# Another\n")
        elif wrong == "replace":
            change.replace(B, b"# Another\n", blob_id(b"what it never was"))
        else:
            change.remove(B, blob_id(b"what it never was"))
        change.commit(event(target.vault))

    with pytest.raises(ConflictError):
        write(target.vault, plan)

    assert target.files() == NOTES
    assert target.log() == []


@pytest.mark.parametrize("where", ["subject", "note"])
def test_a_credential_is_refused_and_all_is_as_it_was(target: Target, where: str) -> None:
    subject = KEY.strip() if where == "subject" else "state: two notes"
    edits = {A: add(KEY if where == "note" else "More.\n"), B: add("More.\n")}

    with pytest.raises(RefusedError, match="credential"):
        write_event(target.vault, edits, event(target.vault, subject))

    assert target.files() == NOTES
    assert target.log() == []


def test_what_changes_nothing_is_no_commit(target: Target) -> None:
    report = write_event(target.vault, {A: add(""), B: add("")}, event(target.vault))

    assert report.commits == ()
    assert target.files() == NOTES
    assert target.log() == []


def test_what_somebody_else_writes_meanwhile_is_kept_and_the_plan_asked_again(
    target: Target,
) -> None:
    asked: list[str] = []

    def plan(change: Change) -> None:
        asked.append(change.read(A).text)
        replace_text(change, change.read(A), add("Ours.\n"))
        replace_text(change, change.read(B), add("Ours.\n"))
        if len(asked) == 1:
            target.interfere("notes/b.md", "# B\n\nTheirs.\n")
        change.commit(event(target.vault))

    write(target.vault, plan)

    assert len(asked) == 2
    assert target.files()["notes/a.md"] == "# A\n\nOne.\nOurs.\n"
    assert target.files()["notes/b.md"] == "# B\n\nTheirs.\nOurs.\n"
    assert target.log("%s")[0] == "state: two notes"
    own = git(target.vault.root, "show", "--format=", target.ref, "--", "notes/b.md")
    assert "+Ours." in own
    assert "+Theirs." not in own  # Their words are in no commit of ours.


def test_what_waits_for_an_event_is_written_and_only_a_branch_commits_it(target: Target) -> None:
    def plan(change: Change) -> None:
        change.put(NEW, b"# New\n")
        replace_text(change, change.read(A), add("[[new]]\n"))
        change.leave(event(target.vault, ""))

    write(target.vault, plan)

    assert target.files() == {
        **NOTES,
        "notes/a.md": "# A\n\nOne.\n[[new]]\n",
        "notes/new.md": "# New\n",
    }
    written = ["claude|state: a and new"]
    assert target.log() == ([] if target.is_folder else written)


def test_a_note_is_read_as_the_plan_leaves_it(target: Target) -> None:
    def plan(change: Change) -> None:
        replace_text(change, change.read(A), add("One more.\n"))
        replace_text(change, change.read(A), add("Two more.\n"))
        change.commit(event(target.vault))

    write(target.vault, plan)

    assert target.files()["notes/a.md"] == "# A\n\nOne.\nOne more.\nTwo more.\n"
    assert len(target.log()) == 1


def test_nobody_but_a_person_unpins(target: Target) -> None:
    write_event(
        target.vault,
        {A: lambda _: "---\npinned: true\n---\n# A\n"},
        event(target.vault, "state: pin"),
    )

    with pytest.raises(RefusedError, match="only a person unpins it"):
        write_event(target.vault, {A: lambda _: "# A\n", B: add("x\n")}, event(target.vault))

    assert target.files()["notes/a.md"].startswith("---\npinned: true")
    assert target.files()["notes/b.md"] == NOTES["notes/b.md"]
