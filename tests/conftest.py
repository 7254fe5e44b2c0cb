"""Fixtures that many tests share: a home of the test's own, vaults, git and the command line."""

from __future__ import annotations

import gc
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from branching import copy_vault
from clocks import Clock
from hypothesis import settings
from process_server import run_forked
from replays import replay_all
from serving import end_residents
from terminal import sitting_at_terminal
from vault_copies import VaultCopies

from vaultmem.environment import read_settings
from vaultmem.services.memory.create_vault import create_vault
from vaultmem.services.views.update_index import sync_vault
from vaultmem.storage.watch_socket import SENT
from vaultmem.vault import Vault, open_vault

if TYPE_CHECKING:
    from machines import Machines, MakeMachines

PERSON = ("Maren Person", "maren@example.org")

_GITCONFIG = f"""[user]
\tname = {PERSON[0]}
\temail = {PERSON[1]}
[init]
\tdefaultBranch = main
[commit]
\tgpgSign = false
"""


# The suite tries the same examples in every run; `--hypothesis-profile=default` tries others.
settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=60)
settings.load_profile("repeatable")

#: A folder in memory that tests work in where there is one, and how many bytes have to be free.
MEMORY = Path("/dev/shm")
ROOM = 4_000_000_000


_THIS = sys.modules[__name__]


def pytest_plugin_registered() -> None:
    """Let `conftest` be this file: pytest calls those in the folders below the same."""
    sys.modules["conftest"] = _THIS


def pytest_configure(config: pytest.Config) -> None:
    """Make the tests' folders in memory: those of a run are thousands, and a disk is slow at it.

    What fails in a contract that several modules share is told like what fails in theirs.
    """
    pytest.register_assert_rewrite("pool_contract")
    if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ROOM:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


def pytest_collection_finish() -> None:
    """Let the garbage collector pass over all tests and modules: they are there to the end."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _no_real_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep every test away from the home, settings and repositories of whoever runs it."""
    with pytest.MonkeyPatch.context() as patch:
        _isolate(patch, tmp_path_factory.mktemp("home"))
        patch.chdir(tempfile.gettempdir())  # It belongs to no project, as this repository does.
        yield


@pytest.fixture(scope="session", autouse=True)
def _at_a_terminal() -> Iterator[None]:
    """Let the tests be a person's: their commands have a terminal, where nothing else is given."""
    with sitting_at_terminal():
        yield


@pytest.fixture(params=["ours", "watchdog's"])
def emitter(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Have file events from our own emitter, and in another run from watchdog's."""
    if request.param == "ours" and sys.platform != "linux":
        pytest.skip("our emitter asks inotify, which is Linux's")
    monkeypatch.setattr("vaultmem.storage.watcher._HAS_OWN_EMITTER", request.param == "ours")
    return str(request.param)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give the test a home of its own, with its own state, data and configuration folders.

    Processes that agents of the test had started are ended with it.

    Afterwards each pack that a command of the test made is replayed from its receipt.
    """
    folder = tmp_path / "home"
    _isolate(monkeypatch, folder)
    yield folder
    end_residents(folder / "state")
    replay_all(folder / "data", folder / "state", tmp_path / "clones")


def _isolate(patch: pytest.MonkeyPatch, folder: Path) -> None:
    # Of hundreds of processes that start from nothing, the first compiles the modules for all.
    others = {"EDITOR", "VISUAL", "PYTHONDONTWRITEBYTECODE", *SENT}
    for name in list(os.environ):
        if name.startswith(("GIT_", "VAULTMEM_", "XDG_")) or name in others:
            patch.delenv(name)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".gitconfig").write_text(_GITCONFIG)
    patch.setenv("HOME", str(folder))
    patch.setenv("XDG_STATE_HOME", str(folder / "state"))
    patch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
    patch.setenv("XDG_DATA_HOME", str(folder / "data"))
    patch.setenv("VAULTMEM_RECEIPTS", "1")
    patch.setenv("VAULTMEM_IDLE", "0.5")
    patch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    patch.setenv("NO_COLOR", "1")


@dataclass(frozen=True)
class Result:
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Read the output strictly: NaN and the like are not JSON."""

        def refuse(name: str) -> None:
            raise ValueError(f"{name} is not JSON")

        return json.loads(self.out, parse_constant=refuse)


RunCli = Callable[..., Result]


@pytest.fixture
def run_cli(home: Path, tmp_path_factory: pytest.TempPathFactory) -> RunCli:
    """Return a function that runs `vaultmem` as a process of its own, forked off a started one.

    A run that prints a traceback, or takes longer than `timeout` seconds, fails the test.
    """

    def run(
        *arguments: str | os.PathLike[str],
        cwd: Path | None = None,
        stdin: str | bytes = b"",
        env: Mapping[str, str] | None = None,
        timeout: float = 30,
    ) -> Result:
        folder = tmp_path_factory.mktemp("streams")
        given, out, err = (folder / name for name in ("in", "out", "err"))
        given.write_bytes(stdin.encode() if isinstance(stdin, str) else stdin)
        out.touch()
        err.touch()
        settings = {**os.environ, **(env or {})}
        code = run_forked(arguments, cwd or Path.cwd(), settings, (given, out, err), timeout)
        assert code is not None, f"{arguments}: not done after {timeout} seconds"
        return _make_result(code, out.read_bytes(), err.read_bytes())

    return run


@pytest.fixture
def start_cli(home: Path) -> RunCli:
    """Return a function like `run_cli`, whose processes start from nothing."""

    def run(
        *arguments: str | os.PathLike[str],
        cwd: Path | None = None,
        stdin: str | bytes = b"",
        env: Mapping[str, str] | None = None,
        timeout: float = 30,
    ) -> Result:
        done = subprocess.run(
            [sys.executable, "-m", "vaultmem", *arguments],
            cwd=cwd,
            **({"input": stdin.encode() if isinstance(stdin, str) else stdin} if stdin else {}),
            env={**os.environ, **(env or {})},
            capture_output=True,
            timeout=timeout,
            check=False,
        )
        return _make_result(done.returncode, done.stdout, done.stderr)

    return run


def _make_result(code: int, out: bytes, err: bytes) -> Result:
    told = err.decode("utf-8", "replace")
    assert "Traceback" not in told, told
    return Result(code, out.decode("utf-8"), told)


#: Of the fixtures `make_vault` and `opened`.
Make = Callable[..., Path]
Open = Callable[..., Vault]


@pytest.fixture
def make_vault(home: Path, tmp_path: Path, vault_copies: VaultCopies) -> Make:
    """Return a function that makes a committed vault with the given notes (path to text).

    What was made before in this run is copied, with its state; `prepare` changes it before.
    """

    def make(
        notes: Mapping[str, str | bytes] | None = None,
        name: str = "vault",
        prepare: Callable[[Path], None] | None = None,
    ) -> Path:
        root = tmp_path / name
        return vault_copies.make(root, notes or {}, prepare)

    return make


@pytest.fixture(scope="session")
def vault_copies(tmp_path_factory: pytest.TempPathFactory) -> VaultCopies:
    return VaultCopies(tmp_path_factory.mktemp("vaults"))


@pytest.fixture
def make_machines(make_vault: Make, tmp_path: Path) -> Iterator[MakeMachines]:
    """Return a function that makes a bare remote and clones, each on a machine of its own.

    `count` are how many; each has the driver that merges notes, unless `with_driver` is unset.
    """
    from machines import lay_machines

    made: list[Machines] = []

    def make(
        notes: Mapping[str, str | bytes] | None = None, count: int = 2, with_driver: bool = True
    ) -> Machines:
        seed = make_vault(notes, f"seed{len(made)}")
        folder = tmp_path / f"machines{len(made)}"
        made.append(lay_machines(seed, folder, count, with_driver))
        return made[-1]

    yield make
    for machine in (each for group in made for each in group.all):
        end_residents(machine.home / "state")


@pytest.fixture
def opened(home: Path) -> Iterator[Open]:
    """Return a function that opens a vault as front ends do; the end of the test closes them."""
    vaults: list[Vault] = []

    def open_one(root: Path, **who: Any) -> Vault:
        vaults.append(open_vault(root, **{**read_settings(), **who}))  # type: ignore[typeddict-item]
        return vaults[-1]

    yield open_one
    for vault in vaults:
        vault.close()


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """Return a vault as the module's function `lay` makes it, for copies."""
    root = tmp_path_factory.mktemp("template") / "vault"
    create_vault(root).vault.close()
    request.module.lay(root)
    (root / ".git/vaultmem-id").unlink(missing_ok=True)  # A copy with it is a copied vault.
    return root


@pytest.fixture
def root(make_vault: Make, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Return a vault as the module lays it, else a committed one with its `NOTES`, if any."""
    if hasattr(request.module, "lay"):
        return copy_vault(request.getfixturevalue("template"), tmp_path / "vault")
    return make_vault(getattr(request.module, "NOTES", {}))


@pytest.fixture
def vault(root: Path, opened: Open) -> Vault:
    """Return that vault, opened by its owner and in sync."""
    vault = opened(root)
    sync_vault(vault)
    return vault


@pytest.fixture
def clock() -> Clock:
    """Return a clock that the test sets."""
    return Clock()


@pytest.fixture
def agent(root: Path, opened: Open, clock: Clock) -> Vault:
    """Return the vault, opened by an agent at the time of the clock."""
    return opened(root, agent="claude", now=clock)


@pytest.fixture
def person(root: Path, opened: Open, clock: Clock) -> Vault:
    """Return the vault, opened by its owner at the time of the clock."""
    return opened(root, now=clock)


@pytest.fixture
def watch(home: Path) -> Iterator[Callable[[Path], Any]]:
    """Return a function that watches a vault in a thread until the test ends."""
    from watchers import watched

    with ExitStack() as ends:
        yield lambda root: ends.enter_context(watched(root))
