"""The push check as the hook of a repository that no hub has, configured by an access.yaml."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from hub_world import ADA, BOB, SCOUT, Clone, Files

from vaultmem.errors import VaultError
from vaultmem.services.hub.hub_access import find_access
from vaultmem.services.hub.hub_folder import AuditEntry, Hub, read_audit

#: Made up, of the form of such a key.
KEY = "AKIA" + "Q3EGRZ7NVTPX2WLD"

ACCESS = """\
version: 1
people:
  ada: {emails: ["Ada Harbour <ada@ferry.example>"], own: ["*"]}
  bob:
    emails: [bob@ferry.example]
    agents: [claude-*]
    write: ["payments:notes/refunds"]
    propose: [payments]
  rita: {read: ["*"]}
agents:
  scout: {write: payments}
limits: {note_bytes: 64K}
"""

VAULT = {
    "vaultmem.yaml": "agent: \n",
    "notes/refunds/round.md": "# Refunds\n\nRefunds are rounded half up.\n",
    "notes/ledger/close.md": "# Close\n\nThe ledger closes on Friday.\n",
}


class Host(NamedTuple):
    """A bare repository with the hook, and a clone in which any object can be made."""

    repository: Path
    clone: Clone

    def push(self, spec: str, **env: str) -> tuple[int, str]:
        """Push with what a git host has in the environment; return how that ended."""
        hosts = ("GITEA_", "REMOTE_USER", "VAULTMEM_")
        given = {k: v for k, v in os.environ.items() if not k.startswith(hosts)} | env
        command = ["git", "-C", self.clone.root, "push", "-q", self.repository, spec]
        done = subprocess.run(command, env=given, capture_output=True, text=True)
        return done.returncode, done.stderr

    def commit(self, files: Files, who: tuple[str, str] = BOB, message: str = "") -> str:
        """Return a commit of files beside those of the vault's branch."""
        tip = self.tip()
        return self.clone.commit({**self.clone.files(tip), **files}, [tip], who, message=message)

    def tip(self, ref: str = "refs/heads/main") -> str:
        command = ["git", "--git-dir", self.repository, "rev-parse", "-q", "--verify", ref]
        return subprocess.run(command, capture_output=True, text=True).stdout.strip()

    def last(self) -> AuditEntry:
        return next(read_audit(Hub(self.repository / "vaultmem")))


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """Lay a repository as a host has it, which takes a hook of its owner's."""
    clone = Clone(tmp_path / "clone")
    clone.root.mkdir()
    clone.git("init", "-q", "-b", "main")
    clone.git("update-ref", "refs/heads/main", clone.commit(VAULT, who=ADA))
    repository = tmp_path / "payments.git"
    subprocess.run(["git", "clone", "-q", "--bare", clone.root, repository], check=True)
    configured = ["git", "--git-dir", repository, "config", "receive.fsckObjects", "true"]
    subprocess.run(configured, check=True)
    (repository / "access.yaml").write_text(ACCESS)
    hook = repository / "hooks/pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m vaultmem push-check\n')
    hook.chmod(0o755)
    return Host(repository, clone)


def test_a_plain_repository_accepts_and_rejects_by_its_access_file(host: Host) -> None:
    mine = host.commit({"notes/refunds/fee.md": "# Fee\n\nThe fee is refunded, too.\n"})
    code, told = host.push(f"{mine}:refs/heads/main", VAULTMEM_PUSHER="bob")
    assert code == 0, told
    assert host.tip() == mine
    entry = host.last()
    assert (entry.who, entry.vaults, entry.outcome) == ("bob", ("payments",), "done")
    other = host.commit({"notes/ledger/late.md": "# Late\n"})
    secret = host.commit({"notes/refunds/k.md": f"# K\n\nid {KEY}\n"})
    forged = host.commit({"notes/refunds/f.md": "# F\n"}, who=ADA)
    large = host.commit({"notes/refunds/l.md": "x" * 70_000})
    for commit, who, says in (
        (other, "bob", "notes/ledger/late.md: is not yours to write"),
        (secret, "bob", "line 3 (aws-access-token) looks like a credential"),
        (forged, "bob", "its author is Ada Harbour"),
        (large, "bob", "a note may have 65,536 here"),
        (other, "rita", "you may not write here"),
        (other, "mallory", "mallory: is not in access.yaml; ask the repository's owner"),
    ):
        code, told = host.push(f"{commit}:refs/heads/main", VAULTMEM_PUSHER=who)
        assert code, says
        assert says in told
        assert host.last().outcome == "refused"
    assert host.tip() == mine
    topic = "refs/heads/proposals/bob/late"
    assert host.push(f"{other}:{topic}", VAULTMEM_PUSHER="bob")[0] == 0
    assert host.tip(topic) == other


def test_forgejo_and_gitea_say_who_pushes(host: Host) -> None:
    """Their variables: modules/repository/env.go of Gitea; Forgejo has the same names."""
    given = {
        "GITEA_PUSHER_NAME": "scout",
        "GITEA_PUSHER_ID": "3",
        "GITEA_REPO_NAME": "payments",
        "GITEA_REPO_USER_NAME": "harbour",
        "GITEA_REPO_IS_WIKI": "false",
        "GITEA_DEPLOY_KEY_ID": "0",
        "GITEA_INTERNAL_PUSH": "false",
        "GITEA_PR_ID": "0",
        "SSH_CONNECTION": "203.0.113.7 4022 203.0.113.1 22",
        "VAULTMEM_PUSHER": "ada",  # Theirs comes first.
    }
    by = "x\n\nAgent-Id: scout"
    mine = host.commit({"notes/ledger/s.md": "# S\n"}, SCOUT, by)
    code, told = host.push(f"{mine}:refs/heads/main", **given)
    assert code == 0, told
    assert (host.last().who, host.last().origin) == ("scout", "203.0.113.7")
    more = host.commit({"notes/ledger/t.md": "# T\n"}, SCOUT, by)
    spec = f"{more}:refs/heads/main"
    # A deploy key comes by the owner's name, and is nobody's.
    code, told = host.push(spec, **{**given, "GITEA_DEPLOY_KEY_ID": "7"})
    assert (code, "is not in access.yaml" in told, host.last().grant) == (1, True, "deploy-key-7")
    code, told = host.push(spec, **{**given, "GITEA_REPO_NAME": "ledger"})
    assert (code, "you may not write here" in told) == (1, True)
    assert host.push(spec, **given)[0] == 0
    # The host keeps pull requests; what is in them is checked when a branch gets it.
    internal = {**given, "GITEA_INTERNAL_PUSH": "true"}
    secret = host.commit({"notes/ledger/k.md": f"{KEY}\n"}, SCOUT, by)
    assert host.push(f"{secret}:refs/pull/1/head", **internal)[0] == 0
    assert host.push(f"{secret}:refs/pull/2/head", **given)[0]
    for each in (internal, given):
        code, told = host.push(f"{secret}:refs/heads/main", **each)
        assert (code, "looks like a credential" in told) == (1, True)


def test_the_variable_of_another_host_is_named(host: Host) -> None:
    spec = f"{host.commit({'notes/refunds/fee.md': '# Fee'})}:refs/heads/main"
    code, told = host.push(spec)
    assert code
    assert 'name the variable of your git host with "pusher" in access.yaml' in told
    (host.repository / "access.yaml").write_text(ACCESS + "pusher: GL_USER\n")
    code, told = host.push(spec, VAULTMEM_PUSHER="bob")
    assert (code, "the pusher is unknown: GL_USER is not set" in told) == (1, True)
    assert host.push(spec, GL_USER="bob")[0] == 0


def test_a_repository_that_checks_no_objects_takes_nothing(host: Host) -> None:
    configured = ["git", "--git-dir", host.repository, "config", "receive.fsckObjects", "false"]
    subprocess.run(configured, check=True)
    code, told = host.push(f"{host.commit({})}:refs/heads/main", VAULTMEM_PUSHER="ada")
    assert (code, "git config receive.fsckObjects true" in told) == (1, True)


def test_a_repository_without_an_access_file_is_told_to_write_one(host: Host) -> None:
    (host.repository / "access.yaml").unlink()
    code, told = host.push(f"{host.commit({})}:refs/heads/main", VAULTMEM_PUSHER="ada")
    assert code
    assert "access.yaml: not found in payments.git; write it there" in told
    assert "hub" not in told


WRONG = [
    ("", "begin it with `version: 1`"),
    ("people: {}\n", "write `version: 1`"),
    ("version: 2\n", "write `version: 1`"),
    ("version: 1\npeopel: {}\n", 'unknown key "peopel"; did you mean people?'),
    ("version: 1\npeople: [ada]\n", "has to be a mapping"),
    ("version: 1\npeople: {ada: {own: ['*']}}\n", "people: ada: has no e-mail"),
    ("version: 1\npeople: {ada: {emails: [x], own: ['*']}}\n", '"x" is not an e-mail address'),
    ("version: 1\nagents: {ada: {rite: ['*']}}\n", 'unknown key "rite"; did you mean write?'),
    ("version: 1\nagents: {ada: {admin: ['*']}}\n", "agents, read, propose, write, own"),
    ("version: 1\nagents: {ada: {read: ['x:notes']}}\n", "name the vault without a folder"),
    ("version: 1\nagents: {ada: {write: {x: y}}}\n", "write: has to be a list of texts"),
    ("version: 1\nagents: {'a/b': {write: ['*']}}\n", '"a/b" is not a valid name'),
    ("version: 1\npeople: {a: {read: x}}\nagents: {a: {read: x}}\n", "is a person and an agent"),
    ("version: 1\nlimits: {note_byte: 1}\n", 'unknown key "note_byte"; did you mean note_bytes'),
    ("version: 1\nlimits: {note_bytes: 0}\n", "must be more than 0"),
    ("version: 1\nlimits: {note_bytes: lots}\n", "must be a number"),
    ("version: 1\nagents: &a {}\n", "has an anchor"),
    ("version: 1\nagents: {\n", "access.yaml, line 3: "),
    ("version: 1\n" + "#" * 70_000, "longer than 65,536"),
]


def test_an_access_file_that_is_wrong_says_how(host: Host) -> None:
    file = host.repository / "access.yaml"
    environment = {**os.environ, "VAULTMEM_PUSHER": "ada"}
    for text, says in WRONG:
        file.write_text(text)
        with pytest.raises(VaultError) as failed:
            find_access(host.repository, environment, "", 0.0).find()
        assert str(failed.value).startswith("access.yaml"), says
        assert says in str(failed.value)
