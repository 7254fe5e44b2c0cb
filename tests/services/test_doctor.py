"""`examine_vault`: each check on a vault that is broken in that way, and what --fix changes."""

from __future__ import annotations

import gc
import os
import shutil
import sys
import time
from pathlib import Path

import pytest
from conftest import Make, Open
from in_process import run_here
from support import git, hash_tree, held_by_thread, write_notes

import vaultmem
from vaultmem import Vault, parse_query, recall, sync_vault
from vaultmem.core.text.timestamps import Check, Verdict
from vaultmem.errors import VaultError
from vaultmem.services.health.doctor import examine_vault
from vaultmem.services.health.examine import TROUBLE_FILE, check_disk, check_watch_limit
from vaultmem.services.watching.generated_context import render_contexts
from vaultmem.services.watching.lease import hold_watch
from vaultmem.storage.git.setup import build_driver_command
from vaultmem.storage.lock import hold_lock

OK, WARNING, PROBLEM = Verdict.OK, Verdict.WARNING, Verdict.PROBLEM

NOTES = {
    "notes/tide.md": "# Tide\n\nThe ferry waits for the tide.\n",
    "notes/bell.md": "---\nkind: decision\n---\n# Bell\n\nRing it twice in fog.\n",
}


def examine(vault: Vault, fix: bool = False, later: float = 0.0) -> dict[str, Check]:
    return {each.name: each for each in examine_vault(vault, fix, now=time.time() + later)}


def find_only(vault: Vault, name: str, fix: bool = False, later: float = 0.0) -> Check:
    """Return the one check that is not ok, which has to be this one."""
    checks = examine(vault, fix, later)
    assert {each.name for each in checks.values() if each.verdict is not OK} == {name}
    assert checks[name].remedy or checks[name].paths
    return checks[name]


def fix_only(vault: Vault, name: str, later: float = 0.0) -> tuple[Check, set[str]]:
    """Fix, and return the check and the files of the vault that differ; all must be ok then."""
    before = hash_tree(vault.root)
    checks = examine(vault, fix=True, later=later)
    after = hash_tree(vault.root)
    assert {each.name for each in checks.values() if each.fixed} == {name}
    assert [each for each in checks.values() if each.verdict is not OK] == []
    assert [each for each in examine(vault, later=later).values() if each.verdict is not OK] == []
    return checks[name], {path for path, _ in before.items() ^ after.items()}


def test_a_sound_vault_is_ok_and_fix_changes_nothing(make_vault: Make, opened: Open) -> None:
    root = make_vault(NOTES)
    vault = opened(root)
    before = hash_tree(root)

    checks = examine(vault, fix=True)

    assert {each.verdict for each in checks.values()} == {OK}
    assert not any(each.fixed for each in checks.values())
    assert len(checks) == 31
    assert hash_tree(root) == before


def test_a_note_that_is_not_utf8_is_named_with_its_remedy(make_vault: Make, opened: Open) -> None:
    root = make_vault({**NOTES, "notes/x.md": b"caf\xe9\n"})
    check = find_only(opened(root), "notes", fix=True)
    assert check.verdict is Verdict.WARNING
    assert "notes/x.md: its text is Windows-1252" in check.paths[0]
    assert "iconv -f Windows-1252 -t UTF-8" in check.paths[0]
    assert (root / "notes/x.md").read_bytes() == b"caf\xe9\n"


@pytest.mark.parametrize(
    ("notes", "name", "told"),
    [
        ({"notes/x.md": b"a\0b"}, "notes", "NUL"),
        ({"notes/x.md": "a" * 1_100_000}, "note sizes", "notes/x.md"),
        (
            {"notes/Tide.md": "# Other\n", "notes/n\u0303.md": "a\n", "notes/\u00f1.md": "b\n"},
            "note names",
            "notes/Tide.md = notes/tide.md",
        ),
    ],
)
def test_notes_that_are_not_found_or_not_one_are_named(
    make_vault: Make, opened: Open, notes: dict[str, str | bytes], name: str, told: str
) -> None:
    root = make_vault(NOTES)
    write_notes(root, notes)
    before = hash_tree(root)
    check = find_only(opened(root), name, fix=True)

    assert check.verdict is PROBLEM
    assert any(told in path for path in check.paths)
    assert check.fixed == ()
    assert hash_tree(root) == before


def test_properties_that_are_not_read_are_a_problem(make_vault: Make, opened: Open) -> None:
    root = make_vault({**NOTES, "notes/x.md": "---\na: [\n---\n# X\n"})
    check = find_only(opened(root), "notes in doubt")

    assert check.verdict is PROBLEM
    assert check.paths == ("notes/x.md:3: the frontmatter is not valid YAML",)


def test_second_versions_of_each_program_are_named(make_vault: Make, opened: Open) -> None:
    names = [
        "chart (conflicted copy 2026-11-21 161000).png",
        "tide (Case Conflict 1).md",
        "tide (Case Conflict).md",
        "tide (Conflicted copy iPad 202611211610).md",
        "tide (Maren's Mac (2)'s conflicted copy 2026-11-21).md",
        "tide (Maren's conflicted copy 2026-11-21).md",
        "tide (Selective Sync Conflict).md",
        "tide (Unicode Encoding Conflict).md",
        "tide (White Space Conflict).md",
        "tide (maren-pc's conflicted copy).md",
        "tide.conflict-20261121T161000-0af3.md",
        "tide.sync-conflict-20261121-161000-ABCDEFG.md",
    ]
    others = ["case conflict (copy).md", "sync-conflict.md", "conflicted copy.md", "tide (2).md"]
    root = make_vault({**NOTES, **{f"notes/{name}": "x\n" for name in (*names, *others)}})
    check = find_only(opened(root), "conflict copies", fix=True)

    assert check.verdict is PROBLEM
    assert check.paths == tuple(f"notes/{name}" for name in names)
    assert all((root / path).exists() for path in check.paths)


@pytest.mark.parametrize("folder", ["", "memory [1]/"])
def test_missing_ignore_lines_go_to_the_exclude_file(
    make_vault: Make, opened: Open, tmp_path: Path, folder: str
) -> None:
    root = make_vault({f"{folder}{path}": text for path, text in NOTES.items()})
    (root / ".gitignore").write_text("/transcripts/\n.trash\n")
    config = root / folder / "vaultmem.yaml"
    config.write_text('extra_packs: "agents/a [1].md: tide"\n')
    git(root, "add", "--all")
    git(root, "commit", "-q", "-m", "settings")
    (root / ".git/info/exclude").write_text("mine")
    vault = opened(root / folder)
    vault.trust.record({})
    vault.store.ensure_id()

    check = find_only(vault, "ignored files")
    lines = ["/CONTEXT.md", "/media/", "/.obsidian/workspace*.json", "**/*.tmp", "**/.vaultmem-*"]
    lines += [r"/agents/a \[1].md"]
    lines[1:1] = ["/transcripts/"] if folder else []
    assert (check.verdict, list(check.paths)) == (PROBLEM, lines)

    shutil.copytree(root, tmp_path / "before")
    checks = examine(vault, fix=True)
    assert {each.verdict for each in checks.values()} == {OK}
    changed = hash_tree(root).items() ^ hash_tree(tmp_path / "before").items()
    assert {path for path, _ in changed} == {".git/info/exclude"}
    prefix = r"memory \[1]/" if folder else ""
    wanted = "".join(f"/{prefix}{line.lstrip('/')}\n" for line in lines)
    assert (root / ".git/info/exclude").read_text() == f"mine\n{wanted}"
    assert len(checks["ignored files"].fixed) == len(lines)
    write_notes(root / folder, {"CONTEXT.md": "x\n", "media/a.png": "x", "agents/a [1].md": "x"})
    write_notes(
        root / folder, {".vaultmem-a.tmp": "x", "notes/x.tmp": "x", "notes/.vaultmem-0123.old": "x"}
    )
    assert git(root, "status", "--porcelain") == ""


def test_a_generated_file_that_is_committed_is_told(make_vault: Make, opened: Open) -> None:
    root = make_vault(NOTES)
    vault = opened(root)
    sync_vault(vault)
    render_contexts(vault)
    git(root, "add", "-f", "CONTEXT.md")
    git(root, "commit", "-q", "-m", "by hand")

    check = find_only(vault, "ignored files", fix=True)
    assert check.paths == ("CONTEXT.md",)
    assert "`git rm --cached -- CONTEXT.md`" in check.remedy


@pytest.mark.parametrize(
    "lost",
    [
        ({"driver"}, {".git/config"}),
        ({"attribute"}, {".git/info/attributes"}),
        ({"driver", "attribute"}, {".git/config", ".git/info/attributes"}),
    ],
)
def test_the_merge_driver_is_set(
    make_vault: Make, opened: Open, lost: tuple[set[str], set[str]]
) -> None:
    root = make_vault(NOTES)
    if "driver" in lost[0]:
        git(root, "config", "merge.vaultmem.driver", "old-vaultmem %A")
    if "attribute" in lost[0]:
        (root / ".git/info/attributes").write_text("*.png -text\n")
    vault = opened(root)

    assert find_only(vault, "merge driver").verdict is PROBLEM
    check, changed = fix_only(vault, "merge driver")

    assert check.fixed
    assert changed == lost[1]
    assert "attribute" not in lost[0] or "*.png -text\n" in (
        (root / ".git/info/attributes").read_text()
    )


@pytest.mark.campaign
@pytest.mark.skipif(os.name != "posix", reason="a Python has one name on this system")
def test_the_merge_driver_may_name_this_python_otherwise(
    make_vault: Make, opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a venv", "other"):
        (tmp_path / name / "bin").mkdir(parents=True)
        (tmp_path / name / "bin/python").symlink_to(Path(sys.executable).resolve())
        (tmp_path / name / "bin/python3").symlink_to("python")
    (tmp_path / "linked").symlink_to("a venv")
    (tmp_path / "bin").symlink_to("a venv/bin")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "a venv/bin/python3"))
    root = make_vault(NOTES)
    vault = opened(root)
    driver = build_driver_command()

    def is_ok(python: Path | str, driver: str = driver) -> bool:
        command = driver.replace(sys.executable, str(python))
        git(root, "config", "merge.vaultmem.driver", command)
        return examine(vault)["merge driver"].verdict is OK

    assert sys.executable in driver
    assert is_ok(tmp_path / "a venv/bin/python3")
    assert is_ok(tmp_path / "a venv/bin/python")
    assert is_ok(tmp_path / "linked/bin/python")
    assert not is_ok(tmp_path / "other/bin/python3")
    assert not is_ok(tmp_path / "bin/python3")  # Started from there, it is in no environment.
    assert not is_ok(tmp_path / "a venv/bin/python4")
    assert not is_ok("python3")
    assert not is_ok(tmp_path / "a venv/bin/python", driver.replace(" -P ", " "))


@pytest.mark.parametrize("place", ["the middle", "the head"])
def test_a_damaged_index_that_nobody_noticed_is_built_again(
    make_vault: Make, opened: Open, place: str
) -> None:
    root = make_vault(NOTES)
    vault = opened(root)
    sync_vault(vault)
    wanted = [hit.address for hit in recall(vault, parse_query("ferry tide"))]
    vault.close()
    for file in (vault.state_folder / "index").glob("*.arrays"):
        at, data = file.stat(), bytearray(file.read_bytes())
        changed = len(data) // 2 if place == "the middle" else len(data) - 30
        data[changed] ^= 8
        file.write_bytes(data)
        os.utime(file, ns=(at.st_atime_ns, at.st_mtime_ns))
    vault = opened(root)

    check = find_only(vault, "index")
    assert check.verdict is PROBLEM
    check, changed = fix_only(vault, "index")

    assert changed == set()
    assert "built again from the notes" in check.fixed[0]
    assert [hit.address for hit in recall(vault, parse_query("ferry tide"))] == wanted
    assert wanted == ["notes/tide.md#Tide"]
    gc.collect()  # Whoosh leaves files open that it cannot read.


def test_a_database_set_aside_is_told_and_kept(make_vault: Make, opened: Open) -> None:
    root = make_vault(NOTES)
    vault = opened(root)
    sync_vault(vault)
    vault.close()
    file = vault.state.path
    file.write_bytes(b"not a database" * 1000)
    vault = opened(root)

    check = find_only(vault, "index")
    assert check.verdict is WARNING
    kept = vault.state_folder / "state.sqlite3.damaged"
    assert str(kept) in check.paths
    find_only(vault, "index", fix=True)
    assert kept.read_bytes() == b"not a database" * 1000
    assert not (vault.state_folder / "index.damaged").exists()


def test_locks_of_git_are_told_with_their_age_and_never_removed(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault(NOTES)
    vault = opened(root)
    lock, other = root / ".git/index.lock", root / ".git/refs/heads/main.lock"
    lock.touch()
    other.touch()

    check = find_only(vault, "git's locks", fix=True)
    assert (check.verdict, check.message) == (WARNING, "another git is at work")

    check = find_only(vault, "git's locks", fix=True, later=1_800)
    assert (check.verdict, len(check.paths)) == (PROBLEM, 2)
    assert "index.lock  (30 minutes)" in check.paths[0]
    assert "remove these files" in check.remedy
    assert lock.exists()
    assert other.exists()


def test_what_a_killed_merge_left_in_the_folder_is_removed(make_vault: Make, opened: Open) -> None:
    root = make_vault(NOTES)
    vault, left = opened(root), root / ".merge_file_a1B2c3"
    left.write_text("a version of a note\n")

    assert examine(vault, True, 0.0)["git's leftovers"].verdict is OK
    check = find_only(vault, "git's leftovers", later=1_800)
    assert (check.verdict, check.paths) == (WARNING, (str(left),))
    fixed = fix_only(vault, "git's leftovers", later=1_800)[0].fixed
    assert fixed == ("removed .merge_file_a1B2c3",)
    assert not left.exists()


def test_objects_that_are_gone_are_named(make_vault: Make, opened: Open) -> None:
    root = make_vault(NOTES)
    blob = git(root, "rev-parse", "HEAD:notes/tide.md")
    (root / ".git/objects" / blob[:2] / blob[2:]).unlink()

    check = find_only(opened(root), "git's objects", fix=True)
    assert check.verdict is PROBLEM
    assert any(blob in line for line in check.paths)


def test_what_synchronisation_wrote_into_git_is_named(make_vault: Make, opened: Open) -> None:
    root = make_vault(NOTES)
    head = root / ".git/refs/heads/main"
    copy = head.with_name("main.sync-conflict-20261121-161000-ABCDEFG")
    shutil.copy(head, copy)

    check = find_only(opened(root), "git's objects", fix=True)
    assert (check.verdict, check.paths) == (PROBLEM, (str(copy),))
    assert copy.exists()


def test_a_shallow_clone_is_a_warning(make_vault: Make, opened: Open, tmp_path: Path) -> None:
    root = make_vault(NOTES)
    git(tmp_path, "clone", "-q", "--depth=1", root.as_uri(), "clone")
    vault = opened(tmp_path / "clone")
    vault.trust.record({})
    examine(vault, fix=True)

    check = find_only(vault, "git's objects")
    assert check.verdict is WARNING
    assert "git fetch --unshallow" in check.remedy


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_a_repository_of_somebody_else_has_its_remedy(make_vault: Make, opened: Open) -> None:
    root = make_vault(NOTES)
    os.chown(root / ".git", 65534, 65534)

    checks = examine(opened(root))
    assert checks["git"].verdict is PROBLEM
    assert "belongs to another user" in checks["git"].message
    assert "safe.directory" in checks["git"].remedy


def test_a_vault_without_git_is_a_warning(make_vault: Make, opened: Open) -> None:
    root = make_vault(NOTES)
    shutil.rmtree(root / ".git")

    check = find_only(opened(root), "git", fix=True)
    assert (check.verdict, check.message) == (WARNING, "the vault is in no repository")
    assert not (root / ".git").exists()


def test_why_nothing_is_committed_now_is_told(make_vault: Make, opened: Open) -> None:
    root = make_vault(NOTES)
    git(root, "checkout", "-q", "--detach")

    check = find_only(opened(root), "git", fix=True)
    assert check.verdict is WARNING
    assert "HEAD is detached" in check.message
    assert git(root, "symbolic-ref", "-q", "HEAD", check=False) == ""


def test_files_and_commits_from_the_future_are_named(
    make_vault: Make, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_vault(NOTES)
    vault = opened(root)
    os.utime(root / "notes/tide.md", (time.time() + 9_000,) * 2)
    check = find_only(vault, "clock", fix=True)
    assert (check.verdict, check.paths) == (PROBLEM, ("notes/tide.md",))

    os.utime(root / "notes/tide.md")
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2099-01-01T00:00:00Z")
    git(root, "commit", "-q", "--allow-empty", "-m", "later")
    check = find_only(vault, "time of commits", fix=True)
    assert check.verdict is WARNING
    assert check.paths == (git(root, "rev-parse", "HEAD")[:7],)


def test_what_a_killed_watcher_left_is_removed(make_vault: Make, opened: Open) -> None:
    root = make_vault(NOTES)
    vault = opened(root)
    sync_vault(vault)
    left = [vault.state_folder / name for name in ("watch.json", "watch.sock")]
    for file in left:
        file.write_text("{}")

    check = find_only(vault, "watcher")
    assert (check.verdict, check.message) == (PROBLEM, "a watcher was killed")
    before = set(hash_tree(vault.state_folder))
    _, changed = fix_only(vault, "watcher")
    assert changed == set()
    assert before - set(hash_tree(vault.state_folder)) == {"watch.json", "watch.sock"}


def test_a_watcher_of_another_version_is_a_warning(make_vault: Make, opened: Open) -> None:
    vault = opened(make_vault(NOTES))
    with held_by_thread(lambda: hold_watch(vault)):
        check = examine(vault, fix=True)["watcher"]
        assert (check.verdict, check.message) == (OK, f"process {os.getpid()} watches")
        file = vault.state_folder / "watch.json"
        file.write_text(file.read_text().replace(vaultmem.__version__, "0.0.1"))
        check = find_only(vault, "watcher", fix=True)
        assert check.verdict is WARNING
        assert "of version 0.0.1" in check.message


def test_who_holds_the_vaults_lock_is_told(make_vault: Make, opened: Open) -> None:
    vault = opened(make_vault(NOTES))
    time.sleep(0.12)  # What was written just now is looked at again, under the lock.
    sync_vault(vault)
    with held_by_thread(lambda: hold_lock(vault.state_folder / "lock")):
        check = find_only(vault, "vault's lock")
        assert check.verdict is WARNING
        if Path("/proc/locks").exists():
            assert check.paths == (f"process {os.getpid()}",)


def test_trouble_of_hooks_is_told_newest_first(make_vault: Make, opened: Open) -> None:
    vault = opened(make_vault(NOTES))
    file = vault.state_folder / TROUBLE_FILE
    file.write_text(
        '{"at": "2026-11-20T10:00:00", "event": "stop", "error": "no such note"}\n'
        'not json\n{"at": 0, "event": "start", "error": "timed out"}\n'
    )
    check = find_only(vault, "hooks", fix=True)

    assert check.verdict is WARNING
    assert [path.partition("  ")[2] for path in check.paths] == [
        "start: timed out",
        "",
        "stop: no such note",
    ]
    assert str(file) in check.remedy
    assert file.exists()

    file.write_text('{"at": 1, "event": "e", "error": "x"}\n' * 9_000)
    assert 1_000 < len(find_only(vault, "hooks").paths) < 9_000


def test_limits_of_disk_and_watching_are_told(
    make_vault: Make, opened: Open, tmp_path: Path
) -> None:
    vault = opened(make_vault(NOTES))
    full = check_disk(vault, enough=2**62)
    assert full.verdict is PROBLEM
    assert "MB are free" in full.message
    assert check_disk(vault, enough=0).verdict is OK

    (tmp_path / "limit").write_text("3\n")
    few = check_watch_limit(vault, tmp_path / "limit")
    assert few.verdict is PROBLEM
    assert "sysctl fs.inotify.max_user_watches=524288" in few.remedy
    assert check_watch_limit(vault, tmp_path / "none").verdict is OK


@pytest.mark.parametrize(
    ("text", "told", "remedy"),
    [
        ("---\ntitle: Tide\nText.\n", "is never closed", "add a line `---` after the last prop"),
        ("---\na: &x 1\nb: *x\n---\nText.\n", "uses anchors", "correct the frontmatter in an "),
        ("---\na: 1\nb: [c\n---\nText.\n", "notes/x.md:4: ", "correct the line that is named, in"),
    ],
)
def test_only_a_remedy_for_a_named_line_speaks_of_a_line(
    make_vault: Make, opened: Open, text: str, told: str, remedy: str
) -> None:
    check = find_only(opened(make_vault({**NOTES, "notes/x.md": text})), "notes in doubt")
    assert told in check.paths[0]
    assert check.remedy.startswith(remedy)


def test_a_pipe_named_like_a_note_is_replaced(make_vault: Make, opened: Open) -> None:
    root = make_vault(NOTES)
    os.mkfifo(root / "pipe.md")
    check = examine(opened(root))["notes"]
    assert check.paths == ("pipe.md: it is not a regular file",)
    assert check.remedy == "replace it by a regular file, or remove it"


def test_hidden_and_ignored_places_are_named(make_vault: Make, opened: Open) -> None:
    root = make_vault({**NOTES, ".hidden/a.md": "a\n", "old/b.md": "b\n", "build/c.md": "c\n"})
    (root / "vaultmem.yaml").write_text("ignore: old\n")
    (root / "notes/# ideas.md").write_text("An idea.\n")
    (root / "notes/tide.md~").write_text("An editor's copy.\n")
    git(root, "init", "-q", "other")
    (root / "link.md").symlink_to("notes/tide.md")

    check = examine(opened(root))["not looked into"]
    assert check.verdict is OK
    assert list(check.paths) == [
        ".hidden/  (hidden)",
        "notes/# ideas.md  (hidden)",
        "old/  (ignored by vaultmem.yaml)",
        "other  (repositories of their own)",
        "link.md  (symbolic links)",
    ]


def test_policies_that_nobody_vouched_for_are_named(make_vault: Make, opened: Open) -> None:
    root = make_vault({**NOTES, "notes/rule.md": "---\nkind: policy_rule\n---\nAlways.\n"})
    check = find_only(opened(root), "trust", fix=True)

    assert (check.verdict, check.paths) == (WARNING, ("notes/rule.md",))


def test_a_check_that_fails_stops_no_other(make_vault: Make, opened: Open) -> None:
    root = make_vault(NOTES)
    vault = opened(root)
    (root / ".gitignore").unlink()
    exclude = root / ".git/info/exclude"
    exclude.unlink(missing_ok=True)
    exclude.symlink_to("/nonexistent")

    checks = examine(vault, fix=True)
    assert checks["ignored files"].verdict is PROBLEM
    assert checks["ignored files"].remedy == "remove it"
    assert checks["disk"].verdict is OK
    assert not Path("/nonexistent").exists()


def test_settings_that_cannot_be_read_stop_only_what_needs_them(
    make_vault: Make, opened: Open
) -> None:
    vault = opened(make_vault(NOTES))
    checks = {
        each.name: each
        for each in examine_vault(vault, settings_problem='vaultmem.yaml: unknown key "x"; use y')
    }

    assert checks["settings"].verdict is PROBLEM
    assert checks["settings"].remedy == "use y"
    assert not {"index", "notes", "ignored files"} & checks.keys()
    assert checks["git"].verdict is OK


def test_old_names_of_settings_are_named_with_the_new(make_vault: Make, opened: Open) -> None:
    vault = opened(make_vault(NOTES | {"vaultmem.yaml": "recency: 0\nbudget: 900\n"}))
    check = next(each for each in examine_vault(vault) if each.name == "settings")
    assert check.verdict is Verdict.WARNING
    assert check.paths == ("recency: now recency_weight",)


def test_a_damaged_trust_record_has_its_remedy(make_vault: Make, opened: Open) -> None:
    vault = opened(make_vault(NOTES))
    vault.trust.record({})
    file = next(file for file in Path(os.environ["XDG_CONFIG_HOME"]).rglob("*.json"))
    file.write_text("{")
    with pytest.raises(VaultError):
        vault.trust.notes()

    checks = examine(vault)
    assert checks["trust"].verdict is PROBLEM
    assert checks["trust"].remedy == "remove it"


ALIASES = {
    f"notes/{name}.md": f"---\r\naliases:\r\n- @{name}\r\ntags: [a]\r\n---\r\nText {name}.\r\n"
    for name in ("ada", "bob", "cy")
}


def test_equal_problems_are_one_line_with_one_repair_that_adds_only_quotes(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault({**NOTES, **ALIASES, "notes/x.md": "---\na: [\n---\n# X\n"})
    vault = opened(root)
    check = find_only(vault, "notes in doubt")

    told = "a value that begins with @ needs quotes"
    assert check.paths == (
        f"3 notes: {told}: notes/ada.md:3, notes/bob.md:3, notes/cy.md:3",
        "notes/x.md:3: the frontmatter is not valid YAML",
    )
    assert check.remedy.startswith("`vaultmem doctor --fix` adds the quotes")
    before = hash_tree(root, skip=(".git",))
    fixed = find_only(vault, "notes in doubt", fix=True)

    for path, text in ALIASES.items():
        name = path[len("notes/") : -len(".md")]
        assert (root / path).read_bytes().decode() == text.replace(f"@{name}", f'"@{name}"')
    after = hash_tree(root, skip=(".git",))
    assert {path for path in before if before[path] != after[path]} == set(ALIASES)
    assert fixed.fixed == tuple(f"added quotes in {path}" for path in ALIASES)
    assert len(fixed.paths) == 1
    assert vault.view.records("d.path = ?", ["notes/ada.md"])[0].tags == ("a",)
    assert git(root, "log", "-1", "--format=%an %s") == "Maren Person add quotes: ada, bob and cy"


def test_a_tab_that_indents_a_property_is_named_with_its_repair(
    make_vault: Make, opened: Open
) -> None:
    root = make_vault({**NOTES, "notes/x.md": "---\na:\tb\nc:\n\t- d\n---\n# X\n"})

    check = find_only(opened(root), "notes in doubt")

    assert check.paths == ("notes/x.md:4: YAML indents with spaces, not with a tab",)
    assert check.remedy == "replace the tab with spaces in an editor"


def test_an_agent_adds_no_quotes(make_vault: Make, opened: Open) -> None:
    root = make_vault({**NOTES, **ALIASES})
    before = hash_tree(root, skip=(".git",))
    find_only(opened(root, agent="claude"), "notes in doubt", fix=True)
    assert hash_tree(root, skip=(".git",)) == before


def test_a_problem_is_two_words_in_a_pack_and_a_line_elsewhere(make_vault: Make) -> None:
    root = make_vault({**NOTES, **ALIASES})
    pack = run_here("pack", "Text ada", cwd=root).out
    told = run_here("status", cwd=root).out + run_here("index", cwd=root).out

    assert "in doubt" in pack
    assert "YAML" not in pack + told
    assert "quotes" not in pack
    assert told.count("3 notes: a value that begins with @ needs quotes: notes/ada.md:3") == 2


@pytest.mark.parametrize(
    ("text", "told", "remedy"),
    [
        ("Text.\n\n%% open\n\nMore.\n", "a comment that begins", "close the comment"),
        (b"caf\xe9\n", "its text is Windows-1252", "save it as UTF-8"),
        ("---\ntags: {a: b}\n---\nText.\n", "the property", "correct what is named"),
    ],
)
def test_the_remedy_fits_the_defect(
    make_vault: Make, opened: Open, text: str | bytes, told: str, remedy: str
) -> None:
    check = find_only(opened(make_vault({**NOTES, "notes/x.md": text})), "notes")
    assert told in check.paths[0]
    assert check.remedy.startswith(remedy)
    assert ";" not in check.remedy
