"""Run the command line: `python -m vaultmem`."""

from __future__ import annotations

from vaultmem.cli.start import main

if __name__ == "__main__":
    main()
