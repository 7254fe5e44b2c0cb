"""What may happen to a process: the faults, and the page in which faults.c is told of one."""

from __future__ import annotations

import ctypes
import errno
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent

KINDS = 6
OPEN, WRITE, NAME, SYNC, SIZE, REMOVE = (1 << n for n in range(KINDS))
EVERY = OPEN | WRITE | NAME | SYNC | SIZE | REMOVE
OFF, KILL, FAIL, SHORT = range(4)


class Fault(NamedTuple):
    """What a call does instead, and which calls do; `stays` where all later ones do too."""

    name: str
    what: int = FAIL
    error: int = 0
    kinds: int = EVERY
    stays: bool = False


KILLED = Fault("kill", KILL)
FAULTS = (
    *(
        Fault(f"{name}{' on' if stays else ''}", FAIL, getattr(errno, name), kinds, stays)
        for name, kinds in (
            ("ENOSPC", OPEN | WRITE | NAME | SYNC | SIZE),
            ("EIO", EVERY),
            ("EROFS", OPEN | NAME | REMOVE),
            ("EMFILE", OPEN),
        )
        for stays in (False, True)
    ),
    Fault("EINTR", FAIL, errno.EINTR, OPEN | WRITE | SYNC),
    Fault("short", SHORT, 0, WRITE),
    Fault("short on", SHORT, 0, WRITE, True),
)


class Plan(ctypes.Structure):
    """`struct plan` of faults.c."""

    _fields_ = (
        *((name, ctypes.c_long) for name in ("count", "at")),
        ("each", ctypes.c_long * KINDS),
        *((name, ctypes.c_int) for name in ("what", "error", "stays", "kinds", "group", "hits")),
        ("told", ctypes.c_char * 256),
    )


def build_library(folder: Path) -> Path:
    """Build the library for this machine.

    Raises:
        FileNotFoundError: there is no compiler.
    """
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or not sys.platform.startswith("linux"):
        raise FileNotFoundError(
            "no C compiler, or a system whose calls cannot be counted like this"
        )
    library = folder / "faults.so"
    source = HERE / "faults.c"
    words = [compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"]
    subprocess.run(words, check=True)
    return library
