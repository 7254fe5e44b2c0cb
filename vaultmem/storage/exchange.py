"""Two files change names in one step, by the system's own call."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

_AT_FDCWD = -100
_EXCHANGE = 2  # RENAME_EXCHANGE in linux/fs.h and RENAME_SWAP in sys/stdio.h.
_UNSUPPORTED = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP}


def exchange_files(first: Path, second: Path) -> None:
    """Exchange two files atomically.

    On a system or file system without such a call, the second file is put under the first
    one's name by a link and a rename: the note is still whole at each moment, and only a save
    between these two calls would go unnoticed.

    Raises:
        OSError: neither way worked; both files are as they were.
    """
    code = _exchange(os.fsencode(first), os.fsencode(second))
    if code == 0:
        return
    if code not in _UNSUPPORTED:
        raise OSError(code, os.strerror(code), str(second))
    spare = first.with_name(first.name + ".old")
    os.link(second, spare)
    os.replace(first, second)
    os.replace(spare, first)


def _exchange(first: bytes, second: bytes) -> int:
    """Return 0 or the system's error number."""
    import ctypes

    try:
        library = ctypes.CDLL(None, use_errno=True)
        if sys.platform == "darwin":
            result = library.renamex_np(first, second, ctypes.c_uint(_EXCHANGE))
        else:
            result = library.renameat2(
                _AT_FDCWD, first, _AT_FDCWD, second, ctypes.c_uint(_EXCHANGE)
            )
    except (AttributeError, OSError, TypeError):
        return errno.ENOSYS
    return 0 if result == 0 else ctypes.get_errno()
