"""Find the keeper of a cluster's fleet, or start one, and ask it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError

from vaultmem.errors import NoteNotFoundError, RefusedError, VaultError
from vaultmem.fleet.keeper import Keeper
from vaultmem.fleet.plan import KEEPER, NAMESPACE, VERSION, Plan
from vaultmem.services.pools.source import Source

#: Seconds within which a keeper answers.
_LONGEST = 60.0


def find_keeper(sources: Sequence[Source] | None, plan: Plan | None) -> Any:
    """Return the keeper of the cluster's fleet, which is started if sources and a plan are given.

    Raises:
        NoteNotFoundError: there is none, and none is to be started.
        RefusedError: it is another version's.
    """
    try:
        keeper = ray.get_actor(KEEPER, NAMESPACE)
    except ValueError:
        if sources is None or plan is None:
            raise NoteNotFoundError(
                "no fleet runs in this cluster; `vaultmem fleet start` starts one"
            ) from None
        keeper = ray.remote(Keeper).options(
            name=KEEPER,
            namespace=NAMESPACE,
            lifetime="detached",
            get_if_exists=True,
            max_restarts=-1,
            max_task_retries=5,  # Whatever it is asked can be asked again.
            max_concurrency=10_000,
            num_cpus=0,
            resources={"node:__internal_head__": 0.001},  # It goes where all of Ray would go.
        )
        keeper = keeper.remote(plan, sources)
    version, _ = ask_keeper(keeper.describe.remote())
    if version != VERSION:
        raise RefusedError(f"the fleet is vaultmem {version}, this is {VERSION}; use the same")
    return keeper


def ask_keeper(reference: Any) -> Any:
    """Return what the keeper answers.

    Raises:
        VaultError: it does not.
    """
    try:
        return ray.get(reference, timeout=_LONGEST)
    except RayTaskError as error:
        raise VaultError(f"the fleet's keeper failed: {error.cause or error}") from None
    except RayError as error:
        raise VaultError(f"the fleet's keeper does not answer ({type(error).__name__})") from None
