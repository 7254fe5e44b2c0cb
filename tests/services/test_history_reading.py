"""What git's history tells: logs, changes, who wrote which line, and bringing notes back."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path, PurePosixPath

import pytest
from conftest import Make, Open
from support import git, hash_tree, lock_git, synced, write_notes

from vaultmem.core.notes.changes import FileChange, pair_renames
from vaultmem.core.text.timestamps import parse_timestamp
from vaultmem.errors import (
    ConflictError,
    NoteNotFoundError,
    PendingError,
    RefusedError,
)
from vaultmem.services.changes.commit import save_checkpoint
from vaultmem.services.changes.edit_notes import set_note_property
from vaultmem.services.history.blame import Blame, blame_note, trace_note
from vaultmem.services.history.commits import CommitFilter, list_commits
from vaultmem.services.history.diff import (
    FileOperation,
    diff_vault,
    show_commit,
    summarise_operation,
)
from vaultmem.services.history.explain import explain_text
from vaultmem.services.history.restore_note import restore_note, undo_commit
from vaultmem.services.lifecycle.transition import promote_notes
from vaultmem.services.memory.create_vault import create_vault
from vaultmem.services.memory.remember import Memory, remember
from vaultmem.services.views.open_view import view_at
from vaultmem.services.views.update_index import sync_vault
from vaultmem.vault import Vault

ODD_NAMES = ["notes/two words.md", "notes/:(top)x.md", "notes/line\nend.md", "notes/größe-✓.md"]
EVENT = "Agent-Id: {agent}\nVault-Event: {event}\n"


def commit(root: Path, message: str, *options: str, at: int = 0) -> str:
    """Commit everything as the person does and return the id; `at` is its time."""
    git(root, "add", "--all")
    date = {"GIT_AUTHOR_DATE": f"@{at} +0000", "GIT_COMMITTER_DATE": f"@{at} +0000"} if at else {}
    subprocess.run(
        ["git", "commit", "-q", "-F", "-", *options],
        cwd=root,
        input=message.encode(),
        env={**os.environ, **date},
        check=True,
    )
    return git(root, "rev-parse", "HEAD")


@pytest.fixture
def subfolder(home: Path, tmp_path: Path) -> Path:
    """Return a vault in a folder of a repository that holds other files too."""
    repository = tmp_path / "project"
    repository.mkdir()
    git(repository, "init", "-q", "-b", "main")
    write_notes(repository, {"src/main.py": "print()\n"})
    commit(repository, "code")
    create_vault(repository / "memory").vault.close()
    commit(repository, "vault", "--allow-empty")
    return repository / "memory"


def subjects(vault: Vault, *, limit: int = 20, path: str = "", **wanted: object) -> list[str]:
    found = list_commits(vault, CommitFilter(**wanted), limit, path)  # type: ignore[arg-type]
    return [each.subject for each in found.commits]


class TestLog:
    def test_trailers_decide_and_not_what_a_body_says(self, make_vault: Make, opened: Open) -> None:
        root = make_vault({"notes/a.md": "a\n"})
        commit(root, "lie\n\nVault-Event: promote\n\nbut this is the end.\n", "--allow-empty")
        commit(root, "quote\n\n> Agent-Id: claude\n\nVault-Event: edit\n", "--allow-empty")
        real = commit(
            root, "real\n\nsaid.\n\nvault-event: promote\nAGENT-ID: claude\n", "--allow-empty"
        )
        vault = opened(root)

        found = list_commits(vault, CommitFilter(events=frozenset({"promote"}))).commits

        assert [each.commit for each in found] == [real]
        assert (found[0].who, found[0].prose) == ("claude", "said.")
        assert subjects(vault, agents=frozenset({"claude"}), everything=True) == ["real"]
        assert "lie" not in subjects(vault)
        assert "lie" in subjects(vault, everything=True)

    def test_a_message_cannot_pass_for_another_commit_or_trailer(
        self, make_vault: Make, opened: Open
    ) -> None:
        root = make_vault({"notes/a.md": "a\n"})
        marks = "\x01\x1e\x1f:100644 100644"
        commit(root, f"odd {marks}\n\nbody {marks}\n\nIntent: x{marks}\n y\n", "--allow-empty")
        commit(root, f"{'f' * 40}\n\n{'e' * 40}\n", "--allow-empty")

        found = list_commits(opened(root), CommitFilter(everything=True)).commits

        assert [each.commit for each in found] == git(root, "log", "--format=%H").split()
        assert found[1].intent == f"x{marks} y"
        assert found[1].body.startswith(f"body {marks}")

    def test_a_limit_counts_what_is_shown(self, make_vault: Make, opened: Open) -> None:
        root = make_vault({"notes/a.md": "a\n"})
        for number in range(6):
            agent = "even" if number % 2 == 0 else "odd"
            text = EVENT.format(agent=agent, event="checkpoint")
            commit(root, f"n{number}\n\n{text}", "--allow-empty")
        vault = opened(root)

        assert subjects(vault, agents=frozenset({"even"}), limit=2) == ["n4", "n2"]
        assert subjects(vault, agents=frozenset({"even"}), limit=9) == ["n4", "n2", "n0"]
        with pytest.raises(RefusedError):
            subjects(vault, limit=0)

    def test_empty_checkpoints_are_events_of_a_vault_in_a_subfolder(
        self, subfolder: Path, opened: Open
    ) -> None:
        vault = opened(subfolder, agent="claude")
        event = EVENT.format(agent="a", event="checkpoint")
        commit(subfolder, f"empty\n\n{event}", "--allow-empty")
        write_notes(subfolder.parent, {"src/main.py": "1\n"})
        commit(subfolder.parent, f"code\n\n{event}")
        write_notes(subfolder, {"notes/a.md": "a\n"})
        commit(subfolder.parent, "by hand")
        write_notes(subfolder.parent, {"other/b.md": "b\n", "memory/notes/a.md": "b\n"})
        both = commit(subfolder.parent, f"both\n\n{event}")

        assert subjects(vault)[:2] == ["both", "empty"]
        assert subjects(vault, everything=True)[:3] == ["both", "by hand", "empty"]
        assert list_commits(vault, CommitFilter()).commits[0].commit == both

    def test_a_merge_is_there_if_it_brought_something_into_the_vault(
        self, subfolder: Path, opened: Open
    ) -> None:
        repository = subfolder.parent
        git(repository, "switch", "-q", "-c", "side")
        write_notes(subfolder, {"notes/side.md": "s\n"})
        commit(repository, "side note")
        git(repository, "switch", "-q", "main")
        write_notes(repository, {"src/main.py": "2\n"})
        commit(repository, "code")
        git(repository, "merge", "-q", "--no-ff", "-m", "merged", "side")

        assert subjects(opened(subfolder), everything=True)[:2] == ["merged", "side note"]

    def test_what_was_done_and_undone_on_a_branch_is_not_left_out(
        self, make_vault: Make, opened: Open
    ) -> None:
        root = make_vault({"notes/a.md": "a\n", "notes/b.md": "b\n"})
        git(root, "switch", "-q", "-c", "side")
        for text in ("poison", "a"):
            write_notes(root, {"notes/a.md": f"{text}\n"})
            commit(root, f"made it {text}")
        git(root, "switch", "-q", "main")
        write_notes(root, {"notes/b.md": "c\n"})
        commit(root, "other")
        git(root, "merge", "-q", "--no-ff", "-m", "merged", "side")

        found = subjects(opened(root), path="notes/a.md", everything=True)

        assert set(found) == {"made it a", "made it poison", "notes"}

    def test_days_and_moments_limit_by_the_time_of_the_commit(
        self, make_vault: Make, opened: Open
    ) -> None:
        root = make_vault({"notes/a.md": "a\n"})
        noon = int(parse_timestamp("2025-03-02T12:00"))
        for name, at in {"before": -86_400, "noon": 0, "late": 43_100, "next": 43_300}.items():
            commit(root, name, "--allow-empty", at=noon + at)
        vault = opened(root)

        def between(since: str, until: str) -> list[str]:
            end = parse_timestamp(until, end_of_day=True)
            start = parse_timestamp(since)
            return subjects(vault, since=start, until=end, everything=True)

        assert between("2025-03-02", "2025-03-02") == ["late", "noon"]
        assert between("2025-03-02T12:00", "2025-03-02T12:00") == ["noon"]
        assert between("2025-03-01", "2025-03-03") == ["next", "late", "noon", "before"]

    def test_a_path_limits_to_a_note_or_folder(self, subfolder: Path, opened: Open) -> None:
        for number, path in enumerate([ODD_NAMES[0], "notes/deep/b.md", "notes/deep.md"]):
            write_notes(subfolder, {path: f"{number}\n"})
            commit(subfolder, f"n{number}")
        (subfolder / ODD_NAMES[0]).unlink()
        write_notes(subfolder, dict.fromkeys(ODD_NAMES[1:], "odd\n"))
        commit(subfolder, "gone")
        vault = opened(subfolder)

        assert subjects(vault, path=ODD_NAMES[0], everything=True) == ["gone", "n0"]
        for name in ODD_NAMES[1:]:
            assert subjects(vault, path=name, everything=True) == ["gone"]
        assert subjects(vault, path="notes/deep/", everything=True) == ["n1"]
        assert subjects(vault, path="notes/deep", everything=True) == ["n1"]
        assert subjects(vault, path="notes/none.md", everything=True) == []
        with pytest.raises(RefusedError):
            subjects(vault, path="../src")

    @pytest.mark.campaign
    def test_thousands_of_commits_are_read_quickly_and_only_as_far_as_asked(
        self, make_vault: Make, opened: Open
    ) -> None:
        root = make_vault()
        lines = []
        for number in range(4_000):
            agent = "rare" if number == 100 else "often"
            message = f"n{number}\n\n{EVENT.format(agent=agent, event='checkpoint')}"
            lines.append(
                f"commit refs/heads/many\ncommitter P <p@x> {1_700_000_000 + number} +0000\n"
                f"data {len(message)}\n{message}\n"
                f"M 644 inline notes/n{number % 20}.md\ndata 8\n{number:07}\n\n"
            )
        git(root, "fast-import", "--quiet", stdin="".join(lines))
        git(root, "switch", "-q", "many")
        vault = opened(root)

        started = time.monotonic()
        assert subjects(vault, limit=3) == ["n3999", "n3998", "n3997"]
        newest = time.monotonic() - started
        assert subjects(vault, agents=frozenset({"rare"})) == ["n100"]
        assert len(subjects(vault, path="notes/n7.md", limit=10_000)) == 200
        assert newest < 1
        assert time.monotonic() - started < 10

    def test_an_unborn_branch_has_no_events(self, make_vault: Make, opened: Open) -> None:
        root = make_vault()
        git(root, "switch", "-q", "--orphan", "fresh")

        assert subjects(opened(root), everything=True) == []


class TestShowAndDiff:
    def test_a_commit_is_told_in_the_notes_words(self, make_vault: Make, opened: Open) -> None:
        root = make_vault(
            {
                "notes/a.md": "---\nstate: candidate\n---\nline\n",
                "notes/b.md": "b\n",
                "x.txt": "1\n",
            }
        )
        vault = synced(opened(root, agent="claude", session="s-1", tool_call="t-1"))
        promote_notes(vault, ["a"])

        shown = show_commit(vault, "HEAD")

        assert (shown.commit.event, shown.commit.who, shown.commit.session) == (
            "promote",
            "claude",
            "s-1",
        )
        assert (shown.commit.intent, shown.commit.tool_call) == ("refine", "t-1")
        [done] = shown.operations
        assert done.note is not None
        [change] = done.note.properties
        assert (done.file.path, change.name, change.old, change.new, done.note.body) == (
            "notes/a.md",
            "state",
            "candidate",
            "active",
            (),
        )
        assert done.file.blob == git(root, "rev-parse", "HEAD:notes/a.md")
        assert done.file.old_blob == git(root, "rev-parse", "HEAD~:notes/a.md")

    def test_the_first_commit_is_compared_with_nothing_and_a_merge_with_its_first_parent(
        self, subfolder: Path, opened: Open
    ) -> None:
        repository = subfolder.parent
        write_notes(subfolder, {"notes/main.md": "m\n"})
        git(repository, "switch", "-q", "-c", "side")
        write_notes(subfolder, {"notes/side.md": "s\n"})
        commit(repository, "side")
        git(repository, "switch", "-q", "main")
        write_notes(subfolder, {"notes/other.md": "o\n"})
        commit(repository, "main")
        git(repository, "merge", "-q", "--no-ff", "-m", "merged", "side")
        vault = opened(subfolder)

        assert told(show_commit(vault).operations) == {
            "notes/main.md": "new note, body +1",
            "notes/side.md": "new note, body +1",
        }
        root = git(repository, "rev-list", "--max-parents=0", "HEAD")
        assert show_commit(vault, root).operations == ()
        git(repository, "switch", "-q", "--orphan", "alone")
        write_notes(subfolder, {"notes/a.md": "a\n"})
        commit(repository, "root")
        assert told(show_commit(vault, "alone").operations) == {"notes/a.md": "new note, body +1"}

    def test_what_differs_is_one_operation_a_path(self, make_vault: Make, opened: Open) -> None:
        root = make_vault(
            {
                "notes/old name.md": "moved\n",
                "notes/gone.md": "gone\n",
                "notes/edit.md": "---\ntags: [a]\n---\none\n",
                "notes/bytes.md": b"\xff\0\n",
                "notes/latin.md": b"caf\xe9\n",
                "notes/run.md": "run\n",
                "plan.canvas": "{}\n",
            }
        )
        start = git(root, "rev-parse", "HEAD")
        (root / "notes/old name.md").rename(root / "notes/new name.md")
        (root / "notes/gone.md").unlink()
        (root / "notes/run.md").chmod(0o755)
        write_notes(
            root,
            {
                "notes/edit.md": "---\ntags: [a, b]\n---\none\ntwo\n",
                "notes/bytes.md": b"\xff\0\xfd\n",
                "notes/latin.md": b"caf\xe9\n\xfc\n",
                "plan.canvas": '{"a": 1}\n',
                "notes/:(top)x.md": "new\n",
            },
        )
        (root / "notes/link.md").symlink_to("edit.md")
        commit(root, "all")

        found = diff_vault(opened(root), start, "HEAD")

        assert told(found.operations) == {
            "notes/:(top)x.md": "new note, body +1",
            "notes/bytes.md": "changed, binary",
            "notes/latin.md": "body +1",
            "notes/edit.md": "tags +b, body +1",
            "notes/gone.md": "removed, body -1",
            "notes/link.md": "new, a link",
            "notes/new name.md": "renamed from notes/old name.md",
            "notes/run.md": "mode 100644 -> 100755",
            "plan.canvas": "body +1 -1",
        }
        moved = next(each for each in found.operations if each.file.previous)
        assert (moved.file.op, moved.file.blob) == ("replace", moved.file.old_blob)
        dotted = diff_vault(opened(root), f"{start}..HEAD")
        assert dotted == found
        back = diff_vault(opened(root), "HEAD", start)
        assert told(back.operations)["notes/old name.md"] == "renamed from notes/new name.md"
        inside = diff_vault(opened(root), start, "HEAD", path="notes/edit.md")
        assert list(told(inside.operations)) == ["notes/edit.md"]

    def test_the_work_tree_is_compared_as_it_is_with_any_commit(
        self, subfolder: Path, opened: Open
    ) -> None:
        write_notes(subfolder, {"notes/a.md": "one\n", "notes/b.md": "b\n", "notes/c.md": "c\n"})
        first = commit(subfolder, "first")
        write_notes(subfolder, {"notes/a.md": "two\n", "notes/b.md": "changed\n"})
        (subfolder / "notes/c.md").unlink()
        commit(subfolder, "second")
        write_notes(subfolder, {"notes/a.md": "one\n", "notes/d.md": "c\n", ".gitignore": "tmp/\n"})
        write_notes(subfolder, {"tmp/x.md": "ignored\n", "notes/large.txt": "x" * 1_100_000})
        vault = opened(subfolder)

        assert told(diff_vault(vault).operations) == {
            ".gitignore": "body +1 -1" if git(subfolder, "ls-files", ".gitignore") else "new file",
            "notes/a.md": "body +1 -1",
            "notes/d.md": "new note, body +1",
        } | told_of(vault, ".gitignore")
        since = diff_vault(vault, first)
        assert told(since.operations) == {
            "notes/b.md": "body +1 -1",
            "notes/d.md": "renamed from notes/c.md",
        } | told_of(vault, ".gitignore")
        assert list(since.skipped) == ["notes/large.txt"]
        assert (since.old, since.new) == (first, "")

    def test_a_vault_without_a_commit_differs_by_all_it_has(
        self, make_vault: Make, opened: Open
    ) -> None:
        root = make_vault({"notes/a.md": "a\n"})
        git(root, "switch", "-q", "--orphan", "fresh")
        write_notes(root, {"notes/a.md": "a\n"})
        vault = opened(root)

        assert told(diff_vault(vault).operations)["notes/a.md"] == "new note, body +1"
        for act in (lambda: show_commit(vault), lambda: diff_vault(vault, "HEAD~1")):
            with pytest.raises(NoteNotFoundError, match="nothing is committed"):
                act()

    def test_files_with_the_same_bytes_are_paired_once_by_name_first(self) -> None:
        def gone(path: str, blob: str = "b") -> FileChange:
            return FileChange(path, blob, "", "100644", "")

        def new(path: str, blob: str = "b") -> FileChange:
            return FileChange(path, "", blob, "", "100644")

        paired = pair_renames([new("z/a.md"), new("y/c.md"), gone("x/c.md"), gone("x/b.md")])
        assert {each.path: each.previous for each in paired} == {
            "y/c.md": "x/c.md",
            "z/a.md": "x/b.md",
        }
        assert len(pair_renames([new("p.md"), new("q.md"), gone("o.md")])) == 2
        empty = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
        assert len(pair_renames([new("p.md", empty), gone("o.md", empty)])) == 2


def told(operations: tuple[FileOperation, ...]) -> dict[str, str]:
    return {each.file.path: summarise_operation(each) for each in operations}


def told_of(vault: Vault, path: str) -> dict[str, str]:
    found = told(diff_vault(vault, path=path).operations)
    assert found, path
    return found


def writers(blame: Blame) -> list[tuple[str | None, str, str]]:
    """Return text, author and subject of each line ("" if it is not committed)."""
    return [(x.text, x.author, x.commit.subject if x.commit else "") for x in blame.lines]


def in_lines(data: bytes) -> list[str]:
    """Return the lines of a file."""
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    return [line.decode("cp1252") for line in lines]


class TestBlame:
    def test_each_line_names_its_commit_author_and_session(
        self, make_vault: Make, opened: Open
    ) -> None:
        root = make_vault({})
        agent = synced(opened(root, agent="claude", session="s-1"))
        done = remember(agent, Memory("first\n\n## Later\n\nlast", confidence=0.5))
        save_checkpoint(agent, "noted")
        text = (root / done.path).read_text()
        (root / done.path).write_text(text.replace("first", "first\nby hand"))
        save_checkpoint(synced(opened(root)), "edited")
        vault = synced(opened(root))

        blame = blame_note(vault, done.path)

        by_text = {line.text: line for line in blame.lines}
        assert by_text["by hand"].author == "Maren Person"
        assert by_text["last"].author == "claude"
        assert by_text["last"].session == "s-1"
        commits = {line.text: line.commit for line in blame.lines if line.commit}
        assert commits["last"].event == "checkpoint"
        porcelain = git(root, "blame", "-s", "-l", done.path).splitlines()
        assert [line.commit.commit for line in blame.lines if line.commit] == [
            row.split()[0].lstrip("^") for row in porcelain
        ]
        section = blame_note(vault, f"{done.path}#later")
        assert [line.text for line in section.lines] == ["## Later", "", "last"]
        assert section.lines[0].number == [x.text for x in blame.lines].index("## Later") + 1
        with pytest.raises(NoteNotFoundError, match="it has Later"):
            blame_note(vault, f"{done.path}#No")

    def test_what_is_not_committed_names_who_wrote_it(self, make_vault: Make, opened: Open) -> None:
        root = make_vault({"notes/a.md": "---\nstate: active\n---\none\ntwo\nthree\n"})
        person = synced(opened(root))
        (root / "notes/a.md").write_text("---\nstate: active\n---\none\n2\nthree\nfour\n")
        assert writers(blame_note(synced(person), "a"))[3:] == [
            ("one", "Maren Person", "notes"),
            ("2", "Maren Person", ""),
            ("three", "Maren Person", "notes"),
            ("four", "Maren Person", ""),
        ]
        save_checkpoint(person, "mine")
        agent = synced(opened(root, agent="claude", session="s-2"))
        set_note_property(agent, PurePosixPath("notes/a.md"), "state", "stale")

        lines = blame_note(agent, "a").lines

        assert [(x.text, x.author, x.session) for x in lines if x.commit is None] == [
            ("state: stale", "claude", "s-2")
        ]
        done = remember(agent, Memory("quite new"))
        assert {(x.author, x.commit) for x in blame_note(agent, done.path).lines} == {
            ("claude", None)
        }

    def test_any_bytes_give_one_origin_a_line(self, make_vault: Make, opened: Open) -> None:
        cases = {
            "notes/crlf.md": (b"a\r\nb\r\n", b"a\r\nB\r\nb\r\n"),
            "notes/ended.md": (b"a\nb", b"a\nb\n"),
            "notes/open.md": (b"a\nb\n", b"a\nb"),
            "notes/filled.md": (b"", b"a\n"),
            "notes/emptied.md": (b"a\n", b""),
            "notes/blank.md": (b"\n\n\n", b"\n\n\n\n"),
            "notes/latin.md": (b"caf\xe9\nok\n", b"caf\xe9\nok\nmore\n"),
            "notes/same.md": (b"same\n" * 50, b"same\n" * 49 + b"x\n"),
            "notes/marks.md": (b"tab\there\n\x1b[31m\n\x00", b"tab\there\n\x1b[31m\n\x00"),
        }
        root = make_vault({path: old for path, (old, _) in cases.items()})
        vault = synced(opened(root))
        for path, (old, new) in cases.items():
            at = blame_note(vault, path, at="HEAD")
            assert [line.text for line in at.lines] == in_lines(old), path
            assert all(line.commit is not None for line in at.lines)
            write_notes(root, {path: new})
        sync_vault(vault)
        for path, (old, new) in cases.items():
            lines = blame_note(vault, path).lines
            assert [line.text for line in lines] == in_lines(new), path
            assert [line.number for line in lines] == list(range(1, len(lines) + 1))
            fresh = [line.text for line in lines if line.commit is None]
            assert len(fresh) == max(0, len(in_lines(new)) - len(in_lines(old))) or path in {
                "notes/same.md"
            }
            assert not {text for text in fresh if text} & {*in_lines(old)}

    @pytest.mark.campaign
    def test_odd_names_renames_and_a_vault_in_a_subfolder(
        self, subfolder: Path, opened: Open
    ) -> None:
        plain = {name: f"notes/plain {n}.md" for n, name in enumerate(ODD_NAMES)}
        for name, before in plain.items():
            write_notes(subfolder, {before: f"one\ntwo\nthree\nfour\n{name!r}\n"})
        first = commit(subfolder, "first")
        for name, before in plain.items():
            (subfolder / before).rename(subfolder / name)
        commit(subfolder, "renamed")
        for name in ODD_NAMES:
            text = (subfolder / name).read_text()
            write_notes(subfolder, {name: f"{text}last\n"})
        last = commit(subfolder, "last")
        vault = synced(opened(subfolder))

        for name, before in plain.items():
            blame = blame_note(vault, name)
            assert [x.commit.commit for x in blame.lines if x.commit] == [first] * 5 + [last]
            assert len(blame_note(vault, name, at="HEAD~1").lines) == 5
            assert len(blame_note(vault, before[6:-3], at=first).lines) == 5
            with pytest.raises(NoteNotFoundError, match="not in"):
                blame_note(vault, name, at=first)
            trace = trace_note(vault, name)
            assert [v.operation.file.path for v in trace.versions] == [name, name, before]

    def test_a_day_is_the_last_commit_of_that_day(self, make_vault: Make, opened: Open) -> None:
        root = make_vault()
        git(root, "switch", "-q", "--orphan", "dated")
        noon = int(parse_timestamp("2025-03-02T12:00"))
        for day in range(3):
            write_notes(root, {"notes/a.md": "".join(f"day {d}\n" for d in range(day + 1))})
            commit(root, f"day {day}", at=noon + 86_400 * day)

        blame = blame_note(synced(opened(root)), "a", at="2025-03-03")

        assert [line.text for line in blame.lines] == ["day 0", "day 1"]

    def test_settings_that_hide_commits_from_blame_do_not_count(
        self, make_vault: Make, opened: Open, tmp_path: Path
    ) -> None:
        root = make_vault({"notes/a.md": "one\ntwo\n"})
        write_notes(root, {"notes/a.md": "one\n2\n"})
        changed = commit(root, "changed")
        (tmp_path / "ignored").write_text(f"{changed}\n")
        for value in (str(tmp_path / "ignored"), str(tmp_path / "missing")):
            git(root, "config", "blame.ignoreRevsFile", value)

            blame = blame_note(synced(opened(root)), "a")

            assert [line.commit.subject for line in blame.lines if line.commit] == [
                "notes",
                "changed",
            ]


class TestTrace:
    def test_a_note_is_followed_through_renames_and_each_step_is_summed_up(
        self, make_vault: Make, opened: Open
    ) -> None:
        root = make_vault({"notes/first.md": "---\nstate: candidate\n---\nA fact.\n\nMore.\n"})
        agent = synced(opened(root, agent="claude", session="s-1"))
        promote_notes(agent, ["first"])
        (root / "notes/first.md").rename(root / "notes/second.md")
        commit(root, "moved by hand")
        (root / "notes/second.md").write_text("---\nstate: active\n---\nA fact.\n\nMuch more.\n")
        vault = synced(opened(root))

        trace = trace_note(vault, "second")

        assert [
            (v.author, v.session, v.operation.file.path, summarise_operation(v.operation))
            for v in trace.versions
        ] == [
            ("Maren Person", "", "notes/second.md", "body +1 -1"),
            ("Maren Person", "", "notes/second.md", "renamed from notes/first.md"),
            ("claude", "s-1", "notes/first.md", "state: candidate -> active"),
            ("Maren Person", "", "notes/first.md", "new note, body +3"),
        ]
        assert trace.versions[0].commit is None
        assert len(trace_note(vault, "second", limit=1).versions) == 2
        old_name = trace_note(vault, "notes/first")
        assert [v.operation.file.op for v in old_name.versions] == ["remove", "replace", "add"]

    def test_a_removed_note_still_has_its_history(self, subfolder: Path, opened: Open) -> None:
        write_notes(subfolder, {"notes/a.md": "a\n"})
        commit(subfolder, "made")
        (subfolder / "notes/a.md").unlink()
        vault = synced(opened(subfolder))
        assert [v.operation.file.op for v in trace_note(vault, "notes/a.md").versions] == [
            "remove",
            "add",
        ]
        commit(subfolder, "gone")

        trace = trace_note(synced(vault), "notes/a")

        assert [v.commit.subject for v in trace.versions if v.commit] == ["gone", "made"]
        with pytest.raises(NoteNotFoundError):
            trace_note(vault, "notes/never.md")

    def test_a_merge_counts_where_it_has_the_note_as_no_parent_has_it(
        self, make_vault: Make, opened: Open
    ) -> None:
        root = make_vault({"notes/a.md": "1\n2\n3\n4\n5\n", "notes/b.md": "b\n"})
        git(root, "switch", "-q", "-c", "side")
        write_notes(root, {"notes/a.md": "1\n2\n3\n4\nside\n", "notes/b.md": "side\n"})
        commit(root, "side")
        git(root, "switch", "-q", "main")
        write_notes(root, {"notes/a.md": "main\n2\n3\n4\n5\n"})
        commit(root, "main")
        git(root, "merge", "-q", "-m", "merged", "side")
        vault = synced(opened(root))

        def told_by(name: str) -> set[str]:
            return {v.commit.subject for v in trace_note(vault, name).versions if v.commit}

        assert told_by("a") == {"merged", "main", "side", "notes"}
        assert told_by("b") == {"side", "notes"}


class TestRestore:
    def test_a_note_is_as_it_was_and_history_only_grows(
        self, make_vault: Make, opened: Open
    ) -> None:
        root = make_vault({"notes/a.md": "one\n", "bad.canvas": "{"})
        first = git(root, "rev-parse", "HEAD")
        write_notes(root, {"notes/a.md": "two\n", "bad.canvas": "{}"})
        commit(root, "second")
        head = git(root, "rev-parse", "HEAD")
        vault = synced(opened(root, agent="claude", session="s-1"))

        done = restore_note(vault, "a", first)
        restore_note(vault, "bad.canvas", first)

        assert (root / "notes/a.md").read_text() == "one\n"
        assert (root / "bad.canvas").read_text() == "{"
        assert (done.path, done.commits, done.is_changed) == ("notes/a.md", (), True)
        assert git(root, "rev-parse", "HEAD") == head
        save_checkpoint(vault, "back")
        assert git(root, "log", "-1", "--format=%an") == "claude"
        again = restore_note(vault, "a", first)
        assert not again.is_changed
        assert git(root, "status", "--porcelain") == ""

    def test_uncommitted_words_are_committed_first_under_their_author(
        self, make_vault: Make, opened: Open
    ) -> None:
        root = make_vault({"notes/a.md": "one\n", "notes/other.md": "o\n"})
        write_notes(root, {"notes/a.md": "my words\n", "notes/other.md": "mine too\n"})
        vault = synced(opened(root, agent="claude"))

        done = restore_note(vault, "a", "HEAD")

        [(saved, subject)] = done.commits
        assert git(root, "show", f"{saved}:notes/a.md") == "my words"
        assert subject == "edit: a"
        assert git(root, "log", "-1", "--format=%an") == "Maren Person"
        assert (root / "notes/a.md").read_text() == "one\n"
        assert (root / "notes/other.md").read_text() == "mine too\n"

    @pytest.mark.parametrize("how", ["lock", "detached", "setting", "secret", "merge"])
    def test_it_refuses_where_they_cannot_be_committed_and_changes_nothing(
        self, make_vault: Make, opened: Open, how: str
    ) -> None:
        root = make_vault({"notes/a.md": "one\n"})
        words = "my words\n"
        if how == "setting":
            (root / "vaultmem.yaml").write_text("commit_edits: false\n")
            commit(root, "setting")
        write_notes(root, {"notes/a.md": words})
        if how == "lock":
            lock_git(root)
        elif how == "detached":
            git(root, "switch", "-q", "--detach")
        elif how == "merge":
            (root / ".git/MERGE_HEAD").write_text(git(root, "rev-parse", "HEAD") + "\n")
        elif how == "secret":
            write_notes(root, {"notes/a.md": f"AKIA{'Q7R2' * 4}\n"})
        before = hash_tree(root, skip=(".git",))
        head = git(root, "rev-parse", "HEAD")
        vault = synced(opened(root, agent="claude"))

        with pytest.raises(PendingError, match=r"notes/a\.md: not restored"):
            restore_note(vault, "a", "HEAD")

        assert hash_tree(root, skip=(".git",)) == before
        assert git(root, "rev-parse", "HEAD") == head
        if how == "detached":
            git(root, "checkout", "-q", "--", "notes/a.md")
            assert not restore_note(vault, "a", "HEAD").is_changed

    def test_a_note_that_was_deleted_comes_back(self, subfolder: Path, opened: Open) -> None:
        write_notes(subfolder, dict.fromkeys(ODD_NAMES, "precious\n"))
        commit(subfolder, "made")
        for name in ODD_NAMES[:2]:
            (subfolder / name).unlink()
        commit(subfolder, "gone")
        for name in ODD_NAMES[2:]:
            (subfolder / name).unlink()
        vault = synced(opened(subfolder))

        for name in ODD_NAMES:
            restore_note(vault, name, "HEAD~1")

        assert {(subfolder / name).read_bytes() for name in ODD_NAMES} == {b"precious\n"}
        status = git(subfolder, "status", "--porcelain", "-uall", ".").splitlines()
        assert len(status) == 2

    def test_it_refuses_what_is_no_note_a_secret_or_a_twin(
        self, make_vault: Make, opened: Open
    ) -> None:
        key = f"AKIA{'Q7R2' * 4}"
        root = make_vault({"notes/a.md": f"{key}\n", "plan.txt": "x\n", "notes/B.md": "# H\n\nb\n"})
        for name in ("notes/a.md", "notes/B.md"):
            (root / name).unlink()
        write_notes(root, {"notes/b.md": "the other\n"})
        commit(root, "later")
        vault = synced(opened(root))
        before = hash_tree(root, skip=(".git",))

        for address, error in {
            "notes/a.md": RefusedError,
            "plan.txt": RefusedError,
            "notes/B.md": ConflictError,
            "notes/B.md#H": RefusedError,
            "../x": RefusedError,
            "notes/none.md": NoteNotFoundError,
        }.items():
            with pytest.raises(error) as caught:
                restore_note(vault, address, "HEAD~1")
            assert key not in str(caught.value)
        with pytest.raises(NoteNotFoundError):
            restore_note(vault, "notes/b.md", "2001-01-01")

        assert hash_tree(root, skip=(".git",)) == before


class TestExplain:
    def test_a_fact_names_the_commits_of_its_section_and_what_it_replaced(
        self, make_vault: Make, opened: Open
    ) -> None:
        old = "---\nkind: decision\nstate: deprecated\n---\nUse gangway A.\n"
        root = make_vault({"notes/old.md": old})
        agent = synced(opened(root, agent="claude", session="s-1"))
        done = remember(agent, Memory("Use gangway B.\n\n## Elsewhere\n\nNo word of it."))
        set_note_property(
            agent, PurePosixPath(done.path), "supersedes", ("[[old|what was]]", "[[nowhere]]")
        )
        save_checkpoint(agent, "noted")
        text = (root / done.path).read_text()
        (root / done.path).write_text(text.replace("gangway B.", "gangway B.\nAlways gangway."))
        save_checkpoint(synced(opened(root)), "edited")
        (root / done.path).write_text(
            text.replace("gangway B.", "gangway B.\nAlways gangway.\nEven at low tide: gangway.")
        )
        write_notes(
            root,
            {
                "notes/q.md": "---\nstate: quarantined\n---\ngangway\n",
                "notes/r.md": "---\nkind: reflection\n---\ngangway\n",
                "notes/odd.md": "---\nsupersedes: {a: b}\n---\nsupersedes nothing\n",
            },
        )
        vault = synced(opened(root))

        found = explain_text(vault, "gangway", 10)

        grounds = {g.hit.record.path: g for g in found if g.hit.section.heading != "Elsewhere"}

        assert set(grounds) == {done.path, "notes/old.md"}
        ground = grounds[done.path]
        assert [
            (s.author, s.commit.subject if s.commit else "", s.lines) for s in ground.steps
        ] == [
            ("claude", "checkpoint: noted", 1),
            ("Maren Person", "checkpoint: edited", 1),
            ("Maren Person", "", 1),
        ]
        assert [(link.name, link.path) for link in ground.supersedes] == [
            ("old", "notes/old.md"),
            ("nowhere", ""),
        ]
        assert [link.path for link in grounds["notes/old.md"].superseded_by] == [done.path]
        assert ground.superseded_by == ()
        assert explain_text(vault, "gangway", 1)[0].hit.record.path in grounds

    @pytest.mark.parametrize("left", ["", "---\ncreated: 2026-11-21\n---\n", "%% moved %%\n"])
    def test_a_note_whose_text_moved_away_comes_behind_the_note_that_has_it(
        self, make_vault: Make, opened: Open, left: str
    ) -> None:
        line = "The region of flakuron is the north.\n"
        root = make_vault({"notes/region-of-flakuron.md": line, "notes/regions.md": "More.\n"})
        moved = f"The ferry serves the south and the east.\n{line}"
        write_notes(root, {"notes/region-of-flakuron.md": left, "notes/regions.md": moved})
        commit(root, "moved")
        vault = synced(opened(root))

        [ground] = explain_text(vault, "region of flakuron", 1)

        assert ground.hit.record.path == "notes/regions.md"
        assert sum(step.lines for step in ground.steps) == 2
        grounds = explain_text(vault, "region of flakuron")
        assert [each.hit.record.path for each in grounds] == [
            "notes/regions.md",
            "notes/region-of-flakuron.md",
        ]

    def test_commits_of_one_second_stand_in_the_order_of_history(
        self, make_vault: Make, opened: Open
    ) -> None:
        root = make_vault({"notes/base.md": "b\n"})
        text = ""
        for number in range(8):
            text = f"gangway {number}\n{text}"
            write_notes(root, {"notes/a.md": text})
            commit(root, f"n{number}", at=1_750_000_000)

        [ground] = explain_text(synced(opened(root)), "gangway")

        assert [s.commit.subject for s in ground.steps if s.commit] == [
            f"n{number}" for number in range(8)
        ]


def test_a_shallow_clone_says_where_its_history_ends(
    make_vault: Make, opened: Open, tmp_path: Path
) -> None:
    root = make_vault({"notes/a.md": "one\n"})
    for number in range(3):
        write_notes(root, {"notes/a.md": f"one\ngangway {number}\n"})
        commit(root, f"n{number}")
    git(tmp_path, "clone", "-q", "--depth", "2", f"file://{root}", "shallow")
    vault = synced(opened(tmp_path / "shallow"))
    end = git(root, "rev-parse", "HEAD~1")

    log = list_commits(vault, CommitFilter(everything=True))
    assert ([each.subject for each in log.commits], log.is_cut) == (["n2", "n1"], True)
    assert not list_commits(vault, CommitFilter(everything=True), limit=2).is_cut
    assert (show_commit(vault, end).is_end, show_commit(vault, end).operations) == (True, ())
    assert not show_commit(vault, "HEAD").is_end
    assert blame_note(vault, "a").ends == {end}
    assert [v.is_end for v in trace_note(vault, "a").versions] == [False, True]
    assert explain_text(vault, "gangway")[0].ends == {end}
    with pytest.raises(NoteNotFoundError, match="shallow"):
        restore_note(vault, "a", "2001-01-01")
    with pytest.raises(RefusedError, match=r"shallow, so .* `git fetch --unshallow` gets"):
        undo_commit(vault, end)


@pytest.mark.campaign
def test_nothing_of_a_hostile_repository_runs_and_its_settings_change_no_answer(
    subfolder: Path, opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_notes(subfolder, {"notes/a.md": "one\ntwo\n", "notes/b.md": "b\n"})
    commit(subfolder, "first\n\nVault-Event: edit\n")
    write_notes(subfolder, {"notes/a.md": "one\n2\n"})
    commit(subfolder, "second\n\nVault-Event: edit\n")
    write_notes(subfolder, {"notes/a.md": "one\n2\nthree\n"})

    def ask(vault: Vault) -> list[object]:
        sync_vault(vault)
        return [
            list_commits(vault, CommitFilter()),
            list_commits(vault, CommitFilter(), path="notes/a.md"),
            show_commit(vault, "HEAD"),
            diff_vault(vault),
            diff_vault(vault, "HEAD~1"),
            [line.commit for line in blame_note(vault, "a").lines],
            [v.operation for v in trace_note(vault, "a").versions],
            [ground.steps for ground in explain_text(vault, "three")],
        ]

    expected = ask(opened(subfolder))
    mark, evil = tmp_path / "ran", tmp_path / "evil.sh"
    evil.write_text(f"#!/bin/sh\necho \"$0 $@\" >> '{mark}'\ncat\n")
    evil.chmod(0o755)
    attributes = "* diff=evil filter=evil text eol=crlf\n"
    write_notes(subfolder.parent, {".git/info/attributes": attributes})
    for key, value in {
        "diff.external": str(evil),
        "diff.evil.command": str(evil),
        "diff.evil.textconv": str(evil),
        "diff.evil.cachetextconv": "true",
        "filter.evil.clean": str(evil),
        "filter.evil.smudge": str(evil),
        "filter.evil.process": str(evil),
        "core.pager": str(evil),
        "pager.log": str(evil),
        "core.fsmonitor": str(evil),
        "log.showSignature": "true",
        "gpg.program": str(evil),
        "log.follow": "true",
        "log.date": "relative",
        "log.decorate": "full",
        "log.showRoot": "false",
        "format.pretty": "oneline",
        "color.ui": "always",
        "diff.renames": "copies",
        "diff.orderFile": str(tmp_path / "no-such-file"),
        "diff.noprefix": "true",
        "diff.algorithm": "histogram",
        "blame.ignoreRevsFile": str(tmp_path / "no-such-file"),
        "blame.markUnblamableLines": "true",
        "trailer.separators": "=",
        "trailer.evil.command": str(evil),
        "core.commentChar": "V",
        "core.quotePath": "true",
        "i18n.logOutputEncoding": "UTF-16",
    }.items():
        git(subfolder.parent, "config", key, value)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    git(elsewhere, "init", "-q")
    monkeypatch.setenv("GIT_DIR", str(elsewhere / ".git"))
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", str(evil))
    monkeypatch.setenv("GIT_PAGER", str(evil))
    mark.unlink(missing_ok=True)

    answers = ask(opened(subfolder))

    assert not mark.exists(), mark.read_text()
    for answer, wanted in zip(answers, expected, strict=True):
        assert answer == wanted


def test_a_detached_head_is_read_like_any_other(make_vault: Make, opened: Open) -> None:
    root = make_vault({"notes/a.md": "one\n"})
    write_notes(root, {"notes/a.md": "one\ntwo\n"})
    commit(root, "second")
    git(root, "switch", "-q", "--detach", "HEAD~1")
    vault = synced(opened(root))

    assert "second" not in subjects(vault, everything=True)
    assert len(blame_note(vault, "a").lines) == 1
    assert [v.commit.subject for v in trace_note(vault, "a").versions if v.commit] == ["notes"]
    assert told(diff_vault(vault, "main").operations) == {"notes/a.md": "body -1"}


@pytest.mark.campaign
def test_with_a_ref_every_answer_is_about_that_branch_and_a_restore_is_a_commit_there(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault({"notes/a.md": "gangway one\n", "notes/b.md": "b\n"})
    git(root, "switch", "-q", "-c", "side")
    write_notes(root, {"notes/a.md": "gangway two\n"})
    write_notes(root, {"notes/new.md": "---\nsupersedes: '[[a]]'\n---\nplank\n"})
    (root / "notes/b.md").unlink()
    side = commit(root, "side")
    git(root, "switch", "-q", "main")
    write_notes(root, {"notes/a.md": "gangway here\n"})
    vault = synced(opened(root, ref="side", agent="claude"))
    seen = view_at(vault)
    before = hash_tree(root, skip=(".git",))

    assert subjects(vault, everything=True)[0] == "side"
    assert show_commit(vault).commit.commit == side
    assert show_commit(vault, "HEAD").commit.subject == "notes"
    assert [line.text for line in blame_note(vault, "a").lines] == ["gangway two"]
    assert [v.commit.subject for v in trace_note(vault, "a").versions if v.commit] == [
        "side",
        "notes",
    ]
    assert diff_vault(vault).operations == ()
    assert set(told(diff_vault(vault, "main").operations)) == {
        "notes/a.md",
        "notes/b.md",
        "notes/new.md",
    }
    [ground] = explain_text(seen, "gangway")
    assert [s.commit.subject for s in ground.steps if s.commit] == ["side"]
    assert [link.path for link in ground.superseded_by] == ["notes/new.md"]

    for name in ("a", "b"):
        done = restore_note(vault, name, "main")
        assert done.commits[0][1] == f"restore: {name}"
    assert restore_note(vault, "a", "main").commits == ()

    assert git(root, "show", "side:notes/a.md") == "gangway one"
    assert git(root, "show", "side:notes/b.md") == "b"
    assert git(root, "log", "-2", "--format=%an", "side").split() == ["claude", "claude"]
    assert hash_tree(root, skip=(".git",)) == before
    assert git(root, "log", "-1", "--format=%s") == "notes"


def test_restoring_what_the_note_is_already_commits_nothing(make_vault: Make, opened: Open) -> None:
    root = make_vault({"notes/a.md": "gangway one\n"})
    git(root, "switch", "-q", "-c", "side")
    write_notes(root, {"notes/a.md": "gangway two\n"})
    commit(root, "side")
    git(root, "switch", "-q", "main")
    write_notes(root, {"notes/a.md": "gangway two\n"})  # By hand, and in no commit of this branch.
    head = git(root, "rev-parse", "HEAD")

    done = restore_note(synced(opened(root)), "a", "side")

    assert (done.is_changed, done.commits) == (False, ())
    assert git(root, "rev-parse", "HEAD") == head
