"""Vaults carried between machines: what `sync` fetches, merges, pushes, and what it never does."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from branching import commit_on
from conftest import Make
from in_process import run_here
from machines import Machine, MakeMachines, assert_equal
from support import git, wait_until
from watchers import watched

from vaultmem.errors import LockTimeoutError, PendingError
from vaultmem.services.syncing.sync import SyncOutcome, SyncResult, sync_remote
from vaultmem.storage.git.remote import PushResult, push

QUAY = {"notes/quay.md": "# Quay\n\nOf stone.\n"}


def save(machine: Machine, name: str, text: str = "") -> None:
    machine.write(f"notes/{name}.md", text or f"# {name.title()}\n\nAbout the {name}.\n")


def synced(machine: Machine, *words: str) -> dict[str, object]:
    done = machine.run("sync", *words, "--json")
    assert done.code == 0, done
    return dict(done.json)


@pytest.mark.campaign
def test_two_machines_come_to_have_the_same(make_machines: MakeMachines) -> None:
    machines = make_machines(QUAY)
    anna, ben = machines.all
    save(anna, "pier")
    save(ben, "crane")
    assert synced(anna)["pushed"] == 1
    told = synced(ben)
    assert (told["fetched"], told["pushed"], told["outcome"]) == (1, 2, "synced")
    told = synced(anna)
    assert (told["fetched"], told["pushed"], told["followed"]) == (2, 0, ["notes/crane.md"])
    assert_equal(machines)
    assert (anna.read("notes/crane.md"), ben.read("notes/pier.md")) == (
        "# Crane\n\nAbout the crane.\n",
        "# Pier\n\nAbout the pier.\n",
    )
    assert anna.run("recall", "crane", "--json").json["hits"]
    told = synced(ben)
    assert (told["fetched"], told["pushed"], told["checkpoint"]) == (0, 0, None)
    assert anna.run("sync").out == "main and origin have the same.\n"


def test_the_first_sync_with_an_address_adds_it(make_vault: Make, tmp_path: Path) -> None:
    root, remote = make_vault(QUAY), tmp_path / "far away.git"
    git(tmp_path, "init", "-q", "--bare", "-b", "main", str(remote))
    done = run_here("sync", str(remote), cwd=root)
    assert (done.code, done.err) == (0, "")
    assert git(root, "remote", "get-url", "origin") == str(remote)
    assert git(root, "rev-parse", "HEAD", "@{upstream}", "--symbolic-full-name") is not None
    assert git(remote, "rev-parse", "main") == git(root, "rev-parse", "HEAD")
    assert run_here("sync", cwd=root).out == "main and origin have the same.\n"
    other = tmp_path / "other.git"
    git(tmp_path, "init", "-q", "--bare", str(other))
    refused = run_here("sync", str(other), cwd=root)
    assert refused.code == 5
    assert "origin is" in refused.err


@pytest.mark.parametrize(
    ("where", "code", "told"),
    [
        ("{}/nowhere.git", 1, "make an empty one there (`git init --bare -b main FOLDER`"),
        ("nobody", 4, "no remote is called that; this vault has no remote yet"),
        ("", 4, "run `vaultmem sync URL` once"),
        ("", 4, "`git init --bare -b main FOLDER`"),
        ("--", 4, "no remote"),
        ("ext::sh -c 'touch {}/pwned'", 1, "transport 'ext' not allowed"),
        ("http://127.0.0.1:1/x.git", 0, "not added: check the address"),
    ],
)
def test_an_address_that_is_none_is_not_added(
    make_vault: Make, tmp_path: Path, where: str, code: int, told: str
) -> None:
    root = make_vault(QUAY)
    done = run_here("sync", *filter(None, [where.format(tmp_path)]), cwd=root)
    assert done.code == code, done
    assert told in (done.err if code else done.out)
    assert git(root, "remote") == ""
    assert not (tmp_path / "pwned").exists()


@pytest.mark.campaign
def test_offline_is_no_error_and_what_waits_goes_later(make_machines: MakeMachines) -> None:
    machines = make_machines(QUAY)
    anna = machines.all[0]
    synced(anna)
    save(anna, "pier")
    machines.remote.rename(machines.remote.with_suffix(".away"))
    done = anna.run("sync")
    assert (done.code, done.err) == (0, "")
    assert "offline: nothing fetched or pushed; 1 commit waits\n" in done.out
    assert "does not appear to be a git repository" in done.out
    assert synced(anna)["outcome"] == "offline"
    machines.remote.with_suffix(".away").rename(machines.remote)
    assert synced(anna)["pushed"] == 1


@pytest.mark.campaign
def test_a_rejected_push_is_merged_and_pushed_again(
    make_machines: MakeMachines, monkeypatch: pytest.MonkeyPatch
) -> None:
    machines = make_machines(QUAY)
    anna, ben = machines.all
    left = ["crane", "bollard", "rope"]

    def push_late(*given: Any) -> PushResult:
        if left:  # Ben is quicker.
            save(ben, name := left.pop())
            ben.git("add", "-A")
            ben.git("commit", "-qm", name)
            ben.git("pull", "-q", "--rebase")
            ben.git("push", "-q")
        return push(*given)

    monkeypatch.setattr("vaultmem.services.syncing.sync.push", push_late)
    save(anna, "pier")
    told = synced(anna)
    assert (told["outcome"], told["fetched"]) == ("synced", 3)
    ben.git("pull", "-q")
    assert_equal(machines)


@pytest.mark.campaign
@pytest.mark.parametrize("when", ["fetch", "merge", "move"])
def test_what_is_saved_during_a_sync_is_committed_and_merged(
    make_machines: MakeMachines, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    machines = make_machines(QUAY)
    anna, ben = machines.all
    save(ben, "quay", "# Quay\n\nOf stone.\n\nNew: a crane.\n")
    synced(ben)
    save(anna, "pier")
    owner, name = {
        "fetch": ("vaultmem.services.syncing.sync", "fetch"),
        "merge": ("vaultmem.services.syncing.sync", "merge_branch"),
        "move": ("vaultmem.services.merging.merge", "move_tree"),
    }[when]
    real, saves = getattr(import_module(owner), name), ["saved"]

    def save_first(*given: Any, **more: Any) -> Any:
        if saves:
            saves.pop()
            save(anna, "quay", "# Quay\n\nOf old stone.\n")
        return real(*given, **more)

    monkeypatch.setattr(f"{owner}.{name}", save_first)
    told = synced(anna)
    assert (saves, told["outcome"], told["pushed"]) == ([], "synced", 3)
    assert all(each in anna.read("notes/quay.md") for each in ("Of old stone.\n", "New: a crane."))
    assert anna.git("status", "--porcelain") == ""
    ben.git("pull", "-q")
    assert_equal(machines)


@pytest.mark.campaign
def test_what_a_person_has_staged_ends_a_sync_that_nobody_asked_for(
    make_machines: MakeMachines,
) -> None:
    machines = make_machines(QUAY)
    anna, ben = machines.all
    save(ben, "crane")
    synced(ben)
    save(anna, "pier", "# Pier\n\nStaged.\n")
    anna.git("add", "notes/pier.md")
    save(anna, "pier", "# Pier\n\nSaved later.\n")
    with closing(anna.open()) as vault, pytest.raises(PendingError, match="changes are staged"):
        sync_remote(vault)
    assert anna.git("show", ":notes/pier.md") == "# Pier\n\nStaged."
    assert anna.read("notes/pier.md") == "# Pier\n\nSaved later.\n"


@pytest.mark.campaign
def test_a_push_that_another_outruns_by_a_moment_is_tried_again(
    make_machines: MakeMachines,
) -> None:
    machines = make_machines(QUAY)
    anna, ben = machines.all
    synced(anna)
    save(ben, "crane")
    ben.git("add", "-A")
    ben.git("commit", "-qm", "crane")
    ben.git("push", "-q", "origin", "HEAD:refs/heads/late")
    hook = machines.refuse_pushes(
        "[ $1 != refs/heads/main ] || [ -e outrun ] || "
        "{ touch outrun; git update-ref refs/heads/main refs/heads/late; }"
    )
    hook.rename(hook.with_name("update"))  # It is asked when the ref is known, and not locked.
    save(anna, "pier")

    told = synced(anna)

    assert (told["outcome"], told["fetched"]) == ("synced", 1)
    assert (machines.remote / "outrun").exists()
    assert machines.git("ls-tree", "-r", "--name-only", "main").count("notes/") >= 3


REFUSES_MAIN = 'while read -r old new ref; do [ "$ref" = refs/heads/main ] && exit 1; done; exit 0'


@pytest.mark.campaign
def test_what_the_remote_refuses_goes_to_a_ref_of_its_own(make_machines: MakeMachines) -> None:
    machines = make_machines(QUAY)
    anna = machines.all[0]
    save(anna, "pier")
    before = machines.git("rev-parse", "main")
    machines.refuse_pushes(f"echo main is protected >&2; {REFUSES_MAIN}")
    done = anna.run("sync", "--json")
    assert done.code == 5
    told = done.json
    assert (told["outcome"], told["waiting"]) == ("refused", 1)
    assert "main is protected" in told["message"]
    assert told["rescued"].startswith("refs/vaultmem/rescue/")
    head = anna.git("rev-parse", "HEAD")
    assert machines.git("rev-parse", told["rescued"]) == head
    save(anna, "crane")
    again = anna.run("sync", "--json").json
    assert again["rescued"] == told["rescued"]  # It is moved on, so they do not add up.
    assert machines.git("rev-parse", told["rescued"]) == anna.git("rev-parse", "HEAD")
    assert machines.git("rev-parse", "main") == before
    shown = anna.run("sync")
    assert "2 commits wait; a copy is at origin as refs/vaultmem/rescue/" in shown.err
    (machines.remote / "hooks/pre-receive").unlink()
    assert synced(anna)["pushed"] == 2


def test_what_the_remote_takes_nowhere_stays_here(make_machines: MakeMachines) -> None:
    machines = make_machines(QUAY)
    anna = machines.all[0]
    save(anna, "pier")
    machines.refuse_pushes()
    done = anna.run("sync")
    assert done.code == 5
    assert "not today" in done.err
    assert "1 commit waits on this machine alone" in done.err
    assert machines.git("for-each-ref", "--format=%(refname)") == "refs/heads/main"


def test_a_credential_that_comes_in_is_refused_and_ours_is_brought_to_safety(
    make_machines: MakeMachines,
) -> None:
    machines = make_machines(QUAY)
    anna, ben = machines.all
    secret = f"# Key\n\naws_access_key_id = {'AKIA'}{'QYLPMN5HHHFPZAM2'}\n"
    ben.write("notes/key.md", secret)
    ben.git("add", "-A")
    ben.git("commit", "-qm", "a key")
    ben.git("push", "-q")
    save(anna, "pier")
    done = anna.run("sync", "--json")
    assert (done.code, done.json["outcome"]) == (5, "refused")
    assert "looks like a credential" in done.json["message"]
    assert machines.git("rev-parse", done.json["rescued"]) == anna.git("rev-parse", "HEAD")
    assert not (anna.root / "notes/key.md").exists()


@pytest.mark.campaign
def test_a_slow_remote_is_given_up_and_holds_up_nobody(
    make_machines: MakeMachines, monkeypatch: pytest.MonkeyPatch
) -> None:
    machines = make_machines(QUAY)
    anna = machines.all[0]
    save(anna, "pier")
    mark = machines.remote / "asked"
    machines.refuse_pushes(f"touch {mark}; sleep 60")
    monkeypatch.setattr("vaultmem.storage.git.remote.push.__defaults__", (1.5,))

    def wait() -> SyncResult:
        with closing(anna.open()) as vault:
            return sync_remote(vault)

    with ThreadPoolExecutor() as pool, closing(anna.open()) as other:
        waits = pool.submit(wait)
        wait_until(mark.exists)
        with other.lock(0.0):  # The network is not waited for under it.
            assert not waits.done()
        with pytest.raises(LockTimeoutError):
            sync_remote(other, patience=0.0)
        report = waits.result(30)
    assert (report.outcome, report.waiting) == (SyncOutcome.OFFLINE, 1)
    assert "no answer within 2 seconds" in report.message
    (machines.remote / "hooks/pre-receive").unlink()
    assert synced(anna)["pushed"] == 1


@pytest.mark.campaign
def test_a_merge_at_which_git_stopped_is_ended_by_who_syncs_by_hand(
    make_machines: MakeMachines,
) -> None:
    anna, ben = make_machines({**QUAY, "notes/pier.md": "# Pier\n\nOf oak.\n"}).all
    (anna.root / "notes/pier.md").unlink()
    assert synced(anna)["pushed"] == 1
    ben.write("notes/pier.md", "# Pier\n\nOf larch.\n")
    ben.git("commit", "-qam", "larch")
    ben.git("pull", "-q", "--no-rebase", "--no-edit", check=False)
    assert ben.git("diff", "--name-only", "--diff-filter=U") == "notes/pier.md"

    assert synced(ben)["outcome"] == "synced"
    assert synced(anna)["outcome"] == "synced"

    assert "> [!conflict] Removed by anna" in anna.read("notes/pier.md")
    assert anna.git("rev-parse", "HEAD") == ben.git("rev-parse", "HEAD")
    assert ben.git("status", "--porcelain") == ""


@pytest.mark.campaign
def test_two_vaults_made_apart_are_joined_only_if_that_is_said(
    make_vault: Make, tmp_path: Path
) -> None:
    first, second = make_vault(QUAY, "first"), make_vault({"notes/crane.md": "# Crane\n"}, "second")
    git(second, "checkout", "-q", "--orphan", "apart")
    git(second, "commit", "-q", "-m", "another history")
    git(second, "branch", "-q", "-M", "main")
    remote = tmp_path / "remote.git"
    git(tmp_path, "init", "-q", "--bare", "-b", "main", str(remote))
    assert run_here("sync", str(remote), cwd=first).code == 0
    done = run_here("sync", str(remote), cwd=second)
    assert done.code == 1
    assert "`vaultmem sync --allow-unrelated-histories`" in done.err
    told = run_here("sync", "--allow-unrelated-histories", "--json", cwd=second).json
    assert (told["outcome"], told["conflicts"]) == ("synced", [])
    assert run_here("sync", "--json", cwd=first).json["followed"] == ["notes/crane.md"]
    assert git(first, "rev-parse", "HEAD") == git(second, "rev-parse", "HEAD")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["checkout", "-q", "--detach"], "HEAD is detached"),
        (["merge", "-q", "--no-commit", "--no-ff", "side"], "a merge is under way"),
        (
            ["-c", "sequence.editor=sed -i s/pick/edit/", "rebase", "-qi", "--root"],
            "a rebase is under way",
        ),
    ],
)
def test_what_a_person_does_in_git_is_left_to_them(
    make_machines: MakeMachines, words: list[str], told: str
) -> None:
    anna = make_machines(QUAY).all[0]
    commit_on(anna.root, "side", {"notes/side.md": "# Side\n"})
    anna.git(*words)
    before = anna.git("rev-parse", "HEAD")
    done = anna.run("sync")
    assert done.code == 7
    assert told in done.err
    assert anna.git("rev-parse", "HEAD") == before


@pytest.mark.campaign
def test_a_shallow_clone_and_a_work_tree_sync_as_others(make_machines: MakeMachines) -> None:
    machines = make_machines(QUAY)
    anna, ben = machines.all
    shutil.rmtree(ben.root)
    git(ben.home, "clone", "-q", "--depth=1", f"file://{machines.remote}", str(ben.root))
    tree = anna._replace(root=anna.root.parent / "tree")
    anna.git("worktree", "add", "-q", "-b", "side", str(tree.root))
    save(ben, "pier")
    save(tree, "crane")
    assert (synced(ben)["pushed"], synced(tree)["pushed"]) == (1, 1)
    save(anna, "rope")
    assert synced(anna)["fetched"] == 1
    assert synced(ben)["fetched"] == 2
    assert machines.git("rev-parse", "side") == tree.git("rev-parse", "HEAD")
    assert anna.git("status", "--porcelain") == ""


def test_a_plan_changes_nothing(make_machines: MakeMachines) -> None:
    machines = make_machines(QUAY)
    anna, ben = machines.all
    save(ben, "crane")
    synced(ben)
    save(anna, "pier")
    head = anna.git("rev-parse", "HEAD")
    told = anna.run("sync", "--dry-run", "--json").json
    assert (told["uncommitted"], told["fetched"], told["waiting"]) == (1, 1, 0)
    shown = anna.run("sync", "--dry-run").out
    assert "would fetch  1 commit from origin" in shown
    assert anna.git("rev-parse", "HEAD") == head
    assert not (anna.root / "notes/crane.md").exists()


SYNCING = {"vaultmem.yaml": "sync_remote: origin\nsync_every: 5m\n", **QUAY}


def test_nothing_is_synced_unasked_before_the_person_has(make_machines: MakeMachines) -> None:
    anna = make_machines(SYNCING).all[0]
    done = anna.run("sync", "--unasked")
    assert (done.code, "once on this machine" in done.err) == (5, True)
    assert "once on this machine" in anna.run("status").out
    synced(anna)
    assert synced(anna, "--unasked")["outcome"] == "synced"
    assert anna.run("status", "--json").json["git"]["sync"]["outcome"] == "synced"
    anna.git("remote", "set-url", "origin", "/elsewhere.git")
    assert anna.run("sync", "--unasked").code == 5


@pytest.mark.campaign
def test_the_end_of_a_session_is_synced(make_machines: MakeMachines) -> None:
    machines = make_machines(SYNCING)
    anna = machines.all[0]
    synced(anna)
    assert anna.run("session", "start", "--id", "s1", "--agent", "claude").code == 0
    assert anna.run("session", "close", "s1", "--agent", "claude").code == 0
    head = anna.git("rev-parse", "HEAD")
    wait_until(lambda: machines.git("rev-parse", "main") == head)


@pytest.mark.campaign
def test_a_watcher_syncs_and_says_so(
    make_machines: MakeMachines, monkeypatch: pytest.MonkeyPatch
) -> None:
    machines = make_machines(SYNCING)
    anna, ben = machines.all
    synced(anna)
    save(ben, "crane")
    synced(ben)
    for name, value in anna.env.items():
        monkeypatch.setenv(name, value)
    with watched(anna.root) as (_, told):
        wait_until((anna.root / "notes/crane.md").exists)
        wait_until(lambda: ("synced", "origin: commits in: 1, out: 0") in told)
    assert [each for each in told if each.kind == "problem"] == []


@pytest.mark.campaign
def test_status_and_doctor_tell_what_waits_and_why(make_machines: MakeMachines) -> None:
    machines = make_machines(QUAY)
    anna = machines.all[0]
    assert "never with origin; `vaultmem sync` does" in anna.run("status").out
    save(anna, "pier")
    machines.refuse_pushes()
    assert anna.run("sync").code == 5
    shown = anna.run("status").out
    assert "refused: pre-receive hook declined: not today; commits waiting: 1" in shown
    checks = {each["name"]: each for each in anna.run("doctor", "--json").json["checks"]}
    assert checks["sync"]["verdict"] == "problem"
    assert "not today" in checks["sync"]["message"]
    (machines.remote / "hooks/pre-receive").unlink()
    synced(anna)
    assert anna.run("doctor", "--json").json["ok"]


def test_the_first_command_in_a_clone_lets_git_merge_notes(make_machines: MakeMachines) -> None:
    machines = make_machines({"notes/q.md": "---\ntags: [a]\n---\n# Q\n"}, with_driver=False)
    anna, ben = machines.all
    done = anna.run("recall", "q")
    assert (done.code, "merges its notes property by property" in done.err) == (0, True)
    assert anna.run("recall", "q").err == ""
    ben.write("notes/q.md", "---\ntags: [a, b]\n---\n# Q\n")
    ben.git("commit", "-qam", "b")
    ben.git("push", "-q")
    anna.write("notes/q.md", "---\ntags: [a, c]\n---\n# Q\n")
    anna.git("commit", "-qam", "c")
    anna.git("pull", "-q", "--no-rebase")
    assert sorted(anna.run("show", "notes/q.md", "--json").json["tags"]) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ("sync_every: 5m\n", '"sync_every" is set and "sync_remote" is not'),
        ("sync_remote: origin\nsync_every: 5\n", "it takes never, or minutes or hours"),
        ("sync_remote: https://x.org/y\n", "it takes the name of a git remote"),
    ],
)
def test_settings_are_checked(make_vault: Make, settings: str, told: str) -> None:
    root = make_vault(QUAY)
    (root / "vaultmem.yaml").write_text(settings)
    assert told in run_here("list", cwd=root).err


@contextmanager
def answering(status: int) -> Iterator[str]:
    """Be a server that answers everything with a status, for a `with`; yield its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("WWW-Authenticate", 'Basic realm="vaults"')
            self.send_header("Content-Type", "text/plain")
            self.end_headers()
            self.wfile.write(b"ask the harbour office")

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://maren:secret@127.0.0.1:{server.server_port}/vault.git"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    ("status", "code", "told"),
    [
        (401, 1, "vault.git/': ask the harbour office); repeat `git ls-remote origin`"),
        (403, 1, "error: 403: ask the harbour office); repeat"),
        (404, 1, "no repository is at http://...@127.0.0.1"),
        (503, 0, "offline: nothing fetched or pushed"),
    ],
)
def test_a_server_that_does_not_serve_is_told_and_nobody_is_asked(
    make_machines: MakeMachines, status: int, code: int, told: str
) -> None:
    anna = make_machines(QUAY).all[0]
    with answering(status) as address:
        anna.git("remote", "set-url", "origin", address)
        done = anna.run("sync", env={"GIT_ASKPASS": "false", "SSH_ASKPASS": "false"})
    assert done.code == code
    assert told in done.out + done.err
    assert "secret" not in done.out + done.err + anna.run("status").out


@pytest.mark.campaign
def test_who_may_only_read_takes_in_what_is_new(make_machines: MakeMachines) -> None:
    machines = make_machines(QUAY)
    anna, ben = machines.all
    save(ben, "crane")
    synced(ben)
    save(anna, "pier")
    with answering(403) as address:
        anna.git("remote", "set-url", "--push", "origin", address)
        done = anna.run("sync")
    assert done.code == 5
    assert "fetched 1 commit from origin" in " ".join(done.out.split())
    assert "2 commits wait on this machine alone" in done.err
    assert (anna.root / "notes/crane.md").exists()


SSH = """#!/bin/sh
echo "$0 $*" >> {log}
[ "$1" = -G ] && exit 1
for command; do :; done
exec sh -c "$command"
"""


@pytest.mark.parametrize("own", ["", "global", "local"])
def test_ssh_asks_nothing_unless_it_is_the_persons_own(
    make_machines: MakeMachines, tmp_path: Path, own: str
) -> None:
    machines = make_machines(QUAY)
    anna, log = machines.all[0], tmp_path / "log"
    for name in ("ssh", "mine"):
        (tmp_path / name).write_text(SSH.format(log=log))
        (tmp_path / name).chmod(0o755)
    if own:
        anna.git("config", f"--{own}", "core.sshCommand", str(tmp_path / "mine"))
    anna.git("remote", "set-url", "origin", f"ssh://elsewhere{machines.remote}")
    save(anna, "pier")
    done = anna.run("sync", env={"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert done.code == 0, done
    assert machines.git("rev-parse", "main") == anna.git("rev-parse", "HEAD")
    lines = log.read_text().splitlines()
    is_mine = own == "global"
    assert {line.split()[0].rpartition("/")[2] for line in lines} == {"mine" if is_mine else "ssh"}
    assert all("-oBatchMode=yes" in line for line in lines) != is_mine


@pytest.mark.campaign
def test_a_branch_that_is_not_checked_out_is_synced_as_well(make_machines: MakeMachines) -> None:
    machines = make_machines(QUAY)
    anna, ben = machines.all
    for each in (anna, ben):
        each.git("branch", "side")
        each.run("remember", f"The crane of {each.name}.", "--branch", "side")
        assert synced(each, "--ref", "side")["outcome"] == "synced"
    assert synced(anna, "--ref", "side")["fetched"] == 2
    assert anna.git("rev-parse", "side") == ben.git("rev-parse", "side")
    assert anna.git("status", "--porcelain") == ""
    assert "crane" in anna.run("recall", "crane of ben", "--ref", "side").out


@pytest.mark.campaign
def test_what_others_changed_outside_of_the_vault_is_left_to_git(
    make_machines: MakeMachines,
) -> None:
    machines = make_machines(QUAY)
    anna, ben = machines.all
    inner = anna._replace(root=anna.root / "memory")
    inner.root.mkdir()
    assert inner.run("init").code == 0
    save(inner, "crane")
    assert synced(inner)["pushed"] == 1
    ben.git("pull", "-q")
    ben.write("memory/notes/rope.md", "# Rope\n")
    ben.git("add", "-A")
    ben.git("commit", "-qm", "a rope")
    ben.git("push", "-q")
    assert synced(inner)["followed"] == ["notes/rope.md"]
    ben.write("code.py", "print()\n")
    ben.git("add", "-A")
    ben.git("commit", "-qm", "code")
    ben.git("push", "-q")
    save(inner, "pier")
    done = inner.run("sync")
    assert (
        done.code,
        "run `git pull --no-rebase --no-edit`, then `vaultmem sync`" in done.err,
    ) == (1, True)
    anna.git("pull", "-q", "--no-rebase", "--no-edit")
    assert synced(inner)["outcome"] == "synced"
    inner.write("vaultmem.yaml", "sync_remote: origin\n")
    assert "a folder of a larger repository" in inner.run("sync", "--unasked").err


@pytest.mark.campaign
def test_a_vault_begins_in_a_clone_of_an_empty_repository(home: Path, tmp_path: Path) -> None:
    remote, first, second = (tmp_path / name for name in ("remote.git", "first", "second"))
    git(tmp_path, "init", "-q", "--bare", "-b", "main", str(remote))
    git(tmp_path, "clone", "-q", str(remote), str(first))
    assert run_here("init", str(first)).code == 0
    done = run_here("sync", cwd=first)
    assert (done.code, "pushed" in done.out) == (0, True), done
    git(tmp_path, "clone", "-q", str(remote), str(second))
    (second / "notes/quay.md").parent.mkdir(exist_ok=True)
    (second / "notes/quay.md").write_text("# Quay\n")
    assert run_here("sync", cwd=second).code == 0
    assert run_here("sync", "--json", cwd=first).json["followed"] == ["notes/quay.md"]


def test_what_is_not_committed_anywhere_has_nothing_to_sync(
    make_machines: MakeMachines, tmp_path: Path
) -> None:
    machines = make_machines(QUAY)
    root = tmp_path / "unborn"
    git(tmp_path, "init", "-q", str(root))
    done = run_here("sync", str(machines.remote), "--vault", str(root), cwd=tmp_path)
    assert done.code == 4
    assert "begin with `git clone URL` instead" in done.err
    assert not (root / "notes").exists()


@pytest.mark.campaign
def test_a_remote_that_goes_away_before_the_push_gets_it_later(
    make_machines: MakeMachines, monkeypatch: pytest.MonkeyPatch
) -> None:
    machines = make_machines(QUAY)
    anna, ben = machines.all
    save(ben, "crane")
    synced(ben)
    save(anna, "pier")
    away = machines.remote.with_suffix(".away")

    def push_nowhere(*given: Any) -> PushResult:
        machines.remote.rename(away)
        return push(*given)

    with monkeypatch.context() as patch:
        patch.setattr("vaultmem.services.syncing.sync.push", push_nowhere)
        done = anna.run("sync")
    assert (done.code, "offline: nothing pushed; 2 commits wait" in done.out) == (0, True), done
    assert (anna.root / "notes/crane.md").exists()
    away.rename(machines.remote)
    assert synced(anna)["pushed"] == 2


@pytest.mark.campaign
def test_ctrl_c_ends_a_sync_and_all_that_it_started(make_machines: MakeMachines) -> None:
    machines = make_machines(QUAY)
    anna = machines.all[0]
    save(anna, "pier")
    mark = machines.remote / "asked"
    hook = machines.refuse_pushes(f"echo $$ > {mark}; exec sleep 60")
    words = [sys.executable, "-m", "vaultmem", "sync", "--vault", str(anna.root)]
    with subprocess.Popen(words, env={**os.environ, **anna.env}, stderr=subprocess.PIPE) as process:
        wait_until(lambda: mark.exists() and mark.read_text())
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        assert b"Traceback" not in process.stderr.read()
    assert process.returncode == 130
    wait_until(lambda: not Path(f"/proc/{mark.read_text().strip()}/exe").exists())
    hook.unlink()
    assert synced(anna)["pushed"] == 1


@pytest.mark.campaign
def test_words_that_both_changed_are_synced_and_stand_in_the_note(
    make_machines: MakeMachines,
) -> None:
    machines = make_machines(QUAY)
    anna, ben = machines.all
    save(anna, "quay", "# Quay\n\nOf granite.\n")
    save(ben, "quay", "# Quay\n\nOf wood.\n")
    synced(anna)
    planned = ben.run("sync", "--dry-run", "--json").json
    assert planned["merge"] is None  # What is not committed is in no branch yet.
    shown = ben.run("sync")
    assert (shown.code, "conflict  notes/quay.md" in shown.out) == (0, True), shown
    assert "vaultmem resolve" in shown.out
    synced(anna)
    assert_equal(machines)
    assert anna.read("notes/quay.md").startswith("# Quay\n\nOf wood.\n")
    assert "granite" in anna.read("notes/quay.md")


@pytest.mark.campaign
def test_files_too_large_for_a_commit_are_listed_once_until_others_are(
    make_machines: MakeMachines,
) -> None:
    here, there = make_machines(QUAY).all
    (here.root / "notes/photo.png").write_bytes(b"\0" * 2_000_000)
    first, again = here.run("sync"), here.run("sync")
    assert "left out  notes/photo.png: larger than 1 MiB" in first.out
    assert "`attachments_max_mib: N` in vaultmem.yaml" in first.out
    assert "photo" not in again.out
    status = here.run("status").out
    assert "notes/photo.png: larger than 1 MiB" in status
    assert "attachments_max_mib" in status
    (here.root / "notes/long.md").write_bytes(b"x" * 1_100_000)
    told = here.run("sync").out
    assert "notes/long.md, notes/photo.png: larger than 1 MiB" in told
    assert "large notes are in no commit" in told
    assert "divide them" in told
    assert set(here.run("sync", "--json").json["omitted"]) == {"notes/long.md", "notes/photo.png"}

    here.write("vaultmem.yaml", "attachments_max_mib: 3\n")
    assert here.run("sync").code == 0
    assert there.run("sync").code == 0
    assert (there.root / "notes/photo.png").stat().st_size == 2_000_000
    assert not (there.root / "notes/long.md").exists()

    (there.root / "notes/photo.png").write_bytes(b"\1" * 2_500_000)
    assert there.run("sync").code == 0
    (here.root / "notes/photo.png").unlink()
    here.write("notes/more.md", "More.\n")
    assert (there.run("sync").code, here.run("sync").code) == (0, 0)
    assert here.git("status", "--porcelain") == "?? notes/long.md"
