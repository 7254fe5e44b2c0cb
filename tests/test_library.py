"""vaultmem as other programs use it: its names and types, what it reads, whose clock it goes by."""

from __future__ import annotations

import ast
import doctest
import inspect
import re
import subprocess
import sys
import typing
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from support import git

import vaultmem
import vaultmem.errors
from vaultmem.core.new_memory import Memory
from vaultmem.environment import read_settings
from vaultmem.services.changes.commit import save_checkpoint
from vaultmem.services.changes.edit_notes import set_note_property
from vaultmem.services.curation.compact import compact
from vaultmem.services.curation.dream import dream
from vaultmem.services.history.restore_note import restore_note
from vaultmem.services.memory.create_vault import create_vault
from vaultmem.services.memory.forget import forget_notes
from vaultmem.services.memory.remember import remember
from vaultmem.services.memory.rename import rename_note
from vaultmem.services.merging.branches import make_branch
from vaultmem.services.merging.merge import merge_branch
from vaultmem.services.packs.build import AskPack, ask_pack
from vaultmem.services.sessions.begin import NewSession, start_session
from vaultmem.services.sessions.close import close_session
from vaultmem.services.sessions.edit_session import add_detail
from vaultmem.services.sessions.edit_tasks import add_task, change_task, hand_over
from vaultmem.services.views.update_index import sync_vault
from vaultmem.vault import Vault, open_vault

PACKAGE = Path(vaultmem.__file__).parent
PAGE = PACKAGE.parent / "docs/reference/api.md"

#: What a vault stores with, for the services; no promise to anybody else.
STORAGE = {"store", "state", "manifest", "view", "journal", "operations"}
STORAGE |= {"trust", "obsidian"}

#: `open_vault` makes these two; what they are made of is not promised.
STORAGE |= {"Vault", "Store"}

#: What a set of vaults is searched by.
STORAGE |= {"count", "score_words", "search", "open_models"}

#: What the library is made of; the front ends are beside it.
LIBRARY = ("core", "storage", "services", "config.py", "errors.py", "vault.py")

#: It hides $GIT_* from git, whoever set them; that is no setting of ours.
#: They hand it to their children.
READS_ENVIRONMENT = {"storage/git/runner.py", "storage/lock.py"}

ENVIRONMENT = {
    "VAULTMEM_VAULT": "/nowhere",
    "VAULTMEM_AGENT": "mallory",
    "VAULTMEM_SESSION_ID": "../x",
    "VAULTMEM_REF": "no-such-branch",
    "VAULTMEM_TOKENIZER": "no-such-encoding",
    "VAULTMEM_RECEIPTS": "1",
    "CLAUDE_CODE_SESSION_ID": "s-mallory",
    "TERM_SESSION_ID": "s-mallory",
    "XDG_STATE_HOME": "/nowhere",
    "XDG_CONFIG_HOME": "/nowhere",
    "XDG_DATA_HOME": "/nowhere",
}

WORK = """
import os, pathlib, sys

class Refusing(dict):
    def _check(self, name):
        if name.startswith(("VAULTMEM_", "XDG_")) or name.endswith("_SESSION_ID"):
            raise AssertionError(f"${name} was read")
    def __getitem__(self, name):
        self._check(name)
        return super().__getitem__(name)
    def __contains__(self, name):
        self._check(name)
        return super().__contains__(name)
    def get(self, name, default=None):
        self._check(name)
        return super().get(name, default)

os.environ = Refusing(os.environ)
import vaultmem
from vaultmem.services.sessions.begin import start_session
from vaultmem.services.sessions.close import close_session
from vaultmem.services.sessions.identify import identify_session
from vaultmem.services.sessions.edit_session import add_detail
from vaultmem.vault import UserFolders

root, own = pathlib.Path(sys.argv[1], "vault"), pathlib.Path(sys.argv[1], "own")
folders = UserFolders(own / "state", own / "config", own / "data")
vault = vaultmem.create_vault(root, folders=folders).vault
assert vault.is_person and not vault.keeps_receipts and vault.ref == ""
vaultmem.remember(vault, vaultmem.Memory("The gangway opens at six."))
vaultmem.sync_vault(vault)
assert vaultmem.recall(vault, vaultmem.parse_query("gangway"))
assert "gangway" in vaultmem.make_pack(vault, "gangway").text
assert vaultmem.save_checkpoint(vault, "the day").commit
vault.close()

vault = vaultmem.open_vault(root, agent="claude", folders=folders)
vaultmem.catch_up(vault)
assert vault.author == ("claude", "", "")
assert identify_session(vault).session == ""
session = start_session(vault).session.facts.id
assert "mallory" not in session
add_detail(vault, session, "The crew came aboard.")
assert close_session(vault, session).report.commit
assert {path.name for path in own.iterdir()} == {"state", "config"}
"""


@pytest.mark.parametrize(
    "lines", re.findall(r"```pycon\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
)
def test_the_examples_of_the_page_work(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: str
) -> None:
    monkeypatch.chdir(tmp_path)
    test = doctest.DocTestParser().get_doctest(lines, {}, PAGE.name, None, None)
    assert doctest.DocTestRunner().run(test).failed == 0


@pytest.mark.campaign
def test_the_lines_of_the_page_work(home: Path, tmp_path: Path) -> None:
    (lines,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-c", lines], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    path = "notes/inbox/nobody-opens-the-gangway-before-six.md"
    found, _, pack = done.stdout.partition("\n")
    assert found == f"{path} active Nobody opens the gangway before six."
    assert "## Instructions" in pack
    assert git(tmp_path / "ship", "status", "--porcelain") == ""
    assert git(tmp_path / "ship", "log", "--format=%an|%s").splitlines() == [
        "claude|session-close: The harbour master explained the gangway.",
        "Maren Person|promote: nobody-opens-the-gangway-before-six",
        "claude|checkpoint: what the harbour master said",
        "claude|init: new vault",
    ]


def test_the_page_names_every_error() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for name in filter(re.compile(r"\w+Error$").match, vars(vaultmem.errors)):
        assert f"`{name}`" in text
        assert name in vaultmem.__all__


@pytest.mark.parametrize("name", vaultmem.__all__)
def test_a_public_name_can_be_had_and_its_hints_be_resolved(name: str) -> None:
    public = getattr(vaultmem, name)
    if isinstance(public, str):
        return
    for member, what in _list_members(public):
        named = {
            each.__name__
            for hint in typing.get_type_hints(what).values()
            for each in _list_classes(hint)
            if each.__module__.partition(".")[0] == "vaultmem"
        }
        assert {member.removeprefix("__init__") or name} & STORAGE or named <= set(
            vaultmem.__all__
        ), (name, member)


def test_a_type_checker_takes_each_public_name_for_public() -> None:
    tree = ast.parse((PACKAGE / "__init__.py").read_bytes())
    imported = [
        (alias.name, alias.asname)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and f"{node.module}".startswith("vaultmem")
        for alias in node.names
    ]
    assert [name for name, shown in imported if name != shown] == []
    assert ["__version__", *(name for name, _ in imported)] == vaultmem.__all__


def _list_members(public: Any) -> Iterator[tuple[str, Any]]:
    """Yield what has hints: a function, or a class with what is public of it."""
    yield "", public
    for name, member in vars(public).items() if inspect.isclass(public) else ():
        inner = getattr(member, "fget", None) or getattr(member, "func", None)
        what = inner or getattr(member, "__func__", member)
        if inspect.isfunction(what) and (name == "__init__" or not name.startswith("_")):
            yield name, what


def _list_classes(hint: Any) -> Iterator[type]:
    if isinstance(hint, list | tuple):
        for each in hint:
            yield from _list_classes(each)
    elif isinstance(hint, type) and not typing.get_args(hint):
        yield hint
    else:
        yield from _list_classes(typing.get_args(hint))


def test_a_vault_opened_at_a_commit_is_queried_there(home: Path, tmp_path: Path) -> None:
    vault = vaultmem.create_vault(tmp_path / "ship", agent="claude").vault
    vaultmem.remember(vault, vaultmem.Memory("The gangway opens at six."))
    commit = vaultmem.save_checkpoint(vault, "gangway").commit
    vaultmem.remember(vault, vaultmem.Memory("The crane lifts nine tons."))
    vault.close()

    old = vaultmem.open_vault(tmp_path / "ship", ref=commit)
    crane, gangway = (vaultmem.parse_query(text) for text in ("crane", "gangway"))
    assert vaultmem.recall(old, crane) == []
    assert len(vaultmem.recall(old, gangway)) == 1
    assert vaultmem.make_pack(old, "crane").items == ()
    assert f"detached@{commit[:7]}" in vaultmem.make_pack(old).text
    old.close()


def test_no_vault_cannot_be_queried() -> None:
    with pytest.raises(vaultmem.ArgumentError, match="no vault to query"):
        vaultmem.run_query([], vaultmem.Query("gangway"))
    with pytest.raises(vaultmem.ArgumentError, match="no vault to query"):
        vaultmem.ask_pack([], AskPack("gangway"))


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("a" * 300, "cannot be opened (File name too long); name another folder"),
        ("a\0b", "cannot be opened (embedded null byte); name another folder"),
        ("~nobody-here/ship", "cannot be opened (Could not determine home directory.)"),
        ("file", "not a folder; name the vault's folder"),
        ("file/ship", "no such folder; make a vault with `vaultmem init file/ship`"),
    ],
)
def test_a_path_that_is_no_folder_is_no_vault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, problem: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(vaultmem.NoVaultError, match=re.escape(problem)):
        vaultmem.open_vault(name)


def test_a_folder_in_place_of_a_file_is_not_tried_again(home: Path, tmp_path: Path) -> None:
    vault = vaultmem.create_vault(tmp_path / "ship").vault
    vaultmem.sync_vault(vault)
    vault.close()
    (vault.state_folder / "state").unlink()
    (vault.state_folder / "state").mkdir()
    with pytest.raises(vaultmem.VaultError, match="Is a directory; move this folder away"):
        vaultmem.remember(vaultmem.open_vault(tmp_path / "ship"), Memory("The gangway opens."))


@pytest.mark.campaign
def test_the_library_reads_no_variable_of_the_environment(home: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WORK, str(tmp_path)],
        env={"HOME": str(home), "PATH": "/usr/bin:/bin:/usr/local/bin", **ENVIRONMENT},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_no_module_of_the_library_looks_at_the_environment() -> None:
    found = {
        name
        for name, tree in _parse(*LIBRARY, naming=b"env")
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute | ast.Name)
        and _last_name(node) in {"environ", "environb", "getenv", "getenvb"}
    }
    assert found == READS_ENVIRONMENT


@pytest.mark.campaign
def test_no_module_of_the_services_has_a_clock_of_its_own() -> None:
    clocks = {"time.time()", "datetime.now()", "datetime.now(UTC)", "datetime.utcnow()"}
    clocks |= {"date.today()", "datetime.today()"}
    #: When a remote was last heard of, and until when a grant of this request counts.
    machines = {f"services/fleet/{name}.py" for name in ("clone", "clones")}
    machines |= {f"services/hub/{name}.py" for name in ("hub_access", "writing")}
    found = {
        name
        for name, tree in _parse("core", "services")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in {"time", "now", "utcnow", "today"}  # To unparse takes long.
        and ast.unparse(node) in clocks
    }
    assert found == machines


def _parse(*parts: str, naming: bytes = b"") -> Iterator[tuple[str, ast.AST]]:
    """Yield the modules whose text holds the bytes that are looked for."""
    for part in parts:
        place = PACKAGE / part
        for file in [place] if place.is_file() else sorted(place.rglob("*.py")):
            text = file.read_bytes()
            if naming in text:
                yield file.relative_to(PACKAGE).as_posix(), ast.parse(text)


def _last_name(node: ast.Attribute | ast.Name) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id


#: Long ago, and a year later: no file and no process is as old.
THEN = datetime(2001, 2, 3, 4, 5, 6)
LATER = datetime(2002, 2, 3, 4, 5, 6)


@pytest.fixture
def long_ago(tmp_path: Path, home: Path) -> Iterator[Callable[..., Vault]]:
    """Return a function that opens one vault by a clock that stands still, for good."""
    vaults: list[Vault] = []

    def open_one(agent: str = "", at: datetime = THEN) -> Vault:
        settings = read_settings(agent)
        settings["now"] = at.timestamp
        vaults.append(create_vault(tmp_path / "vault", **settings).vault)
        sync_vault(vaults[-1])
        return vaults[-1]

    yield open_one
    for vault in vaults:
        vault.close()


def test_the_clock_that_was_given_dates_sessions_and_tasks(long_ago: Callable[..., Vault]) -> None:
    vault = long_ago("claude")
    start_session(vault, NewSession("s-1", goal="Sail"))
    add_detail(vault, "s-1", "The crew came aboard.")
    task = add_task(vault, "Paint the hull")
    sync_vault(vault)
    change_task(vault, task.id, next_step="Buy paint")
    hand_over(vault, task, "The paint is bought.")
    close_session(vault, "s-1")
    save_checkpoint(vault, "the day")

    session = (vault.root / "sessions/s-1.md").read_text()
    assert f"started: {THEN.isoformat()}" in session
    assert f"ended: {THEN.isoformat()}" in session
    assert f"{THEN:%H:%M} The crew came aboard." in session
    check_dates(vault, THEN)


@pytest.mark.campaign
def test_the_clock_that_was_given_dates_all_that_notes_go_through(
    long_ago: Callable[..., Vault],
) -> None:
    vault = long_ago("claude")
    made, other, third = (
        remember(vault, Memory(text), force=True).path
        for text in (
            "The gangway opens at six.",
            "Oars are kept under the third thwart, and the spare rowlocks in the stern locker.",
            "The harbour office closes on Sundays, and nobody answers its telephone then.",
        )
    )
    save_checkpoint(vault, "the day")
    person = long_ago()
    make_branch(person, "side")
    set_note_property(person, PurePosixPath(made), "pinned", True)
    save_checkpoint(person, "pinned")
    vaultmem.change_state(person, [other], vaultmem.NoteState.STALE, "the boat was sold")
    side = open_vault(vault.root, agent="claude", ref="side", now=THEN.timestamp)
    remember(side, Memory("Flags are in the chest by the mast."), force=True)
    side.close()
    merge_branch(person, "side")
    restore_note(person, made, "side")
    rename_note(person, third, "notes/office.md")
    vaultmem.supersede_note(person, other, made)
    save_checkpoint(person, "moved")
    forget_notes(person, [r for r in person.view.records() if r.path == other], "said twice")
    check_dates(person, THEN)

    late = long_ago(at=LATER)
    assert compact(late).steps
    ask_pack(late, AskPack("gangway", receipt=True))
    dream(late)
    save_checkpoint(late, "a year later", even_if_clean=True)
    check_dates(late, THEN, LATER)


def check_dates(vault: Vault, *allowed: datetime) -> None:
    """See that commits, notes and receipts have no other dates."""
    stamps = {str(int(at.timestamp())) for at in allowed}
    assert set(git(vault.root, "log", "--all", "--format=%at%n%ct").split()) == stamps
    files = [file for file in vault.root.rglob("*.md") if ".git" not in file.parts]
    files += vault.store.receipts.files()
    found = {
        year for file in files for year in re.findall(r"20[012]\d-\d\d-\d\d", file.read_text())
    }
    assert found <= {f"{at:%Y-%m-%d}" for at in allowed}


@pytest.mark.campaign
def test_each_benchmark_finds_what_it_imports() -> None:
    code = (
        "import importlib, pathlib, sys\n"
        "sys.path.insert(0, 'benchmarks')\n"
        "for file in sorted(pathlib.Path('benchmarks').glob('*.py')):\n"
        "    importlib.import_module(file.stem)\n"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_no_two_modules_have_the_same_name() -> None:
    names = [file.stem for file in PACKAGE.rglob("*.py") if not file.stem.startswith("__")]
    assert sorted(names) == sorted(set(names))
