"""What tests have a node do: of a module, so that other processes find it."""

from __future__ import annotations

import os
import time

from vaultmem.core.new_memory import Memory
from vaultmem.services.memory.remember import remember
from vaultmem.vault import Vault


def list_notes(vault: Vault) -> list[str]:
    """Return the notes of a vault."""
    return sorted(each.stem for each in vault.root.glob("notes/**/*.md"))


def tell_process(vault: Vault) -> int:
    """Return who answers."""
    return os.getpid()


def tell_machine(vault: Vault) -> str:
    """Return on which machine it is answered, by Ray's id."""
    import ray

    return str(ray.get_runtime_context().get_node_id())


def read_slowly(vault: Vault) -> int:
    """Answer after two seconds."""
    time.sleep(2)
    return os.getpid()


def write_note(vault: Vault, name: str = "whole") -> None:
    """Write a note."""
    (vault.root / f"notes/{name}.md").write_text(f"# {name}\n\nWritten by the fleet.\n")


def write_and_die(vault: Vault) -> None:
    """Be killed in the middle of writing."""
    write_note(vault, "half")
    os.kill(os.getpid(), 9)


def remember_ferry(vault: Vault) -> str:
    """Remember a fact."""
    return str(remember(vault, Memory("The ferry leaves at nine.")).path)
