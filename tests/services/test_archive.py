"""A whole vault as one archive: what comes out elsewhere, and what is refused to come in."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import sys
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import Make, Open
from in_process import run_here
from support import git, hash_tree, held_by_thread

from vaultmem.environment import read_settings
from vaultmem.errors import LockTimeoutError, RefusedError
from vaultmem.services.exchange.archives import export_archive, import_archive
from vaultmem.services.usage import publish
from vaultmem.services.views.update_index import sync_vault

POLICY = "---\nkind: policy_rule\nstate: active\npinned: true\n---\n\nNever refund by hand.\n"
NOTES = {
    "notes/refunds.md": "# Refunds\n\nRefunds go through the queue. See [[quay]].\n",
    "notes/quay.md": "# Quay\n\nThe quay is long.\n",
    "notes/gone.md": "# Gone\n\nRemoved before the archive was made.\n",
    "notes/policy.md": POLICY,
    "media/map.bin": bytes(range(256)) * 40,
    "notes/tide\\ebb.md": "# Tide\n\nA name with a backslash, as Linux allows.\n",
}

#: What is asked before and afterwards; each answer must be the same to the letter.
ASKED = (
    *(["status", "--json"], ["list", "--json"], ["log", "--json"], ["log", "--uncommitted"]),
    *(["stats", "--json"], ["session", "list", "--json"], ["session", "show", "s-1"]),
    *(["review", "--json"], ["recall", "refunds queue", "--json"]),
    *(["usage", "notes/refunds.md"], ["vault", "list", "--json"]),
)


def ask_all(root: Path) -> dict[str, str]:
    """Return what each command says, once the index is there."""
    run_here("status", cwd=root)
    return {" ".join(words): run_here(*words, cwd=root).out for words in ASKED}


@pytest.fixture
def lived(make_vault: Make, opened: Open, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A vault with something of everything that an archive has to take along."""
    root = make_vault(NOTES)
    vault = opened(root)
    sync_vault(vault)
    run_here("trust", cwd=root)
    agent = {"VAULTMEM_AGENT": "claude", "VAULTMEM_SESSION_ID": "s-1"}
    run_here("session", "start", "--id", "s-1", "--goal", "refunds", cwd=root, env=agent)
    run_here("session", "add", "turn", "user", "Paint the quay.", cwd=root, env=agent)
    run_here("remember", "The bollard is loose.", cwd=root, env=agent)
    run_here("pack", "refunds", cwd=root, env=agent)
    run_here("recall", "quay", cwd=root)
    (root / "notes/gone.md").unlink()
    (root / "notes/quay.md").write_text("# Quay\n\nThe quay is very long.\n")
    (root / "notes/link.md").symlink_to("quay.md")
    (root / ".env").write_text("secret, and git ignores it")
    (root / ".git/info/exclude").write_text(".env\n/CONTEXT.md\n/transcripts/\n")
    git(root, "branch", "side")
    git(root, "config", "core.hooksPath", "hooks")
    sync_vault(vault)
    publish(vault)
    vault.close()
    return root


class Elsewhere:
    """Another machine, on which the vault's folder has the very same path."""

    def __init__(self, root: Path, patch: pytest.MonkeyPatch) -> None:
        self.root, self.away, self.patch = root, root.with_name("away"), patch

    def __enter__(self) -> Elsewhere:
        self.root.rename(self.away)
        for kind in ("STATE", "CONFIG", "DATA"):
            self.patch.setenv(f"XDG_{kind}_HOME", str(self.root.parent / "elsewhere" / kind))
        return self

    def __exit__(self, *_: object) -> None:
        self.patch.undo()


@pytest.mark.campaign
def test_all_is_as_before_on_another_machine(
    lived: Path, opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = run_here("export", "--archive", tmp_path / "a.tar.gz", "--json", cwd=lived)
    assert made.code == 0, made.err
    assert made.json["skipped"] == {}
    (lived / ".env").unlink()
    before, receipt = ask_all(lived), next((tmp_path / "home/data").rglob("receipts/*/*.json")).stem
    replayed = run_here("receipt", receipt, cwd=lived)
    files, refs = hash_tree(lived, (".git", ".env")), git(lived, "for-each-ref")
    staged, trusted = git(lived, "status", "--porcelain"), opened(lived).trust.notes()
    with Elsewhere(lived, monkeypatch):
        done = run_here("import", "archive", tmp_path / "a.tar.gz", lived, "--trust", "--json")
        assert done.code == 0, done.err
        assert done.json["trusted"]
        assert done.json["notes"] == made.json["notes"]
        assert hash_tree(lived, (".git",)) == files
        assert git(lived, "for-each-ref") == refs
        assert git(lived, "status", "--porcelain") == staged
        assert opened(lived).trust.notes() == trusted != {}
        assert git(lived, "config", "core.hooksPath", check=False) == ""
        assert git(lived, "fsck", "--strict") == ""
        after = ask_all(lived)
        again = run_here("receipt", receipt, cwd=lived)
        assert (again.code, again.out) == (replayed.code, replayed.out)
        assert replayed.code == 0
        for name, told in before.items():
            assert after[name] == told, name


def test_trust_travels_only_where_a_person_says_so(
    lived: Path, opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_here("export", "--archive", tmp_path / "a.tar.gz", cwd=lived)
    with Elsewhere(lived, monkeypatch):
        agents = run_here(
            *("import", "archive", tmp_path / "a.tar.gz", lived, "--trust"),
            env={"VAULTMEM_AGENT": "claude"},
        )
        assert agents.code == RefusedError.exit_code
        assert not lived.exists()
        done = run_here("import", "archive", tmp_path / "a.tar.gz", lived)
        assert "1 text trusted there may not instruct agents here yet" in done.out
        assert not opened(lived).trust.is_trusted()


def rewrite(
    source: Path, target: Path, change: Callable[[dict[str, Any], dict[str, bytes]], None]
) -> Path:
    """Write an archive anew whose manifest and members (by name) somebody has changed."""
    with tarfile.open(source) as tar:
        members = {each.name: tar.extractfile(each) for each in tar}
        found = {name: file.read() if file else b"" for name, file in members.items()}
        links = {each.name: each.linkname for each in tar if each.issym()}
    manifest = json.loads(found.pop("manifest.json"))
    change(manifest, found)
    found = {"manifest.json": json.dumps(manifest).encode(), **found}
    with gzip.open(target, "wb") as packed, tarfile.open(fileobj=packed, mode="w") as tar:
        for name, data in found.items():
            info = tarfile.TarInfo(name.partition("\0")[0])
            info.size = len(data)
            if name in links:
                info.type, info.linkname, info.size = tarfile.SYMTYPE, links[name], 0
            if data.startswith(b"-> "):
                info.type, info.linkname, info.size = tarfile.SYMTYPE, data[3:].decode(), 0
            tar.addfile(info, io.BytesIO(data))
    return target


def put(manifest: dict[str, Any], found: dict[str, bytes], name: str, data: bytes) -> None:
    found[name] = data
    digest = hashlib.sha256(data).hexdigest()
    manifest["members"][name] = {"bytes": len(data), "sha256": digest}
    if data.startswith(b"-> "):
        manifest["members"][name] = {"bytes": 0, "link": data[3:].decode()}


QUAY = "vault/notes/quay.md"
HOSTILE: dict[str, tuple[str, Callable[[dict[str, Any], dict[str, bytes]], object]]] = {
    "traversal": ("leads out", lambda m, f: put(m, f, "vault/../../evil.md", b"x")),
    "absolute": ("leads out", lambda m, f: put(m, f, "/tmp/evil.md", b"x")),
    "hook": ("leads out", lambda m, f: put(m, f, "vault/.GIT/hooks/post-commit", b"x")),
    "kept": ("leads out", lambda m, f: put(m, f, "kept/receipts/../../x.json", b"x")),
    "link out": ("leads out", lambda m, f: put(m, f, "vault/out", b"-> ../../etc")),
    "link to root": ("leads out", lambda m, f: put(m, f, "vault/out", b"-> /etc")),
    "reached through a link": (
        "reached through a link",
        lambda m, f: (put(m, f, "vault/in", b"-> notes"), put(m, f, "vault/in/x.md", b"x")),
    ),
    "link for a file": ("not what", lambda m, f: f.update({QUAY: b"-> gone.md"})),
    "bytes": ("other bytes", lambda m, f: f.update({QUAY: f[QUAY][:-1] + b"!"})),
    "size": ("not what", lambda m, f: f.update({QUAY: f[QUAY] + b"!"})),
    "twice": ("or is there twice", lambda m, f: f.update({QUAY + "\0": f[QUAY]})),
    "one more": ("is not in its manifest", lambda m, f: f.update({"vault/notes/x.md": b"x"})),
    "one less": ("is missing", lambda m, f: f.pop(QUAY)),
    "huge": ("are free", lambda m, f: m["members"][QUAY].update(bytes=10**16)),
    "negative": ("damaged", lambda m, f: m["members"][QUAY].update(bytes=-1)),
    "newer": ("format 2, made by vaultmem 9.9", lambda m, f: m.update(format=2, vaultmem="9.9")),
    "no manifest": ("cannot be read", lambda m, f: m.clear()),
    "history": (
        "history cannot be",
        lambda m, f: put(m, f, "history.bundle", b"# v2 git bundle\n"),
    ),
    "no history": (
        "does not have",
        lambda m, f: (f.pop("history.bundle"), m["members"].pop("history.bundle")),
    ),
    "state": ("cannot be read", lambda m, f: put(m, f, "kept/state.jsonl", b'["files", "x"]\n')),
    "cache": (
        "cannot be read",
        lambda m, f: put(m, f, "kept/state.jsonl", b'["meta", "head", "x"]\n'),
    ),
    "trust": ("trusts cannot be read", lambda m, f: put(m, f, "kept/trust.json", b'{"x": "y"}')),
}


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The archive of a small vault, made once."""
    from vaultmem.services.memory.create_vault import create_vault
    from vaultmem.vault import UserFolders

    folder = tmp_path_factory.mktemp("archived")
    folders = UserFolders(*(folder / kind for kind in ("state", "config", "data")))
    (folder / "small/notes").mkdir(parents=True)
    (folder / "small/notes/quay.md").write_text("# Quay\n\nThe quay is long.\n")
    vault = create_vault(folder / "small", folders=folders).vault
    export_archive(vault, folder / "small.tar.gz")
    vault.close()
    return folder / "small.tar.gz"


def take(archive: Path, target: Path, **more: Any) -> Any:
    return import_archive(archive, target, **{**read_settings(), **more})  # type: ignore[typeddict-item]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_archive_leaves_nothing(
    name: str, archive: Path, home: Path, tmp_path: Path
) -> None:
    told, change = HOSTILE[name]
    bad = rewrite(archive, tmp_path / "bad.tar.gz", change)
    with pytest.raises(RefusedError, match=told):
        take(bad, tmp_path / "new/vault")
    assert not [*tmp_path.rglob("evil*")]
    assert not [*tmp_path.glob("new/*")]
    assert not [*tmp_path.glob("new/.*")]
    left = {each.name for each in (home / "state").rglob("*")}
    assert left <= {"vaultmem", "import.lock", "import.lock.next"}
    assert not (home / "data").exists()
    assert not (home / "config").exists()


def test_what_is_no_archive_is_told(archive: Path, home: Path, tmp_path: Path) -> None:
    bomb = tarfile.TarInfo("x")
    bomb.type, bomb.size = tarfile.XHDTYPE, 8**11 - 1
    for data, told in (
        (archive.read_bytes()[:-500], "cut short"),
        (b"", "not an archive"),
        (b"PK\3\4", "not an archive"),
        (gzip.compress(b"# Not a tar\n" * 1000), "not an archive"),
        (gzip.compress(bomb.tobuf()), "more than"),
    ):
        (tmp_path / "x").write_bytes(data)
        with pytest.raises(RefusedError, match=told):
            take(tmp_path / "x", tmp_path / "vault")
    (tmp_path / "full").mkdir()
    (tmp_path / "full/mine.md").write_text("mine")
    with pytest.raises(RefusedError, match="not empty"):
        take(archive, tmp_path / "full")
    take(archive, tmp_path / "vault")
    done = run_here("export", "--archive", tmp_path / "full/mine.md", cwd=tmp_path / "vault")
    assert done.code == RefusedError.exit_code
    assert "no archive of a vault" in done.err
    assert (tmp_path / "full/mine.md").read_text() == "mine"


#: What a process does last of an import: these change what others see.
_LAST = ("os.rename", "os.mkdir", "os.rmdir", "os.remove")


def import_until(archive: Path, target: Path, at: int = 0) -> int:
    """Import in a process that is gone before its n-th change of a name.

    Return how it ended: 0 if it was killed, else how many changes there were.
    """
    child = os.fork()
    if child == 0:
        seen = 0

        def look(event: str, _: object) -> None:
            nonlocal seen
            if event in _LAST:
                seen += 1
                if seen == at:
                    os._exit(0)

        sys.addaudithook(look)
        try:
            take(archive, target, by_person=True, trust=True)
        except BaseException:  # noqa: BLE001
            os._exit(255)
        os._exit(seen)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize(
    "many", [3, pytest.param(200, marks=pytest.mark.long)], ids=["short", "long"]
)
def test_a_killed_import_leaves_nothing_or_all(
    many: int, archive: Path, home: Path, tmp_path: Path
) -> None:
    import_until(archive, tmp_path / "first")  # Which makes the user's folders, too.
    total = import_until(archive, tmp_path / "whole")
    wanted = hash_tree(tmp_path / "whole", (".git",))
    assert 10 < total < 200
    for n in range(max(1, total - many + 1), total + 1):
        target = tmp_path / f"vault{n}"
        assert import_until(archive, target, n) == 0
        if not target.exists():
            take(archive, target)
        assert hash_tree(target, (".git",)) == wanted
        assert git(target, "status", "--porcelain") == ""
        assert [*tmp_path.glob(".*")] == []
        assert not {"import", "import.kept"} & set(os.listdir(home / "state/vaultmem"))


def test_a_repository_of_its_own_is_named_as_one(
    make_vault: Make, opened: Open, tmp_path: Path
) -> None:
    root = make_vault(NOTES)
    git(root, "init", "-q", "other")
    (root / "other/a.md").write_text("x\n")

    skipped = export_archive(opened(root), tmp_path / "a.tar.gz").skipped

    assert skipped == {"other": "a repository of its own"}


def test_writers_wait_while_an_archive_is_made(
    make_vault: Make, opened: Open, tmp_path: Path
) -> None:
    vault = opened(make_vault(NOTES))
    with held_by_thread(vault.lock), pytest.raises(LockTimeoutError):
        export_archive(replace(vault, patience=0.01), tmp_path / "a.tar.gz")
    assert not (tmp_path / "a.tar.gz").exists()


def test_a_line_of_json_for_each_note(lived: Path, tmp_path: Path) -> None:
    listed = run_here("list", "--json", cwd=lived).json["notes"]
    lines = [
        json.loads(line) for line in run_here("export", "--jsonl", "-", cwd=lived).out.splitlines()
    ]
    assert [
        {"vault": None, **{k: each[k] for k in listed[0] if k != "vault"}} for each in lines
    ] == listed
    refunds = next(each for each in lines if each["path"] == "notes/refunds.md")
    assert refunds["body"] == NOTES["notes/refunds.md"]
    assert [each["target"] for each in refunds["links"]] == ["notes/quay.md"]
    done = run_here("export", "--jsonl", tmp_path / "p.jsonl", "--kind", "policy_rule", cwd=lived)
    assert "(1 note)" in done.out
    assert os.name != "posix" or (tmp_path / "p.jsonl").stat().st_mode & 0o777 == 0o600
    policy = json.loads((tmp_path / "p.jsonl").read_text())
    assert policy["properties"]["state"] == "active"
    assert "refund by hand" in policy["body"]
    for file, told in (("notes/refunds.md", "in the vault itself"), ("../no/p", "no such folder")):
        refused = run_here("export", "--jsonl", file, cwd=lived)
        assert (refused.code, told in refused.err) == (RefusedError.exit_code, True), refused
    assert (lived / "notes/refunds.md").read_text() == NOTES["notes/refunds.md"]
    refused = run_here("export", "--archive", tmp_path / "a", "--kind", "policy_rule", cwd=lived)
    assert refused.code == RefusedError.exit_code
