"""Ctrl-C: at once and without a word while a process starts and ends, else its command's to see."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` itself takes longer to import.
import os
import sys

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

#: The exit code of what was interrupted.
INTERRUPTED = 130


def end_at_once() -> None:
    """Let Ctrl-C end the process where nothing is begun yet, or all is done.

    A process that was started to ignore it goes on ignoring it.
    """
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _end)


def let_command_see() -> None:
    """Let Ctrl-C be a KeyboardInterrupt from now on, which a command may answer."""
    if _signal.getsignal(_signal.SIGINT) is _end:
        sys.unraisablehook = _raise_again
        _signal.signal(_signal.SIGINT, _signal.default_int_handler)


def _end(number: int, frame: object) -> None:
    os._exit(INTERRUPTED)


def _raise_again(unraisable: Any) -> None:
    """Let a KeyboardInterrupt that came where Python passes over it come once more."""
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        import _thread

        _thread.interrupt_main()
    else:
        sys.__unraisablehook__(unraisable)
