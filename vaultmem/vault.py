"""A vault's folder, connected to everything that works on it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypedDict

from vaultmem.config import Config, find_root, read_config
from vaultmem.core.clients.agents import UNNAMED
from vaultmem.core.notes.obsidian import ObsidianSettings
from vaultmem.core.text.display import escape_bytes
from vaultmem.errors import RefusedError, SystemFailureError, VaultError, wrap_os_error
from vaultmem.storage.git.head import GitHead, find_git_folder, read_head
from vaultmem.storage.journal import Author, Journal, Operations
from vaultmem.storage.lock import READER, WRITER, hold_lock
from vaultmem.storage.scan_files import ObsidianFolder
from vaultmem.storage.state import StateDatabase, claim_state_folder
from vaultmem.storage.trust_record import SignedTrust, TrustStore
from vaultmem.storage.user_files import find_user_folder
from vaultmem.storage.value_store import ArtifactStore, ReceiptStore, RepositoryNames
from vaultmem.storage.vault_id import VaultId, assign_id, find_id, make_id, make_key
from vaultmem.storage.views import Manifest, View

if TYPE_CHECKING:
    from vaultmem.storage.git.vault_history import VaultHistory
    from vaultmem.storage.index.search_index import SearchIndex
else:  # Slow to import, and type hints at run time do not need them.
    VaultHistory = SearchIndex = object

#: How the owner can confirm something.
HOW_TO_SAY = "in a terminal, or on the page (`vaultmem serve --write`)"

#: An empty environment.
_EMPTY_ENVIRONMENT: Mapping[str, str] = {}


class UserFolders(NamedTuple):
    """The user's folders for derived state, settings and data."""

    state: Path
    config: Path
    data: Path


class VaultSettings(TypedDict, total=False):
    """The keyword arguments of `open_vault`."""

    agent: str
    by_person: bool | None
    session: str
    tool_call: str
    ref: str
    now: Callable[[], float]
    config: Config | None
    keeps_receipts: bool
    keeps_words: bool
    tokenizer: str
    folders: UserFolders | None
    store: Store | None
    patience: float
    environment: Mapping[str, str]
    here: Path | None
    scope: Callable[[Vault], Vault] | None
    pid: int | None


@dataclass
class Notices:
    """A command's messages besides its result; vaults made from one Vault share them.

    `written` are the written paths, `branches` the written branches that are not checked out.
    `suspicious` are sentences about text that tries to instruct an agent. `faults` are errors that
    left a cache out of date; the next command updates it. `stale` is why results are older than the
    notes, or "": another process keeps writing, or the state folder is read-only.
    """

    written: list[str] = field(default_factory=list)
    branches: list[str] = field(default_factory=list)
    suspicious: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    stale: str = ""


class Store:
    """The open parts of one folder, shared by its Vaults; each is opened on first use.

    `state_folder` is outside the vault and safe to delete. `id` links these folders to the vault
    when it is moved. `patience` is the lock timeout of database and index in seconds.
    """

    def __init__(self, root: Path, folders: UserFolders, patience: float = WRITER) -> None:
        self.root = root
        self.folders = folders
        self.patience = patience
        key = make_key(root)
        data_parents = (
            folders.state / "vaults",
            folders.data / "receipts",
            folders.data / "artifacts",
        )
        self.id = find_id(root, folders.state, data_parents)
        self.state_place = claim_state_folder(folders.state / "vaults" / key)
        self.state_folder = self.state_place.path
        self.state = StateDatabase(self.state_folder, patience)
        self.manifest = Manifest(self.state)
        self.journal = Journal(self.state)
        self.operations = Operations(self.state)
        self._obsidian = ObsidianFolder(root)
        names = RepositoryNames(self.find_repository_id, self.find_names)
        self._records = folders.config / "trust"
        file = self._records / f"{key}.json"
        self.trust = TrustStore(file, str(root), names, self._list_records_beside)
        self.signed_trust = SignedTrust(self._records / f"{key}.signed", names)
        self.signers_file = folders.config / "allowed_signers"
        self.receipts = ReceiptStore(folders.data / "receipts" / key, names)
        self.artifacts = ArtifactStore(folders.data / "artifacts" / key, names)

    @property
    def obsidian(self) -> ObsidianSettings:
        """Obsidian's current settings in the folder, or its defaults."""
        return self._obsidian.read()

    @cached_property
    def index(self) -> SearchIndex:
        """The inverted index."""
        from vaultmem.storage.index.search_index import SearchIndex

        return SearchIndex(self.state_folder / "index", self.patience)

    @cached_property
    def history(self) -> VaultHistory:
        """The git repository.

        Raises:
            VaultError: the folder is not in a repository.
        """
        from vaultmem.storage.git.vault_history import VaultHistory

        return VaultHistory(self.root, self.state_folder, staged=self.operations)

    def head(self) -> GitHead | None:
        """Return what is checked out, None without git; start git only if needed."""
        folders = find_git_folder(self.root)
        if folders is None:
            return None
        return read_head(folders[1]) or self.history.head()

    def ensure_id(self) -> None:
        """Give the vault an id if it has none, so that it keeps its data when moved."""
        if not self.id.id and not self.state_place.lack:
            with contextlib.suppress(OSError):
                self.renew_id()

    def renew_id(self) -> None:
        """Give the vault a new id, so that it is no longer a copy.

        Raises:
            OSError: the disk did not accept it.
        """
        self.id = VaultId(make_id(self.root, self.folders.state))

    def accept_id(self, vault_id: str) -> None:
        """Make this vault the owner of an id's data.

        Raises:
            OSError: the disk did not accept it.
        """
        assign_id(self.root, self.folders.state, vault_id)
        self.id = VaultId(vault_id)

    def find_names(self) -> tuple[str, ...]:
        """Return the names that identify the repository on every machine, HEAD's first.

        A name is a root commit and the vault's folder in the repository. The result is empty
        without commits, or if a shallow clone lacks the root commit.
        """
        try:
            if self.head() is None:
                return ()
            return self.history.find_names()
        except VaultError:
            return ()

    def find_repository_id(self) -> str:
        """Return the first of these names, cached since HEAD last changed its history."""
        head = self.head()
        if head is None or not head.commit:
            return ""
        name = self.state.get("name")
        if not name and (names := self.find_names()):
            name = names[0]
            with contextlib.suppress(VaultError):  # Only a cache: the next reader asks git again.
                self.state.keep("name", name)
        return name

    def _list_records_beside(self) -> list[Path]:
        """Return the trust records of the vault's other work trees."""
        from vaultmem.storage.git.repository import list_beside

        return [self._records / f"{make_key(each)}.json" for each in list_beside(self.root)]

    def close(self) -> None:
        """Close files and database; they reopen on use."""
        if "index" in self.__dict__:
            self.index.close()
        if "history" in self.__dict__:
            self.history.close()
        self.state.close()


@dataclass(frozen=True, eq=False)
class Vault:
    """A vault opened for one caller; `dataclasses.replace` makes another on the same store.

    `author` is the author of writes; its agent is "" for a person, the vault's owner. `ref` is the
    requested branch, tag or commit, "" for the checked-out one; `view` is what is read. `now`
    returns the time in seconds since the epoch, for everything that is written, scored and shown.
    Durations and file ages use `time.monotonic` and `time.time_ns` instead. `environment`, `here`,
    `scope` and `pid` are as in `open_vault`. `patience` is the lock timeout in seconds. With
    `postpones_index`, the next sync indexes the writes. `expected` maps paths to blob ids: a note
    is changed only if it has one of them. `name` is the vault's name in a search over several.
    `opener` opens another vault by its path, None if the caller has no access to others.
    """

    store: Store
    config: Config
    author: Author
    view: View
    ref: str = ""
    now: Callable[[], float] = time.time
    environment: Mapping[str, str] = field(default_factory=dict)
    here: Path | None = None
    scope: Callable[[Vault], Vault] | None = None
    pid: int | None = None
    has_receipts: bool = False
    keeps_words: bool = True
    patience: float = WRITER
    postpones_index: bool = False
    expected: Mapping[str, frozenset[str]] = field(default_factory=dict)
    name: str = ""
    opener: Callable[[str], Vault] | None = None
    notices: Notices = field(default_factory=Notices)

    @property
    def root(self) -> Path:
        """The vault's folder."""
        return self.store.root

    @property
    def folders(self) -> UserFolders:
        """The user's folders."""
        return self.store.folders

    @property
    def state_folder(self) -> Path:
        """The folder of derived state."""
        return self.store.state_folder

    @property
    def state(self) -> StateDatabase:
        """The state database."""
        return self.store.state

    @property
    def manifest(self) -> Manifest:
        """The manifest of the work tree."""
        return self.store.manifest

    @property
    def journal(self) -> Journal:
        """The authors of uncommitted changes."""
        return self.store.journal

    @property
    def operations(self) -> Operations:
        """The running operation, and events whose commit has to wait."""
        return self.store.operations

    @property
    def index(self) -> SearchIndex:
        """The inverted index."""
        return self.store.index

    @property
    def trust(self) -> TrustStore:
        """The texts that the owner trusts on this machine."""
        return self.store.trust

    @cached_property
    def history(self) -> VaultHistory:
        """The git repository, as the user of `environment` sees it.

        Raises:
            VaultError: the vault is not in a repository.
        """
        return self.store.history.seen_by(self.environment)

    def head(self) -> GitHead | None:
        """Return what is checked out, None without git; start git only if needed."""
        return self.store.head()

    def scoped(self) -> Vault:
        """Return the vault limited to the notes that its caller may see."""
        return self.scope(self) if self.scope and self.view.project is None else self

    @property
    def is_person(self) -> bool:
        """Whether the caller is a person, not an agent."""
        return not self.author.agent

    @property
    def wait(self) -> float:
        """The lock timeout in seconds; 0 for a reader that has already waited once."""
        return 0.0 if self.patience <= READER and self.notices.stale else self.patience

    def may_activate(self, agent: str) -> bool:
        """Return whether an agent ("" for a person) may activate policies and skills."""
        return not agent or agent in self.config.promoting_agents

    def require_person(self, rule: str) -> None:
        """Allow an action only to the vault's owner; `rule` states the restriction.

        Raises:
            RefusedError: the caller is an agent or unknown.
        """
        if not self.is_person:
            raise RefusedError(f"{rule}: {HOW_TO_SAY}")

    @property
    def keeps_receipts(self) -> bool:
        """Whether each pack gets a receipt; always true for agents."""
        return self.has_receipts or not self.is_person

    def show_folder(self, folder: str) -> str:
        """Return a folder for output; only its last name if other people read the output."""
        return folder if self.keeps_words else folder.rpartition("/")[2]

    def local_time(self) -> datetime:
        """Return the time of the vault's clock, local and without a zone, in whole seconds."""
        return datetime.fromtimestamp(int(self.now()))

    def lock(self, patience: float | None = None) -> AbstractContextManager[None]:
        """Hold the writer lock while the context is open.

        `patience` is the lock timeout in seconds, the vault's by default.

        Raises:
            LockTimeoutError: another writer holds the lock for longer.
            SystemFailureError: the user's state folder, where the lock is, cannot be written.
        """
        if lack := self.store.state_place.lack:
            raise SystemFailureError(
                f"{lack}, and writers of this vault know of each other there alone; let this "
                "process write to it, or do this outside of its sandbox"
            )
        return self.lock_caches(patience)

    def lock_caches(self, patience: float | None = None) -> AbstractContextManager[None]:
        """Hold the lock of the caches, as `lock` does; the state folder can be a fallback.

        Raises:
            LockTimeoutError: another process holds the lock for longer.
        """
        return hold_lock(self.state_folder / "lock", self.wait if patience is None else patience)

    @contextlib.contextmanager
    def leaving_to_next(self) -> Iterator[None]:
        """Record errors of cache updates as faults; the written notes are safe by then."""
        try:
            yield
        except (OSError, VaultError) as error:
            self.notices.faults.append(str(wrap_os_error(error)))

    def close(self) -> None:
        """Close the vault's store for all its users; it reopens on use."""
        self.store.close()


def open_vault(
    path: str | Path | None = None,
    *,
    agent: str = "",
    by_person: bool | None = None,
    session: str = "",
    tool_call: str = "",
    ref: str = "",
    now: Callable[[], float] = time.time,
    config: Config | None = None,
    keeps_receipts: bool = False,
    tokenizer: str = "",
    folders: UserFolders | None = None,
    store: Store | None = None,
    patience: float = WRITER,
    environment: Mapping[str, str] = _EMPTY_ENVIRONMENT,
    here: Path | None = None,
    scope: Callable[[Vault], Vault] | None = None,
    pid: int | None = None,
    keeps_words: bool = True,
) -> Vault:
    """Open the vault at `path`, or the one around the current folder.

    No environment variable is read; front ends read them with `vaultmem.environment`. `agent`,
    `session` and `tool_call` name the author. Without an agent, `by_person` is whether the author
    is a person, the vault's owner. If it is false, the author is the agent of vaultmem.yaml, or
    "unnamed". By default, a person is assumed unless vaultmem.yaml names an agent; programs should
    name the agent that they work for.

    `ref` is the branch, tag or commit to use; the default is vaultmem.yaml's, then the checked-out
    one. `now` is the only clock, in seconds since the epoch. `config` replaces vaultmem.yaml, which
    is then not read. With `keeps_receipts`, a person's packs have receipts too. Without
    `keeps_words`, receipts and usage data omit the query, because their reader is not the caller.
    `tokenizer` names the encoding that this process then counts tokens with. `folders` are the
    folders of state, trust and receipts, by default those of platformdirs; an open `store` has its
    own.

    `patience` is the lock timeout in seconds; `storage.lock.READER` does not wait. `environment`
    names the agent's session ($CLAUDE_CODE_SESSION_ID) and models ($VAULTMEM_EMBEDDING_*,
    $VAULTMEM_RERANK_*, $VAULTMEM_LLM_*); it is empty by default. `here` is the caller's folder, by
    default the current one. `pid` is the process whose end closes sessions, by default the one that
    this process works for. `scope` limits a vault to the notes of the caller's project.

    Raises:
        NoVaultError: there is no vault there.
        VaultError: vaultmem.yaml cannot be read, or the user does not own the state folder.
    """
    if tokenizer:
        from vaultmem.storage.tokenizer import use_tokenizer

        use_tokenizer(tokenizer)
    root = store.root if store else find_root(path)
    config = config or read_config(root)
    if not agent and not by_person:
        agent = config.agent or (UNNAMED if by_person is False else "")
    if store is None:
        store = Store(root, folders or find_user_folders(_EMPTY_ENVIRONMENT), patience)
    return Vault(
        store,
        config,
        Author(*map(escape_bytes, (agent, session, tool_call))),
        View(store.state),
        ref=ref or config.ref,
        now=now,
        environment=environment,
        here=here,
        scope=scope,
        pid=pid,
        has_receipts=keeps_receipts,
        keeps_words=keeps_words,
        patience=patience,
    )


def find_user_folders(environment: Mapping[str, str]) -> UserFolders:
    """Return the user's folders for an environment ($XDG_STATE_HOME, $HOME)."""
    return UserFolders(*(Path(find_user_folder(k, environment)) for k in UserFolders._fields))
