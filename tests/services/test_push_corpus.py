"""Commits made by hand, each rejected; and commits of git and of dulwich, all accepted."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from dulwich.objects import Blob, Commit, Tag, Tree
from dulwich.repo import Repo
from hub_world import ADA, BOB, NOW, SCOUT, Clone, World, make_world
from support import git

from vaultmem.services.hub.hub_access import find_pusher
from vaultmem.services.hub.hub_folder import RefUpdate, Refusal
from vaultmem.services.hub.push_checks import check_push, run_push_check
from vaultmem.services.hub.received_push import ReceivedPush
from vaultmem.storage.git.bare import BareGit

pytestmark = pytest.mark.campaign

#: Made up, of the form of such keys.
TOKEN = "ghp_" + "k3Xw9Lq2Zr7Tb5Vn8Hd4Jf6Ms1Pc0Gy2Ua3E"
KEY = "AKIA" + "Q3EGRZ7NVTPX2WLD"

RESCUE = "refs/vaultmem/rescue/quay/x"
BOBS = f"{BOB[0]} <{BOB[1]}> 1794000000 +0000"
ADAS = f"{ADA[0]} <{ADA[1]}> 1794000000 +0000"

Make = Callable[[Clone, str], str]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    files = {"vaultmem.yaml": "agent: \n", "notes/refunds/a.md": "# A\n"}
    return make_world(tmp_path_factory.mktemp("corpus"), files)


def check(world: World, commit: str, who: str = "bob", ref: str = RESCUE) -> list[Refusal]:
    """Return what the check says of a push of one commit, to a repository that has all objects."""
    pusher = find_pusher(world.hub, "payments", world.grants[who].id, NOW)
    assert pusher is not None
    git = BareGit(world.clone.root / ".git", {"PATH": "/usr/bin:/bin"})
    visit = ReceivedPush(pusher, git, [RefUpdate(ref, "0" * 40, commit)])
    return run_push_check(visit, partial(check_push, visit, {}))


def raw(*edits: tuple[str, str], message: str = "x\n") -> Make:
    """Return what makes a commit of Bob's whose headers are edited as text."""

    def make(clone: Clone, tip: str) -> str:
        tree = clone.git("rev-parse", f"{tip}^{{tree}}")
        head = f"tree {tree}\nparent {tip}\nauthor {BOBS}\ncommitter {BOBS}\n"
        for old, new in edits:
            assert old in head
            head = head.replace(old, new.replace("TREE", tree).replace("TIP", tip), 1)
        whole = f"{head}\n{message}"
        return clone.write("commit", whole.encode("utf-8", "surrogateescape"))

    return make


def header(text: str) -> Make:
    return raw((f"committer {BOBS}\n", f"committer {BOBS}\n{text}\n"))


def author(text: str) -> Make:
    return raw((f"author {BOBS}\n", f"author {text}\n"))


def committer(text: str) -> Make:
    return raw((f"committer {BOBS}\n", f"committer {text}\n"))


def named(name: str) -> Make:
    """Return what makes a commit by this name and Bob's address."""
    return author(f"{name} <{BOB[1]}> 1794000000 +0000")


def agent(*lines: str) -> Make:
    return raw(message="x\n\n" + "\n".join(lines) + "\n")


def encoded(encoding: str, name: bytes = b"Bob Quay") -> Make:
    """Return what makes a commit whose author is bytes in an encoding."""
    text = name.decode("utf-8", "surrogateescape")
    return raw(
        (f"author {BOB[0]}", f"author {text}"),
        (f"committer {BOBS}\n", f"committer {BOBS}\nencoding {encoding}\n"),
    )


def tree(path: str | bytes, given: str | bytes | tuple[str, str] = "x\n") -> Make:
    def make(clone: Clone, tip: str) -> str:
        return clone.commit({**clone.files(tip), path: given}, [tip])

    return make


def parents(count: int) -> Make:
    def make(clone: Clone, tip: str) -> str:
        sides = [clone.commit({f"{n}.md": "x"}, [tip]) for n in range(count)]
        return clone.commit(clone.files(tip), sides)

    return make


#: Alike at a glance: Cyrillic, Greek, Armenian, Cherokee, wide and mathematical letters, marks
#: that are not shown, quotes and accents of case.
_ADA = ["\u0410da Harbour", "Ad\u0430 Harbour", "Ada H\u0430rb\u043eur", "\u0391da Harbour",
        "Ada Harb\u03bfur", "Ada Harb\u0585ur", "\u13aada Harbour", "\uff21da Harbour",
        "\U0001d400da Harbour", "Ada\u200b Harbour", "A\u00adda Harbour", "Ada\u2003Harbour",
        "ADA HARBOUR", "'Ada Harbour'", "Ada Harbour.", "Ada-Harbour", "\u0251da Harbour",
        "Ad\u034fa Harbour"]  # fmt: skip
_SCOUT = ["scout", "Scout", '"scout"', "'scout'", "sc\u043eut", "\u0455cout", "s\u0441out",
          "\uff53cout", "sc\u200dout", "scout.", "sc\u03bfu\u0442", "<scout>",
          "s-cout"]  # fmt: skip

HOSTILE: dict[str, tuple[Make, str]] = {
    # Authors.
    "two authors": (raw((f"author {BOBS}", f"author {ADAS}\nauthor {BOBS}")), "git writes it"),
    "two committers": (header(f"committer {BOBS}"), "a second committer"),
    "both twice": (raw((f"author {BOBS}\n", f"author {ADAS}\ncommitter {ADAS}\nauthor {BOBS}\n")),
                   "a second author"),
    "the other one later": (header(f"author {ADAS}"), "a second author"),
    "an author after a signature": (header(f"gpgsig x\n y\nauthor {ADAS}"), "a second author"),
    "no author": (raw((f"author {BOBS}\n", "")), "no author"),
    "no committer": (raw((f"committer {BOBS}\n", "")), "no committer"),
    "in the other order": (raw((f"author {BOBS}\ncommitter {BOBS}\n",
        f"committer {BOBS}\nauthor {BOBS}\n")), "no author"),
    "another author": (author(ADAS), "its author is Ada"),
    "another committer": (committer(ADAS), "its committer is Ada"),
    "two addresses": (author(f"Bob <{ADA[1]}> <{BOB[1]}> 1 +0000"), "cannot be read"),
    "an address in the name": (author(f"Ada <{ADA[1]} <{BOB[1]}> 1 +0000"), "cannot be read"),
    "no address": (author("Bob Quay 1 +0000"), "cannot be read"),
    "no end of the address": (author(f"Bob <{BOB[1]} 1 +0000"), "cannot be read"),
    "no date": (author(f"Bob <{BOB[1]}>"), "cannot be read"),
    "a date before the epoch": (author(f"Bob <{BOB[1]}> -1 +0000"), "cannot be read"),
    "a date that overflows": (author(f"Bob <{BOB[1]}> 18446744073709551617 +0000"), "is dated"),
    "no zone": (author(f"Bob <{BOB[1]}> 1794000000"), "cannot be read"),
    "a zone that is none": (author(f"Bob <{BOB[1]}> 1794000000 +9999"), "is dated"),
    "a name over two lines": (author(f"Ada\n Harbour <{BOB[1]}> 1 +0000"), "another user"),
    "more after the date": (author(f"{BOBS}\n {ADAS}"), "cannot be read"),
    "a return in the name": (named("Ada Harbour\rBob"), "cannot be read"),
    "an escape in the name": (named("Bob\x1b[2K\x1b[1GAda Harbour"), "cannot be read"),
    "a reversed name": (named("\u202eruobraH adA"), "cannot be read"),
    "an isolated name": (named("\u2067ruobraH adA\u2069"), "cannot be read"),
    "a name of bytes": (named("Ad\udce1 Harbour"), "cannot be read"),
    "a name with NUL": (named("Bob\0"), "NUL"),
    "an agent's address": (author("scout <scout@agents.localhost> 1794000000 +0000"), "its author"),
    **{f"author {name!a}": (named(name), "another user") for name in _ADA},
    "committer alike": (committer(f"\u0410da Harbour <{BOB[1]}> 1794000000 +0000"), "another user"),
    # Agents.
    **{f"agent {name!a}": (agent(f"Agent-Id: {name}"), "names the agent") for name in _SCOUT},
    "an agent in small letters": (agent("agent-id:scout"), "names the agent"),
    "an agent on the next line": (agent("Agent-Id:", "  scout"), "names the agent"),
    "an agent before the trailers": (agent("Agent-Id: scout", "", "more"), "names the agent"),
    "a second agent": (agent("Agent-Id: claude-a", "Agent-Id: scout"), "names the agent"),
    "an agent in reverse": (agent("Agent-Id: claude-\u202etuocs"), "cannot be read"),
    "an agent of bytes": (agent("Agent-Id: claude-\udcff"), "cannot be read"),
    # Headers.
    **{f"header {name}": (header(f"{name} x"), "which git does not write")
       for name in ("x-author", "Author", "HG:extra", "tagger", "object", "note", "authors")},
    "more of the committer": (header(" x"), "a committer that cannot be read"),
    "a header alone": (header("author2"), "which git does not write"),
    "a tab": (header("\tauthor x"), "which git does not write"),
    "two trees": (raw(("tree TREE".replace("TREE", ""), "tree TREE\ntree ")), "no author"),
    "a tree later": (header("tree TREE"), "a second tree"),
    "a parent later": (header("parent TIP"), "a second parent"),
    "a parent before the tree": (raw(("tree", "parent TIP\ntree")), "cannot be read"),
    "a short tree": (raw(("tree ", "tree 0")), "cannot be read"),
    "a parent in capitals": (raw(("parent ", "parent A")), "cannot be read"),
    "the same parent twice": (raw(("parent", "parent TIP\nparent")), "has 2 parents"),
    "nine parents": (parents(9), "has 9 parents"),
    "forty parents": (parents(40), "has 40 parents"),
    "two encodings": (header("encoding UTF-8\nencoding UTF-8"), "more than once"),
    "two signatures": (header("gpgsig x\ngpgsig y"), "more than once"),
    "two change-ids": (header("change-id x\nchange-id y"), "more than once"),
    "a NUL in the message": (raw(message="seen\0unseen\n"), "NUL"),
    # Encodings.
    **{f"encoding {name}": (encoded(name), "in the encoding") for name in
       ("UTF-7", "UTF-16", "ISO-2022-JP", "HZ", "EBCDIC-US", "cp037", "rot13", "unicode_escape",
        "iso-8859-99", "")},
    "UTF-8 as Latin-1": (encoded("ISO-8859-1", "Zo\xeb".encode()), "and it is UTF-8"),
    "UTF-8 as KOI8-R": (encoded("KOI8-R", "\u0410da Harbour".encode()), "and it is UTF-8"),
    "Ada in KOI8-R": (encoded("KOI8-R", "\u0410da Harbour".encode("koi8-r")), "another user"),
    "Latin-1 as UTF-8": (encoded("UTF-8", b"Zo\xeb"), "cannot be read"),
    "Latin-1 as ASCII": (encoded("US-ASCII", b"Zo\xeb"), "cannot be read"),
    # Trees.
    **{f"path {path!a}": (tree(path), says) for path, says in (
        (".git/config", "inside git's own"), (".GIT/config", "inside git's own"),
        ("git~1/config", "inside git's own"), (".g\u200cit/config", "inside git's own"),
        ("notes/.git/hooks/x", "inside git's own"), (".git ./x", "inside git's own"),
        ("\uff0egit/config", "inside git's own"), ("../out.md", "leaves the vault"),
        (b"/etc/passwd", "leaves the vault"), (b"a/../.git/x", "leaves the vault"),
        ("a\\b.md", "backslash"), ("C:x.md", "names a drive"))},
    "a link": (tree("notes/refunds/l.md", ("120000", "{/etc/passwd}")), "symbolic link"),
    "a submodule": (tree("notes/refunds/s", ("160000", "1" * 40)), "a repository inside"),
    "a program": (tree("notes/refunds/x.sh", ("100755", "{rm}")), "can be executed"),
    # Credentials.
    "in a message": (raw(message=f"use {TOKEN}\n"), "line 1 of its message"),
    "in a signature": (header(f"gpgsig {TOKEN}"), "line 5 of its headers"),
    "in a merged tag": (header(f"mergetag object 1\n \n use {TOKEN}"), "line 7 of its headers"),
    "in a name": (named(TOKEN), "line 3 of its headers"),
    "with Markdown's escapes": (tree("notes/refunds/k.md", TOKEN.replace("_", "\\_")), "line 1"),
    "with soft hyphens": (tree("notes/refunds/k.md", "\u00ad".join(KEY)), "line 1"),
    "with marks of no width": (tree("notes/refunds/k.md", f"\n{KEY[:9]}\u200b{KEY[9:]}"), "line 2"),
    "in a long text": (
        tree("notes/refunds/k.txt", "a log line\n" * 120_000 + TOKEN), "line 120001"),
    "over the edge of a window": (
        tree("notes/refunds/k.txt", "x" * 999_980 + f" {TOKEN}\n" + "y" * 300_000), "line 1"),
}  # fmt: skip


def test_a_hundred_commits_made_by_hand_are_rejected_each(world: World) -> None:
    clone, tip = world.clone, world.tip()
    assert len(HOSTILE) >= 100
    taken = {}
    for name, (make, says) in HOSTILE.items():
        lines = list(map(str, check(world, make(clone, tip))))
        if not any(says in line for line in lines):
            taken[name] = lines
        assert all(line.count("; ") >= 1 for line in lines)
        assert TOKEN not in "".join(lines)
    assert not taken, "\n".join(f"{k}: {v}" for k, v in taken.items())
    assert not check(world, raw()(clone, tip))


REAL = ["the other one later", "author 'Ad\\u0430 Harbour'", "forty parents", "in a long text",
        "agent '\"scout\"'"]  # fmt: skip


@pytest.mark.parametrize("name", REAL)
def test_some_of_them_by_a_real_push(world: World, name: str) -> None:
    make, says = HOSTILE[name]
    before = world.see()
    code, told = world.push("bob", f"{make(world.clone, world.tip())}:{RESCUE}")
    assert code
    assert says in told
    assert world.see() == before


#: Names of people who push: one has a mark that is not shown, as Persian is written.
NAMES = ["Bob Quay", "Zo\xeb", "\u0411\u043e\u0431", "\u674e\u56db", "Bob \U0001f6a2",
         "b. o'b-quay", "\u0639\u0644\u06cc\u200c\u0631\u0636\u0627"]  # fmt: skip


def make_by_git(root: Path, tip: str) -> str:
    """Make 100 commits by git's own commands, in all ways that they have; return the last."""
    git(root, "checkout", "-q", "-b", "honest", tip)
    for name, value in {
        "user.name": BOB[0],
        "user.email": BOB[1],
        "commit.gpgSign": "false",
    }.items():
        git(root, "config", name, value)
    key = root.parent / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    signing = ["-c", "gpg.format=ssh", "-c", f"user.signingKey={key}"]
    file = root / "notes/refunds/g.md"
    file.parent.mkdir(parents=True, exist_ok=True)
    for n in range(70):
        file.write_text(f"# G\n\n{n}\n")
        git(root, "add", "notes/refunds/g.md")
        more = {1: ["-s"], 2: ["--allow-empty-message"], 3: ["--trailer", "Agent-Id: claude-a"]}
        message = ["", f"m {n}\n\n" + "word " * n, f"m\r\n\r\n{n}\r\n", f"\u00fc {n}"][n % 4]
        how = [*more.get(n % 9, []), *(["-S"] if n % 10 == 5 else [])]
        author = f"{NAMES[n % len(NAMES)]} <{BOB[1]}>"
        message = message or ("" if n % 9 == 2 else "m")
        git(root, *signing, "commit", "-q", *how, "-m", message, "--author", author)
    for encoding in ("ISO-8859-1", "windows-1252", "KOI8-R", "UTF-8"):
        text = "\u0434\u0430" if encoding == "KOI8-R" else "Zo\xeb"
        done = [
            "git",
            "-c",
            f"i18n.commitEncoding={encoding}",
            "commit",
            "-q",
            "--allow-empty",
            "-F",
        ]
        words = root.parent / "message"
        words.write_bytes(text.encode(encoding))
        subprocess.run([*done, words], cwd=root, check=True)
    for n in range(8):
        git(root, "checkout", "-q", "-b", f"side-{n}", "HEAD~3")
        (root / f"notes/refunds/side-{n}.md").write_text(f"{n}\n")
        git(root, "add", "notes")
        git(root, "commit", "-q", "-m", f"side {n}")
        git(root, *signing, "tag", "-s" if n % 2 else "-a", "-m", f"tag {n}", f"tag-{n}")
        git(root, "checkout", "-q", "honest")
        git(
            root, "merge", "-q", "--no-ff", "-m", f"merge {n}", f"tag-{n}" if n < 6 else f"side-{n}"
        )
    git(root, "merge", "-q", "-m", "three", *_branch_off(root))
    for n in range(6):
        git(root, "revert", "--no-edit", "HEAD" if n else "HEAD~1", *(["-m", "1"] if not n else []))
    return git(root, "rev-parse", "HEAD")


def _branch_off(root: Path) -> Iterator[str]:
    for n in range(3):
        git(root, "checkout", "-q", "-b", f"oct-{n}", "HEAD")
        (root / f"notes/refunds/oct-{n}.md").write_text(f"{n}\n")
        git(root, "add", "notes")
        git(root, "commit", "-q", "-m", f"oct {n}")
        git(root, "checkout", "-q", "honest")
        yield f"oct-{n}"


def make_by_dulwich(root: Path, tip: str) -> str:
    """Make 100 commits by dulwich, with all that it writes into one; return the last."""
    repo = Repo(str(root))
    last = tip.encode()
    for n in range(100):
        blob = Blob.from_string(f"# D\n\n{n}\n".encode())
        refunds, notes, whole = Tree(), Tree(), Tree()
        refunds.add(b"d.md", 0o100644, blob.id)
        notes.add(b"refunds", 0o40000, refunds.id)
        whole.add(b"notes", 0o40000, notes.id)
        old = repo[repo[last].tree]
        whole.add(b"vaultmem.yaml", *old[b"vaultmem.yaml"])
        made = Commit()
        made.tree = whole.id
        made.parents = [last] if n % 10 else [last, tip.encode()][: 1 + bool(n)]
        name = ["Bob", "Zo\xeb", "\u0411\u043e\u0431", "\u674e"][n % 4]
        encoding = "koi8-r" if n % 4 == 2 and n % 3 == 0 else ""
        made.author = made.committer = f"{name} <{BOB[1]}>".encode(encoding or "utf-8")
        made.encoding = encoding.encode() or (b"UTF-8" if n % 5 == 0 else None)
        made.author_time = made.commit_time = 1_794_000_000 + n
        made.author_timezone = made.commit_timezone = [0, 3600, -34_200, 50_400][n % 4]
        made.message = f"step {n}\n\nAgent-Id: claude-d\n".encode() if n % 7 == 0 else b"step"
        if n % 6 == 1:
            made.gpgsig = b"-----BEGIN PGP SIGNATURE-----\n\nabc\n-----END PGP SIGNATURE-----"
        if n % 6 == 2:
            made._extra = [(b"change-id", b"zzkmlpqr" * 4)]
        if n % 10 == 3:
            made.mergetag = [_tag(repo, last)]
        for each in (blob, refunds, notes, whole, made):
            repo.object_store.add_object(each)
        last = made.id
    return last.decode()


def _tag(repo: Repo, commit: bytes) -> Tag:
    tag = Tag()
    tag.object = (Commit, commit)
    tag.name, tag.message, tag.tagger = b"v1", b"first\n", f"{ADA[0]} <{ADA[1]}>".encode()
    tag.tag_time, tag.tag_timezone = 1_794_000_000, 0
    return tag


def test_two_hundred_commits_of_git_and_of_dulwich_are_accepted(world: World) -> None:
    clone, tip = world.clone, world.tip()
    for number, make in enumerate((make_by_git, make_by_dulwich)):
        last = make(clone.root, tip)
        assert int(clone.git("rev-list", "--count", last, f"^{tip}")) >= 100
        assert check(world, last) == []
        world.take("bob", f"{last}:{RESCUE}-{number}", f"{last}:refs/heads/proposals/bob/{number}")
    raw_commits = subprocess.run(
        ["git", "cat-file", "--batch"], cwd=clone.root, capture_output=True, check=True,
        input=clone.git("rev-list", "--all", "honest").encode(),
    ).stdout  # fmt: skip
    for kind in (b"\ngpgsig ", b"\nmergetag ", b"\nencoding ISO-8859-1\n"):
        assert kind in raw_commits


def test_an_agents_name_is_its_own(world: World) -> None:
    made = world.clone.commit({"a.md": "a"}, [world.tip()], SCOUT, None, "x\n\nAgent-Id: scout")
    assert check(world, made, "scout") == []
