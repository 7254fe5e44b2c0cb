"""A disposable copy of the sample vault with a week of history."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from vaultmem.core.lifecycle import NoteState
from vaultmem.core.new_memory import Memory
from vaultmem.errors import RefusedError
from vaultmem.services.changes.commit import save_checkpoint
from vaultmem.services.lifecycle.supersede import supersede_note
from vaultmem.services.lifecycle.transition import promote_notes
from vaultmem.services.memory.create_vault import create_vault
from vaultmem.services.memory.remember import remember
from vaultmem.services.packs.build import AskPack, ask_pack
from vaultmem.services.search.trusted import trust_vault
from vaultmem.services.sessions.begin import NewSession, start_session
from vaultmem.services.sessions.close import close_session
from vaultmem.services.sessions.edit_session import decide
from vaultmem.services.views.update_index import sync_vault
from vaultmem.storage.git.vault_history import init_repository
from vaultmem.storage.user_files import find_package_folder
from vaultmem.storage.vault_id import forget_ids
from vaultmem.vault import UserFolders, Vault, open_vault

#: The user who edits the sample, written to the copy's git settings.
_PERSON = {"user.name": "Maren", "user.email": "maren@example.com"}

_DAY = 86_400.0

_LIMIT = "Holmpay answers 429 above 120 refunds a minute; the queue waits 30 seconds and goes on."
_RIGHT, _WRONG = (f"The staging database runs PostgreSQL {number}." for number in (16, 15))


class _Event(NamedTuple):
    """A step of the story, `days` ago, by an agent's session or by the user."""

    days: float
    agent: str
    session: str
    act: Callable[[Vault], object]


def lay_demo(folder: Path, folders: UserFolders, now_at: float) -> None:
    """Create the sample vault with a week of history that ends at `now_at`.

    Raises:
        RefusedError: the folder is there and not empty.
    """
    if folder.exists() and any(folder.iterdir()):
        raise RefusedError(f"{folder}: is not empty; name a new folder")
    shutil.copytree(find_package_folder("sample-vault"), folder, dirs_exist_ok=True)
    init_repository(folder)
    for days, agent, session, act in _DEMO_EVENTS:
        vault = open_vault(
            folder,
            agent=agent,
            session=session,
            by_person=not agent,
            folders=folders,
            now=itertools.repeat(now_at - days * _DAY).__next__,
            here=folder,
            pid=os.getpid(),
        )
        with contextlib.closing(vault):
            sync_vault(vault)
            act(vault)


def forget_demo(folder: Path, folders: UserFolders) -> None:
    """Remove a demo's folder, and all its data outside."""
    vault = open_vault(folder, folders=folders)
    vault.close()
    key = vault.state_folder.name
    forget_ids(vault.root, vault.folders.state)
    data_folders = [vault.folders.data / "receipts" / key, vault.folders.data / "artifacts" / key]
    for place in (vault.root, vault.state_folder, *data_folders):
        shutil.rmtree(place, ignore_errors=True)
    trust = vault.folders.config / "trust"
    for file in trust.glob(f"{key}.*"):
        file.unlink()
    for place in (vault.state_folder, *data_folders, trust / key):
        for above in list(place.parents)[:2]:  # As deep as vaultmem's own folder.
            if above.is_dir() and not any(above.iterdir()):
                above.rmdir()


def _begin(vault: Vault) -> None:
    for name, value in _PERSON.items():
        vault.history.git.run("config", "--local", name, value)
    create_vault(vault.root, by_person=True, folders=vault.folders, now=vault.now).vault.close()
    trust_vault(vault)
    save_checkpoint(vault, "the notes of the ferry project")


def _find_the_limit(vault: Vault) -> None:
    start_session(vault, NewSession(vault.author.session, "Find why refunds stall at noon"))
    ask_pack(vault, AskPack("how are refunds handled?", 1_200))
    remember(vault, Memory(_LIMIT, "Holmpay limits refunds", "payments"))
    waits = Memory("Refunds wait in the queue at noon; nobody retries by hand.")
    decide(vault, vault.author.session, waits)
    close_session(vault, vault.author.session, summary="The limit is 120 a minute.")


def _note_staging(vault: Vault) -> None:
    remember(vault, Memory(_RIGHT, context="data", name="staging-postgresql-16"))
    save_checkpoint(vault, "what staging runs")


def _believe_wrongly(vault: Vault) -> None:
    start_session(vault, NewSession(vault.author.session, "Prepare the winter timetable"))
    wrong = Memory(_WRONG, context="data", name="staging-postgresql-15")
    remember(vault, wrong, force=True)
    supersede_note(vault, "staging-postgresql-16", wrong.name)
    close_session(vault, vault.author.session, summary="The winter timetable is in.")


def _propose(vault: Vault) -> None:
    remember(vault, Memory("The crew's radio channel is 12.", state=NoteState.CANDIDATE))
    save_checkpoint(vault, "the crew's radio")


_DEMO_EVENTS = (
    _Event(7, "", "", _begin),
    _Event(6, "claude", "s-0502", _find_the_limit),
    _Event(5, "", "", lambda vault: promote_notes(vault, ["half-refunds-round-up"])),
    _Event(4, "claude", "s-0503", _note_staging),
    _Event(2, "codex", "s-0510", _believe_wrongly),
    _Event(1, "claude", "s-0511", _propose),
)
