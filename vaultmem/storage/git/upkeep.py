"""Git's own upkeep: loose objects go into packs, and packs into fewer. Nothing is thrown away.

Our commits leave each object in a file of its own, and git, which tidies up after its own commits,
is kept from that beside ours. So it is asked to at times: by those of its tasks that only rewrite,
never `gc`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from vaultmem.storage.git.runner import GitRunner

#: More objects than these in files of their own are worth packing.
MANY = 1_000

_COMMAND = (
    *("maintenance", "run", "--auto", "--quiet"),
    *("--task=loose-objects", "--task=incremental-repack"),
)


class Objects(NamedTuple):
    """How many objects of a repository are in files of their own, and the bytes of all."""

    loose: int
    size: int


def measure_objects(git: GitRunner) -> Objects:
    """Return how many objects are in no pack, and what all of them take."""
    lines = (line.partition(": ") for line in git.run("count-objects", "-v").splitlines())
    found = {name: int(value) for name, _, value in lines if value.isdigit()}
    return Objects(found.get("count", 0), 1024 * (found.get("size", 0) + found.get("size-pack", 0)))


def may_tidy(git: GitRunner) -> bool:
    """Tell whether the person lets git tidy up unasked (`gc.auto`, `maintenance.auto`)."""
    return not (_is_off(git, "gc.auto", "int") or _is_off(git, "maintenance.auto", "bool"))


def tidy_up(git: GitRunner) -> str:
    """Have git pack its objects, and say what came of it."""
    before = measure_objects(git)
    for _ in range(2):  # It removes what was packed the time before.
        git.run(*_COMMAND)
    after = measure_objects(git)
    packed = before.loose - after.loose
    return f"{packed:,} of git's objects are packed: {_say(before)} became {_say(after)}"


def _say(objects: Objects) -> str:
    return f"{objects.size / 1024 / 1024:.1f} MB"


def _is_off(git: GitRunner, name: str, kind: str) -> bool:
    out = git.run("config", "--show-scope", f"--type={kind}", "--get-all", name, check=False)
    said = (line.split("\t", 1) for line in out.splitlines())
    values = [value for scope, value in said if scope != "command"]  # That is what we say.
    return values[-1:] in (["0"], ["false"])
