"""A program: run commands of `vaultmem`, each in a fork of this process and at a time of its own.

Standard input has a line of JSON a command: seconds since the epoch, settings, words.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time

_CLOCK = [0.0]


def main() -> None:
    """Run the commands; end with the code of the first that fails."""
    # Before anything is imported, because some of it takes the clock along.
    time.time = lambda: _CLOCK[0]
    from process_server import _modules
    from terminal import sitting_at_terminal

    for name in _modules():
        importlib.import_module(name)
    lines = sys.stdin.read().splitlines()
    with sitting_at_terminal():
        for line in lines:
            _CLOCK[0], settings, words = json.loads(line)
            if not (child := os.fork()):
                _run(settings, words)
            if code := os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
                sys.exit(f"{words}: ended with {code}")


def _run(settings: dict[str, str], words: list[str]) -> None:
    from vaultmem.__main__ import main as start

    os.environ.update(settings)
    sys.argv[1:] = words
    start()
    os._exit(0)


if __name__ == "__main__":
    main()
