"""What a hub's door refuses, each by a real push of real objects; and what it lets in."""

from __future__ import annotations

import os
import subprocess
import time
import unicodedata
from collections.abc import Callable
from typing import Any

import pytest
from hub_world import ADA, BOB, NOW, SCOUT, Clone, World, make_world

from vaultmem.services.hub import receiving
from vaultmem.services.hub.grants import GrantKind, GrantScope, build_pusher_environment, revoke
from vaultmem.services.hub.hub_folder import CONFIG_NAME, Refusal, read_audit
from vaultmem.services.hub.received_push import ReceivedPush

#: Made up, of the form of such keys.
KEY = "AKIA" + "Q3EGRZ7NVTPX2WLD"
TOKEN = "ghp_" + "k3Xw9Lq2Zr7Tb5Vn8Hd4Jf6Ms1Pc0Gy2Ua3E"

CLEO = ("Cleo Mole", "cleo@ferry.example")
DORA = ("Dora Buoy", "dora@ferry.example")

VAULT = {
    "vaultmem.yaml": "agent: \n",
    ".gitignore": "*.tmp\n",
    "notes/refunds/round.md": "# Refunds\n\nRefunds are rounded half up.\n",
    "notes/ledger/close.md": "# Close\n\nThe ledger closes on Friday.\n",
    "notes/Straße.md": "# A street\n",
    "notes/ferry\xfc.md": "# u\n",
    "old:name.md": "# As it was\n",
    "run.sh": ("100755", "{echo}"),
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Lay a hub in which each test of this file pushes; what is refused changes nothing."""
    limits = "note_bytes: 64K\nfile_bytes: 128K\npush_commits: 60\npush_files: 900\n"
    return make_world(tmp_path_factory.mktemp("hub"), VAULT, limits)


def refuse(world: World, who: str, *specs: str, **env: str) -> str:
    """Push what has to be refused as a whole, and return what the record says of it."""
    before = world.see()
    code, told = world.push(who, *specs, **env)
    assert code, "it was taken in"
    assert world.see() == before
    entry = world.last()
    assert (entry.what, entry.outcome, entry.origin) == ("push", "refused", "203.0.113.7")
    assert {each["ref"] for each in entry.details["refs"]} == {
        each.split(":")[-1] for each in specs
    }
    refused = entry.details["refused"]
    assert all(each.count(": ") >= 1 and "; " in each for each in refused), refused
    assert f"vaultmem: {refused[0]}" in told
    return "\n".join(refused)


Make = Callable[[Clone, str], str]


def of(files: dict[Any, Any], **more: Any) -> Make:
    """Return what makes a commit of files beside those of its parent."""

    def make(clone: Clone, tip: str) -> str:
        whole = {**clone.files(tip), **files}
        return clone.commit(
            {path: each for path, each in whole.items() if each is not None}, [tip], **more
        )

    return make


def under(name: bytes, **more: Any) -> Make:
    """Return what makes a commit with one name that no command of git's would write."""
    return of({name: "text\n"}, **more)


def twice(first: Make, second: Make) -> Make:
    return lambda clone, tip: second(clone, first(clone, tip))


def bomb(clone: Clone, tip: str) -> str:
    """Make a commit of 10 ** 9 files that are nine trees."""
    tree = clone.tree({"a.md": "x"})
    for _ in range(9):
        tree = clone.tree({f"f{n}": ("40000", tree) for n in range(10)})
    return clone.commit(tree, [tip])


def merged(clone: Clone, tip: str) -> str:
    """Make a merge that brings what none of its parents has."""
    side = of({"notes/refunds/side.md": "# Side\n"})(clone, tip)
    files = {**clone.files(side), "notes/refunds/late.md": f"# Late\n\nkey: {KEY}\n"}
    return clone.commit(files, [tip, side])


#: What must be in no commit, wherever it is pushed; and what the refusal says.
ANYWHERE: list[tuple[str, Make, str]] = [
    ("git's folder", of({".git/config": "x"}), "inside git's own folder"),
    ("git's folder, deeper", of({"notes/.git/config": "x"}), "inside git's own folder"),
    ("in capitals", of({".GIT/config": "x"}), "inside git's own folder"),
    ("with a space", of({".git /config": "x"}), "inside git's own folder"),
    ("with a dot", of({".git./config": "x"}), "inside git's own folder"),
    ("its short name", of({"git~1/config": "x"}), "inside git's own folder"),
    ("the second short name", of({"GIT~2/config": "x"}), "inside git's own folder"),
    ("short for .gitmodules", of({"gitmod~1": "x"}), "inside git's own folder"),
    ("with a mark nobody sees", of({".g\u200cit/config": "x"}), "inside git's own folder"),
    ("by a wide letter", of({"\uff0egit/config": "x"}), "inside git's own folder"),
    ("as a stream", of({".git::$INDEX_ALLOCATION/config": "x"}), "inside git's own folder"),
    ("as a file", of({".git": "gitdir: /elsewhere\n"}), "inside git's own folder"),
    ("above the vault", of({"../out.md": "x"}), "leaves the vault"),
    ("by way of a folder", of({"notes/../../out.md": "x"}), "leaves the vault"),
    ("a single dot", of({"./in.md": "x"}), "leaves the vault"),
    ("absolute", under(b"/etc/passwd"), "leaves the vault"),
    ("a slash in a name", under(b"z/../.git/x"), "leaves the vault"),
    ("a backslash", of({"notes\\..\\x.md": "x"}), "has a backslash"),
    ("a drive", of({"C:evil.md": "x"}), "names a drive"),
    ("a path for no disk", of({"/".join(["deep" * 9] * 120): "x"}), "longer than any system"),
    ("a symbolic link", of({"notes/refunds/link.md": ("120000", "{/x}")}), "symbolic link"),
    ("a link for a note", of({"notes/refunds/round.md": ("120000", "{x}")}), "symbolic link"),
    ("a submodule", of({"notes/refunds/sub": ("160000", "1" * 40)}), "a repository inside"),
    ("a program", of({"notes/refunds/x.sh": ("100755", "{rm}")}), "can be executed"),
    ("a note to execute", of({"notes/refunds/round.md": ("100755", "{x}")}), "can be executed"),
    ("a key in a note", of({"notes/refunds/k.md": f"# K\n\nid {KEY}\n"}), "line 3"),
    ("a key in what is no note", of({"notes/refunds/k.txt": f"id {KEY}\n"}), "line 1"),
    ("a key in a canvas", of({"notes/refunds/k.canvas": f'{{"t": "{TOKEN}"}}'}), "line 1"),
    ("a key in UTF-16", of({"notes/refunds/k.md": f"id {KEY}\n".encode("utf-16")}), "line 1"),
    ("a key beside bytes", of({"notes/refunds/k.md": b"\0\xff " + TOKEN.encode()}), "line 1"),
    ("a key in a name", of({f"notes/refunds/{KEY}.md": "x"}), "a name that looks like a cred"),
    ("a key that goes again", twice(of({"notes/refunds/k.md": f"{KEY}\n"}),
     of({"notes/refunds/k.md": None})), "line 1"),
    ("a key by a merge", merged, "line 3"),
    ("a key in a message", of({}, message=f"use {TOKEN}"), "of its message looks like"),
    ("an agent's own mark", of({"notes/refunds/k.md": f"{KEY} gitleaks:allow\n"},
     message="x\n\nAgent-Id: claude-code"), "line 1"),
    ("one's own rules", of({".gitleaks.toml": '[extend]\ndisabledRules = ["aws-access-token"]\n',
     "notes/refunds/own.md": f"{KEY}\n"}), "line 1"),
    ("a message like git's output", of({"notes/refunds/d.md": f"x\n{KEY}\n"},
     message="x\n\nAgent-Id: claude-a\nAgent-Id: claude-\x02\n\x01" + "a" * 40), "line 2"),
    ("another author", of({}, who=ADA, committer=BOB), "its author is Ada Harbour"),
    ("another committer", of({}, committer=ADA), "its committer is Ada Harbour"),
    ("another's name", of({}, who=("Ada Harbour", BOB[1])), "the name of another user"),
    ("another's name, small", of({}, who=("ada harbour", BOB[1])), "the name of another user"),
    ("another's, as it looks", of({}, who=("Ad\u200ba\xa0Harbour", BOB[1])), "of another user"),
    ("a grant's name", of({}, who=("scout", BOB[1])), "the name of another user"),
    ("nobody's address", of({}, who=("Bob Quay", "bob@else.example")), "its author is Bob Quay"),
    ("an agent's address", of({}, who=SCOUT), "its author is scout"),
    ("an agent that is not his", of({}, message="x\n\nAgent-Id: scout"), 'names the agent "scout"'),
    ("two agents", of({}, message="x\n\nAgent-Id: scout\nAgent-Id: claude-code"), '"scout"'),
    ("an agent, small", of({}, message="x\n\nagent-id:scout"), 'names the agent "scout"'),
    ("an encoding", of({}, message="x+AAA-\n\nAgent-Id: scout", encoding="UTF-7"), "\"UTF-7\""),
    ("a year that none can read", of({}, when="253402300800 +0000"), "is dated 2534"),
    ("a zone that is none", of({}, when="1794000000 +9999"), "is dated 1794000000 +9999"),
    ("an agent, folded", of({}, message="x\n\nAgent-Id:\n  scout"), 'names the agent "scout"'),
    ("an earlier forgery", twice(of({"notes/refunds/f.md": "x"}, who=ADA), of({})), "is Ada"),
    ("a large note", of({"notes/refunds/l.md": "long " * 20_000}), "a note may have 65,536"),
    ("a large file", of({"notes/refunds/l.bin": os.urandom(200_000)}), "a file may have 131,072"),
    ("a large file that goes", twice(of({"notes/refunds/l.bin": b"\0" * 200_000}),
     of({"notes/refunds/l.bin": None})), "a file may have 131,072"),
]  # fmt: skip


@pytest.mark.guarantee
@pytest.mark.campaign
def test_no_commit_brings_what_harms_a_clone_or_is_somebody_elses(world: World) -> None:
    clone, tip = world.clone, world.tip()
    made = {}
    for number, (name, make, says) in enumerate(ANYWHERE):
        made[name] = make(clone, tip), says, f"refs/vaultmem/rescue/quay/{number}"
    specs = [f"{commit}:{ref}" for commit, _, ref in made.values()]
    found = ""
    for start in range(0, len(specs), 40):
        found += refuse(world, "bob", *specs[start : start + 40]) + "\n"
    assert KEY not in found
    assert TOKEN not in found
    for name, (commit, says, _) in made.items():
        own = {commit[:9], *clone.git("rev-list", commit, f"^{tip}").split()}
        lines = [line for line in found.splitlines() if any(each[:9] in line for each in own)]
        lines += [line for line in found.splitlines() if name == "a key in a name" and says in line]
        assert any(says in line for line in lines), (name, lines)


#: Names that are refused where they are new at the end of a push, by the owner too.
NAMES: list[tuple[str, str]] = [
    ("notes/refunds/a\tb.md", "has '\\t'"),
    ("notes/refunds/a\nb.md", "has '\\n'"),
    ("notes/refunds/what?.md", "has '?'"),
    ("notes/refunds/a:b.md", "has ':'"),
    ("notes/refunds/\u202egnp.md", "has '\\u202e'"),
    ("notes/refunds/CON.md", "Windows keeps"),
    ("notes/nul/a.md", "Windows keeps"),
    ("notes/refunds/lpt1.md", "Windows keeps"),
    ("VAULTM~1.YAM", "Windows keeps"),
    ("obsidi~2/app.json", "Windows keeps"),
    ("notes/refunds/dot./a.md", "ends with a space or a dot"),
    ("notes/refunds/ a.md", "begins with a space"),
    ("notes/refunds/a.md ", "ends with a space"),
    (f"notes/refunds/{'n' * 201}.md", "a name longer than 200"),
    (f"notes/{'/'.join(['deep' * 10] * 12)}/a.md", "longer than 400"),
    ("notes/refunds/gr\udcfcn.md", "is not UTF-8"),
    ("notes/refunds/ROUND.md", "one file for it and notes/refunds/round.md"),
    ("notes/Ledger/other.md", "one file for it and notes/ledger"),
    ("notes/STRASSE.md", "one file for it and notes/Straße.md"),
    (unicodedata.normalize("NFD", "notes/ferry\xfc.md"), "one file for it and notes/ferry"),
]


def test_a_branch_ends_without_names_that_some_system_cannot_hold(world: World) -> None:
    clone, tip = world.clone, world.tip()
    names = {name: "x\n" for name, _ in NAMES} | {"twin/A.md": "x", "twin/a.md": "y"}
    marked = "# A\n\n<<<<<<< ours\none\n=======\ntwo\n>>>>>>> theirs\n"
    files = {**clone.files(tip), **names, "notes/refunds/marked.md": marked}
    found = refuse(world, "ada", f"{clone.commit(files, [tip], who=ADA)}:refs/heads/main")
    for name, says in [*NAMES, ("twin/A.md", "twin/a.md"), ("marked.md", "conflict markers")]:
        assert says in found, (name, found)
    assert len(found.splitlines()) == len(NAMES) + 3  # Both twins, and the markers.
    assert "vaultmem mv" in found


def test_what_was_there_already_may_stay_and_change(world: World) -> None:
    clone, tip = world.clone, world.tip()
    odd = of({"old:name.md": "# As it is\n", "run.sh": ("100755", "{echo 2}")}, who=ADA)
    marked = of({"notes/refunds/m.md": "<<<<<<< a\n=======\n>>>>>>> b\n"}, who=ADA)
    mended = of({"notes/refunds/m.md": "# Mended\n"}, who=ADA)
    fenced = of({"notes/f.md": "```\n<<<<<<< a\n=======\n>>>>>>> b\n```\n"}, who=ADA)
    made = twice(twice(odd, twice(marked, mended)), fenced)(clone, tip)
    world.take("ada", f"{made}:refs/heads/main")
    assert world.last().outcome == "done"


#: Files that only an owner changes, and those outside of Bob's folder.
OWNERS = ["vaultmem.yaml", "Vaultmem.yaml", ".gitattributes", ".gitignore", ".obsidian/app.json",
          ".vaultmem/signers", "notes/refunds/.gitattributes", ".gitleaksignore",
          "notes/refunds/vaultmem.yaml"]  # fmt: skip
OUTSIDE = ["notes/ledger/close.md", "notes/refunds.md", "notes/refundsextra/a.md", "MEMORY.md"]


@pytest.mark.campaign
def test_a_scope_ends_at_its_folder(world: World) -> None:
    clone, tip = world.clone, world.tip()
    inside = {"notes/refunds/new.md": "# New\n"}
    changed: dict[Any, Any] = {name: f"{name}\n" for name in (*OWNERS, *OUTSIDE)}
    moved = {"notes/ledger/close.md": None, "notes/refunds/close.md": "# Close\n"}
    for files, names in ((changed, [*OWNERS, *OUTSIDE]), (moved, ["notes/ledger/close.md"])):
        commit = of({**inside, **files})(clone, tip)
        found = refuse(world, "bob", f"{commit}:refs/heads/main")
        for name in names:
            assert f"{name}: is " in found, (name, found)
        assert "notes/refunds/new.md" not in found
    passed = twice(of({"MEMORY.md": "x"}), of({"MEMORY.md": None, **inside}))(clone, tip)
    assert "MEMORY.md: is not yours" in refuse(world, "bob", f"{passed}:refs/heads/main")
    rules = '[extend]\ndisabledRules = ["aws-access-token"]\n'
    allowing = of({".gitleaks.toml": rules, "notes/k.md": KEY}, who=SCOUT, message=BY)(clone, tip)
    assert "notes/k.md in" in refuse(world, "scout", f"{allowing}:refs/heads/main")
    forged = of({"notes/refunds/f.md": "# F\n"}, who=ADA)(clone, tip)
    # A hub of an older vaultmem took it unread.
    unread = (clone.root, f"{forged}:refs/vaultmem/machines/bbbbbbbbbbbbbbbb.1")
    subprocess.run(["git", "--git-dir", world.repository, "fetch", "-q", *unread], check=True)
    assert "its author is Ada" in refuse(world, "bob", f"{forged}:refs/heads/main")


TIDES = "# Projects\n- name: tides\n  root: " + "a" * 40 + "\n"
HARBOUR = "- name: harbour\n  root: " + "b" * 40 + "\n"


@pytest.mark.campaign
def test_whoever_writes_only_a_folder_may_add_a_project(world: World) -> None:
    clone = world.clone
    first = of({"projects.yaml": TIDES, "notes/refunds/t.md": "# T\n"})(clone, world.tip())
    world.take("bob", f"{first}:refs/heads/main")
    added = of({"projects.yaml": TIDES + HARBOUR})(clone, first)
    world.take("bob", f"{added}:refs/heads/main")
    for text in (HARBOUR, TIDES.replace("tides", "ebb") + HARBOUR, "what\n", None):
        changed = of({"projects.yaml": text})(clone, added)
        assert "projects.yaml: is not yours" in refuse(world, "bob", f"{changed}:refs/heads/main")


BY = "checkpoint\n\nAgent-Id: scout\nVault-Event: checkpoint"


@pytest.mark.campaign
def test_a_merge_takes_in_what_others_did_and_takes_nothing_back(world: World) -> None:
    clone, tip = world.clone, world.tip()
    theirs = of({"notes/ledger/close.md": "# Close\n\nOn Thursday.\n"}, who=ADA)(clone, tip)
    world.take("ada", f"{theirs}:refs/heads/main")
    mine = of({"notes/refunds/mine.md": "# Mine\n"})(clone, tip)
    back = clone.commit(clone.files(mine), [theirs, mine])
    found = refuse(world, "bob", f"{back}:refs/heads/main")
    assert "notes/ledger/close.md: is not yours to write" in found
    mails = ["fred@ferry.example"]
    world.admit("fred", GrantKind.PERSON, {GrantScope.PROPOSE: ["*:notes/refunds"]}, emails=mails)
    fred = ("Fred", *mails)
    back = clone.commit(clone.files(mine), [theirs, tip], who=fred)
    found = refuse(world, "fred", f"{back}:refs/heads/proposals/fred/back")
    assert "notes/ledger/close.md: is not yours to propose" in found
    own = of({"notes/refunds/fred.md": "# Fred\n"}, who=fred)(clone, tip)
    along = of({"notes/refunds/fred.md": "# Fred\n"}, who=fred)(clone, theirs)
    along = clone.commit(clone.files(along), [own, theirs], who=fred)
    world.take("fred", f"{along}:refs/heads/proposals/fred/along")
    both = clone.commit(
        {**clone.files(theirs), "notes/refunds/mine.md": "# Mine\n"}, [mine, theirs]
    )
    world.take("bob", f"{both}:refs/heads/main")
    proposed = of({"notes/ledger/x.md": "# X\n"}, who=CLEO)(clone, both)
    world.take("cleo", f"{proposed}:refs/heads/proposals/cleo/x")
    assert "notes/ledger/x.md" in refuse(world, "bob", f"{proposed}:refs/heads/main")
    taken = clone.commit(clone.files(proposed), [both, proposed], who=ADA)
    world.take("ada", f"{taken}:refs/heads/main", ":refs/heads/proposals/cleo/x")


@pytest.mark.campaign
def test_refs_are_moved_by_those_whose_they_are(world: World) -> None:
    clone, tip = world.clone, world.tip()
    own = of({"notes/refunds/r.md": "# R\n"})(clone, tip)
    twig = of({"notes/refunds/s.md": "# S\n"})(clone, tip)
    machine, other = "refs/vaultmem/machines/0123456789abcdef.1", "refs/vaultmem/rescue/a/main-1"
    tag = clone.write("tag", b"object %s\ntype commit\ntag v1\ntagger B <b@c> 1 +0000\n\nx\n"
                      % tip.encode())  # fmt: skip
    used = clone.commit({"usage/00.json": "{}"}, who=ADA)
    later = clone.commit({"usage/00.json": "{}"}, [used], who=ADA)
    waits = of({"notes/refunds/o.md": "# O\n"}, who=ADA)(clone, tip)
    world.take("ada", f"{tip}:refs/heads/winter", f"{tip}:refs/tags/first", f"{used}:{machine}",
               f"{tip}:{other}", f"{waits}:refs/heads/proposals/ada/old")  # fmt: skip
    for who, cases in {
        "bob": [
            (f"{own}:refs/heads/branch", "only an owner moves"),
            (f"{own}:refs/heads/winter", "only an owner moves"),
            (f"{own}:refs/heads/main2", "only an owner moves"),
            (f"{tip}:refs/heads/proposals/cleo/a", "a proposal of cleo"),
            (f"{tip}:refs/heads/proposals/BOB/a", "a proposal of BOB"),
            (f"{tip}:refs/heads/proposals/bob", "names no proposal"),
            (f"{tip}:refs/tags/v1", "only an owner moves"),
            (":refs/tags/first", "only an owner moves"),
            (f"{tip}:refs/notes/commits", "what others' commits say"),
            (f"{tip}:refs/notes/vaultmem", "what others' commits say"),
            (f"{tip}:refs/replace/{tip}", "what others' commits say"),
            (f"{tip}:refs/vaultmem/machines/zz", "no hub keeps"),
            (f"{tip}:refs/vaultmem/machines/0123456789abcdef.0", "no hub keeps"),
            (f"{tip}:refs/vaultmem/else", "no hub keeps"),
            (f"{tip}:refs/remotes/origin/main", "no hub keeps"),
            (f"{tip}:refs/heads/HEAD", "no hub keeps"),
            (f"{tip}:refs/heads/refs/heads/main", "no hub keeps"),
            (f"{later}:{machine}", "another machine"),
            (f"{tip}:{machine[:-1]}2", "another machine"),
            (f":{machine}", "another machine"),
            (f"{own}:{other}", "another machine"),
            (f"+{own}:refs/vaultmem/machines/eeeeeeeeeeeeeeee.1", "another machine"),
            (f":{other}", "another machine"),
            (":refs/heads/main", "the vault's own branch"),
            (":refs/heads/winter", "only an owner moves"),
            (":refs/heads/proposals/ada/old", "a proposal of ada"),
            (f"{tip}:refs/vaultmem/rescue/quay/{KEY}", "looks like a credential"),
            (f"{tip}:refs/heads/proposals/bob/\u202ex", "cannot be read"),
            (f"{tip}:refs/heads/proposals/bob/{'x' * 200}", "very long"),
        ],
        "ada": [
            (f"{tag}:refs/tags/v1", "does not name a commit"),
            (f"{clone.tree({'a.md': 'x'})}:refs/tags/tree", "does not name a commit"),
            (f"+{own}:refs/tags/first", "is a tag that others have"),
            (f"{tip}:refs/heads/Winter", "cannot exist next to winter"),
            (f"{tip}:refs/heads/winter/x", "cannot exist next to winter"),
            (f"{tip}:refs/heads/proposals/ada/new", "cannot exist next to proposals/ada/NEW"),
            (f"{tip}:refs/heads/proposals/ada/NEW", "cannot exist next to proposals/ada/new"),
            (f"{tip}:refs/notes/commits", "what others' commits say"),
            (":refs/heads/main", "the vault's own branch"),
        ],
        "cleo": [
            (f"{own}:refs/heads/main", "you may not write to it"),
            (f"{tip}:refs/vaultmem/rescue/mole/x", "you may not write here"),
            (f"{tip}:refs/vaultmem/machines/fedcba9876543210.1", "you may not write here"),
            (":refs/heads/proposals/ada/old", "a proposal of ada"),
        ],
    }.items():  # fmt: skip
        specs = [spec for spec, _ in cases]
        found = refuse(world, who, *(spec for spec in specs if spec[0] != ":"))
        found += "\n" + refuse(world, who, *(spec for spec in specs if spec[0] == ":"))
        for spec, says in cases:
            shown = spec.split(":")[1].removeprefix("refs/heads/").encode("unicode_escape").decode()
            shown = shown.replace(KEY, "***")[:99]
            lines = [line for line in found.splitlines() if line.startswith(shown)]
            assert any(says in line for line in lines), (spec, lines, found)
    world.take("bob", f"{own}:refs/heads/proposals/bob/r", f"{own}:refs/vaultmem/rescue/quay/r")
    apart = clone.commit({"usage/00.json": "{}"}, who=ADA)
    world.take("ada", f"{later}:{machine}")
    assert "is forced" in refuse(world, "ada", f"+{apart}:{machine}")
    world.take("ada", f"{apart}:{machine[:-1]}2", f":{machine}")
    base = clone.commit(clone.files(tip), [], who=BOB)
    heads = [f"+{base}:refs/heads/{ref}" for ref in ("proposals/bob/r", "main")]
    found = refuse(world, "bob", *heads, f"+{twig}:refs/vaultmem/rescue/quay/r")
    assert found.count("is forced") == 3
    assert "main: is forced: what others have would go; run `vaultmem sync`" in found
    world.take("bob", ":refs/heads/proposals/bob/r", ":refs/vaultmem/rescue/quay/r")


#: What a machine's ref may not have, and what the refusal says of it.
MACHINES: list[tuple[str, Make, str]] = [
    ("another's name", lambda c, _: c.commit({"usage/00.json": "{}"}, who=ADA),
     "its author is Ada"),
    ("another committer", lambda c, _: c.commit({"usage/00.json": "{}"}, who=DORA, committer=ADA),
     "its committer is Ada"),
    ("an older vaultmem", lambda c, _: c.commit({"usage/00.json": "{}"},
     who=("quay", "vaultmem@localhost")), "its author is quay"),
    ("another's agent", lambda c, _: c.commit({"usage/00.json": "{}"}, who=SCOUT, message=BY),
     "which has a token of its own"),
    ("a credential", lambda c, _: c.commit({"usage/00.json": f'{{"{TOKEN}": [1, 1, 1]}}'},
     who=DORA), "line 1"),
    ("a credential that goes again", lambda c, _: c.commit({"usage/00.json": "{}"}, [c.commit(
     {"usage/00.json": f'{{"{TOKEN}": [1, 1, 1]}}'}, who=DORA)], who=DORA), "line 1"),
    ("a receipt", lambda c, _: c.commit({"receipts/x.json": "{}"}, who=DORA), "words of questions"),
    ("turns", lambda c, _: c.commit({"turns/s-1.jsonl": "{}"}, who=DORA), "words of questions"),
    ("turns that go again", lambda c, _: c.commit({"usage/00.json": "{}"},
     [c.commit({"turns/s-1.jsonl": "{}"}, who=DORA)], who=DORA), "words of questions"),
    ("what another one committed", lambda _, tip: tip, "its author is Ada"),
    ("a merge with that", lambda c, tip: c.commit({"usage/00.json": "{}"},
     [c.commit({"usage/00.json": "{}"}, who=DORA), tip], who=DORA), "its author is Ada"),
    ("too much", lambda c, _: c.commit({"usage/00.json": "{}" + " " * 70_000}, who=DORA),
     "has 70,002 bytes"),
]  # fmt: skip


@pytest.mark.campaign
def test_refs_of_machines_are_checked_as_all_others_are(world: World) -> None:
    world.admit("dora", GrantKind.PERSON, {GrantScope.WRITE: ["payments"]}, emails=[DORA[1]])
    ref = "refs/vaultmem/machines/d0d0d0d0d0d0d0d0.1"
    for what, make, says in MACHINES:
        made = make(world.clone, world.tip())
        assert says in refuse(world, "dora", f"{made}:{ref}"), what
    used = world.clone.commit({"usage/00.json": "{}"}, who=DORA)
    world.take("dora", f"{used}:{ref}")
    more = world.clone.commit({"usage/00.json": "{}", "machine.json": "{}"}, [used], who=DORA)
    world.take("dora", f"{more}:{ref}")


def test_whoever_writes_only_a_folder_says_nothing_of_the_vaults_use(world: World) -> None:
    used = world.clone.commit({"usage/00.json": "{}"}, who=BOB)
    found = refuse(world, "bob", f"{used}:refs/vaultmem/machines/b0b0b0b0b0b0b0b0.1")
    assert "you may write only to folders of it" in found


@pytest.mark.campaign
def test_nobody_comes_in_without_a_grant_that_counts(world: World) -> None:
    spec = f"{of({'notes/refunds/n.md': 'x'})(world.clone, world.tip())}:refs/heads/main"
    assert "you may not write here" in refuse(world, "rita", spec)
    before, entries = world.see(), len(list(read_audit(world.hub)))
    code, told = world.push("nobody", spec)
    assert code
    assert "push to the hub's address" in told
    assert (world.see(), len(list(read_audit(world.hub)))) == (before, entries)
    world.admit("gone", GrantKind.PERSON, {GrantScope.OWN: ["*"]}, emails=[BOB[1]])
    revoke(world.hub, "gone", NOW)
    assert "the token: does not count" in refuse(world, "gone", spec)


def test_a_token_that_ends_during_a_check_counts_no_more(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.admit("brief", GrantKind.PERSON, {GrantScope.OWN: ["*"]}, emails=[BOB[1]])

    def check(visit: ReceivedPush, _: object) -> list[Refusal]:
        revoke(world.hub, "brief", NOW)
        return []

    monkeypatch.setattr(receiving, "check_push", check)
    given = build_pusher_environment(world.hub, world.grants["brief"])
    line = f"{'0' * 40} {world.tip()} refs/heads/brief\n".encode()
    (told,) = receiving.receive(world.repository, {**os.environ, **given}, line, NOW).lines
    assert told.startswith("the token: does not count")
    assert world.last().outcome == "refused"


@pytest.mark.campaign
def test_a_push_has_bounds(world: World) -> None:
    clone, tip = world.clone, world.tip()
    many = of({f"notes/refunds/{n}.md": f"{n}\n" for n in range(901)})(clone, tip)
    long = tip
    for n in range(61):
        long = clone.commit({}, [long], message=f"step {n}")
    wordy = of({}, message="word " * 80_000)(clone, tip)
    for commit, says in (
        (many, "changes more than 900 files"),
        (long, "brings more than 60 commits"),
        (wordy, "a message, or a path, of more than"),
    ):
        found = refuse(world, "bob", f"{commit}:refs/vaultmem/rescue/quay/many")
        assert says in found
        assert "push less at once" in found
    refs = [f"{tip}:refs/vaultmem/rescue/quay/ref{n}" for n in range(51)]
    assert "more than 50 refs" in refuse(world, "bob", *refs)


def test_what_is_sent_small_may_not_be_large_on_the_disk(world: World) -> None:
    clone, tip = world.clone, world.tip()
    data = clone.git("cat-file", "commit", of({})(clone, tip)).encode()
    padded = clone.write("commit", data.replace(b"\n\n", b"\nx-pad " + b"a" * 70_000 + b"\n\n", 1))
    found = refuse(world, "bob", f"{padded}:refs/vaultmem/rescue/quay/pad")
    assert "a commit may have 65,536 here" in found
    large = of({f"notes/refunds/{n}.bin": os.urandom(90_000) for n in "ab"})(clone, tip)
    settings = world.hub.folder / CONFIG_NAME
    kept = settings.read_text()
    settings.write_text(f"{kept}total_bytes: 100K\n")
    found = refuse(world, "bob", f"{large}:refs/vaultmem/rescue/quay/z")
    settings.write_text(kept)
    assert "its files hold more than 102,400 bytes together" in found


def send(world: World, who: str, objects: list[str], commit: str, ref: str) -> str:
    """Push a pack of these objects, by hand, and return what the hub said."""
    pack = ["git", "-C", str(world.clone.root), "pack-objects", "-q", "--stdout", "--thin"]
    names = "\n".join(objects).encode()
    sent = subprocess.run(pack, input=names, capture_output=True, check=True).stdout
    line = f"{'0' * 40} {commit} {ref}\0report-status"
    done = subprocess.run(
        ["git", "receive-pack", "--stateless-rpc", world.repository],
        input=f"{len(line) + 4:04x}{line}0000".encode() + sent,
        env={**os.environ, **build_pusher_environment(world.hub, world.grants[who])},
        capture_output=True,
    )
    return (done.stdout + done.stderr).decode("utf-8", "replace")


@pytest.mark.parametrize("count", [1, 150])
def test_objects_that_no_ref_reaches_are_rejected(world: World, count: int) -> None:
    clone, tip = world.clone, world.tip()
    more = {f"notes/refunds/many-{n}.md": f"{n}\n" for n in range(count)}
    made = of(more)(clone, tip)
    whole = clone.git("rev-list", "--objects", "--no-object-names", made, f"^{tip}").split()
    stray = clone.write("blob", f"id {TOKEN} {count}\n".encode())
    ref = f"refs/vaultmem/rescue/quay/stray-{count}"
    told = send(world, "bob", [*whole, stray], made, ref)
    assert f"ng {ref}" in told
    assert f"has 1 object that no ref reaches ({stray[:9]})" in told
    there = subprocess.run(["git", "-C", world.repository, "cat-file", "-e", stray])
    assert there.returncode
    # What the hub has already may come again.
    again = clone.git("rev-list", "--objects", "--no-object-names", tip).split()
    told = send(world, "bob", [*whole, *again], made, ref)
    assert f"ok {ref}" in told, told


@pytest.mark.long
def test_a_few_trees_of_a_billion_files_take_little_memory_and_time(world: World) -> None:
    commit = bomb(world.clone, world.tip())
    began = time.monotonic()
    found = refuse(world, "bob", f"{commit}:refs/vaultmem/rescue/quay/bomb")
    assert "push less at once" in found
    assert time.monotonic() - began < 60


def test_git_itself_refuses_what_is_no_object_or_too_much(world: World) -> None:
    """Its words stand for ours: the hook is not even asked, so the record does not tell of it."""
    clone, tip = world.clone, world.tip()
    blob = clone.write("blob", b"x")
    row = b"100644 a.md\0" + bytes.fromhex(blob)
    doubled = clone.commit(clone.write("tree", row + row), [tip])
    unsorted = clone.commit(clone.write("tree", b"100644 b\0" + row[-20:] + row), [tip])
    unsigned = clone.write("commit", f"tree {clone.tree({})}\n\nnobody\n".encode())
    who = "B <b@c> 1 +0000"
    lines = [f"tree {clone.tree({})}", f"parent {'2' * 40}", f"author {who}", f"committer {who}"]
    orphan = clone.write("commit", ("\n".join(lines) + "\n\nx\n").encode())
    config = world.repository / "config"
    kept = config.read_text()
    before = world.see()
    hiding = clone.commit({}, [tip], who=ADA, message="seen\0unseen")
    for commit in (doubled, unsorted, unsigned, orphan, hiding):
        code, told = world.push("ada", f"{commit}:refs/heads/odd")
        assert code, told
    subprocess.run(["git", "config", "--file", config, "receive.maxInputSize", "9000"], check=True)
    large = of({"notes/refunds/l.bin": os.urandom(60_000)})(clone, tip)
    code, told = world.push("bob", f"{large}:refs/heads/main")
    config.write_text(kept)
    assert "exceeds maximum allowed size" in told
    assert world.see() == before


#: What is let in, by whom: steps of the vault's branch, and what goes elsewhere beside it.
ALLOWED: dict[str, tuple[list[Make], str, Make | None]] = {
    "bob": ([
        of({"notes/refunds/a.md": "# A\n"}),
        of({"notes/refunds/a.md": None, "notes/refunds/b.md": "# A\n"}),
        of({"notes/refunds/c.md": "x"}, message="x\n\nAgent-Id: claude-code",
           who=("claude-code", "claude-code@agents.localhost")),
        of({"notes/refunds/k.md": f"{KEY} gitleaks:allow\n"}),
        of({"notes/refunds/odd.md": b"---\nstate: [\n---\n\xff\0"}),
    ], "heads/proposals/bob/topic", of({"notes/ledger/t.md": "# T\n"})),
    "scout": ([
        of({"notes/ledger/s.md": "# S\n"}, who=SCOUT, message=BY),
        of({"notes/refunds/k.md": f"{KEY} gitleaks:allow\nMore.\n"}, who=SCOUT, message=BY),
    ],
        "vaultmem/machines/5c00000000000000.1",
        lambda clone, _: clone.commit({"usage/00.json": "{}"}, who=SCOUT, message=BY)),
    "cleo": ([], "heads/proposals/cleo/topic",
        of({"notes/ledger/t.md": "# T\n"}, message="t\n\nAgent-Id: tide-bot", who=CLEO)),
    "ada": ([
        of({"notes/…and then.md": "# And\n", "pic.png": b"\x89PNG\0"}, who=ADA),
        of({".gitleaksignore": "notes/l.md:aws-access-token:1\n", "notes/l.md": KEY}, who=ADA),
        of({"vaultmem.yaml": "agent: \nallow_secrets: notes/m.md\n", "notes/m.md": KEY}, who=ADA),
    ], "heads/winter2", of({"vaultmem.yaml": "agent: \nbudget: 900\n"}, who=ADA)),
}  # fmt: skip


@pytest.mark.campaign
def test_a_person_brings_no_agent_that_has_a_token_of_its_own(world: World) -> None:
    for name in ("scout", "Sc\u200dout", "\uff53cout"):
        by = BY.replace("scout", name)
        forged = of({"notes/l.md": "x"}, message=by, who=CLEO)(world.clone, world.tip())
        found = refuse(world, "cleo", f"{forged}:refs/heads/proposals/cleo/forged")
        assert 'names the agent "' in found
        assert '", which has a token of its own' in found


@pytest.mark.campaign
def test_whoever_may_is_let_in(world: World) -> None:
    for who, (steps, ref, beside) in ALLOWED.items():
        tip = start = world.tip()
        for step in steps:
            tip = step(world.clone, tip)
        made = {"refs/heads/main": tip} if tip != start else {}
        made |= {f"refs/{ref}": beside(world.clone, start)} if beside else {}
        world.take(who, *(f"{commit}:{name}" for name, commit in made.items()))
        assert {name: world.tip(name) for name in made} == made
        entry = world.last()
        assert (entry.who, entry.outcome, entry.details["refused"]) == (who, "done", [])
