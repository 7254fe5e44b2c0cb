"""Ctrl-C: it ends the process silently during start and end, otherwise the command handles it."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` itself takes longer to import.
import os
import sys

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

#: The exit code after an interruption.
INTERRUPTED = 130


def end_at_once() -> None:
    """Make Ctrl-C end the process at once, before and after the command's work.

    A process that was started to ignore Ctrl-C still ignores it.
    """
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _end)


def let_command_see() -> None:
    """Make Ctrl-C raise a KeyboardInterrupt, which a command can handle."""
    if _signal.getsignal(_signal.SIGINT) is _end:
        sys.unraisablehook = _raise_again
        _signal.signal(_signal.SIGINT, _signal.default_int_handler)


def _end(number: int, frame: object) -> None:
    os._exit(INTERRUPTED)


def _raise_again(unraisable: Any) -> None:
    """Repeat a KeyboardInterrupt that Python could not raise."""
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        import _thread

        _thread.interrupt_main()
    else:
        sys.__unraisablehook__(unraisable)
