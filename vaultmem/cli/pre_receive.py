"""Git's pre-receive hook in a hub: who pushes is let in, or told why not. Run by git alone."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from vaultmem.errors import VaultError
from vaultmem.services.hub.receiving import receive


def main(environment: Mapping[str, str], lines: bytes) -> int:
    """Return 0 if a push may be taken in, and print why not otherwise."""
    try:
        told = receive(Path.cwd(), environment, lines, time.time(), time.monotonic())
    except VaultError as error:
        told = [f"not taken in: {error}"]
    for line in told:
        print(f"vaultmem: {line}", file=sys.stderr)
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main(os.environ, sys.stdin.buffer.read()))
