"""A cluster of several nodes on this machine, and what becomes of a fleet when one is killed."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vaultmem.errors import VaultError
from vaultmem.services.fleet.clone import VaultSource
from vaultmem.services.memory.new_note import Memory
from vaultmem.services.memory.remember import remember
from vaultmem.services.search.run_query import Ask
from vaultmem.vault import Vault

if TYPE_CHECKING:
    from ray.cluster_utils import Cluster

    from vaultmem.ray_fleet.ray_pool import RayPool

#: Seconds that a lost node's vaults may take to come back.
_COMING_BACK = 3_600.0

#: Who writes while a node is killed: through the pool, and by git past it.
_WRITERS, _PUSHERS = 5, 5

#: How many writes are acknowledged at least, before and after the node is killed.
_WRITES = 500

#: Seconds that each of them rests behind a write.
_REST = 0.5


@contextlib.contextmanager
def starting_cluster(
    sources: Sequence[VaultSource], folder: Path, nodes: int
) -> Iterator[tuple[RayPool, Cluster]]:
    """Start a fleet on so many nodes, which fetch what they are asked for."""
    from ray.cluster_utils import Cluster

    from vaultmem.ray_fleet.ray_pool import start_fleet

    here = Path(__file__).parent
    os.environ["PYTHONPATH"] = os.pathsep.join(map(str, (here.parent, here)))
    cluster = Cluster(True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        for _ in range(nodes - 1):
            cluster.add_node(num_cpus=1)
        pool = start_fleet(cluster.address, sources, str(folder / "{node}"))
        try:
            yield pool, cluster
        finally:
            pool.stop()
            pool.close()
    finally:
        cluster.shutdown()


def kill_and_wait(
    pool: RayPool,
    cluster: Cluster,
    sources: Sequence[VaultSource],
    scratch: Path,
    question: str,
    writes: int = _WRITES,
) -> dict[str, Any]:
    """Kill a node while ten write; return when its vaults answered again, and what was lost."""
    names = [each.name for each in sources]
    homes = pool.each(None, _find_home).results
    machines = {machine for machine, _ in homes.values()}
    node = next(each for each in cluster.worker_nodes if each.node_id in machines)
    lost = [each for each in sources if homes[each.name][0] == node.node_id]
    processes = {process for machine, process in homes.values() if machine == node.node_id}
    writing = _Writing(pool, scratch)
    writers = [
        threading.Thread(target=writing.go_on, args=(write, lost[n::10] or lost, n))
        for n, write in enumerate([writing.remember] * _WRITERS + [writing.push] * _PUSHERS)
    ]
    for each in writers:
        each.start()
    time.sleep(2)
    before = len(writing.acknowledged)
    began = time.monotonic()
    cluster.remove_node(node, allow_graceful=False)
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    shutil.rmtree(scratch / node.node_id[:12], ignore_errors=True)  # Its disk is lost as well.
    back = _wait_for(pool, names, [source.name for source in lost], question, began)
    while len(writing.acknowledged) < writes and time.monotonic() - began < _COMING_BACK:
        time.sleep(0.2)
    writing.ended.set()
    for each in writers:
        each.join()
    done = writing.acknowledged
    gone = [note for source, note in done if note not in _list_pushed(source)]
    return {
        **back,
        "back_vaults": len(lost),
        "writes": len(done),
        "writes_during": len(done) - before,
        "writes_lost": len(gone),
    }


def _wait_for(
    pool: RayPool, names: Sequence[str], lost: Sequence[str], question: str, began: float
) -> dict[str, float]:
    """Ask one of the lost vaults until it answers, then all until none is missing."""
    back: dict[str, float] = {}
    for what, asked in (("back_first_s", lost[-1:]), ("back_s", names)):
        while time.monotonic() - began < _COMING_BACK:
            with contextlib.suppress(VaultError):
                if not pool.recall(asked, Ask(question), seconds=60).missing:
                    break
            time.sleep(0.2)
        back[what] = time.monotonic() - began
    return back


@dataclass(frozen=True)
class _Writing:
    """What ten writers share: where they write, what was acknowledged, and when they are to end."""

    pool: RayPool
    scratch: Path
    acknowledged: list[tuple[VaultSource, str]] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)

    def go_on(
        self,
        write: Callable[[VaultSource, int, int], str],
        sources: Sequence[VaultSource],
        number: int,
    ) -> None:
        """Write to one vault after another until the end; what is acknowledged is kept."""
        for turn, source in enumerate(itertools.cycle(sources), 1):
            if self.ended.is_set():
                return
            with contextlib.suppress(VaultError):
                if note := write(source, number, turn):
                    self.acknowledged.append((source, note))
            self.ended.wait(_REST)

    def remember(self, source: VaultSource, number: int, turn: int) -> str:
        """Remember a fact by the fleet, and return its note."""
        fact = _Fact(f"Writer {number} was here at turn {turn}.")
        return self.pool.write(source.name, fact).result()

    def push(self, source: VaultSource, number: int, turn: int) -> str:
        """Push a note with git, past the fleet, and return it; nothing where git refuses."""
        work = self.scratch / f"pusher-{number}" / source.name
        if not work.exists():
            _git("clone", "-q", source.remote, str(work))
        note = f"notes/pusher-{number}-{turn}.md"
        (work / note).write_text(f"# Pusher {number}\n\nThis is turn {turn}.\n")
        _git("-C", str(work), "add", "-A")
        named = ("-c", "user.name=Bench", "-c", "user.email=bench@localhost")
        _git("-C", str(work), *named, "commit", "-qm", "a note")
        pulled = _git("-C", str(work), *named, "pull", "-q", "--rebase")
        return note if pulled and _git("-C", str(work), "push", "-q") else ""


class _Fact:
    """Remembers a sentence; a value, so that it can go to another process."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __call__(self, vault: Vault) -> str:
        """Return the path of the note."""
        return str(remember(vault, Memory(self._text), force=True).path)


def _git(*words: str) -> bool:
    return subprocess.run(["git", *words], capture_output=True, check=False).returncode == 0


def _list_pushed(source: VaultSource) -> set[str]:
    words = ["git", "-C", source.remote, "ls-tree", "-r", "-z", "--name-only", "HEAD"]
    return set(subprocess.run(words, capture_output=True, text=True).stdout.split("\0"))


def _find_home(_: Vault) -> tuple[str, int]:
    """Return Ray's id of the machine that answers, and the process."""
    import ray

    return str(ray.get_runtime_context().get_node_id()), os.getpid()
