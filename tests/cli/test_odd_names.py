"""Names, authors and messages that are not UTF-8: they stop nobody, and none is lost."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import Make, Open
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from in_process import run_here
from serving import call, play
from support import wait_until, write_notes
from watchers import found, watched

#: Latin-1, as files, folders and links of grown repositories are called.
ODD = {
    b"notes/gr\xfc\xdfe.md": b"# Gr\xc3\xbc\xc3\x9fe\n\nThe gangway of the odd name.\n",
    b"notes/\xfcber/b.md": b"# B\n\nThe gangway of the odd folder.\n",
    b"gr\xfc\xdfe.txt": b"x\n",
    b"\xe4/y.txt": b"y\n",
    b"media/f\xe4hre.png": b"\0\n",
}
GONE = b"notes/verg\xe4nglich.md"
NOTES = {"notes/a.md": "# Ferry\n\nThe gangway is blue.\n", "MEMORY.md": "# Memory\n\nx\n"}


def _git(root: Path, *arguments: str | bytes, env: dict[str, bytes] | None = None) -> bytes:
    own = {**os.environb, **{name.encode(): value for name, value in (env or {}).items()}}
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, env=own, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.removesuffix(b"\n")


def _write(root: Path, files: dict[bytes, bytes]) -> None:
    for name, data in files.items():
        file = os.path.join(os.fsencode(root), name)
        os.makedirs(os.path.dirname(file), exist_ok=True)
        Path(os.fsdecode(file)).write_bytes(data)


def _odd_entries(root: Path, commit: str | bytes = "HEAD") -> list[bytes]:
    """Return the entries of a commit whose names are not UTF-8, byte for byte."""
    listed = _git(root, "ls-tree", "-rz", "--full-tree", commit).split(b"\0")
    return [line for line in listed if line.decode("utf-8", "replace").encode() != line]


def _is_strict(told: str) -> bool:
    return not any("\ud800" <= mark <= "\udfff" or mark == "\ufffd" for mark in told)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a vault whose history has odd names in every place; a branch of it is called so too."""
    from vault_copies import VaultCopies

    root = tmp_path_factory.mktemp("odd") / "vault"
    VaultCopies(tmp_path_factory.mktemp("copies")).make(root, NOTES)
    _write(root, {**ODD, GONE: b"# Gone\n"})
    os.symlink("x", os.fsencode(root) + b"/l\xefnk")
    _git(root, "add", "--all")
    _git(root, "commit", "-q", "-m", b"raw \xfcml\xe4ut")
    _git(root, "rm", "-q", GONE)
    j = {"GIT_AUTHOR_NAME": b"J\xfcrgen"}
    declared = ("-c", "i18n.commitEncoding=ISO-8859-1", "commit", "-q", "-m")
    _git(root, *declared, b"declared \xfcml\xe4ut", env=j)
    trailers = b"raw \xe4uthor\n\nAgent-Id: r\xfcdiger\nVault-Event: checkpoint"
    _git(root, "commit", "-q", "--allow-empty", "-m", trailers, env=j)
    _git(root, "tag", b"t\xe4g")
    _git(root, "branch", b"zw\xe9ig")
    _git(root, "branch", "side")
    _git(root, "pack-refs", "--all")
    return root


@pytest.fixture
def odd(home: Path, tmp_path: Path, template: Path) -> Path:
    root = tmp_path / "vault"
    shutil.copytree(template, root, symlinks=True)
    _git(root, "update-index", "-q", "--refresh")
    return root


READING: tuple[tuple[str | bytes, ...], ...] = (
    *(("init",), ("index",), ("status",), ("doctor",), ("list",), ("pin",), ("tags",)),
    *(("recall", "gangway"), ("pack", "gangway"), ("show", "a"), ("links", "a")),
    *(("log",), ("log", "--all"), ("log", "--path", "notes"), ("show", "HEAD~1")),
    *(("show", "HEAD~2"), ("diff", "HEAD~2", "HEAD"), ("diff",), ("blame", "a")),
    *(("history", "a"), ("trace", "gangway"), ("recall", "gangway", "--at=HEAD~1")),
    *(("recall", "gangway", b"--at=t\xe4g"), ("recall", "gangway", b"--ref=zw\xe9ig")),
    *(("pack", "gangway", "--at=HEAD~1"), ("recall", "gangway", b"--include-refs=main,zw\xe9ig")),
    *(("branch",), ("bisect", "--good=HEAD~2", "gangway", "--contains", "odd"), ("curate",)),
    *(("show", b"notes/gr\xfc\xdfe.md"), ("history", b"gr\xfc\xdfe.txt"), ("forget", b"\xfc")),
    *(("recall", b"gr\xfc\xdfe"), ("context",), ("tag", b"gr\xfc", "x"), ("mv", "a", b"\xfc")),
)


@pytest.mark.campaign
@pytest.mark.parametrize("as_json", [False, True])
def test_every_command_that_reads_goes_on(odd: Path, as_json: bool) -> None:
    for words in READING:
        done = run_here(*words, *(["--json"] if as_json else []), cwd=odd)
        assert done.code in {0, 1, 2, 4, 5}, (words, done)
        assert _is_strict(done.out + done.err), (words, done)
        if as_json and done.out:
            json.dumps(done.json, ensure_ascii=False).encode()


@pytest.mark.campaign
def test_names_are_told_with_escapes_and_words_are_read(odd: Path) -> None:
    told = run_here("status", cwd=odd).out
    assert "files: its name is not UTF-8: " in told
    assert "\\xe4/y.txt" in told
    checks = {each["name"]: each for each in run_here("doctor", "--json", cwd=odd).json["checks"]}
    assert "notes/gr\\xfc\\xdfe.md" in checks["note names"]["paths"]
    assert "convmv" in checks["note names"]["remedy"]
    assert checks["notes"]["verdict"] == "ok"
    shown = run_here("show", "HEAD~1", cwd=odd).out
    assert "Jürgen" in shown
    assert "declared ümläut" in shown
    assert "notes/verg\\xe4nglich.md" in shown
    latest = run_here("log", "--json", cwd=odd).json["commits"][0]
    assert (latest["author"], latest["agent"]) == ("Jürgen", "rüdiger")
    assert "zw\\xe9ig" in run_here("branch", cwd=odd).out
    assert [
        hit["path"] for hit in run_here("recall", "gangway", "--json", cwd=odd).json["hits"]
    ] == ["notes/a.md"]


@pytest.mark.guarantee
@pytest.mark.campaign
def test_each_commit_of_ours_keeps_every_name(odd: Path) -> None:
    kept = _odd_entries(odd)
    assert len(kept) == len(ODD)  # Git ignores media/, and the link is there too.

    def done(*words: str | bytes) -> None:
        ended = run_here(*words, cwd=odd)
        assert ended.code == 0, (words, ended)
        for branch in (b"main", b"side", b"zw\xe9ig"):
            assert _odd_entries(odd, branch) == kept, words

    write_notes(odd, {"notes/a.md": "# Ferry\n\nThe gangway is green.\n"})
    done("checkpoint", "green")
    done("remember", "Ropes are yellow.", "--branch=side")
    done("remember", "Ropes are brown.", b"--branch=zw\xe9ig")
    done("merge", "side")
    done("promote", "ropes-are-brown", b"--from=zw\xe9ig")
    done("mv", "a", "notes/z.md")
    done("checkpoint", "moved")
    done("forget", "z", "--yes", "--reason=old")
    done("restore", "notes/z.md", "--at=HEAD~1")
    done("checkpoint", "back")
    done("switch", b"zw\xe9ig")
    assert "zw\\xe9ig" in run_here("status", cwd=odd).out
    write_notes(odd, {"notes/here.md": "# Here\n"})
    done("checkpoint", "on a branch of an odd name")
    done("merge", "main")
    done("switch", "main")
    assert _git(odd, "status", "--porcelain") == b""


def test_a_person_of_an_odd_name_is_named(odd: Path) -> None:
    write_notes(odd, {"notes/a.md": "# Ferry\n\nThe gangway is green.\n"})
    env = {"GIT_AUTHOR_NAME": os.fsdecode(b"J\xfcrgen"), "GIT_AUTHOR_EMAIL": "j@example.org"}
    assert run_here("checkpoint", "green", cwd=odd, env=env).code == 0
    assert _git(odd, "log", "-1", "--format=%an") == "Jürgen".encode()


def test_files_of_odd_names_move_with_a_switch_and_a_merge(odd: Path) -> None:
    _git(odd, "switch", "-q", "side")
    _write(odd, {b"\xe4/y.txt": b"changed\n", b"notes/n\xebw.md": b"new\n"})
    _git(odd, "add", "--all")
    _git(odd, "rm", "-q", b"gr\xfc\xdfe.txt")
    _git(odd, "commit", "-q", "-m", "side")
    for words in (("switch", "main"), ("switch", "side"), ("switch", "main"), ("merge", "side")):
        done = run_here(*words, cwd=odd)
        assert done.code == 0, done
        assert _git(odd, "status", "--porcelain") == b"", words
    assert (odd / os.fsdecode(b"\xe4/y.txt")).read_bytes() == b"changed\n"
    assert not (odd / os.fsdecode(b"gr\xfc\xdfe.txt")).exists()


def test_what_is_not_committed_under_an_odd_name_is_not_overwritten(odd: Path) -> None:
    _git(odd, "switch", "-q", "side")
    _write(odd, {b"\xe4/y.txt": b"changed\n"})
    _git(odd, "commit", "-qam", "side")
    _git(odd, "switch", "-q", "main")
    _write(odd, {b"\xe4/y.txt": b"mine\n"})
    done = run_here("merge", "side", cwd=odd)
    assert done.code == 6, done
    assert "\\xe4/y.txt: the file is not as committed" in done.err
    assert (odd / os.fsdecode(b"\xe4/y.txt")).read_bytes() == b"mine\n"


@pytest.mark.campaign
def test_a_vault_in_a_folder_of_an_odd_name_works(home: Path, tmp_path: Path) -> None:
    _git(tmp_path, "init", "-q", "-b", "main")
    root = Path(os.fsdecode(os.fsencode(tmp_path) + b"/k\xfcche"))
    root.mkdir()
    (root / "a.md").write_text("# Ferry\n\nThe gangway is blue.\n")
    for words in (
        *(("init",), ("status",), ("recall", "gangway"), ("checkpoint", "one"), ("log",)),
        *(("remember", "Ropes are brown."), ("checkpoint", "two"), ("doctor",), ("blame", "a")),
        *(("branch", "side"), ("switch", "side"), ("tag", "a", "x"), ("checkpoint", "three")),
        *(("switch", "main"), ("merge", "side"), ("status", "--json"), ("diff", "HEAD~1")),
        ("recall", "gangway", "--at=HEAD"),
    ):
        done = run_here(*words, cwd=root)
        assert done.code in {0, 1}, (words, done)
        assert _is_strict(done.out + done.err), (words, done)
    assert b"k\xfcche/a.md" in _git(tmp_path, "ls-tree", "-rz", "HEAD")


def test_a_watcher_outlives_a_commit_with_odd_names(make_vault: Make, opened: Open) -> None:
    root = make_vault(NOTES)
    with watched(root) as (loop, _):
        _write(root, ODD)
        _git(root, "add", "--all")
        _git(root, "commit", "-q", "-m", b"\xfc")
        write_notes(root, {"notes/later.md": "# Later\n\nRopes are brown.\n"})
        wait_until(lambda: found(root, "ropes") == ["notes/later.md"])
        assert loop.is_watching


def test_a_server_answers_beside_odd_names(odd: Path) -> None:
    async def scene(client: object) -> None:
        from mcp.client.client import Client

        assert isinstance(client, Client)
        assert (await call(client, "recall", query="gangway"))["hits"]
        await call(client, "context_pack", query="gangway")
        await call(client, "history", action="log")
        await call(client, "history", action="show", commit="HEAD~1")
        await call(client, "checkpoint", note="x")
        assert "error" not in (await client.read_resource("vaultmem://pack")).model_dump_json()

    _git(odd, "switch", "-q", b"zw\xe9ig")
    play(odd, scene)
    _git(odd, "switch", "-q", "main")  # The receipts are replayed by git's words as text.


def _is_plain_name(name: bytes) -> bool:
    """Tell whether a system takes a name, and git does not take it for its own."""
    folded = name.lower().strip(b". ")
    return bool(folded) and not folded.startswith((b".git", b"git"))


NAMES = (
    st.binary(min_size=1, max_size=10)
    .map(lambda name: name.translate(None, b"/\0"))
    .filter(_is_plain_name)
)
PATHS = st.builds(
    lambda folders, name, ending: b"/".join((*folders, name + ending)),
    st.lists(NAMES, max_size=2),
    NAMES,
    st.sampled_from([b".md", b".md", b".txt", b""]),
)
WRITTEN = st.text(max_size=60).map(lambda text: f"# Gangway\n\n{text}\n")
TEXTS = st.one_of(
    st.binary(max_size=60),
    st.builds(
        lambda text, encoding: text.encode(encoding, "replace"),
        WRITTEN,
        st.sampled_from(["utf-8", "utf-16", "cp1252"]),
    ),
)
LINES = st.binary(max_size=20).map(lambda line: line.translate(None, b"\0\n<>"))

STEPS: tuple[tuple[str, ...], ...] = (
    *(("init",), ("index",), ("recall", "gangway", "--json"), ("pack", "gangway"), ("status",)),
    *(("checkpoint", "one"), ("log", "--all", "--json"), ("show", "--json"), ("diff", "HEAD")),
    *(("recall", "gangway", "--at=HEAD", "--json"), ("doctor", "--json"), ("list", "--json")),
    *(("status", "--json"), ("branch", "side"), ("switch", "side"), ("checkpoint", "two")),
)


@pytest.mark.parametrize(
    "count",
    [pytest.param(3, marks=pytest.mark.campaign), pytest.param(200, marks=pytest.mark.long)],
)
def test_whatever_bytes_are_named_and_written_nothing_stops_and_nothing_changes(
    home: Path, tmp_path_factory: pytest.TempPathFactory, count: int
) -> None:
    @settings(max_examples=count, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.dictionaries(PATHS, TEXTS, max_size=6), st.dictionaries(PATHS, TEXTS), LINES, LINES)
    def check(
        committed: dict[bytes, bytes], others: dict[bytes, bytes], author: bytes, message: bytes
    ) -> None:
        root = tmp_path_factory.mktemp("fuzz")
        _git(root, "init", "-q", "-b", "main")
        written = _write_what_fits(root, committed)
        _git(root, "add", "--all", "--force")
        who = {"GIT_AUTHOR_NAME": b"A" + author}
        _git(root, "commit", "-q", "--allow-empty", "-m", b"m" + message, env=who)
        before = {*_git(root, "ls-tree", "-rz", "--full-tree", "HEAD").split(b"\0")}
        written |= _write_what_fits(root, others)
        for words in STEPS:
            done = run_here(*words, cwd=root)
            assert done.code in {0, 1, 5, 7}, (words, done)
            assert _is_strict(done.out + done.err), (words, done)
            if "--json" in words and done.out:
                json.dumps(done.json, ensure_ascii=False).encode()
        after = {*_git(root, "ls-tree", "-rz", "--full-tree", "HEAD").split(b"\0")}
        assert before <= after
        for path, data in written.items():
            assert Path(os.fsdecode(os.path.join(os.fsencode(root), path))).read_bytes() == data
        shutil.rmtree(root)

    check()


def _write_what_fits(root: Path, files: dict[bytes, bytes]) -> dict[bytes, bytes]:
    """Write files, but for those in whose way another one is, and return what was written."""
    written = {}
    for path, data in files.items():
        with contextlib.suppress(FileExistsError, NotADirectoryError, IsADirectoryError):
            if not os.path.lexists(os.path.join(os.fsencode(root), path)):
                _write(root, {path: data})
                written[path] = data
    return written


GIVEN: tuple[tuple[str | bytes, ...], ...] = (
    *(("recall", b"gr\xfc\xdfe"), ("pack", b"\xfc"), ("trace", b"\xfc"), ("similar", b"\xfc")),
    *(("remember", b"\xfc"), ("remember", "x", b"--title=\xfc"), ("remember", "x", b"--tag=\xfc")),
    *(("remember", "x", b"--context=\xfc"), ("remember", "x", b"--agent=\xfc")),
    *(("remember", "x", b"--session=\xfc"), ("remember", "x", b"--branch=\xfc")),
    *(("checkpoint", b"\xfc"), ("checkpoint", "x", b"--agent=\xfc"), ("tag", "a", b"\xfc")),
    *(("state", "a", "stale", b"--reason=\xfc"), ("forget", "a", "--yes", b"--reason=\xfc")),
    *(("mv", "a", b"\xfc"), ("mv", b"\xfc", "a"), ("promote", b"\xfc"), ("edit", b"\xfc")),
    *(("promote", "a", b"--from=\xfc"), ("merge", b"\xfc"), ("switch", b"\xfc")),
    *(("branch", b"\xfc"), ("branch", "new", b"--from=\xfc"), ("restore", "a", b"--at=\xfc")),
    *(("session", "start", b"--session=\xfc"), ("session", "start", b"--agent=\xfc")),
    *(
        ("session", "add", "note", b"\xfc"),
        ("session", "add", "file", b"\xfc"),
        ("session", "add", "decision", b"\xfc"),
    ),
    *(("session", "search", b"\xfc"), ("task", "add", b"\xfc"), ("log", b"--agent=\xfc")),
    *(
        ("list", b"--tag=\xfc"),
        ("recall", "x", b"--path=\xfc"),
        ("recall", "x", b"--from-agent=\xfc"),
    ),
    *(("supersede", "a", b"\xfc"), ("bisect", b"--good=\xfc", "x", "--contains", b"\xfc")),
    *(("assert", "x", "--contains", b"\xfc"), ("receipt", b"\xfc"), ("receipt", b"--agent=\xfc")),
    *(("show", b"a#\xfc"), ("blame", b"a#\xfc"), ("links", b"\xfc"), ("reference",), ("stats",)),
    *(("dream",), ("remember", "Quite new.", b"--agent=\xfc"), ("status",), ("log",)),
)


@pytest.mark.campaign
def test_bytes_in_any_argument_are_refused_or_read(odd: Path) -> None:
    for words in GIVEN:
        done = run_here(*words, cwd=odd, env={"EDITOR": "true"})
        assert done.code in {0, 1, 2, 4, 5, 125}, (words, done)
        assert _is_strict(done.out + done.err), (words, done)
