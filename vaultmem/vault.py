"""The only wiring: a vault's folder and everything that works on it."""

from __future__ import annotations

import copy
import hashlib
import os
import time
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from vaultmem.config import CONFIG_NAME, Config, read_config
from vaultmem.errors import NoVaultError, VaultError
from vaultmem.storage.git.head import Head, find_git_folder, read_head
from vaultmem.storage.journal import Author, Journal
from vaultmem.storage.lock import hold_lock
from vaultmem.storage.manifest import Manifest
from vaultmem.storage.receipts import ArtifactStore, ReceiptStore
from vaultmem.storage.state import State
from vaultmem.storage.trust import TrustStore
from vaultmem.storage.user_folders import find_user_folder
from vaultmem.storage.views import View, ViewStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from vaultmem.storage.git.history import History
    from vaultmem.storage.index.search_index import SearchIndex


class Vault:
    """A vault and its storage; `state_folder` is outside the vault and can be deleted.

    `author` is who writes; its agent is empty where nobody named one, so that a person gives the
    commands. `ref` is the branch, tag or commit that was asked for, empty for what is checked out.
    `now` tells the time of what is written and weighed, in seconds since the epoch. With
    `postpones_index`, what is written is left for the next sync to index.
    """

    def __init__(
        self,
        root: Path,
        config: Config,
        state_folder: Path,
        author: Author,
        ref: str = "",
        now: Callable[[], float] = time.time,
    ) -> None:
        self.root = root
        self.config = config
        self.state_folder = state_folder
        self.author = author
        self.ref = ref
        self.now = now
        self.postpones_index = False
        self._lender: Vault | None = None
        config_home, data_home = (Path(find_user_folder(kind)) for kind in ("config", "data"))
        key = state_folder.name
        self.trust = TrustStore(config_home / "trust" / f"{key}.json")
        self.receipts = ReceiptStore(data_home / "receipts" / key)
        self.artifacts = ArtifactStore(data_home / "artifacts" / key)

    @property
    def is_person(self) -> bool:
        """Tell whether a person gives the commands, not an agent."""
        return not self.author.agent

    @property
    def keeps_receipts(self) -> bool:
        """Tell whether packs have a receipt unasked: those of agents, or $VAULTMEM_RECEIPTS."""
        return not self.is_person or bool(os.environ.get("VAULTMEM_RECEIPTS"))

    @cached_property
    def state(self) -> State:
        """The state database."""
        return State(self.state_folder)

    @cached_property
    def manifest(self) -> Manifest:
        """What the work tree holds."""
        return Manifest(self.state)

    @cached_property
    def view(self) -> View:
        """What is read: the work tree, unless this vault is one `seen_through` another view."""
        return View(self.state)

    @cached_property
    def stored_views(self) -> ViewStore:
        """The views of commits that were looked at."""
        return ViewStore(self.state)

    @cached_property
    def journal(self) -> Journal:
        """Who wrote what is not committed."""
        return Journal(self.state)

    @cached_property
    def index(self) -> SearchIndex:
        """The inverted index."""
        if self._lender is not None:
            return self._lender.index
        from vaultmem.storage.index.search_index import SearchIndex

        return SearchIndex(self.state_folder / "index")

    @cached_property
    def history(self) -> History:
        """The git repository.

        Raises:
            VaultError: the vault is in none.
        """
        if self._lender is not None:
            return self._lender.history
        from vaultmem.storage.git.history import History

        return History(self.root, self.state_folder)

    def seen_through(self, view: View, config: Config) -> Vault:
        """Return the same vault, its storage shared, with another view and settings for reading."""
        _ = self.state, self.index, self.history  # What is not made yet would not be shared.
        other = copy.copy(self)
        other.view = view
        other.config = config
        return other

    def share_storage(self, other: Vault) -> None:
        """Use what another Vault of the same folder has open; that one alone is closed."""
        for name in ("state", "manifest", "stored_views", "journal"):
            self.__dict__[name] = getattr(other, name)
        for name in ("index", "history"):  # Made when one of the two needs it.
            self.__dict__.pop(name, None)
        self._lender = other

    def head(self) -> Head | None:
        """Return what is checked out, without starting git where possible; None without git."""
        found = find_git_folder(self.root)
        if found is None:
            return None
        return read_head(found[1]) or self.history.head()

    def lock(self) -> AbstractContextManager[None]:
        """Hold off other writers for the time of a `with`."""
        return hold_lock(self.state_folder / "lock")

    def close(self) -> None:
        """Close files and database; the vault can be used again."""
        if "index" in self.__dict__:
            self.index.close()
        if "history" in self.__dict__:
            self.history.close()
        self.state.close()


def open_vault(
    path: str | Path | None = None,
    *,
    agent: str = "",
    session: str = "",
    tool_call: str = "",
    ref: str = "",
    now: Callable[[], float] = time.time,
    config: Config | None = None,
) -> Vault:
    """Open the vault at `path`, else at $VAULTMEM_VAULT, else the one around the current folder.

    `agent`, `session` and `tool_call` say who writes; $VAULTMEM_AGENT, $VAULTMEM_SESSION_ID and
    vaultmem.yaml stand in for what is empty. With no agent named, a person writes. `ref` is the
    branch, tag or commit to work on, else $VAULTMEM_REF, else vaultmem.yaml's, else what is checked
    out. `now` is the clock, in seconds since the epoch. `config` stands for vaultmem.yaml, which is
    not read then.

    Raises:
        NoVaultError: there is no vault there.
        VaultError: vaultmem.yaml cannot be read, or the state folder is not the user's own.
    """
    if os.environ.get("VAULTMEM_TOKENIZER"):
        from vaultmem.storage.tokenizer import use_tokenizer

        use_tokenizer(os.environ)
    root = _find_root(path)
    config = config or read_config(root)
    agent = agent or os.environ.get("VAULTMEM_AGENT", "") or config.agent
    session = session or os.environ.get("VAULTMEM_SESSION_ID", "")
    author = Author(agent, session, tool_call)
    key = hashlib.sha256(os.fsencode(root)).hexdigest()[:32]
    state_folder = _private_folder(Path(find_user_folder("state")) / "vaults" / key)
    ref = ref or os.environ.get("VAULTMEM_REF", "") or config.ref
    return Vault(root, config, state_folder, author, ref, now)


def _find_root(path: str | Path | None) -> Path:
    named = path or os.environ.get("VAULTMEM_VAULT")
    if named:
        root = Path(named).expanduser().resolve()
        if not root.is_dir():
            raise NoVaultError(f"{root}: no such folder; make a vault with `vaultmem init {named}`")
        return root
    here = Path.cwd().resolve()
    for folder in (here, *here.parents):
        if (folder / CONFIG_NAME).is_file():
            return folder
    raise NoVaultError(
        f"{here}: no {CONFIG_NAME} here or above; run `vaultmem init`, or name a vault with --vault"
    )


def _private_folder(folder: Path) -> Path:
    """Make a folder that only its user can enter, and make sure that it is that.

    Raises:
        VaultError: it is somebody else's, or a link.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.lstat()
        if os.name == "posix" and (folder.is_symlink() or status.st_uid != os.geteuid()):
            raise VaultError(f"{folder}: not your own folder; remove it")
        if os.name == "posix" and status.st_mode & 0o077:
            folder.chmod(0o700)
    except OSError as error:
        raise VaultError(
            f"{folder}: the state folder cannot be made ({error.strerror}); set XDG_STATE_HOME"
        ) from error
    return folder
