"""A repository that wants to run its own programs: no command of vaultmem runs any of them.

Each trap of the repository leaves a mark of its own where it is sprung. A first test springs them
with plain git and plain Python, so that a trap that could never be sprung is noticed.
"""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from branching import NOTE, change, commit_on, list_refs
from conftest import Result
from in_process import run_here
from support import git, wait_until, write_notes

from vaultmem.cli.app import build_commands
from vaultmem.services.changes.commit import save_checkpoint
from vaultmem.services.memory.create_vault import create_vault
from vaultmem.services.memory.remember import Memory, remember
from vaultmem.vault import open_vault

HOOKS = (
    *("applypatch-msg", "commit-msg", "fsmonitor-watchman", "post-applypatch", "post-checkout"),
    *("post-commit", "post-index-change", "post-merge", "post-rewrite", "pre-applypatch"),
    *("pre-auto-gc", "pre-commit", "pre-merge-commit", "pre-push", "pre-rebase"),
    *("prepare-commit-msg", "push-to-checkout", "reference-transaction", "sendemail-validate"),
)

#: Modules that Python would find in the current folder before its own or ours.
MODULES = ("git", "json", "numpy", "sitecustomize", "typer", "usercustomize", "vaultmem", "yaml")

#: What is in the repository's settings, by way of an included file; `{}` is the trap's name.
SETTINGS = """\
[core]
\tfsmonitor = {fsmonitor}
\tpager = {pager}
\teditor = {editor}
\tsshCommand = {sshCommand}
\taskPass = {askPass}
\tgitProxy = {gitProxy}
\talternateRefsCommand = {alternateRefsCommand}
[pager]
\tlog = {pager}
\tshow = {pager}
\tdiff = {pager}
\tblame = {pager}
[sequence]
\teditor = {editor}
[credential]
\thelper = {credential}
[commit]
\tgpgSign = true
[tag]
\tgpgSign = true
[log]
\tshowSignature = true
[gpg]
\tprogram = {gpg}
[gpg "ssh"]
\tprogram = {gpg}
\tdefaultKeyCommand = {gpg}
[diff]
\texternal = {externalDiff}
[diff "evil"]
\ttextconv = {textconv}
\tcommand = {diffCommand}
\tcachetextconv = true
[merge]
\tdefault = evil
[merge "evil"]
\tname = evil
\tdriver = {mergeDriver}
\trecursive = evil
[merge "vaultmem"]
\tdriver = {mergeDriver}
[filter "evil"]
\tclean = {clean}
\tsmudge = {smudge}
\trequired = true
[filter "evil-process"]
\tprocess = {process}
[trailer "agent"]
\tkey = Agent-Id
\tcommand = {trailer}
[alias]
\tco = !{alias}
\tlog = !{alias}
\tx = !{alias}
[interactive]
\tdiffFilter = {diffFilter}
[remote "origin"]
\turl = ext::{transport}
\tpromisor = true
\tpartialCloneFilter = blob:none
[extensions]
\tpartialClone = origin
[uploadpack]
\tpackObjectsHook = {packObjects}
[submodule "sub"]
\tupdate = !{submodule}
\turl = ext::{transport}
[protocol]
\tallow = always
[maintenance]
\tauto = true
[gc]
\tauto = 1
"""

TRAPS = (
    *("alias", "alternateRefsCommand", "askPass", "clean", "credential", "diffCommand"),
    *("diffFilter", "editor", "externalDiff", "fsmonitor", "gitProxy", "gpg", "mergeDriver"),
    *("packObjects", "pager", "process", "smudge", "sshCommand", "submodule", "textconv"),
    *("trailer", "transport"),
)

ATTRIBUTES = "*.md filter=evil diff=evil merge=evil\n*.txt filter=evil-process diff=evil\n"

_HUB, _IN = ["hub", "init", "../hub"], ["--hub", "../hub"]

#: Each command of `vaultmem --help`, and how it is run; `{marks}` is a folder outside the vault.
COMMANDS: dict[str, list[list[str]]] = {
    "init": [["init"]],
    "index": [["index"]],
    "trust": [["trust"]],
    "vault list": [["vault", "add", "."], ["vault", "list"]],
    "vault add": [["vault", "add", "."], ["vault"]],
    "vault remove": [["vault", "add", "."], ["vault", "remove", "vault"]],
    "remember": [
        ["remember", "Gangways are steep."],
        ["remember", "Gangways are wet.", "--branch", "side"],
    ],
    "list": [["list"], ["list", "--at", "side"]],
    "edit": [["edit", "a"]],
    "fleet serve": [["fleet", "serve", ".", "--hub", "."]],
    "fleet start": [["fleet", "start", ".", "--address", "127.0.0.1:1"]],
    "fleet status": [["fleet", "status", "."]],
    "fleet bisect": [["fleet", "bisect", ".", "tokens", "--contains", "x"]],
    "fleet duplicates": [["fleet", "duplicates", "."]],
    "fleet contradictions": [["fleet", "contradictions", "."]],
    "fleet stop": [["fleet", "stop", "--address", "127.0.0.1:1"]],
    "hub init": [_HUB],
    "hub serve": [["hub", "serve", "."]],
    "hub add": [_HUB, ["hub", "add", "x", "--from", ".", *_IN]],
    "hub remove": [_HUB, ["hub", "add", "x", *_IN], ["hub", "remove", "x", *_IN]],
    "hub grant": [_HUB, ["hub", "grant", "ada", "--person", "--read", "*", *_IN]],
    "hub grants": [_HUB, ["hub", "grants", *_IN]],
    "hub revoke": [_HUB, ["hub", "revoke", "ada", *_IN]],
    "push-check": [["push-check", "--access", "."]],
    "projects move": [["projects", "move", "a", "--to", "global"]],
    "projects rename": [
        ["remember", "Moor at the pier.", "--project", "quay"],
        ["projects", "rename", "quay", "pier"],
    ],
    "hub log": [_HUB, ["hub", "log", *_IN]],
    "hub check": [_HUB, ["hub", "add", "x", "--from", ".", *_IN], ["hub", "check", *_IN]],
    "forget": [["forget", "b", "--yes"], ["--ref", "side", "forget", "b", "--yes"]],
    "pin": [["pin", "a"], ["--ref", "side", "pin", "a"], ["pin"], ["pin", "--at", "HEAD"]],
    "tag": [["tag", "a", "new", "--agent", "bot"]],
    "recall": [
        ["recall", "tokens"],
        ["recall", "tokens", "--include-refs", "side,torn"],
        ["recall", "tokens", "--vault", ".", "--vault", ".."],
    ],
    "pack": [["pack", "tokens", "--receipt"], ["pack", "tokens", "--at", "HEAD~2"]],
    "eval": [["eval", "questions"], ["eval", "questions", "--against", "HEAD~2"]],
    "queries": [["queries"]],
    "review": [["review", "--json"]],
    "receipt": [["receipt"], ["receipt", "last"]],
    "context": [["context"]],
    "status": [["status"]],
    "doctor": [["doctor"]],
    "checkpoint": [["checkpoint", "all"]],
    "promote": [["promote", "c"], ["promote", "--from", "side", "d", "a"]],
    "log": [["log", "--all"], ["log", "--path", "notes"]],
    "show": [
        ["show", "a"],
        ["show", "a", "--at", "HEAD~1"],
        ["show"],
        ["show", "signed"],
        ["show", "side~1"],
    ],
    "diff": [["diff"], ["diff", "main", "side"]],
    "history": [["history", "a"]],
    "blame": [["blame", "a"], ["blame", "a", "--at", "HEAD"]],
    "trace": [
        ["trace", "data.txt"],
        ["trace", "data.txt:1"],
        ["trace", "tokens"],
        ["trace", "--spread", "a"],
        ["remember", "The data are one.", "--cite", "data.txt#L1"],
        ["recall", "data are one"],
    ],
    "restore": [["restore", "a", "--at", "HEAD~2"]],
    "undo": [["undo", "HEAD"], ["undo", "--session", "s-1", "--spread", "--apply"]],
    "branch": [
        ["branch"],
        ["branch", "new"],
        ["branch", "side", "--delete", "--force"],
        ["branch", "--reset", "torn", "main"],
    ],
    "switch": [["switch", "side"], ["switch", "--create", "topic"]],
    "sync": [["sync"], ["sync", "ext::true"]],
    "merge": [["merge", "side"], ["merge", "torn"], ["merge", "side", "--ref", "torn"]],
    "resolve": [
        ["resolve"],
        ["resolve", "--ref", "torn"],
        ["resolve", "--all"],
        ["resolve", "b", "--theirs"],
    ],
    "check": [["check", "--since", "HEAD~2"], ["check", "--since", "side", "--github"]],
    "assert": [["assert", "tokens", "--contains", "opaque"]],
    "bisect": [["bisect", "--good", "HEAD~3", "--", "tokens", "--contains", "an week", "--absent"]],
    "merge-driver": [["merge-driver", "base", "ours", "theirs", "a.md"]],
    "mcp": [["mcp"]],
    "watch": [["watch", "--status"], ["watch", "--print-service"], ["watch", "--stop"]],
    "serve": [["serve", "--status"], ["serve", "--stop"]],
    "export": [
        ["export", "--html", "../exported"],
        ["export", "--archive", "../exported.tar.gz"],
        ["export", "--jsonl", "-"],
    ],
}

_START = ["session", "start", "--id", "s-9", "--goal", "gangways"]

COMMANDS |= {
    "compact": [["compact"], ["compact", "--apply", "--yes"]],
    "demo": [["demo", "--keep", "."]],
    "connect": [["connect", "--status"], ["connect", "claude-code", "--project"]],
    "curate": [["curate"], ["curate", "--apply", "--yes"]],
    "dedup": [["dedup"], ["dedup", "--apply", "--yes"]],
    "dream": [["dream", "--dry-run"], ["dream"]],
    "embed": [["embed"]],
    "hook": [["hook", "SessionStart"]],
    "import": [["import", "mem0", "mem0.json"], ["import", "transcripts", "data.txt"]],
    "links": [["links", "a"], ["links", "--to", "a"], ["links", "--orphans"]],
    "mv": [["mv", "a", "notes/moved.md"]],
    "reference": [
        ["reference", "data.txt", "--source", "data"],
        ["reference"],
        ["reference", "--remove", "data"],
    ],
    "session links": [_START, ["session", "links", "s-9"]],
    "session close": [_START, ["session", "close", "s-9", "--summary", "done"]],
    "session add decision": [
        _START,
        ["--session", "s-9", "session", "add", "decision", "Gangways are steel."],
    ],
    "session report": [_START, ["session", "report", "s-9"]],
    "session fork": [_START, ["session", "fork", "s-9", "--id", "s-10"]],
    "session list": [_START, ["session", "list"]],
    "session mark-restore": [_START, ["session", "mark-restore", "s-9"]],
    "session add note": [
        _START,
        ["--session", "s-9", "session", "add", "note", "Gangways are steep."],
    ],
    "session restore": [_START, ["session", "restore", "s-9"]],
    "session resume": [_START, ["session", "resume", "s-9"]],
    "session turns": [_START, ["session", "turns", "s-9"]],
    "session search": [_START, ["session", "search", "gangways"]],
    "session show": [_START, ["session", "show", "s-9"]],
    "session start": [_START],
    "session stats": [_START, ["session", "stats"]],
    "session add summary": [
        _START,
        ["--session", "s-9", "session", "add", "summary", "All is well."],
    ],
    "session add file": [_START, ["--session", "s-9", "session", "add", "file", "data.txt"]],
    "session add turn": [_START, ["--session", "s-9", "session", "add", "turn", "user", "Hello."]],
    "session current": [_START, ["session", "current"]],
    "similar": [["similar", "Tokens are opaque."]],
    "skill": [["skill", "install", "--project"]],
    "state": [
        ["state", "a", "stale", "--reason", "old"],
        ["state", "a", "quarantined", "--reason", "doubtful"],
    ],
    "stats": [["stats"]],
    "supersede": [["supersede", "b", "a", "--reason", "newer"]],
    "task add": [["task", "add", "Paint the gangway"]],
    "task expand": [["task", "expand", "0" * 12]],
    "task handoff": [["task", "add", "Paint it"], ["task", "handoff", "paint-it"]],
    "task history": [["task", "add", "Paint it"], ["task", "history", "paint-it"]],
    "task list": [["task", "list"]],
    "task update": [
        ["task", "add", "Paint it"],
        ["task", "update", "paint-it", "--next", "buy paint"],
    ],
    "task show": [["task", "add", "Paint it"], ["task", "show", "paint-it"]],
}

#: Commands that need a work tree in which all is committed, or they would stop before git works.
CLEAN_TREE = {"switch", "merge"}

#: How they may end, where it is not 0: a merge conflict, or an answer that is no or not there.
FINE = {"merge": {0, 8}, "doctor": {0, 1}, "watch": {0, 1}, "mcp": {0, 1}}
FINE |= {
    "serve": {0, 1},
    "sync": {1, 4},
    "demo": {5},
}
FINE |= {name: {5} for name in COMMANDS if name.startswith("fleet ")} | {"fleet serve": {1, 3, 5}}
FINE |= {"fleet stop": {1}, "fleet start": {1, 5}, "hub revoke": {0, 4}, "hub serve": {5}}
FINE |= {
    "check": {0, 1},
    "push-check": {0, 1},
    "embed": {0, 1},
    "task expand": {4},
    "import": {0, 1, 5},
}

#: What a person alone may say, in the terminal that tests have.
PERSONS = {"trust"}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a vault with branches, a receipt's worth of notes, a link and a submodule; no traps."""
    root = tmp_path_factory.mktemp("template") / "vault"
    create_vault(root).vault.close()
    candidate = change(NOTE, "state: active", "state: candidate")
    files = {"notes/a.md": NOTE, "notes/b.md": "b\n", "notes/c.md": candidate, "data.txt": "1\n"}
    files["mem0.json"] = '[{"id": "1", "memory": "Gangways are made of steel."}]'
    commit_on(root, "main", {**files, ".gitattributes": ATTRIBUTES})
    git(root, "branch", "side", "main")
    git(root, "branch", "torn", "main")
    theirs = {"notes/a.md": change(NOTE, "weekly", "daily"), "notes/d.md": candidate}
    commit_on(root, "side", {**theirs, "data.txt": "2\n"})
    commit_on(root, "torn", {"notes/a.md": change(NOTE, "Tokens are", "T is"), "data.txt": "3\n"})
    ours = change(NOTE, "  - auth\n", "  - auth\n  - ours\n")
    commit_on(root, "main", {"notes/a.md": ours})
    commit_on(root, "main", {"notes/a.md": change(ours, "hour", "day"), "notes/b.md": None})
    commit_on(root, "main", {"notes/a.md": change(ours, "hour", "week"), "notes/b.md": "b\n"})
    git(root, "reset", "-q", "--hard")
    vault = open_vault(root, agent="bot", session="s-1")
    remember(vault, Memory("Holmpay answers 429.", title="Holmpay"))
    save_checkpoint(vault, "learned")
    vault.close()
    signature = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n iQ==\n -----END PGP SIGNATURE-----\n"
    plain = git(root, "cat-file", "commit", "HEAD")
    head, _, message = plain.partition("\n\n")
    text = f"{head}\n{signature}\n{message}\n"
    signed = git(root, "hash-object", "-t", "commit", "-w", "--stdin", stdin=text)
    git(root, "update-ref", "refs/heads/main", signed)
    git(root, "tag", "signed")
    return root


def set_traps(root: Path, marks: Path) -> None:
    """Give the repository hooks, settings and modules that leave a mark when they are run."""
    marks.mkdir()
    programs = {}
    for name in TRAPS:
        file = marks.parent / f"trap-{name}"
        passes = "cat" if name in {"clean", "smudge", "textconv"} else "exit 1"
        file.write_text(f'#!/bin/sh\n: > "{marks}/{name}"\n{passes}\n')
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
        programs[name] = str(file)
    hooks = root / ".git/hooks"
    hooks.mkdir(exist_ok=True)
    for name in HOOKS:
        (hooks / name).write_text(f'#!/bin/sh\n: > "{marks}/hook-{name}"\n')
        (hooks / name).chmod(0o755)
    (root / ".git/evil.config").write_text(SETTINGS.format(**programs))
    with open(root / ".git/config", "a") as config:
        config.write("[include]\n\tpath = evil.config\n")
        config.write('[includeIf "gitdir:/"]\n\tpath = evil.config\n')
    (root / ".git/info/attributes").write_text(ATTRIBUTES)
    for name in MODULES:
        code = f"open({str(marks / f'module-{name}')!r}, 'w').close()\n"
        where = f"{name}/__init__.py" if name in {"numpy", "vaultmem"} else f"{name}.py"
        write_notes(root, {where: code})
        with open(root / ".git/info/exclude", "a") as exclude:
            exclude.write(f"/{where.partition('/')[0]}\n")


@pytest.fixture
def marks(tmp_path: Path) -> Path:
    return tmp_path / "marks"


@pytest.fixture
def root(home: Path, template: Path, tmp_path: Path, marks: Path) -> Path:
    """Return a copy of the vault, with traps."""
    root = tmp_path / "vault"
    shutil.copytree(template, root, symlinks=True)
    set_traps(root, marks)
    return root


def sprung(marks: Path) -> set[str]:
    return {mark.name for mark in marks.iterdir()}


def run_plain(root: Path, *command: str, stdin: bytes = b"") -> None:
    """Run a program in the repository as an unsuspecting person would; it may well fail."""
    env = {**os.environ, "GIT_ALLOW_PROTOCOL": "ext:ssh", "GIT_TERMINAL_PROMPT": "0"}
    subprocess.run(
        command,
        cwd=root,
        env={**env, "TERM": "xterm"},
        input=stdin,
        capture_output=True,
        check=False,
        timeout=20,
    )


@pytest.mark.campaign
def test_the_traps_are_sprung_by_plain_git_and_plain_python(root: Path, marks: Path) -> None:
    write_notes(root, {"notes/a.md": "changed\n", "vaultmem.yaml": "# changed\n"})
    # A filter that dies ends git; what else would run is seen without it.
    no_filter = ("-c", "filter.evil-process.process=")
    no_external = ("-c", "diff.external=", "-c", "diff.evil.command=")
    no_signature = ("-c", "commit.gpgSign=false")
    commands: list[tuple[str, ...]] = [
        ("status",),
        ("diff",),
        (*no_filter, "diff"),
        ("diff", "--", "vaultmem.yaml"),
        ("-p", "log", "-1"),
        (*no_external, "show", "signed"),
        ("add", "-A"),
        (*no_filter, "add", "-A"),
        (*no_filter, "commit"),
        (*no_filter, "commit", "-m", "x"),
        (*no_filter, *no_signature, "commit", "-m", "x"),
        (*no_filter, *no_signature, "merge", "side"),
        (*no_filter, "reset", "--hard"),
        (*no_filter, "checkout", "torn"),
        ("x",),
        ("fetch", "origin"),
        ("fetch", "ssh://localhost/x"),
    ]
    write_notes(root, {"data.txt": "changed\n"})
    for command in commands:
        run_plain(root, "git", *command)
    run_plain(root, "git", "credential", "fill", stdin=b"protocol=https\nhost=localhost\n\n")
    run_plain(root, sys.executable, "-m", "vaultmem")
    for name in MODULES:
        run_plain(root, sys.executable, "-c", f"import {name}")

    found = sprung(marks)
    wanted = {
        *("alias", "clean", "credential", "diffCommand", "editor", "externalDiff", "fsmonitor"),
        *("gpg", "mergeDriver", "process", "smudge", "sshCommand", "textconv"),
        *("transport", "module-vaultmem", "module-git", "module-numpy", "hook-commit-msg"),
        *("hook-pre-commit", "hook-post-checkout", "hook-reference-transaction"),
        *("hook-post-index-change", "hook-prepare-commit-msg", "hook-post-commit"),
    }
    assert wanted <= found


def prepare(root: Path, name: str) -> None:
    """Give a command something to do."""
    write_notes(root.parent, {"side/base": "a\n", "side/ours": "a\nb\n", "side/theirs": "c\na\n"})
    for file in ("base", "ours", "theirs"):
        shutil.copy(root.parent / "side" / file, root / file)
        with open(root / ".git/info/exclude", "a") as exclude:
            exclude.write(f"/{file}\n")
    if name == "resolve":
        shutil.copy(root / ".git/refs/heads/side", root / ".git/MERGE_HEAD")
        write_notes(root, {"notes/b.md": "b\n\n> [!conflict] Also said by x\n> c\n"})
    if name == "eval":
        write_notes(root, {"questions": '{"question": "tokens", "notes": ["notes/a.md"]}\n'})
    if name not in CLEAN_TREE:
        write_notes(root, {"notes/hand.md": "by hand\n", "data.txt": "by hand\n"})
        if name != "promote":
            text = (root / "notes/a.md").read_text()
            write_notes(root, {"notes/a.md": text + "\nBy hand.\n"})
    # Files that changed in the very tick of the index are those that git compares by filters.
    os.utime(root / ".git/index")


def check_result(name: str, done: Result) -> None:
    assert done.code in FINE.get(name, {0}), (name, done)
    assert "Traceback" not in done.err


def run_script(*words: str, cwd: Path, env: dict[str, str]) -> Result:
    """Run the installed command as a process of its own, as a person does."""
    script = Path(sys.executable).with_name("vaultmem")
    done = subprocess.run(
        [script, *words],
        cwd=cwd,
        env={**os.environ, **env},
        input=None if words[0] in PERSONS else b"",
        capture_output=True,
        check=False,
        timeout=60,
    )
    return Result(done.returncode, done.stdout.decode(), done.stderr.decode())


def run_all(root: Path, name: str, run: Callable[..., Result]) -> None:
    if name == "receipt":
        shown = run("pack", "tokens", "--receipt", "--json", cwd=root, env={})
        arguments = [["receipt"], ["receipt", shown.json["receipt"]]]
    else:
        arguments = COMMANDS[name]
    for words in arguments:
        check_result(name, run(*words, cwd=root, env={"EDITOR": "true"}))
        assert (root / ".git/HEAD").is_file()


def list_commands(group: Any, before: str = "") -> Iterator[str]:
    """Yield the names of all commands, those of groups as `group name`."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from list_commands(command, f"{before}{name} ")
        else:
            yield before + name


def test_the_table_has_every_command() -> None:
    assert set(COMMANDS) == set(list_commands(build_commands()))


@pytest.mark.guarantee
@pytest.mark.campaign
@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_runs_anything_of_a_hostile_repository(
    root: Path, marks: Path, name: str
) -> None:
    prepare(root, name)

    # `mcp` serves until its input ends; `push-check` limits the memory of its process.
    run_all(root, name, run_script if name in {"mcp", "push-check"} else run_here)

    assert sprung(marks) == set()


@pytest.mark.parametrize("address", ["{}", "ssh://localhost/x.git", "http://127.0.0.1:1/x.git"])
def test_a_sync_goes_by_no_setting_of_a_hostile_repository(
    root: Path, marks: Path, address: str
) -> None:
    remote = root.parent / "remote.git"
    git(root.parent, "init", "-q", "--bare", str(remote))
    write_notes(root, {"notes/hand.md": "by hand\n"})
    trap = f"touch {marks}/pack; git"
    with open(root / ".git/config", "a") as config:
        config.write(f'[remote "origin"]\n\turl = {address.format(remote)}\n')
        config.write(
            f'\tuploadpack = "{trap} upload-pack"\n\treceivepack = "{trap} receive-pack"\n'
        )
        config.write("\tpromisor = true\n\tproxy = ext::true\n\tvcs = evil\n")

    done = run_here("sync", cwd=root)

    assert sprung(marks) == set()
    if address == "{}":
        assert done.code == 0, done
        assert git(remote, "rev-parse", "main") == git(root, "rev-parse", "main")
    else:
        assert done.code in {0, 1}


_SOME = ("index", "checkpoint", "merge", "edit")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.campaign if name in _SOME else pytest.mark.long)
        for name in COMMANDS
    ],
)
def test_no_process_imports_or_runs_anything_of_the_folder_it_is_started_in(
    root: Path, marks: Path, name: str
) -> None:
    prepare(root, name)
    if name == "index":  # So many that helper processes read them.
        write_notes(root, {f"notes/many/{n}.md": f"{n}\n" for n in range(3000)})

    run_all(root, name, run_script)

    assert sprung(marks) == set()


@pytest.mark.campaign
def test_the_watcher_and_what_it_answers_run_nothing_either(root: Path, marks: Path) -> None:
    script = Path(sys.executable).with_name("vaultmem")
    with subprocess.Popen(
        [script, "watch", "--json"], cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout is not None
            wait_until(lambda: run_here("watch", "--status", cwd=root).code == 0 or process.poll())
            before = list_refs(root)
            candidate = (root / "notes/c.md").read_text()
            write_notes(root, {"notes/c.md": candidate.replace("candidate", "active")})
            wait_until(lambda: list_refs(root) != before)
            check_result("recall", run_script("recall", "tokens", cwd=root, env={}))
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=20)

    assert sprung(marks) == set()
