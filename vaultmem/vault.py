"""The only wiring: a vault's folder and everything that works on it."""

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
from vaultmem.storage.kept import ArtifactStore, ReceiptStore, RepositoryNames
from vaultmem.storage.lock import READER, WRITER, hold_lock
from vaultmem.storage.scan_files import ObsidianFolder
from vaultmem.storage.state import StateDatabase, claim_state_folder
from vaultmem.storage.trust_record import SignedTrust, TrustStore
from vaultmem.storage.user_files import find_user_folder
from vaultmem.storage.vault_id import VaultId, assign_id, find_id, make_id, make_key
from vaultmem.storage.views import Manifest, View

if TYPE_CHECKING:
    from vaultmem.storage.git.vault_history import VaultHistory
    from vaultmem.storage.index.search_index import SearchIndex
else:  # Much to import; who asks for hints while the program runs learns no more.
    VaultHistory = SearchIndex = object

#: Where the owner gives their word.
HOW_TO_SAY = "in a terminal, or on the page (`vaultmem serve --write`)"

#: An environment that says nothing.
_NOTHING: Mapping[str, str] = {}


class UserFolders(NamedTuple):
    """The user's own folders: of what can be made again, of settings, and of what is kept."""

    state: Path
    config: Path
    data: Path


class VaultSettings(TypedDict, total=False):
    """What `open_vault` can be given besides a vault's path."""

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
    """What a command has to say besides its answer; its Vault and those made from it share it.

    `written` are the paths that were written to, `branches` the branches, not checked out, on which
    that is. `suspicious` are sentences about text that tries to instruct an agent. `faults` kept a
    cache from what was written, so the next command has to catch up. `stale` says why answers are
    older than the notes, where they are: somebody else writes all the while, or nothing can be
    written.
    """

    written: list[str] = field(default_factory=list)
    branches: list[str] = field(default_factory=list)
    suspicious: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    stale: str = ""


class Store:
    """What is open of one folder, for all of its Vaults; each part is opened when first needed.

    `state_folder` is outside the vault and can be deleted. `id` is the vault's, by which these
    folders follow it when it is moved. `patience` is for how many seconds the
    database and the index wait for other writers.
    """

    def __init__(self, root: Path, folders: UserFolders, patience: float = WRITER) -> None:
        self.root = root
        self.folders = folders
        self.patience = patience
        key = make_key(root)
        keyed = (folders.state / "vaults", folders.data / "receipts", folders.data / "artifacts")
        self.id = find_id(root, folders.state, keyed)
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
        """What Obsidian's settings in the folder say now; its defaults where there are none."""
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
            VaultError: the folder is in none.
        """
        from vaultmem.storage.git.vault_history import VaultHistory

        return VaultHistory(self.root, self.state_folder, staged=self.operations)

    def head(self) -> GitHead | None:
        """Return what is checked out, without starting git where possible; None without git."""
        found = find_git_folder(self.root)
        if found is None:
            return None
        return read_head(found[1]) or self.history.head()

    def ensure_id(self) -> None:
        """Give a vault without an id one, by which it keeps its data when it is moved."""
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
        """Let this vault be the one that keeps the data of an id.

        Raises:
            OSError: the disk did not accept it.
        """
        assign_id(self.root, self.folders.state, vault_id)
        self.id = VaultId(vault_id)

    def find_names(self) -> tuple[str, ...]:
        """Return by which names the vault is known wherever its repository is, that of HEAD first.

        They are the repository's root commits and the vault's folder in it; none where there is no
        commit, or a shallow clone does not have the first.
        """
        try:
            if self.head() is None:
                return ()
            return self.history.find_names()
        except VaultError:
            return ()

    def find_repository_id(self) -> str:
        """Return the first of these names, as it was when HEAD last came to another history."""
        head = self.head()
        if head is None or not head.commit:
            return ""
        name = self.state.get("name")
        if not name and (names := self.find_names()):
            name = names[0]
            with contextlib.suppress(VaultError):  # A cache: the next reader asks git again.
                self.state.keep("name", name)
        return name

    def _list_records_beside(self) -> list[Path]:
        """Return where it is said whether this vault is trusted in its other work trees."""
        from vaultmem.storage.git.repository import list_beside

        return [self._records / f"{make_key(each)}.json" for each in list_beside(self.root)]

    def close(self) -> None:
        """Close files and database; they open again when they are needed."""
        if "index" in self.__dict__:
            self.index.close()
        if "history" in self.__dict__:
            self.history.close()
        self.state.close()


@dataclass(frozen=True, eq=False)
class Vault:
    """A vault as somebody works with it; `dataclasses.replace` makes another on the same store.

    `author` is who writes; its agent is empty where a person does, the vault's owner. `ref` is the
    branch, tag or commit that was asked for, empty for what is checked out; `view` is what is read.
    `now` tells the time of what is written, weighed and shown, in seconds since the epoch. How long
    something takes, and whether a file has settled since it was saved, is measured and not dated:
    that is for `time.monotonic` and `time.time_ns`. `environment`, `here`, `scope` and `pid` are as
    `open_vault` has them. Other writers are waited for at most `patience` seconds. With
    `postpones_index`, what is written is left for the next sync to index. `expected` are notes, by
    path, that are changed only where they have one of these blob ids. `name` is what the vault is
    called among others that are searched with it; `opener` opens such another by its path, None
    where the caller has no access to others.
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
        """The user's own folders."""
        return self.store.folders

    @property
    def state_folder(self) -> Path:
        """The folder of what can be made again."""
        return self.store.state_folder

    @property
    def state(self) -> StateDatabase:
        """The state database."""
        return self.store.state

    @property
    def manifest(self) -> Manifest:
        """What the work tree holds."""
        return self.store.manifest

    @property
    def journal(self) -> Journal:
        """Who wrote what is not committed."""
        return self.store.journal

    @property
    def operations(self) -> Operations:
        """The operation that is under way, and events whose commit has to wait."""
        return self.store.operations

    @property
    def index(self) -> SearchIndex:
        """The inverted index."""
        return self.store.index

    @property
    def trust(self) -> TrustStore:
        """What the owner trusts on this machine."""
        return self.store.trust

    @cached_property
    def history(self) -> VaultHistory:
        """The git repository, for the person of whom `environment` tells.

        Raises:
            VaultError: the vault is in none.
        """
        return self.store.history.seen_by(self.environment)

    def head(self) -> GitHead | None:
        """Return what is checked out, without starting git where possible; None without git."""
        return self.store.head()

    def scoped(self) -> Vault:
        """Return the vault with only the notes that may be named to its caller."""
        return self.scope(self) if self.scope and self.view.project is None else self

    @property
    def is_person(self) -> bool:
        """Tell whether a person gives the commands, not an agent."""
        return not self.author.agent

    @property
    def wait(self) -> float:
        """For how many seconds other writers are waited for; who only reads waits but once."""
        return 0.0 if self.patience <= READER and self.notices.stale else self.patience

    def may_activate(self, agent: str) -> bool:
        """Tell whether an agent ("" for a person) may let policies and skills instruct."""
        return not agent or agent in self.config.promoting_agents

    def require_person(self, rule: str) -> None:
        """Leave to the vault's owner what a rule says is theirs.

        Raises:
            RefusedError: an agent asks, or nobody that is known.
        """
        if not self.is_person:
            raise RefusedError(f"{rule}: {HOW_TO_SAY}")

    @property
    def keeps_receipts(self) -> bool:
        """Tell whether packs have a receipt unasked: an agent's always have."""
        return self.has_receipts or not self.is_person

    def show_folder(self, folder: str) -> str:
        """Return a folder as answers name it: where other people ask, by its last name alone."""
        return folder if self.keeps_words else folder.rpartition("/")[2]

    def local_time(self) -> datetime:
        """Return the time by the vault's clock, here and without a zone, in whole seconds."""
        return datetime.fromtimestamp(int(self.now()))

    def lock(self, patience: float | None = None) -> AbstractContextManager[None]:
        """Hold off other writers for the time of a `with`; wait for one as long as the vault does.

        Raises:
            BusyError: one of them takes longer.
            FaultError: the user's state folder cannot be written, where this lock is.
        """
        if lack := self.store.state_place.lack:
            raise SystemFailureError(
                f"{lack}, and writers of this vault know of each other there alone; let this "
                "process write to it, or do this outside of its sandbox"
            )
        return self.lock_caches(patience)

    def lock_caches(self, patience: float | None = None) -> AbstractContextManager[None]:
        """Hold off others who write what can be made again from the notes, as `lock` does.

        Raises:
            BusyError: one of them takes longer.
        """
        return hold_lock(self.state_folder / "lock", self.wait if patience is None else patience)

    @contextlib.contextmanager
    def leaving_to_next(self) -> Iterator[None]:
        """Let trouble end what only caches need in a `with`: what was written is safe by then."""
        try:
            yield
        except (OSError, VaultError) as error:
            self.notices.faults.append(str(wrap_os_error(error)))

    def close(self) -> None:
        """Close the vault's store, for all that use it; it can be used again."""
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
    environment: Mapping[str, str] = _NOTHING,
    here: Path | None = None,
    scope: Callable[[Vault], Vault] | None = None,
    pid: int | None = None,
    keeps_words: bool = True,
) -> Vault:
    """Open the vault at `path`, else the one around the current folder.

    No environment variable is read; `vaultmem.environment` is how the front ends read them.

    `agent`, `session` and `tool_call` say who writes. Where no agent is named, `by_person` says
    whether a person does, the vault's owner; if not, it is the agent of vaultmem.yaml, or
    "unnamed". Without `by_person` a person is taken for granted where vaultmem.yaml names none:
    name the agent of whom a program does the work. `ref` is the branch, tag or commit to work on,
    else vaultmem.yaml's, else what is checked out. `now` is the clock, in seconds since the epoch;
    there is no other. `config` replaces vaultmem.yaml, which is not read then. `keeps_receipts`
    gives a person's packs receipts too; without `keeps_words`, neither these nor what is counted
    have the question, for who asks is not who reads them. `tokenizer` names an encoding in which
    this process then counts tokens. `folders` are where state, trust and receipts go, else where
    platformdirs says; a `store` that is open already has them. Other writers are waited for
    `patience` seconds; who only reads does not wait for them (`storage.lock.READER`).
    `environment` is where agents name their session ($CLAUDE_CODE_SESSION_ID) and models are named
    ($VAULTMEM_EMBEDDING_*, $VAULTMEM_RERANK_*, $VAULTMEM_LLM_*), in these names: nowhere,
    unless it is given. `here` is the folder that whoever asks works in, else the current one, and
    `pid` the process that sessions end with, else the one that this process works for. `scope`
    returns a vault with the notes of the caller's project alone.

    Raises:
        NoVaultError: there is no vault there.
        VaultError: vaultmem.yaml cannot be read, or the state folder is not the user's own.
    """
    if tokenizer:
        from vaultmem.storage.tokenizer import use_tokenizer

        use_tokenizer(tokenizer)
    root = store.root if store else find_root(path)
    config = config or read_config(root)
    if not agent and not by_person:
        agent = config.agent or (UNNAMED if by_person is False else "")
    if store is None:
        store = Store(root, folders or find_user_folders(_NOTHING), patience)
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
    """Return the user's own folders as an environment has them ($XDG_STATE_HOME, $HOME)."""
    return UserFolders(*(Path(find_user_folder(k, environment)) for k in UserFolders._fields))
